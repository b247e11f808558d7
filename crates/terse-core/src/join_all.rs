//! Several futures at the same time, within one task.

use std::pin::Pin;
use std::task::Poll;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs the futures together and returns their results in the same order. It polls each unfinished
/// one at every wake: for calls that end together, as those of a store with group commits do.
pub(crate) async fn join_all<T>(mut running: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut unfinished = false;
        for (future, done) in running.iter_mut().zip(&mut done) {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(result) => *done = Some(result),
                    Poll::Pending => unfinished = true,
                }
            }
        }
        if unfinished { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    done.into_iter().map(|result| result.expect("all have ended")).collect()
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn results_come_in_the_order_of_the_futures_whichever_ends_first() {
        let (first, later) = oneshot::channel::<()>();
        let running: Vec<BoxFuture<'_, u32>> = vec![
            Box::pin(async {
                later.await.unwrap();
                1
            }),
            Box::pin(async {
                tokio::task::yield_now().await;
                first.send(()).unwrap();
                2
            }),
        ];
        assert_eq!(join_all(running).await, [1, 2]);
        assert_eq!(join_all::<u32>(Vec::new()).await, Vec::<u32>::new());
    }
}
