//! Name resolution.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

/// Resolves host names. Called once per request and once per redirect.
pub trait HostResolver: Send + Sync {
    /// All addresses of a host, or an error of kind `TimedOut` after the deadline. The caller
    /// checks every address and sets the port itself.
    fn resolve(&self, host: &str, port: u16, deadline: Instant) -> io::Result<Vec<SocketAddr>>;
}

/// The maximum number of concurrent lookups. A system lookup cannot be cancelled and keeps its
/// thread until the system gives up, so the number is bounded.
const MAX_LOOKUPS: usize = 32;

/// The operating system's resolver.
#[derive(Clone, Debug, Default)]
pub struct SystemResolver {
    running: Arc<AtomicUsize>,
    search: bool,
}

impl SystemResolver {
    /// With `search`, the system's search list applies: `wiki` may resolve as `wiki.corp.example`.
    /// Without it, names are fully qualified, and no lookup uses a search list.
    pub fn new(search: bool) -> Self {
        Self { running: Arc::default(), search }
    }
}

impl HostResolver for SystemResolver {
    fn resolve(&self, host: &str, port: u16, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
        let permit = LookupPermit::take(&self.running).ok_or(io::ErrorKind::ResourceBusy)?;
        let name =
            if self.search || host.ends_with('.') { host.to_owned() } else { format!("{host}.") };
        let (sender, receiver) = mpsc::sync_channel(1);
        std::thread::Builder::new().name("lookup".into()).spawn(move || {
            let _permit = permit;
            // After the deadline the receiver is gone; the result is dropped.
            let _ = sender.send((&*name, port).to_socket_addrs().map(Vec::from_iter));
        })?;
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(io::Error::other("the lookup thread panicked"))
            }
        }
    }
}

/// Counts one running lookup; released on drop.
struct LookupPermit(Arc<AtomicUsize>);

impl LookupPermit {
    fn take(count: &Arc<AtomicUsize>) -> Option<Self> {
        count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |running| {
                (running < MAX_LOOKUPS).then_some(running + 1)
            })
            .ok()
            .map(|_| Self(Arc::clone(count)))
    }
}

impl Drop for LookupPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_lookups_are_bounded_and_released() {
        let count = Arc::default();
        let mut permits: Vec<LookupPermit> =
            (0..MAX_LOOKUPS).map(|_| LookupPermit::take(&count).unwrap()).collect();
        assert!(LookupPermit::take(&count).is_none());
        permits.pop();
        assert!(LookupPermit::take(&count).is_some());
    }

    #[test]
    fn the_system_resolves_localhost() {
        let deadline = Instant::now() + std::time::Duration::from_secs(10);
        let found = SystemResolver::new(true).resolve("localhost", 80, deadline).unwrap();
        assert!(
            !found.is_empty()
                && found.iter().all(|address| address.ip().is_loopback() && address.port() == 80)
        );
    }

    #[test]
    fn lookups_beyond_the_limit_are_busy() {
        let system = SystemResolver::new(false);
        system.running.store(MAX_LOOKUPS, Ordering::Relaxed);
        let error = system.resolve("example.com", 80, Instant::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    }
}
