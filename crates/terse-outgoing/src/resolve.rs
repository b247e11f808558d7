//! From names to addresses.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

/// How a name becomes addresses. Called once per request, and once more for each redirect.
pub trait Resolve: Send + Sync {
    /// All addresses of a host, or an error of kind `TimedOut` once the deadline has passed. No
    /// address is trusted: the caller checks each, and uses its own port whatever is said here.
    fn resolve(&self, host: &str, port: u16, deadline: Instant) -> io::Result<Vec<SocketAddr>>;
}

/// Lookups that may be under way at once. The system's cannot be called off: one that hangs keeps
/// its thread until the system gives up, so their number is what needs the bound.
const MAX_LOOKUPS: usize = 32;

/// The system's own way: its hosts file, its name servers.
#[derive(Clone, Debug, Default)]
pub struct System {
    under_way: Arc<AtomicUsize>,
    search: bool,
}

impl System {
    /// With `search`, names are completed as the system is set up to: `wiki` may be found as
    /// `wiki.corp.example`. Without, a name is what it says, and no lookup leaks into or is
    /// answered from a search list.
    pub fn new(search: bool) -> Self {
        Self { under_way: Arc::default(), search }
    }
}

impl Resolve for System {
    fn resolve(&self, host: &str, port: u16, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
        let seat = Seat::take(&self.under_way).ok_or(io::ErrorKind::ResourceBusy)?;
        let name =
            if self.search || host.ends_with('.') { host.to_owned() } else { format!("{host}.") };
        let (sender, receiver) = mpsc::sync_channel(1);
        std::thread::Builder::new().name("lookup".into()).spawn(move || {
            let _seat = seat;
            // Nobody listens any more if the deadline has passed, and that is fine.
            let _ = sender.send((&*name, port).to_socket_addrs().map(Vec::from_iter));
        })?;
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(io::Error::other("the lookup broke off"))
            }
        }
    }
}

/// One of the lookups under way; given back when dropped.
struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn take(count: &Arc<AtomicUsize>) -> Option<Self> {
        count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                (taken < MAX_LOOKUPS).then_some(taken + 1)
            })
            .ok()
            .map(|_| Self(Arc::clone(count)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_under_way_are_bounded_and_given_back() {
        let count = Arc::default();
        let mut seats: Vec<Seat> = (0..MAX_LOOKUPS).map(|_| Seat::take(&count).unwrap()).collect();
        assert!(Seat::take(&count).is_none());
        seats.pop();
        assert!(Seat::take(&count).is_some());
    }

    #[test]
    fn the_system_knows_this_machine() {
        let deadline = Instant::now() + std::time::Duration::from_secs(10);
        let found = System::new(true).resolve("localhost", 80, deadline).unwrap();
        assert!(
            !found.is_empty()
                && found.iter().all(|address| address.ip().is_loopback() && address.port() == 80)
        );
    }

    #[test]
    fn a_full_house_of_lookups_is_busy() {
        let system = System::new(false);
        system.under_way.store(MAX_LOOKUPS, Ordering::Relaxed);
        let error = system.resolve("example.com", 80, Instant::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    }
}
