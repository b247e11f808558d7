//! One connection on the fast path: read, answer from memory, write.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use http::{HeaderValue, Request, Version, header};
use hyper::body::Incoming;
use terse_core::{Answered, Code};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;

use crate::clicks::{ClickRecorder, Visit};
use crate::client_addr::{ClientAddr, Transport};
use crate::connection_table::{ConnectionTable, IdleTracker, InProgress, Waiting};
use crate::counts::{Counter as _, Counts, SLOW_NANOS};
use crate::date::DateLine;
use crate::fast_path::{self, AnsweredRequest, FastPathResult, LinkRequest, RequestTime};
use crate::hyper_fallback;
use crate::now::ClockReading;
use crate::redirector::{LinkUnavailable, Redirector};
use crate::route::Route;
use crate::serving_threads::{FallbackService, Phase};
use crate::stream::Stream;
use crate::transport_security::TransportSecurity;
use crate::visit_handler::VisitHandler;

const READ_BUFFER: usize = 16 * 1024;
/// Answers to pipelined requests are sent in chunks of about this size.
const CHUNK: usize = 64 * 1024;

/// What the connections of one thread share.
pub(crate) struct ServingThread {
    pub(crate) redirector: Arc<Redirector>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) connection_table: ConnectionTable,
    /// Whether connections close after their next answer.
    pub(crate) draining: Cell<bool>,
    /// The time of the last sweep by the steady clock, precise enough for idle timeouts.
    pub(crate) coarse_ms: Cell<i64>,
    /// How far the wall clock was ahead of the steady one at the last sweep. Adding it to the
    /// steady time saves a reading of the wall clock per request.
    pub(crate) wall_offset_micros: Cell<i64>,
    transport_security: TransportSecurity,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) http2_connections: Arc<AtomicUsize>,
    /// `None` if visits are not journaled.
    pub(crate) clicks: Option<ClickRecorder>,
    scratch: RefCell<Scratch>,
}

/// Buffers that the connections of a thread share. A connection uses them between two waits, so an
/// idle connection owns none.
struct Scratch {
    input: Box<[u8]>,
    output: Vec<u8>,
    date: DateLine,
    /// For answers without TLS, while terse also has a TLS listener.
    plain_date: DateLine,
}

impl ServingThread {
    pub(crate) fn new(
        redirector: Arc<Redirector>,
        counts: Arc<Counts>,
        phase: watch::Receiver<Phase>,
        http2_connections: Arc<AtomicUsize>,
        clicks: Option<ClickRecorder>,
    ) -> Self {
        let input = vec![0; READ_BUFFER].into_boxed_slice();
        let output = Vec::with_capacity(2 * CHUNK);
        let transport_security = TransportSecurity::new(redirector.settings.hsts);
        let date = DateLine::new(transport_security.line());
        let plain_date = DateLine::new(Vec::new());
        let scratch = RefCell::new(Scratch { input, output, date, plain_date });
        let coarse_ms = Cell::new(redirector.now().steady_ms);
        let wall_offset_micros = Cell::new(redirector.wall_offset_micros());
        Self {
            redirector,
            counts,
            connection_table: ConnectionTable::default(),
            draining: Cell::new(false),
            coarse_ms,
            wall_offset_micros,
            transport_security,
            phase,
            http2_connections,
            clicks,
            scratch,
        }
    }
}

/// What a connection does next, after its answers are sent.
enum Next {
    Read,
    LookUp { domain: u16, code: Vec<u8> },
    HandOver,
    Close,
}

