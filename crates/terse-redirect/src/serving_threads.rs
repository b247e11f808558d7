//! The serving threads: one runtime per core, with connections distributed evenly.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;
use tokio_rustls::rustls::ServerConfig;

use crate::clicks::ClickRecorder;
use crate::client_addr::{ClientAddr, Transport};
use crate::connection::{self, ServingThread};
use crate::connection_table::{ConnectionTable, IdleTracker, Waiting};
use crate::counts::{Counter as _, Counts, RedirectCounts};
use crate::journal::Journal;
use crate::listener::{AsyncListener, DetachedSocket, Listener, Socket};
use crate::proxy_header::{self, ProxyHeader};
use crate::redirector::Redirector;
use crate::sources::{SourcePermit, Sources};
use crate::stream::Stream;
use crate::tls::Handshakes;
use crate::visit_handler::VisitHandler;

/// How often a thread closes idle connections.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);
/// Longer than the end of a TCP handshake takes.
const HANDSHAKE: Duration = Duration::from_millis(20);
/// How often a thread looks for idle connections while it stops.
const STOP_INTERVAL: Duration = Duration::from_millis(10);
/// Sockets in the queue to another thread.
const HANDOVER_QUEUE: usize = 1024;

/// The listening sockets of the threads.
pub struct Listeners {
    /// For connections without TLS.
    pub plain: Listener,
    /// For TLS, with its certificates.
    pub tls: Option<(Listener, Arc<ServerConfig>)>,
    /// Which of them stay open after this process.
    pub outlive: SocketsToKeep,
}

/// Which sockets stay open after this process, for the next one: the threads leave it the
/// connections that they have not accepted.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketsToKeep {
    /// The one for connections without TLS.
    pub plain: bool,
    /// The one for TLS.
    pub tls: bool,
}

impl From<Listener> for Listeners {
    fn from(plain: Listener) -> Self {
        Self { plain, tls: None, outlive: SocketsToKeep::default() }
    }
}

impl From<TcpListener> for Listeners {
    fn from(plain: TcpListener) -> Self {
        Listener::Tcp(plain).into()
    }
}

/// Answers the requests that the fast path leaves to hyper.
pub trait FallbackService: Clone + Send + 'static {
    /// The body of its responses.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Unpin
        + 'static;

    /// Answers a request. `visit_handler` answers visits of links.
    fn handle(
        self,
        request: Request<Incoming>,
        peer: SocketAddr,
        visit_handler: VisitHandler,
    ) -> impl Future<Output = Response<Self::Body>> + 'static;
}

/// What the threads do with connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// They serve.
    Running,
    /// They serve, and close each connection after its next answer.
    Draining,
    /// They accept no connections, finish requests and close idle connections.
    Stopping,
}

/// The running threads.
pub struct ServingThreads {
    threads: Mutex<Vec<JoinHandle<()>>>,
    counts: Vec<Arc<Counts>>,
    redirector: Arc<Redirector>,
    phase: watch::Sender<Phase>,
    listeners: Mutex<Vec<Listener>>,
    peers: Arc<Peers>,
    http2_connections: Arc<AtomicUsize>,
}

/// What a thread needs to hand a socket to another thread.
struct Peers {
    open: Vec<AtomicUsize>,
    queues: Vec<mpsc::Sender<AcceptedConnection>>,
    sources: Arc<Sources>,
}

/// An accepted connection on its way to its thread.
struct AcceptedConnection {
    socket: DetachedSocket,
    from: (SocketAddr, Transport),
    permit: Option<SourcePermit>,
}

impl ServingThreads {
    /// How many connections speak HTTP/2 now.
    pub fn http2_connections(&self) -> usize {
        self.http2_connections.load(Ordering::Relaxed)
    }

