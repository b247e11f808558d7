//! The serving threads: one runtime per core, with connections distributed evenly.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};

use crate::clicks::Clicks;
use crate::connection::{self, Thread};
use crate::connection_table::ConnectionTable;
use crate::counts::{Counter as _, Counts, Snapshot};
use crate::journal::Journal;
use crate::redirector::Redirector;
use crate::visit_handler::VisitHandler;

/// How often a thread closes idle connections.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);
/// Sockets in the queue to another thread.
const HANDOVER_QUEUE: usize = 1024;

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

/// The running threads.
pub struct Workers {
    threads: Mutex<Vec<JoinHandle<()>>>,
    counts: Vec<Arc<Counts>>,
    redirector: Arc<Redirector>,
    stop: watch::Sender<bool>,
    peers: Arc<Peers>,
}

/// What a thread needs to hand a socket to another thread.
struct Peers {
    open: Vec<AtomicUsize>,
    queues: Vec<mpsc::Sender<(std::net::TcpStream, SocketAddr)>>,
}

impl Workers {
    /// Serves a listening socket until [`Workers::stop`]. Visits are written to the journal, if
    /// there is one; it must be made for the same number of threads.
    #[allow(clippy::disallowed_methods, reason = "the caller waits until the threads run")]
    pub fn start<D: FallbackService>(
        listener: TcpListener,
        redirector: Arc<Redirector>,
        fallback: D,
        journal: Option<Arc<Journal>>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let count = redirector.settings.threads.max(1);
        let (stop, stopped) = watch::channel(false);
        let (queues, arrivals): (Vec<_>, Vec<_>) =
            (0..count).map(|_| mpsc::channel(HANDOVER_QUEUE)).unzip();
        let peers =
            Arc::new(Peers { open: (0..count).map(|_| AtomicUsize::new(0)).collect(), queues });
        let mut threads = Vec::new();
        let mut all_counts = Vec::new();
        for (me, arrivals) in arrivals.into_iter().enumerate() {
            let counts = Arc::new(Counts::default());
            all_counts.push(Arc::clone(&counts));
            let (listener, redirector, peers) =
                (listener.try_clone()?, Arc::clone(&redirector), Arc::clone(&peers));
            let (fallback, stopped) = (fallback.clone(), stopped.clone());
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
                    let thread = Rc::new(Thread::new(redirector, counts, stopped, clicks));
                    runtime.block_on(async move {
                        let worker = Worker { me, thread, peers, fallback };
                        if let Err(error) = worker.run(listener, arrivals).await {
                            tracing::error!(%error, "a serving thread ended");
                        }
                    });
                })?;
            threads.push(thread);
            has_started.recv().map_err(io::Error::other)??;
        }
        Ok(Self { threads: Mutex::new(threads), counts: all_counts, redirector, stop, peers })
    }

    /// The sums of all counters.
    pub fn counts(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        self.counts.iter().for_each(|counts| sum.add(counts));
        self.redirector.add_counts(&mut sum);
        sum
    }

    /// The number of open connections of each thread.
    pub fn open_per_thread(&self) -> Vec<usize> {
        self.peers.open.iter().map(|open| open.load(Ordering::Relaxed)).collect()
    }

    /// Stops accepting, waits up to `timeout` for requests in progress, and joins the threads.
    /// Returns `false` if a thread is still busy then: it may still answer visits and write to the
    /// journal.
    #[allow(clippy::disallowed_methods, reason = "the caller waits for the threads")]
    pub fn stop(&self, timeout: Duration) -> bool {
        let _ = self.stop.send(true);
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

fn clicks_of(journal: &Arc<Journal>, thread: usize, counts: &Arc<Counts>) -> io::Result<Clicks> {
    let refuse = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the journal has fewer threads than the server, or is in use already",
        )
    };
    let writer = journal.writer(thread).ok_or_else(refuse)?;
    Ok(Clicks::new(Arc::clone(journal), writer, Arc::clone(counts)))
}

