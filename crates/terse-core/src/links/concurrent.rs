//! The same work on many links, a few at a time: the store commits concurrent writes together.

use tokio::task::JoinSet;

use super::LinkError;
use crate::link::Link;
use crate::store::StoreError;

/// Does the work on each link, on at most `limit` of them at a time. Ends at the first error.
pub(crate) async fn for_each_link<W>(
    links: Vec<Link>,
    limit: usize,
    work: impl Fn(Link) -> W,
) -> Result<(), LinkError>
where
    W: Future<Output = Result<(), LinkError>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for link in links {
        if tasks.len() >= limit {
            join_one(&mut tasks).await?;
        }
        tasks.spawn(work(link));
    }
    while !tasks.is_empty() {
        join_one(&mut tasks).await?;
    }
    Ok(())
}

async fn join_one(tasks: &mut JoinSet<Result<(), LinkError>>) -> Result<(), LinkError> {
    match tasks.join_next().await {
        None => Ok(()),
        Some(Ok(done)) => done,
        Some(Err(error)) => Err(StoreError::Unavailable(error.into()).into()),
    }
}