    /// Serves listening sockets until [`ServingThreads::stop`]. Visits are written to the journal,
    /// if there is one; it must be made for the same number of threads.
    #[allow(clippy::disallowed_methods, reason = "the caller waits until the threads run")]
    pub fn start<D: FallbackService>(
        listeners: impl Into<Listeners>,
        redirector: Arc<Redirector>,
        fallback: D,
        journal: Option<Arc<Journal>>,
    ) -> io::Result<Self> {
        let Listeners { plain, tls, outlive } = listeners.into();
        let most = redirector.settings.max_handshakes;
        let (tls, handshakes) =
            tls.map(|(listener, config)| (listener, Handshakes::new(config, most))).unzip();
        for listener in [Some(&plain), tls.as_ref()].into_iter().flatten() {
            listener.set_nonblocking()?;
        }
        let count = redirector.settings.threads.max(1);
        let (phase, phases) = watch::channel(Phase::Running);
        let http2_connections = Arc::new(AtomicUsize::new(0));
        let (queues, arrivals): (Vec<_>, Vec<_>) =
            (0..count).map(|_| mpsc::channel(HANDOVER_QUEUE)).unzip();
        let peers = Arc::new(Peers {
            open: (0..count).map(|_| AtomicUsize::new(0)).collect(),
            queues,
            sources: Arc::new(Sources::new(redirector.settings.max_connections_per_source)),
        });
        let mut threads = Vec::new();
        let mut all_counts = Vec::new();
        for (me, arrivals) in arrivals.into_iter().enumerate() {
            let counts = Arc::new(Counts::default());
            all_counts.push(Arc::clone(&counts));
            let listening = (plain.try_clone()?, tls.as_ref().map(Listener::try_clone));
            let listening = (listening.0, listening.1.transpose()?);
            let (redirector, peers) = (Arc::clone(&redirector), Arc::clone(&peers));
            let (fallback, phases, handshakes) =
                (fallback.clone(), phases.clone(), handshakes.clone());
            let http2_connections = Arc::clone(&http2_connections);
            let clicks =
                journal.as_ref().map(|journal| clicks_of(journal, me, &counts)).transpose()?;
            let (started, has_started) = std::sync::mpsc::channel();
            let thread =
                std::thread::Builder::new().name(format!("redirect-{me}")).spawn(move || {
                    // Built on its own thread: its tasks need not be `Send`.
                    let runtime = match Builder::new_current_thread()
                        .enable_all()
                        .build_local(LocalOptions::default())
                    {
                        Ok(runtime) => runtime,
                        Err(error) => return drop(started.send(Err(error))),
                    };
                    let _ = started.send(Ok(()));
                    let thread = Rc::new(ServingThread::new(
                        redirector,
                        counts,
                        phases,
                        http2_connections,
                        clicks,
                    ));
                    runtime.block_on(async move {
                        let worker = Worker { me, thread, peers, fallback, handshakes, outlive };
                        if let Err(error) = worker.run(listening, arrivals).await {
                            tracing::error!(%error, "a serving thread ended");
                        }
                    });
                })?;
            threads.push(thread);
            has_started.recv().map_err(io::Error::other)??;
        }
        let threads = Mutex::new(threads);
        // A socket for the next process must not begin to refuse connections.
        let plain = Some(plain).filter(|_| !outlive.plain);
        let tls = tls.filter(|_| !outlive.tls);
        let listeners = Mutex::new([plain, tls].into_iter().flatten().collect());
        Ok(Self {
            threads,
            counts: all_counts,
            redirector,
            phase,
            listeners,
            peers,
            http2_connections,
        })
    }

    /// The sums of all counters.
    pub fn counts(&self) -> RedirectCounts {
        let mut sum = RedirectCounts::default();
        self.counts.iter().for_each(|counts| sum.add(counts));
        self.redirector.add_counts(&mut sum);
        sum
    }

    /// The number of open connections of each thread.
    pub fn open_per_thread(&self) -> Vec<usize> {
        self.peers.open.iter().map(|open| open.load(Ordering::Relaxed)).collect()
    }

    /// From now on each connection closes after its next answer. Call it some time before
    /// [`ServingThreads::stop`], so that clients use other connections without a failed request.
    pub fn drain(&self) {
        self.phase.send_if_modified(|phase| {
            let running = *phase == Phase::Running;
            if running {
                *phase = Phase::Draining;
            }
            running
        });
    }

    /// Stops accepting, waits up to `timeout` for requests in progress, and joins the threads.
    /// Returns `false` if a thread is still busy then: it may still answer visits and write to the
    /// journal.
    #[allow(clippy::disallowed_methods, reason = "the caller waits for the threads")]
    pub fn stop(&self, timeout: Duration) -> bool {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        refuse_new(&listeners);
        listeners.clear();
        drop(listeners);
        let _ = self.phase.send(Phase::Stopping);
        let deadline = std::time::Instant::now() + timeout;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let mut busy = Vec::new();
        for thread in threads.drain(..) {
            while !thread.is_finished() && std::time::Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            if thread.is_finished() {
                let _ = thread.join();
            } else {
                busy.push(thread);
            }
        }
        *threads = busy;
        threads.is_empty()
    }
}