/// Serves a connection to its end.
pub(crate) async fn serve<D: FallbackService>(
    stream: Stream,
    (peer, client_addr): (SocketAddr, ClientAddr),
    thread: Rc<ServingThread>,
    idle_tracker: Rc<IdleTracker>,
    fallback: D,
) {
    let settings = &thread.redirector.settings;
    let in_the_clear = client_addr.transport() == Transport::Plain;
    let mut fast_path = settings.fast_path && !(settings.https_only && in_the_clear);
    let mut connection = Connection {
        stream,
        pending: Vec::new(),
        unsent: Vec::new(),
        unflushed: false,
        lookup: None,
        missed_nanos: 0,
        has_unread: false,
        client_addr,
        thread,
        idle_tracker,
    };
    poll_fn(|cx| {
        connection.idle_tracker.set_waker(cx.waker());
        Poll::Ready(())
    })
    .await;
    if !fast_path {
        // The first bytes decide whether hyper speaks HTTP/1 or HTTP/2.
        let Connection { stream, pending, thread, idle_tracker, .. } = &mut connection;
        let first = hyper_fallback::read_first(stream, pending);
        idle_tracker.wait(Waiting::First, thread.coarse_ms.get());
        if !matches!(idle_tracker.until_closing(first).await, Some(Ok(()))) {
            return;
        }
    }
    while fast_path {
        let next = poll_fn(|cx| connection.poll_turn(cx)).await;
        if connection.has_unsent() && connection.send_rest().await.is_err() {
            return;
        }
        match next {
            Next::Read => {}
            Next::Close => return connection.stream.close().await,
            Next::LookUp { domain, code } => {
                connection.idle_tracker.wait(Waiting::LookUp, 0);
                let lookup = connection.thread.redirector.look_up(domain, &code).await;
                connection.has_unread = true;
                connection.lookup = Some(lookup);
            }
            Next::HandOver => fast_path = false,
        }
    }
    let Connection { stream, pending, thread, idle_tracker, .. } = connection;
    idle_tracker.wait(Waiting::Hyper, thread.coarse_ms.get());
    thread.counts.handed_over.add(1);
    let here = Rc::clone(&thread);
    let service = move |request: Request<Incoming>| {
        let visit_handler = VisitHandler::new(Rc::clone(&here), client_addr);
        let (in_progress, here) = (InProgress::new(Rc::clone(&idle_tracker)), Rc::clone(&here));
        let http1 = request.version() <= Version::HTTP_11;
        in_progress.mark(here.coarse_ms.get());
        let transport_security = here.transport_security.field(request.headers(), &client_addr);
        fallback.clone().handle(request, peer, visit_handler).map(move |mut response| {
            TransportSecurity::set(transport_security, response.headers_mut());
            // HTTP/2 has GOAWAY.
            if http1 && here.draining.get() {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            // A long answer may take longer than any request: a connection that makes progress is
            // not idle.
            let mark = move || in_progress.mark(here.coarse_ms.get());
            response.map(|body| hyper_fallback::ProgressBody { body, mark })
        })
    };
    hyper_fallback::serve(stream, pending, &thread, service).await;
}

struct Connection {
    stream: Stream,
    /// Bytes of requests that are not answered yet. Usually empty and without an allocation.
    pending: Vec<u8>,
    /// Bytes that the socket did not accept at once.
    unsent: Vec<u8>,
    /// Whether TLS holds bytes that the socket did not accept at once.
    unflushed: bool,
    /// The result of the lookup for the first request in `pending`.
    lookup: Option<Result<Route, LinkUnavailable>>,
    /// When that lookup began.
    missed_nanos: i64,
    /// Whether `pending` may hold a whole request.
    has_unread: bool,
    client_addr: ClientAddr,
    thread: Rc<ServingThread>,
    idle_tracker: Rc<IdleTracker>,
}

impl Connection {
    /// Reads, answers and writes until there is something else to do. All buffers are the thread's.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let thread = Rc::clone(&self.thread);
        let mut scratch = thread.scratch.borrow_mut();
        let Scratch { input, output, date, plain_date } = &mut *scratch;
        let date = match self.client_addr.transport() {
            Transport::Plain => plain_date,
            Transport::Unknown | Transport::Tls => date,
        };
        loop {
            let mut count = 0;
            // After a lookup, or after a full chunk, pending requests come before reading.
            if !std::mem::take(&mut self.has_unread) {
                let mut buffer = ReadBuf::new(input);
                match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                    Poll::Pending if self.idle_tracker.is_closing() && self.pending.is_empty() => {
                        return Poll::Ready(Next::Close);
                    }
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(_)) => return Poll::Ready(Next::Close),
                    Poll::Ready(Ok(())) => count = buffer.filled().len(),
                }
                if count == 0 {
                    return Poll::Ready(Next::Close);
                }
            }
            let started = thread.redirector.steady_nanos();
            let now = ClockReading {
                wall_ms: (started / 1000 + thread.wall_offset_micros.get()) / 1000,
                steady_ms: started / 1_000_000,
            };
            let mut pending = std::mem::take(&mut self.pending);
            let bytes = if pending.is_empty() {
                &input[..count]
            } else {
                pending.extend_from_slice(&input[..count]);
                &pending
            };
            output.clear();
            let date = date.at(now.wall_ms);
            let mut used = 0;
            let (mut answers, mut looked_up) = (0, false);
            let next = loop {
                if used == bytes.len() {
                    break Next::Read;
                }
                let lookup = self.lookup.take();
                let time = RequestTime { now, date, closing: thread.draining.get() };
                let mut request = LinkRequest::default();
                let redirector = &thread.redirector;
                match fast_path::answer(
                    &bytes[used..],
                    redirector,
                    &self.client_addr,
                    time,
                    lookup.as_ref(),
                    &mut request,
                    output,
                ) {
                    FastPathResult::Answered(answered) => {
                        used += answered.used;
                        answers += 1;
                        count_answer(&thread, &answered, lookup.is_none());
                        let mut arrived = started;
                        if lookup.is_some() {
                            looked_up = true;
                            arrived = self.missed_nanos;
                            redirector.note_if_slow(arrived, request.code);
                        }
                        journal(&thread, &answered, &request, &self.client_addr, arrived);
                        if answered.close {
                            break Next::Close;
                        }
                        if output.len() > CHUNK {
                            self.has_unread = true;
                            break Next::Read;
                        }
                    }
                    FastPathResult::Incomplete => break Next::Read,
                    FastPathResult::Miss(miss) => {
                        let code = bytes[used..][miss.code].to_vec();
                        self.missed_nanos = started;
                        break Next::LookUp { domain: miss.domain, code };
                    }
                    FastPathResult::HandOver => break Next::HandOver,
                }
            };
            if pending.is_empty() {
                pending.extend_from_slice(&input[used..count]);
            } else {
                pending.drain(..used);
            }
            self.pending = pending;
            if !output.is_empty() {
                self.send(cx, output);
            }
            if answers > 0 {
                let ended = thread.redirector.steady_nanos();
                if looked_up {
                    thread.counts.count_latency(ended - self.missed_nanos, 1);
                }
                thread.counts.count_latency(ended - started, answers - u64::from(looked_up));
                if ended - started > SLOW_NANOS {
                    thread.redirector.note_slow(ended - started, None);
                }
            }
            self.wait_for_client(answers > 0, now.steady_ms);
            if !matches!(next, Next::Read) || self.has_unsent() {
                return Poll::Ready(next);
            }
        }
    }

    /// Writes what the socket accepts and keeps the rest.
    fn send(&mut self, cx: &mut Context<'_>, output: &[u8]) {
        let sent = match Pin::new(&mut self.stream).poll_write(cx, output) {
            Poll::Ready(Ok(sent)) => sent,
            // The next read or write gets the same error and ends the connection.
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        if sent < output.len() {
            self.unsent.extend_from_slice(&output[sent..]);
        }
        // A plain socket has nothing to flush.
        self.unflushed = Pin::new(&mut self.stream).poll_flush(cx).is_pending();
    }

    /// Whether a part of the answers has not reached the socket.
    fn has_unsent(&self) -> bool {
        self.unflushed || !self.unsent.is_empty()
    }

    async fn send_rest(&mut self) -> std::io::Result<()> {
        self.idle_tracker.wait(Waiting::Write, self.thread.redirector.now().steady_ms);
        let unsent = std::mem::take(&mut self.unsent);
        self.stream.write_all(&unsent).await?;
        self.stream.flush().await?;
        self.unflushed = false;
        self.wait_for_client(true, self.thread.redirector.now().steady_ms);
        Ok(())
    }

    /// Notes what the client has to send next.
    fn wait_for_client(&self, answered: bool, now_ms: i64) {
        if self.pending.is_empty() {
            self.idle_tracker.wait(Waiting::Request, now_ms);
        } else {
            self.idle_tracker.wait_for_rest(answered, now_ms);
        }
    }
}

