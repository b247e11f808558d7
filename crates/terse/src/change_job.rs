//! Follows the changes that other nodes make to links.

use std::time::Duration;

use terse_core::ChangeFollower;
use tokio::sync::watch;

/// How often new change rows are read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long one poll may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Polls until told to stop. A poll that fails is repeated a second later from where it stopped.
pub(crate) async fn run(mut follower: ChangeFollower, mut stop: watch::Receiver<bool>) {
    let mut failing = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        let outcome = tokio::time::timeout(TIMEOUT, follower.poll()).await;
        let error = match outcome {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(elapsed) => Some(elapsed.to_string()),
        };
        // Said once, not every second.
        if let Some(error) = error.as_ref().filter(|_| !failing) {
            tracing::warn!(error, "changes of links by other nodes cannot be read");
        }
        failing = error.is_some();
    }
}
