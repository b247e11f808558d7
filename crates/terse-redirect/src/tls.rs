//! TLS handshakes, bounded in time and number.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{HandshakeKind, ServerConfig};

use crate::connection::Thread;
use crate::connection_table::{IdleTracker, Waiting};
use crate::counts::Counter as _;
use crate::permit::Permit;
use crate::stream::Stream;

/// Makes TLS connections of TCP connections.
#[derive(Clone)]
pub(crate) struct Handshakes {
    acceptor: TlsAcceptor,
    in_progress: Arc<AtomicUsize>,
}

impl Handshakes {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Self {
        Self { acceptor: TlsAcceptor::from(config), in_progress: Arc::default() }
    }

    /// Makes the handshake; `None` if it fails or if too many are in progress. The sweep ends one
    /// that takes too long. Failures are counted and not logged: anyone can cause them.
    pub(crate) async fn accept(
        &self,
        socket: TcpStream,
        thread: &Thread,
        idle_tracker: &Rc<IdleTracker>,
    ) -> Option<Stream> {
        let Some(_place) =
            Permit::take(&self.in_progress, thread.redirector.settings.max_handshakes)
        else {
            thread.counts.handshakes_refused.add(1);
            return None;
        };
        let accept = self.acceptor.accept(socket);
        let accepted = idle_tracker.set_up(thread.coarse_ms.get(), accept).await;
        idle_tracker.wait(Waiting::First, thread.redirector.now().steady_ms);
        let Some(Ok(stream)) = accepted else {
            thread.counts.handshakes_failed.add(1);
            return None;
        };
        match stream.get_ref().1.handshake_kind() {
            Some(HandshakeKind::Resumed) => thread.counts.handshakes_resumed.add(1),
            _ => thread.counts.handshakes_full.add(1),
        }
        Some(Stream::Tls(Box::new(stream)))
    }
}
