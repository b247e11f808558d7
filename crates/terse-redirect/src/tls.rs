//! TLS handshakes, bounded in time and number.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{HandshakeKind, ServerConfig};

use crate::connection::ServingThread;
use crate::connection_table::{IdleTracker, Waiting};
use crate::counts::Counter as _;
use crate::listener::Socket;
use crate::permit::Permit;
use crate::sources::Sources;
use crate::stream::Stream;

/// The protocol (ALPN) by which a certificate authority checks that a host is ours.
const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// Makes TLS connections of TCP connections.
#[derive(Clone)]
pub(crate) struct Handshakes {
    acceptor: TlsAcceptor,
    /// Offers no HTTP/2, for when the bounded number of HTTP/2 connections is nearly reached.
    http1: TlsAcceptor,
    in_progress: Arc<AtomicUsize>,
    /// One source makes at most an eighth of the handshakes.
    sources: Arc<Sources>,
}

impl Handshakes {
    pub(crate) fn new(config: Arc<ServerConfig>, max_handshakes: usize) -> Self {
        let mut http1 = ServerConfig::clone(&config);
        http1.alpn_protocols.retain(|protocol| protocol != b"h2");
        Self {
            acceptor: TlsAcceptor::from(config),
            http1: TlsAcceptor::from(Arc::new(http1)),
            in_progress: Arc::default(),
            sources: Arc::new(Sources::new((max_handshakes / 8).max(1))),
        }
    }

    /// Makes the handshake; `None` if it fails or if too many are in progress. The sweep ends one
    /// that takes too long. Failures are counted and not logged: anyone can cause them.
    pub(crate) async fn accept(
        &self,
        socket: Socket,
        source: IpAddr,
        thread: &ServingThread,
        idle_tracker: &Rc<IdleTracker>,
    ) -> Option<Stream> {
        let settings = &thread.redirector.settings;
        let share = match settings.proxies.trusts(source) {
            true => Some(None),
            false => self.sources.take(source).map(Some),
        };
        let permit = Permit::take(&self.in_progress, settings.max_handshakes);
        let (Some(_share), Some(_permit)) = (share, permit) else {
            thread.counts.handshakes_refused.add(1);
            return None;
        };
        // Below the bound, because a client that has chosen HTTP/2 when the bound is reached is
        // refused.
        let most = settings.max_http2_connections;
        let few_left = thread.http2_connections.load(Ordering::Relaxed) >= most - most / 4;
        let accept = if few_left { &self.http1 } else { &self.acceptor }.accept(socket);
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
        let is_challenge = stream.get_ref().1.alpn_protocol() == Some(CHALLENGE_PROTOCOL);
        let stream = Stream::Tls(Box::new(stream));
        // The authority has seen the certificate, and nothing else is sent there.
        if is_challenge {
            stream.close().await;
            return None;
        }
        Some(stream)
    }
}
