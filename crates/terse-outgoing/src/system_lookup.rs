//! Looks up the DNS records of short domains, with the resolver of outgoing requests.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use terse_core::{LookupFailed, NameLookup};

use crate::resolve::{HostResolver as _, SystemResolver};

/// How long one lookup may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The operating system's resolver. It makes no connection, so any address may be found.
#[derive(Clone, Debug, Default)]
pub struct SystemLookup(SystemResolver);

#[async_trait]
impl NameLookup for SystemLookup {
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, LookupFailed> {
        let (resolver, host) = (self.0.clone(), host.to_owned());
        let deadline = Instant::now() + TIMEOUT;
        let found =
            tokio::task::spawn_blocking(move || resolver.resolve(&host, 443, deadline)).await;
        match found {
            Ok(Ok(found)) => Ok(found.into_iter().map(|socket| socket.ip()).collect()),
            Ok(Err(error)) if has_no_record(&error) => Ok(Vec::new()),
            _ => Err(LookupFailed),
        }
    }
}

/// Whether the resolver says that the name has no address. The system's error has no kind of its
/// own, so its words decide: those of glibc, musl and BSD.
fn has_no_record(error: &io::Error) -> bool {
    let words = error.to_string();
    [
        "Name or service not known",
        "No address associated with hostname",
        "Name does not resolve",
        "Name has no usable address",
        "nodename nor servname provided",
    ]
    .iter()
    .any(|known| words.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_told_from_a_resolver_that_does_not_answer() {
        let failed = |words: &str| {
            io::Error::other(format!("failed to lookup address information: {words}"))
        };
        assert!(has_no_record(&failed("Name or service not known")));
        assert!(!has_no_record(&failed("Temporary failure in name resolution")));
        assert!(!has_no_record(&io::ErrorKind::TimedOut.into()));
    }
}