fn count_answer(thread: &ServingThread, request: &AnsweredRequest, from_memory: bool) {
    let counts = &thread.counts;
    if request.answered == Answered::Redirected {
        counts.redirected.add(1);
        counts.hits.add(u64::from(from_memory));
    } else {
        count_failure(counts, request.answered, from_memory);
    }
    if let Some(route) = &request.refresh {
        thread.redirector.refresh_soon(route);
    }
}

#[cold]
fn count_failure(counts: &Counts, answered: Answered, from_memory: bool) {
    counts.count(answered);
    if from_memory && !matches!(answered, Answered::Limited(_) | Answered::NeverIssued) {
        counts.hits.add(1);
    }
}

/// Writes a visit to the journal. The caller sends no part of the answer before: a visitor who got
/// an answer is in the journal.
fn journal(
    thread: &ServingThread,
    answer: &AnsweredRequest,
    request: &LinkRequest<'_>,
    client_addr: &ClientAddr,
    arrived_nanos: i64,
) {
    let Some(clicks) = &thread.clicks else { return };
    clicks.write(&Visit {
        answered: answer.answered,
        owner: answer.owner,
        created_ms: answer.created_ms,
        domain: thread.redirector.hosts.name(request.domain),
        code: answer
            .canonical_code
            .as_ref()
            .and_then(Route::canonical_code)
            .map_or(request.code, Code::as_str)
            .as_bytes(),
        query: request.query,
        headers: &request.headers,
        client_addr,
        redirector: &thread.redirector,
        arrived_nanos,
        wall_offset_micros: thread.wall_offset_micros.get(),
    });
}
