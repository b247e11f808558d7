//! The serving threads: one runtime per core, connections shared out evenly.

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
use crate::counts::{Counts, Snapshot};
use crate::journal::Journal;
use crate::redirector::Redirector;
use crate::visit_handler::VisitHandler;

/// How often slow clients are looked for.
const SWEEP: Duration = Duration::from_millis(500);
/// Sockets on their way to another thread.
const IN_TRANSIT: usize = 1024;

/// Where requests go that the fast path leaves alone.
pub trait FallbackService: Clone + Send + 'static {
    /// The body of its answers.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Unpin
        + 'static;

    /// Answers a request. Whoever follows a link is brought to the desk.
    fn open(
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

/// What a thread needs to hand a socket to another.
struct Peers {
    open: Vec<AtomicUsize>,
    doors: Vec<mpsc::Sender<(std::net::TcpStream, SocketAddr)>>,
}

impl Workers {
    /// Serves a listening socket until told to stop. Visits are written into the journal, if there
    /// is one; it must have been made for as many threads.
    #[allow(clippy::disallowed_methods, reason = "whoever starts the threads waits until they run")]
    pub fn start<D: FallbackService>(
        listener: TcpListener,
        redirector: Arc<Redirector>,
        door: D,
        journal: Option<Arc<Journal>>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let count = redirector.settings.threads.max(1);
        let (stop, stopped) = watch::channel(false);
        let (doors, arrivals): (Vec<_>, Vec<_>) =
            (0..count).map(|_| mpsc::channel(IN_TRANSIT)).unzip();
        let peers =
            Arc::new(Peers { open: (0..count).map(|_| AtomicUsize::new(0)).collect(), doors });
        let mut threads = Vec::new();
        let mut all_counts = Vec::new();
        for (me, arrivals) in arrivals.into_iter().enumerate() {
            let counts = Arc::new(Counts::default());
            all_counts.push(Arc::clone(&counts));
            let (listener, redirector, peers) =
                (listener.try_clone()?, Arc::clone(&redirector), Arc::clone(&peers));
            let (door, stopped) = (door.clone(), stopped.clone());
            let clicks =
                journal.as_ref().map(|journal| clicks_of(journal, me, &counts)).transpose()?;
            let (started, has_started) = std::sync::mpsc::channel();
            let thread =
                std::thread::Builder::new().name(format!("redirect-{me}")).spawn(move || {
                    // Made on its own thread, which it never leaves: its tasks need not be `Send`.
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
                        let worker = Worker { me, thread, peers, door };
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

    /// What all threads have counted.
    pub fn counts(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        self.counts.iter().for_each(|counts| sum.add(counts));
        self.redirector.add_counts(&mut sum);
        sum
    }

    /// How many connections each thread has.
    pub fn open_per_thread(&self) -> Vec<usize> {
        self.peers.open.iter().map(|open| open.load(Ordering::Relaxed)).collect()
    }

    /// Stops accepting, lets requests under way finish for up to `patience`, and joins the threads.
    /// Those who are still busy then are left to the end of the process; `false` if there are any,
    /// for they may still answer and write to the journal.
    #[allow(clippy::disallowed_methods, reason = "whoever stops the threads waits for them")]
    pub fn stop(&self, patience: Duration) -> bool {
        let _ = self.stop.send(true);
        let deadline = std::time::Instant::now() + patience;
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
            "the journal was made for fewer threads, or is in use",
        )
    };
    let writer = journal.writer(thread).ok_or_else(refuse)?;
    Ok(Clicks::new(Arc::clone(journal), writer, Arc::clone(counts)))
}

struct Worker<D> {
    me: usize,
    thread: Rc<Thread>,
    peers: Arc<Peers>,
    door: D,
}

impl<D: FallbackService> Worker<D> {
    async fn run(
        &self,
        listener: TcpListener,
        mut arrivals: mpsc::Receiver<(std::net::TcpStream, SocketAddr)>,
    ) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut stop = self.thread.stop.clone();
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.place(stream, peer),
                    Err(error) => {
                        // Out of descriptors, most likely: those who are here go first.
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some((stream, peer)) = arrivals.recv() => {
                    if let Ok(stream) = TcpStream::from_std(stream) {
                        self.idle_tracker(stream, peer);
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
        let ended = thread.connection_table.sweep(
            thread.coarse_ms.get(),
            &thread.redirector.settings,
            thread.stopping.get(),
        );
        thread.counts.timed_out.add(ended);
        if let Some(clicks) = &thread.clicks {
            clicks.renew_salt();
        }
    }

    /// Serves a new connection here, or on the thread with clearly fewer.
    fn place(&self, stream: TcpStream, peer: SocketAddr) {
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
            return self.idle_tracker(stream, peer);
        }
        let Ok(stream) = stream.into_std() else {
            all[least].fetch_sub(1, Ordering::Relaxed);
            return;
        };
        // A thread that cannot take it, because it is overwhelmed or gone, does not cost the
        // visitor.
        if let Err(back) = self.peers.doors[least].try_send((stream, peer)) {
            all[least].fetch_sub(1, Ordering::Relaxed);
            let (TrySendError::Full((stream, peer)) | TrySendError::Closed((stream, peer))) = back;
            if let Ok(stream) = TcpStream::from_std(stream) {
                all[self.me].fetch_add(1, Ordering::Relaxed);
                self.idle_tracker(stream, peer);
            }
        }
    }

    fn idle_tracker(&self, stream: TcpStream, peer: SocketAddr) {
        self.thread.counts.connections.add(1);
        let idle_tracker = ConnectionTable::idle_tracker(self.thread.redirector.now_ms());
        let leaving = Leaving {
            thread: Rc::clone(&self.thread),
            peers: Arc::clone(&self.peers),
            me: self.me,
        };
        let served = connection::serve(
            stream,
            peer,
            Rc::clone(&self.thread),
            Rc::clone(&idle_tracker),
            self.door.clone(),
        );
        let task = tokio::task::spawn_local(async move {
            let _leaving = leaving;
            served.await;
        });
        self.thread.connection_table.take(&idle_tracker, task.abort_handle());
    }
}

/// Counts a connection out, however it ended.
struct Leaving {
    thread: Rc<Thread>,
    peers: Arc<Peers>,
    me: usize,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.thread.counts.closed.add(1);
        self.peers.open[self.me].fetch_sub(1, Ordering::Relaxed);
    }
}
