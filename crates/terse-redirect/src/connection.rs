//! One connection: read, answer from memory, write, as long as that is all it takes.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use terse_core::{Code, clicks};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::clicks::{Clicks, Visited};
use crate::client_addr::ClientAddr;
use crate::connection_table::{ConnectionTable, IdleTracker, Waiting};
use crate::counts::Counts;
use crate::date::DateLine;
use crate::error_responses::Failure;
use crate::fast_path::{self, Answered, Asked, FastPathOutcome, Found, RequestTime, Step};
use crate::hyper_fallback;
use crate::redirector::{Redirector, Resolved};
use crate::route::Route;
use crate::visit_handler::VisitHandler;
use crate::workers::FallbackService;

const READ: usize = 16 * 1024;
/// Answers to pipelined requests are sent in portions of about this size.
const PORTION: usize = 64 * 1024;

/// What the connections of one thread share.
pub(crate) struct Thread {
    pub(crate) redirector: Arc<Redirector>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) connection_table: ConnectionTable,
    pub(crate) stopping: Cell<bool>,
    /// The time as of the last sweep: good enough to tell who has been waiting for long.
    pub(crate) coarse_ms: Cell<i64>,
    pub(crate) stop: watch::Receiver<bool>,
    /// Without one, visits are not written down.
    pub(crate) clicks: Option<Clicks>,
    scratch: RefCell<Scratch>,
}

/// Buffers that are only used between two waits, so that an idle connection owns none.
struct Scratch {
    input: Box<[u8]>,
    output: Vec<u8>,
    date: DateLine,
}

impl Thread {
    pub(crate) fn new(
        redirector: Arc<Redirector>,
        counts: Arc<Counts>,
        stop: watch::Receiver<bool>,
        clicks: Option<Clicks>,
    ) -> Self {
        let input = vec![0; READ].into_boxed_slice();
        let output = Vec::with_capacity(2 * PORTION);
        let scratch = RefCell::new(Scratch { input, output, date: DateLine::new() });
        let coarse_ms = Cell::new(redirector.now_ms());
        Self {
            redirector,
            counts,
            connection_table: ConnectionTable::default(),
            stopping: Cell::new(false),
            coarse_ms,
            stop,
            clicks,
            scratch,
        }
    }
}

/// What a connection has to do next, once its answers are sent.
enum Next {
    Read,
    LookUp { domain: u16, code: Vec<u8> },
    HandOver,
    Close,
}

/// Serves a connection to its end.
pub(crate) async fn serve<D: FallbackService>(
    stream: TcpStream,
    peer: SocketAddr,
    thread: Rc<Thread>,
    idle_tracker: Rc<IdleTracker>,
    door: D,
) {
    let client_addr = ClientAddr::new(peer.ip(), &thread.redirector.settings.proxies);
    let mut connection = Connection {
        stream,
        kept: Vec::new(),
        unsent: Vec::new(),
        found: None,
        missed_micros: 0,
        unread: false,
        client_addr,
        thread,
        idle_tracker,
    };
    while connection.thread.redirector.settings.fast_path {
        let next = poll_fn(|cx| connection.poll_turn(cx)).await;
        if !connection.unsent.is_empty() && connection.send_rest().await.is_err() {
            return;
        }
        match next {
            Next::Read => {}
            Next::Close => return,
            Next::LookUp { domain, code } => {
                connection.idle_tracker.wait(Waiting::Us, 0);
                let resolved = connection.thread.redirector.look_up(domain, &code).await;
                connection.unread = true;
                connection.found = Some(match resolved {
                    Resolved::Route(route) | Resolved::Stale(route) => Found::Route(route),
                    Resolved::Unavailable => Found::Unavailable,
                });
            }
            Next::HandOver => break,
        }
    }
    let Connection { mut stream, kept, thread, idle_tracker, .. } = connection;
    idle_tracker.wait(Waiting::Hyper, thread.redirector.now_ms());
    if has_two_lengths(&kept) {
        let _ = stream
            .write_all(
                b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            )
            .await;
        return;
    }
    thread.counts.handed_over.add(1);
    let (settings, here) = (&thread.redirector.settings, Rc::clone(&thread));
    let door = move |request| {
        let visit_handler = VisitHandler::new(Rc::clone(&here), client_addr);
        let (idle_tracker, here) = (Rc::clone(&idle_tracker), Rc::clone(&here));
        let mark = move || idle_tracker.wait(Waiting::Hyper, here.coarse_ms.get());
        mark();
        // Some answers take longer than any request: what is being taken is not idle.
        door.clone()
            .open(request, peer, visit_handler)
            .map(|response| response.map(|body| hyper_fallback::ProgressBody { body, mark }))
    };
    hyper_fallback::serve(stream, kept, settings, thread.stop.clone(), door).await;
}

