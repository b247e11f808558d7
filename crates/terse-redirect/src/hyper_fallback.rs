//! Serves the requests that the fast path leaves to hyper, beginning with the bytes already read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::rt::ReadBufCursor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead as _, AsyncReadExt as _};
use tokio::time::timeout;

use crate::connection::ServingThread;
use crate::counts::Counter as _;
use crate::permit::Permit;
use crate::request_framing::RequestFraming;
use crate::serving_threads::Phase;
use crate::stream::Stream;

/// The HTTP/2 connection preface, and the length of the prefix that no HTTP/1 request has.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PREFACE_PREFIX: usize = 14;
/// Concurrent requests of an HTTP/2 connection.
const MAX_STREAMS: u32 = 100;
/// What a client may send of its bodies before terse reads them, for a stream and for a connection:
/// the smallest that HTTP/2 allows for a connection.
const WINDOW: u32 = 65_535;
/// What hyper keeps of an answer that the client does not read.
const SEND_BUFFER: usize = 16 * 1024;
/// The most that is read from a socket at once.
const READ_BUFFER: usize = 8 * 1024;
/// hyper answers 431 beyond this.
const MAX_HEADERS: usize = 32 * 1024;

/// Reads until the bytes show whether this is HTTP/2 or HTTP/1, or until they end.
pub(crate) async fn read_first(stream: &mut Stream, read: &mut Vec<u8>) -> io::Result<()> {
    while read.len() < PREFACE_PREFIX && PREFACE.starts_with(read) {
        read.reserve(READ_BUFFER);
        if stream.read_buf(read).await? == 0 {
            break;
        }
    }
    Ok(())
}

/// Serves a connection to its end, beginning with `read`.
pub(crate) async fn serve<F, B>(
    mut stream: Stream,
    mut read: Vec<u8>,
    thread: &ServingThread,
    handle: impl Fn(Request<Incoming>) -> F + 'static,
) where
    F: Future<Output = Response<B>> + 'static,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (settings, mut phase) = (&thread.redirector.settings, thread.phase.clone());
    let http2 = read.starts_with(&PREFACE[..PREFACE_PREFIX]);
    // hyper has no timeout for the rest of the preface.
    let _place;
    if http2 {
        tokio::select! {
            // A preface that has arrived is read first: a request may follow it.
            biased;
            done = timeout(settings.header_timeout, read_preface(&mut stream, &mut read)) => {
                if !matches!(done, Ok(Ok(()))) {
                    return;
                }
            }
            _ = phase.wait_for(|phase| *phase == Phase::Stopping) => return,
        }
        match Permit::take(&thread.http2_connections, settings.max_http2_connections) {
            Some(place) => _place = place,
            None => return thread.counts.refused.add(1),
        }
    }
    let framing = (!http2).then(RequestFraming::new);
    let read = Bytes::from(read);
    let io = ReplayedStream { read, stream: TokioIo::new(stream), framing, refused: false };
    // `map` instead of an async block: an async block would hold the future of each HTTP/2 stream
    // twice.
    let service = service_fn(move |request| handle(request).map(Ok::<_, std::convert::Infallible>));
    // Errors of a connection need no handling: hyper has answered the client, or the client is
    // gone.
    if http2 {
        let mut builder = http2::Builder::new(LocalExecutor);
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEADERS as u32)
            .max_pending_accept_reset_streams(64)
            .initial_connection_window_size(WINDOW)
            .initial_stream_window_size(WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            // Pings find clients that are gone. The sweep closes connections that answer pings and
            // send no requests.
            .keep_alive_interval(settings.idle_timeout)
            .keep_alive_timeout(settings.header_timeout);
        let connection = builder.serve_connection(io, service);
        tokio::pin!(connection);
        tokio::select! {
            // The connection comes first: hyper drops one that it shuts down before the handshake.
            biased;
            _ = connection.as_mut() => return,
            // GOAWAY: the client sends new requests elsewhere, and those under way are answered.
            _ = phase.wait_for(|phase| *phase != Phase::Running) => {
                connection.as_mut().graceful_shutdown();
            }
        }
        let _ = connection.await;
    } else {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(settings.header_timeout)
            .max_buf_size(MAX_HEADERS)
            // A client that has closed its sending side may still read, as on the fast path.
            .half_close(true);
        let connection = builder.serve_connection(io, service);
        tokio::pin!(connection);
        tokio::select! {
            // The connection comes first: it reads a request that has arrived.
            biased;
            _ = connection.as_mut() => return,
            // While draining, answers have `connection: close`: closing an idle connection could
            // cut off a request that is on its way.
            _ = phase.wait_for(|phase| *phase == Phase::Stopping) => {
                connection.as_mut().graceful_shutdown();
            }
        }
        let _ = connection.await;
    }
}

async fn read_preface(stream: &mut Stream, read: &mut Vec<u8>) -> std::io::Result<()> {
    while read.len() < PREFACE.len() {
        if stream.read_buf(read).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// A body that calls `mark` for each frame that hyper takes. hyper takes none while the client does
/// not read.
pub(crate) struct ProgressBody<B, M> {
    pub(crate) body: B,
    pub(crate) mark: M,
}

impl<B: Body + Unpin, M: Fn() + Unpin> Body for ProgressBody<B, M> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(Some(_))) {
            (self.mark)();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Runs the streams of an HTTP/2 connection on its thread.
#[derive(Clone)]
struct LocalExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor
where
    F::Output: 'static,
{
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

/// A stream that returns the bytes already read before it reads on. Instead of a request whose
/// length is unclear it returns bytes that hyper answers with 400, and then its end.
struct ReplayedStream {
    read: Bytes,
    stream: TokioIo<Stream>,
    /// `None` for HTTP/2, which has only one way to state a length.
    framing: Option<RequestFraming>,
    refused: bool,
}

/// Bytes that no head may contain, at any place. The lines end the head.
const NO_REQUEST: &[u8] = b"\0\r\n\r\n";

impl ReplayedStream {
    /// Passes bytes on as far as hyper may get them.
    fn pass(&mut self, bytes: &[u8], buf: &mut ReadBufCursor<'_>) {
        let allowed = match self.framing.as_mut().map(|framing| framing.follow(bytes)) {
            Some(Err(allowed)) => allowed,
            _ => return buf.put_slice(bytes),
        };
        buf.put_slice(&bytes[..allowed]);
        self.refused = true;
        self.framing = None;
        self.read = Bytes::from_static(NO_REQUEST);
        // Sends at least one byte: zero bytes would mean the end of the connection. The bytes that
        // are held back leave room for it.
        let count = self.read.len().min(buf.remaining());
        buf.put_slice(&self.read.split_to(count));
    }

    /// Reads from the socket through a buffer, so that the bytes can be followed.
    fn read_on(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; READ_BUFFER];
        let room = buf.remaining().min(READ_BUFFER);
        let mut read = tokio::io::ReadBuf::new(&mut bytes[..room]);
        ready!(Pin::new(self.stream.inner_mut()).poll_read(cx, &mut read))?;
        self.pass(read.filled(), buf);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Read for ReplayedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return match (self.refused, self.framing.is_some()) {
                (true, _) => Poll::Ready(Ok(())),
                (false, true) => self.read_on(cx, &mut buf),
                (false, false) => Pin::new(&mut self.stream).poll_read(cx, buf),
            };
        }
        let count = self.read.len().min(buf.remaining());
        let bytes = self.read.split_to(count);
        match self.refused {
            true => buf.put_slice(&bytes),
            false => self.pass(&bytes, &mut buf),
        }
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for ReplayedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}
