//! Many callers on few threads: each thread has a single-threaded runtime and shares nothing during
//! the measurement.

use std::future::Future;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use tokio::task::JoinSet;

use super::tally::ConnectionCounts;

/// Runs `call` once for each of `callers`, spread over `threads`, and sums their tallies.
pub(super) fn spread<F, C>(threads: u64, callers: u64, call: F) -> anyhow::Result<ConnectionCounts>
where
    F: Fn(usize) -> C + Send + Sync + 'static,
    C: Future<Output = anyhow::Result<ConnectionCounts>> + Send + 'static,
{
    let (threads, callers) = (usize::try_from(threads)?, usize::try_from(callers)?);
    let call = Arc::new(call);
    let mut running = Vec::new();
    for thread in 0..threads.min(callers) {
        let call = Arc::clone(&call);
        let mine = (thread..callers).step_by(threads);
        let body = move || -> anyhow::Result<ConnectionCounts> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("starting a runtime")?;
            runtime.block_on(async {
                let mut tasks = mine.map(|index| call(index)).collect::<JoinSet<_>>();
                let mut sum = ConnectionCounts::default();
                while let Some(tally) = tasks.join_next().await {
                    sum.merge(tally.context("a caller panicked")??);
                }
                Ok(sum)
            })
        };
        running.push(
            std::thread::Builder::new()
                .name(format!("bench-{thread}"))
                .spawn(body)
                .context("starting a thread")?,
        );
    }
    let mut sum = ConnectionCounts::default();
    for thread in running {
        sum.merge(thread.join().map_err(|_| anyhow!("a thread panicked"))??);
    }
    Ok(sum)
}