struct Worker<D> {
    me: usize,
    thread: Rc<Thread>,
    peers: Arc<Peers>,
    fallback: D,
}

impl<D: FallbackService> Worker<D> {
    async fn run(
        &self,
        listener: TcpListener,
        mut arrivals: mpsc::Receiver<(std::net::TcpStream, SocketAddr)>,
    ) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut stop = self.thread.stop.clone();
        let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.distribute(stream, peer),
                    Err(error) => {
                        // Most likely there are no file descriptors left; wait for some to close.
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some((stream, peer)) = arrivals.recv() => {
                    if let Ok(stream) = TcpStream::from_std(stream) {
                        self.serve(stream, peer);
                    } else {
                        self.peers.open[self.me].fetch_sub(1, Ordering::Relaxed);
                    }
                }
                _ = sweep.tick() => self.sweep(),
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        drop(listener);
        self.thread.stopping.set(true);
        while !self.thread.connection_table.is_empty() {
            self.sweep();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    fn sweep(&self) {
        let thread = &self.thread;
        thread.coarse_ms.set(thread.redirector.now_ms());
        let closed = thread.connection_table.sweep(
            thread.coarse_ms.get(),
            &thread.redirector.settings,
            thread.stopping.get(),
        );
        thread.counts.timed_out.add(closed);
        if let Some(clicks) = &thread.clicks {
            clicks.renew_salt();
        }
    }

    /// Serves a new connection on this thread, or hands it to a thread with clearly fewer.
    fn distribute(&self, stream: TcpStream, peer: SocketAddr) {
        let open = |at: usize| self.peers.open[at].load(Ordering::Relaxed);
        let all = &self.peers.open;
        if all.iter().map(|open| open.load(Ordering::Relaxed)).sum::<usize>()
            >= self.thread.redirector.settings.max_connections
        {
            self.thread.counts.refused.add(1);
            return;
        }
        let least = (0..all.len()).min_by_key(|&at| open(at)).unwrap_or(self.me);
        all[least].fetch_add(1, Ordering::Relaxed);
        if open(self.me) <= open(least) + open(least) / 8 {
            all[least].fetch_sub(1, Ordering::Relaxed);
            all[self.me].fetch_add(1, Ordering::Relaxed);
            return self.serve(stream, peer);
        }
        let Ok(stream) = stream.into_std() else {
            all[least].fetch_sub(1, Ordering::Relaxed);
            return;
        };
        // If the other thread's queue is full or the thread has ended, this thread serves it.
        if let Err(back) = self.peers.queues[least].try_send((stream, peer)) {
            all[least].fetch_sub(1, Ordering::Relaxed);
            let (TrySendError::Full((stream, peer)) | TrySendError::Closed((stream, peer))) = back;
            if let Ok(stream) = TcpStream::from_std(stream) {
                all[self.me].fetch_add(1, Ordering::Relaxed);
                self.serve(stream, peer);
            }
        }
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr) {
        self.thread.counts.connections.add(1);
        let idle_tracker = ConnectionTable::idle_tracker(self.thread.redirector.now_ms());
        let guard = OpenConnection {
            thread: Rc::clone(&self.thread),
            peers: Arc::clone(&self.peers),
            me: self.me,
        };
        let served = connection::serve(
            stream,
            peer,
            Rc::clone(&self.thread),
            Rc::clone(&idle_tracker),
            self.fallback.clone(),
        );
        let task = tokio::task::spawn_local(async move {
            let _guard = guard;
            served.await;
        });
        self.thread.connection_table.add(&idle_tracker, task.abort_handle());
    }
}

/// Counts a connection as closed when it is dropped, however the connection ended.
struct OpenConnection {
    thread: Rc<Thread>,
    peers: Arc<Peers>,
    me: usize,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.thread.counts.closed.add(1);
        self.peers.open[self.me].fetch_sub(1, Ordering::Relaxed);
    }
}
