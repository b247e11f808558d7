//! Listening sockets and their connections, of TCP or Unix.

use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::pin::Pin;
use std::task::{Context, Poll};

use terse_core::ListenAddress;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// At an address and a port.
    Tcp(TcpListener),
    /// At a path of the file system.
    Unix(UnixListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

impl Listener {
    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(ListenAddress::Tcp),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname();
                path.map(|path| ListenAddress::Unix(path.to_owned()))
                    .ok_or_else(|| io::Error::other("the Unix socket has no path"))
            }
        }
    }

    /// Removes the path of a Unix socket, so that clients get an error at once.
    #[allow(clippy::disallowed_methods, reason = "the threads stop")]
    pub(crate) fn remove_path(&self) {
        if let Ok(ListenAddress::Unix(path)) = self.local_addr() {
            let _ = std::fs::remove_file(path);
        }
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.set_nonblocking(true),
            Self::Unix(listener) => listener.set_nonblocking(true),
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(listener) => Self::Tcp(listener.try_clone()?),
            Self::Unix(listener) => Self::Unix(listener.try_clone()?),
        })
    }

    /// The socket for the runtime of the calling thread.
    pub(crate) fn into_async(self) -> io::Result<AsyncListener> {
        Ok(match self {
            Self::Tcp(listener) => AsyncListener::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Self::Unix(listener) => {
                AsyncListener::Unix(tokio::net::UnixListener::from_std(listener)?)
            }
        })
    }
}

/// A listening socket of a thread's runtime.
pub(crate) enum AsyncListener {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl AsyncListener {
    /// The next connection and its client. A client at a Unix socket is on this machine.
    pub(crate) async fn accept(&self) -> io::Result<(Socket, SocketAddr)> {
        match self {
            Self::Tcp(listener) => {
                listener.accept().await.map(|(socket, peer)| (Socket::Tcp(socket), peer))
            }
            Self::Unix(listener) => {
                let (socket, _) = listener.accept().await?;
                Ok((Socket::Unix(socket), ListenAddress::UNIX_PEER))
            }
        }
    }
}

/// An accepted connection.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Detaches the connection from the runtime of its thread.
    pub(crate) fn into_std(self) -> io::Result<DetachedSocket> {
        Ok(match self {
            Self::Tcp(socket) => DetachedSocket::Tcp(socket.into_std()?),
            Self::Unix(socket) => DetachedSocket::Unix(socket.into_std()?),
        })
    }

    /// Reads bytes that the next read returns once more.
    pub(crate) async fn peek(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.peek(buffer).await,
            Self::Unix(socket) => {
                let peek = || peek(socket, buffer);
                socket.async_io(tokio::io::Interest::READABLE, peek).await
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Unix(socket) => Pin::new(socket).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_write(cx, buf),
            Self::Unix(socket) => Pin::new(socket).poll_write(cx, buf),
        }
    }

    /// Neither kind holds bytes back.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Unix(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Self::Unix(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
        }
    }
}

/// Tokio has `peek` for TCP only.
#[allow(unsafe_code)]
fn peek(socket: &UnixStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut bytes = [MaybeUninit::new(0_u8); 2048];
    let most = bytes.len().min(buffer.len());
    let count = socket2::SockRef::from(socket).peek(&mut bytes[..most])?;
    for (to, from) in buffer.iter_mut().zip(&bytes[..count]) {
        // SAFETY: all bytes have a value since the array was made.
        *to = unsafe { from.assume_init() };
    }
    Ok(count)
}

/// A connection on its way to the runtime of another thread.
pub(crate) enum DetachedSocket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl DetachedSocket {
    /// Attaches the connection to the runtime of the calling thread.
    pub(crate) fn attach(self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(socket) => Socket::Tcp(TcpStream::from_std(socket)?),
            Self::Unix(socket) => Socket::Unix(UnixStream::from_std(socket)?),
        })
    }
}