/// Makes the kernel ignore new connections, or removes the path of the socket, and waits until
/// those that are being made are complete, so that the threads can accept all of them. Without
/// this, closing the listener would reset connections that the kernel has accepted and the threads
/// have not. The clients of ignored connections try again, and find the port closed.
#[allow(clippy::disallowed_methods, reason = "the caller waits for the threads")]
fn refuse_new(listeners: &[Listener]) {
    // Drops segments with SYN and without ACK: the flags are octet 13 of the TCP header.
    let program = [
        socket2::SockFilter::new(0x30, 0, 0, 13),
        socket2::SockFilter::new(0x54, 0, 0, 0x12),
        socket2::SockFilter::new(0x15, 0, 1, 0x02),
        socket2::SockFilter::new(0x06, 0, 0, 0),
        socket2::SockFilter::new(0x06, 0, 0, u32::MAX),
    ];
    let attach = |listener: &Listener| match listener {
        Listener::Tcp(listener) => socket2::SockRef::from(listener).attach_filter(&program).is_ok(),
        // Without its path no client can connect, and accepted connections are complete.
        Listener::Unix(_) => {
            listener.remove_path();
            false
        }
    };
    if listeners.iter().filter(|listener| attach(listener)).count() > 0 {
        std::thread::sleep(HANDSHAKE);
    }
}

fn clicks_of(
    journal: &Arc<Journal>,
    thread: usize,
    counts: &Arc<Counts>,
) -> io::Result<ClickRecorder> {
    let refuse = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the journal has fewer threads than the server, or is in use already",
        )
    };
    let writer = journal.writer(thread).ok_or_else(refuse)?;
    Ok(ClickRecorder::new(Arc::clone(journal), writer, Arc::clone(counts)))
}

struct Worker<D> {
    me: usize,
    thread: Rc<ServingThread>,
    peers: Arc<Peers>,
    fallback: D,
    /// `None` without a listener for TLS.
    handshakes: Option<Handshakes>,
    outlive: SocketsToKeep,
}