struct Connection {
    stream: TcpStream,
    /// Bytes of requests that are not answered yet. Empty, and without an allocation, on the usual
    /// way.
    kept: Vec<u8>,
    /// What the client would not take at once.
    unsent: Vec<u8>,
    /// The end of a look-up for the first request in `kept`.
    found: Option<Found>,
    /// When that look-up began.
    missed_micros: i64,
    /// Whether `kept` may hold a whole request.
    unread: bool,
    client_addr: ClientAddr,
    thread: Rc<Thread>,
    idle_tracker: Rc<IdleTracker>,
}

impl Connection {
    /// Reads, answers and writes until something else has to be done. All buffers are the thread's.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let thread = Rc::clone(&self.thread);
        let mut scratch = thread.scratch.borrow_mut();
        let Scratch { input, output, date } = &mut *scratch;
        loop {
            let mut count = 0;
            // After a look-up, or when a portion was full, there is something to do before reading.
            if !std::mem::take(&mut self.unread) {
                let mut buffer = ReadBuf::new(input);
                match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(_)) => return Poll::Ready(Next::Close),
                    Poll::Ready(Ok(())) => count = buffer.filled().len(),
                }
                if count == 0 {
                    return Poll::Ready(Next::Close);
                }
            }
            let started = thread.redirector.now_micros();
            let now_ms = started / 1000;
            let mut kept = std::mem::take(&mut self.kept);
            let bytes = if kept.is_empty() {
                &input[..count]
            } else {
                kept.extend_from_slice(&input[..count]);
                &kept
            };
            output.clear();
            let date = date.at(now_ms);
            let mut used = 0;
            let mut answers = 0;
            let next = loop {
                if used == bytes.len() {
                    break Next::Read;
                }
                let found = self.found.take();
                let moment = RequestTime { now_ms, date, closing: thread.stopping.get() };
                let mut asked = Asked::default();
                let redirector = &thread.redirector;
                match fast_path::answer(
                    &bytes[used..],
                    redirector,
                    &self.client_addr,
                    moment,
                    found.as_ref(),
                    &mut asked,
                    output,
                ) {
                    Step::Answered(answered) => {
                        used += answered.used;
                        answers += 1;
                        note(&thread, &answered, found.is_none());
                        let arrived = if found.is_some() { self.missed_micros } else { started };
                        write_down(&thread, &answered, &asked, &self.client_addr, arrived);
                        if answered.close {
                            break Next::Close;
                        }
                        if output.len() > PORTION {
                            self.unread = true;
                            break Next::Read;
                        }
                    }
                    Step::Incomplete => break Next::Read,
                    Step::Miss(missed) => {
                        let code = bytes[used..][missed.code].to_vec();
                        self.missed_micros = started;
                        break Next::LookUp { domain: missed.domain, code };
                    }
                    Step::HandOver => break Next::HandOver,
                }
            };
            if kept.is_empty() {
                kept.extend_from_slice(&input[used..count]);
            } else {
                kept.drain(..used);
            }
            self.kept = kept;
            if !output.is_empty() {
                self.send(cx, output);
            }
            if answers > 0 {
                let took = thread.redirector.now_micros() - started;
                thread.counts.took(u64::try_from(took).unwrap_or(0), answers);
            }
            self.sit(answers > 0, now_ms);
            if !matches!(next, Next::Read) || !self.unsent.is_empty() {
                return Poll::Ready(next);
            }
        }
    }

    /// Writes what the socket takes; the rest is kept.
    fn send(&mut self, cx: &mut Context<'_>, output: &[u8]) {
        let sent = match Pin::new(&mut self.stream).poll_write(cx, output) {
            Poll::Ready(Ok(sent)) => sent,
            // The next read or write meets the same error and ends the connection.
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        if sent < output.len() {
            self.unsent.extend_from_slice(&output[sent..]);
        }
    }

    async fn send_rest(&mut self) -> std::io::Result<()> {
        self.idle_tracker.wait(Waiting::Taking, self.thread.redirector.now_ms());
        let unsent = std::mem::take(&mut self.unsent);
        self.stream.write_all(&unsent).await?;
        self.sit(true, self.thread.redirector.now_ms());
        Ok(())
    }

    /// Notes what the client is to send next.
    fn sit(&self, answered: bool, now_ms: i64) {
        if self.kept.is_empty() {
            self.idle_tracker.wait(Waiting::Request, now_ms);
        } else {
            self.idle_tracker.wait_for_rest(answered, now_ms);
        }
    }
}

