//! Everything the fast path leaves alone: hyper, with the bytes already read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use futures_util::FutureExt as _;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::rt::ReadBufCursor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::settings::Settings;

/// What an HTTP/2 client says first, and how much of it tells that it is one.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const TELLING: usize = 14;
/// hyper answers 431 beyond this.
const MAX_HEADERS: usize = 32 * 1024;

/// Serves a connection to its end, beginning with `read`.
pub(crate) async fn serve<F, B>(
    mut stream: TcpStream,
    mut read: Vec<u8>,
    settings: &Settings,
    mut stopping: watch::Receiver<bool>,
    door: impl Fn(Request<Incoming>) -> F + 'static,
) where
    F: Future<Output = Response<B>> + 'static,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let two = read.starts_with(&PREFACE[..TELLING]);
    // hyper would wait for the rest without an end.
    if two {
        tokio::select! {
            read = timeout(settings.header_timeout, read_preface(&mut stream, &mut read)) => match read {
                Ok(Ok(())) => {}
                _ => return,
            },
            _ = stopping.wait_for(|stop| *stop) => return,
        }
    }
    let io = Rewound { read: read.into(), stream: TokioIo::new(stream) };
    // `map` rather than an async block: the future of each HTTP/2 stream is moved about, and a
    // block would hold it twice.
    let service = service_fn(move |request| door(request).map(Ok::<_, std::convert::Infallible>));
    // A connection that ends in an error has told its client already, or the client is gone.
    if two {
        let mut builder = http2::Builder::new(LocalExecutor);
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(256)
            .max_header_list_size(MAX_HEADERS as u32)
            .max_pending_accept_reset_streams(64)
            // Whoever is gone is noticed soon; whoever answers and asks for nothing is left to the
            // sweep.
            .keep_alive_interval(settings.idle_timeout)
            .keep_alive_timeout(settings.header_timeout);
        let connection = builder.serve_connection(io, service);
        tokio::pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stopping.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    } else {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(settings.header_timeout)
            .max_buf_size(MAX_HEADERS)
            // Whoever has said all may still be listening, as they are on the fast path.
            .half_close(true);
        let connection = builder.serve_connection(io, service);
        tokio::pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stopping.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}

async fn read_preface(stream: &mut TcpStream, read: &mut Vec<u8>) -> std::io::Result<()> {
    while read.len() < PREFACE.len() {
        if stream.read_buf(read).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// An answer that says so whenever a part of it is taken. For a client that takes nothing, no part
/// is asked for.
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

/// Streams of an HTTP/2 connection stay on its thread.
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

/// A stream that first gives out again what was read from it.
struct Rewound {
    read: Bytes,
    stream: TokioIo<TcpStream>,
}

impl hyper::rt::Read for Rewound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let count = self.read.len().min(buf.remaining());
        buf.put_slice(&self.read[..count]);
        self.read.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Rewound {
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