/// Accepts a connection; waits forever without a listener.
async fn accept(listener: Option<&AsyncListener>) -> io::Result<(Socket, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

impl<D: FallbackService> Worker<D> {
    async fn run(
        &self,
        (plain, tls): (Listener, Option<Listener>),
        mut arrivals: mpsc::Receiver<AcceptedConnection>,
    ) -> io::Result<()> {
        let plain = plain.into_async()?;
        let tls = tls.map(Listener::into_async).transpose()?;
        let in_the_clear = if tls.is_some() { Transport::Plain } else { Transport::Unknown };
        let mut phase = self.thread.phase.clone();
        let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
        // A sweep may pause the thread; the next one comes an interval after it.
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = plain.accept() => match accepted {
                    Ok((socket, peer)) => self.distribute(socket, (peer, in_the_clear)),
                    Err(error) => self.wait_for_files(&error).await,
                },
                accepted = accept(tls.as_ref()) => match accepted {
                    Ok((socket, peer)) => self.distribute(socket, (peer, Transport::Tls)),
                    Err(error) => self.wait_for_files(&error).await,
                },
                Some(arrival) = arrivals.recv() => self.serve_arrival(arrival),
                _ = sweep.tick() => self.sweep(),
                changed = phase.changed() => {
                    self.thread.draining.set(true);
                    if changed.is_err() || *phase.borrow_and_update() == Phase::Stopping {
                        break;
                    }
                }
            }
        }
        // Connections that the kernel has already accepted have perhaps sent a request.
        if !self.outlive.plain {
            while let Some(Ok((socket, peer))) = plain.accept().now_or_never() {
                self.distribute(socket, (peer, in_the_clear));
            }
        }
        if !self.outlive.tls {
            while let Some(Ok((socket, peer))) = accept(tls.as_ref()).now_or_never() {
                self.distribute(socket, (peer, Transport::Tls));
            }
        }
        drop((plain, tls));
        // From now on other threads serve what they accept.
        arrivals.close();
        loop {
            while let Ok(arrival) = arrivals.try_recv() {
                self.serve_arrival(arrival);
            }
            self.sweep_connections(true);
            if self.thread.connection_table.is_empty() && arrivals.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(STOP_INTERVAL).await;
        }
    }

    fn serve_arrival(&self, AcceptedConnection { socket, from, permit }: AcceptedConnection) {
        if let Ok(socket) = socket.attach() {
            self.serve(socket, from, permit);
        } else {
            self.peers.open[self.me].fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Waits for file descriptors to be closed: most likely there are none left.
    async fn wait_for_files(&self, error: &io::Error) {
        let redirector = &self.thread.redirector;
        if let Some(suppressed) = redirector.accept_log.admit(redirector.steady()) {
            tracing::warn!(%error, suppressed, "cannot accept a connection");
        }
        self.thread.connection_table.make_room();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    fn sweep(&self) {
        self.sweep_connections(false);
        if let Some(clicks) = &self.thread.clicks {
            clicks.renew_salt();
            clicks.finish_if_old();
            clicks.pause_if_behind();
        }
    }

    fn sweep_connections(&self, stopping: bool) {
        let thread = &self.thread;
        thread.coarse_ms.set(thread.redirector.now().steady_ms);
        thread.wall_offset_micros.set(thread.redirector.wall_offset_micros());
        let closed = thread.connection_table.sweep(
            thread.coarse_ms.get(),
            &thread.redirector.settings,
            stopping,
        );
        thread.counts.timed_out.add(closed);
    }

    /// Serves a new connection on this thread, or hands it to a thread with clearly fewer.
    fn distribute(&self, socket: Socket, from: (SocketAddr, Transport)) {
        let peer = from.0;
        let open = |at: usize| self.peers.open[at].load(Ordering::Relaxed);
        let all = &self.peers.open;
        let settings = &self.thread.redirector.settings;
        if all.iter().map(|open| open.load(Ordering::Relaxed)).sum::<usize>()
            >= settings.max_connections + self.thread.connection_table.making_room()
        {
            let closed = self.thread.connection_table.make_room();
            if closed == 0 {
                return self.thread.counts.refused.add(1);
            }
            self.thread.counts.made_room.add(closed as u64);
        }
        let permit = match settings.proxies.trusts(peer.ip()) {
            true => None,
            false => match self.peers.sources.take(peer.ip()) {
                Some(permit) => Some(permit),
                None => return self.thread.counts.refused_per_source.add(1),
            },
        };
        let least = (0..all.len()).min_by_key(|&at| open(at)).unwrap_or(self.me);
        all[least].fetch_add(1, Ordering::Relaxed);
        if open(self.me) <= open(least) + open(least) / 8 {
            all[least].fetch_sub(1, Ordering::Relaxed);
            all[self.me].fetch_add(1, Ordering::Relaxed);
            return self.serve(socket, from, permit);
        }
        let Ok(socket) = socket.into_std() else {
            all[least].fetch_sub(1, Ordering::Relaxed);
            return;
        };
        // If the other thread's queue is full or the thread has ended, this thread serves it.
        let arrival = AcceptedConnection { socket, from, permit };
        if let Err(back) = self.peers.queues[least].try_send(arrival) {
            all[least].fetch_sub(1, Ordering::Relaxed);
            let (TrySendError::Full(arrival) | TrySendError::Closed(arrival)) = back;
            all[self.me].fetch_add(1, Ordering::Relaxed);
            self.serve_arrival(arrival);
        }
    }

    fn serve(&self, socket: Socket, from: (SocketAddr, Transport), permit: Option<SourcePermit>) {
        self.thread.counts.connections.add(1);
        let idle_tracker =
            ConnectionTable::idle_tracker(self.thread.redirector.steady_micros() / 1000);
        let guard = OpenConnection {
            thread: Rc::clone(&self.thread),
            peers: Arc::clone(&self.peers),
            me: self.me,
            idle_tracker: Rc::clone(&idle_tracker),
            _permit: permit,
        };
        let (thread, tracker, fallback) =
            (Rc::clone(&self.thread), Rc::clone(&idle_tracker), self.fallback.clone());
        let settings = &self.thread.redirector.settings;
        let ((peer, transport), proxies) = (from, &settings.proxies);
        let proxied = settings.proxy_protocol && proxies.trusts(peer.ip());
        let task = if proxied || transport == Transport::Tls {
            let handshakes = self.handshakes.clone().filter(|_| transport == Transport::Tls);
            let sources = proxied.then(|| Arc::clone(&self.peers.sources));
            let set_up = SetUp { thread, tracker, sources, handshakes };
            tokio::task::spawn_local(async move {
                let _guard = guard;
                if let Some(ready) = set_up.run(socket, from).await {
                    let SetUp { thread, tracker, .. } = set_up;
                    let Ready { stream, from, _permit } = ready;
                    connection::serve(stream, from, thread, tracker, fallback).await;
                }
            })
        } else {
            let client_addr = ClientAddr::new(peer.ip(), proxies).over(transport);
            let (stream, from) = (Stream::Plain(socket), (peer, client_addr));
            let served = connection::serve(stream, from, thread, tracker, fallback);
            tokio::task::spawn_local(async move {
                let _guard = guard;
                served.await;
            })
        };
        self.thread.connection_table.add(&idle_tracker, task.abort_handle());
    }
}

/// What comes before the first request of some connections: the header of the PROXY protocol, and
/// the TLS handshake.
struct SetUp {
    thread: Rc<ServingThread>,
    tracker: Rc<IdleTracker>,
    /// `None` for a connection that does not begin with a header of the PROXY protocol.
    sources: Option<Arc<Sources>>,
    /// `None` for a connection without TLS.
    handshakes: Option<Handshakes>,
}

/// A connection that can send requests.
struct Ready {
    stream: Stream,
    from: (SocketAddr, ClientAddr),
    _permit: Option<SourcePermit>,
}

impl SetUp {
    /// `None` if the connection is to be closed.
    async fn run(
        &self,
        mut socket: Socket,
        (peer, transport): (SocketAddr, Transport),
    ) -> Option<Ready> {
        let (counts, proxies) = (&self.thread.counts, &self.thread.redirector.settings.proxies);
        let mut from = (peer, ClientAddr::new(peer.ip(), proxies));
        let mut _permit = None;
        if let Some(sources) = &self.sources {
            let read = proxy_header::read(&mut socket);
            match self.tracker.set_up(self.thread.coarse_ms.get(), read).await? {
                Ok(ProxyHeader::Source(Some(source))) => {
                    from = (source, ClientAddr::new(source.ip(), proxies));
                    if !proxies.trusts(source.ip()) {
                        _permit = sources.take(source.ip());
                        if _permit.is_none() {
                            counts.refused_per_source.add(1);
                            return None;
                        }
                    }
                }
                Ok(ProxyHeader::Source(None)) => from.1 = ClientAddr::behind(peer.ip()),
                Ok(ProxyHeader::Absent) if is_this_machine(peer.ip()) => {}
                Ok(ProxyHeader::Absent) | Err(_) => {
                    counts.bad_proxy_headers.add(1);
                    return None;
                }
            }
            self.tracker.wait(Waiting::First, self.thread.redirector.now().steady_ms);
        }
        from.1 = from.1.over(transport);
        let stream = match &self.handshakes {
            Some(handshakes) => {
                let source = from.0.ip();
                handshakes.accept(socket, source, &self.thread, &self.tracker).await?
            }
            None => Stream::Plain(socket),
        };
        Some(Ready { stream, from, _permit })
    }
}

/// Whether a connection comes from the address that commands on this machine use: they send no
/// header, also if a proxy on this machine does.
fn is_this_machine(peer: IpAddr) -> bool {
    let peer = peer.to_canonical();
    peer == Ipv4Addr::LOCALHOST || peer == Ipv6Addr::LOCALHOST
}

/// Counts a connection as closed when it is dropped, however the connection ended.
struct OpenConnection {
    thread: Rc<ServingThread>,
    peers: Arc<Peers>,
    me: usize,
    idle_tracker: Rc<IdleTracker>,
    _permit: Option<SourcePermit>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.thread.counts.closed.add(1);
        if self.idle_tracker.is_making_room() {
            self.thread.connection_table.made_room();
        }
        self.peers.open[self.me].fetch_sub(1, Ordering::Relaxed);
    }
}