fn note(thread: &Thread, answered: &Answered, from_memory: bool) {
    let counts = &thread.counts;
    if answered.outcome == FastPathOutcome::Redirected {
        counts.redirected.add(1);
        counts.hits.add(u64::from(from_memory));
    } else {
        note_failure(thread, answered.outcome, from_memory);
    }
    if let Some(route) = &answered.refresh {
        thread.redirector.refresh_soon(route);
    }
}

#[cold]
fn note_failure(thread: &Thread, outcome: FastPathOutcome, from_memory: bool) {
    let counts = &thread.counts;
    match outcome {
        FastPathOutcome::Redirected => {}
        FastPathOutcome::NeverIssued => {
            counts.not_found.add(1);
            counts.never_issued.add(1);
        }
        FastPathOutcome::Failed(Failure::NotFound) => counts.not_found.add(1),
        FastPathOutcome::Failed(Failure::Gone) => counts.gone.add(1),
        FastPathOutcome::Failed(Failure::Blocked) => counts.blocked.add(1),
        FastPathOutcome::Failed(Failure::Unavailable) => counts.unavailable.add(1),
        FastPathOutcome::Failed(
            Failure::TooManyGuesses | Failure::TooManyVisits | Failure::TooManyVisitors,
        ) => {
            counts.limited.add(1);
        }
    }
    let limited = matches!(outcome, FastPathOutcome::Failed(failure) if failure.is_limited());
    if from_memory && !limited && outcome != FastPathOutcome::NeverIssued {
        counts.hits.add(1);
    }
}

/// Puts a visit into the journal. Called before anything of its answer is sent: what was answered
/// is counted.
fn write_down(
    thread: &Thread,
    answered: &Answered,
    asked: &Asked<'_>,
    client_addr: &ClientAddr,
    arrived_micros: i64,
) {
    let Some(clicks) = &thread.clicks else { return };
    let outcome = match answered.outcome {
        FastPathOutcome::Redirected => clicks::ClickOutcome::Redirected,
        FastPathOutcome::NeverIssued => clicks::ClickOutcome::NotFound,
        FastPathOutcome::Failed(failure) => match failure.outcome() {
            Some(outcome) => outcome,
            None => return,
        },
    };
    clicks.write(&Visited {
        outcome,
        owner: answered.owner,
        born_ms: answered.born_ms,
        domain: thread.redirector.hosts.name(asked.domain),
        code: answered
            .canonical_code
            .as_ref()
            .and_then(Route::other_code)
            .map_or(asked.code, Code::as_str)
            .as_bytes(),
        query: asked.query,
        seen: &asked.seen,
        client_addr,
        proxies: &thread.redirector.settings.proxies,
        now_micros: thread.redirector.now_micros(),
        arrived_micros,
    });
}

/// Both `Content-Length` and `Transfer-Encoding`: only smugglers send that.
fn has_two_lengths(bytes: &[u8]) -> bool {
    let mut fields = [httparse::EMPTY_HEADER; 100];
    let mut request = httparse::Request::new(&mut fields);
    let _ = request.parse(bytes);
    let has =
        |name: &str| request.headers.iter().any(|field| field.name.eq_ignore_ascii_case(name));
    has("content-length") && has("transfer-encoding")
}
