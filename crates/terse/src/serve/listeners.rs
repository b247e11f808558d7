//! Sockets, signals and limits of the process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use anyhow::Context as _;
use terse_core::ListenAddress;
use terse_redirect::{Listener, SocketsToKeep};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::unix_socket;
use crate::config::Config;

/// A listening socket whose connections send small responses at once.
fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let open = || -> std::io::Result<TcpListener> {
        let socket = socket2::Socket::new(
            socket2::Domain::for_address(address),
            socket2::Type::STREAM,
            None,
        )?;
        socket.set_reuse_address(true)?;
        // Accepted connections inherit it: one call instead of one each.
        socket.set_tcp_nodelay(true)?;
        socket.bind(&address.into())?;
        socket.listen(4096)?;
        Ok(socket.into())
    };
    open().with_context(|| format!("listening on {address}"))
}

/// Listening sockets that another process opened and passed on (`LISTEN_FDS`, as systemd does).
/// They stay open while this process restarts, and the kernel keeps new connections until then.
struct Inherited(Vec<(ListenAddress, Listener)>);

impl Inherited {
    /// The sockets for this process.
    fn from_environment() -> anyhow::Result<Self> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        let count = match number("LISTEN_PID") {
            Some(pid) if pid == std::process::id() => number("LISTEN_FDS").unwrap_or(0),
            _ => 0,
        };
        let take = |at: u32| {
            let listener = inherit(at).context("LISTEN_FDS has a socket that cannot be used")?;
            let address =
                listener.local_addr().context("LISTEN_FDS has a socket without an address")?;
            Ok((address, listener))
        };
        (0..count).map(take).collect::<anyhow::Result<_>>().map(Self)
    }

    /// Whether there is one for an address.
    fn has(&self, address: &ListenAddress) -> bool {
        self.0.iter().any(|(have, _)| have == address)
    }

    /// The socket for an address, or a new one.
    fn take_or_listen(&mut self, address: &ListenAddress) -> anyhow::Result<Listener> {
        match (self.0.iter().position(|(have, _)| have == address), address) {
            (Some(at), _) => Ok(self.0.swap_remove(at).1),
            (None, ListenAddress::Tcp(address)) => listen(*address).map(Listener::Tcp),
            (None, ListenAddress::Unix(path)) => unix_socket::listen(path),
        }
    }

    /// The same for an address and a port.
    fn take_or_listen_tcp(&mut self, address: SocketAddr) -> anyhow::Result<TcpListener> {
        match self.take_or_listen(&address.into())? {
            Listener::Tcp(listener) => Ok(listener),
            Listener::Unix(_) => anyhow::bail!("a Unix socket has no port"),
        }
    }

    /// Fails if a socket belongs to no setting: its visitors would wait forever.
    fn check_taken(&self) -> anyhow::Result<()> {
        match self.0.first() {
            None => Ok(()),
            Some((address, _)) => Err(anyhow::anyhow!(
                "LISTEN_FDS has a socket for {address}, which is neither listen, tls.listen nor \
                 admin.listen"
            )),
        }
    }
}

/// The listening sockets of the settings.
pub(super) struct BoundListeners {
    pub(super) plain: Listener,
    pub(super) tls: Option<TcpListener>,
    /// For health and metrics, if they have a listener of their own.
    pub(super) admin: Option<TcpListener>,
    pub(super) address: ListenAddress,
    pub(super) tls_address: Option<SocketAddr>,
    /// Which sockets another process keeps open when this one ends.
    pub(super) outlive: SocketsToKeep,
}

impl BoundListeners {
    /// Takes the inherited sockets, and opens the others.
    pub(super) fn open(config: &Config) -> anyhow::Result<Self> {
        let mut inherited = Inherited::from_environment()?;
        let outlive = SocketsToKeep {
            plain: inherited.has(&config.listen),
            tls: config.tls.listen.is_some_and(|at| inherited.has(&at.into())),
        };
        let plain = inherited.take_or_listen(&config.listen)?;
        let mut listen = |at: Option<SocketAddr>, what: &'static str| {
            at.map(|at| inherited.take_or_listen_tcp(at).context(what)).transpose()
        };
        let admin = listen(config.admin.listen, "admin")?;
        let tls = listen(config.tls.listen, "tls")?;
        inherited.check_taken()?;
        let address = plain.local_addr().context("reading the listener's address")?;
        let tls_address = tls.as_ref().map(TcpListener::local_addr).transpose();
        let tls_address = tls_address.context("reading the address of the listener for TLS")?;
        Ok(Self { plain, tls, admin, address, tls_address, outlive })
    }
}

/// The inherited socket with this number, from 0.
#[allow(unsafe_code)]
fn inherit(at: u32) -> std::io::Result<Listener> {
    use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
    const FIRST: RawFd = 3;
    let fd = RawFd::try_from(at).map_err(std::io::Error::other)? + FIRST;
    // SAFETY: LISTEN_PID says that the file descriptors from 3 on were opened for this process, and
    // each is taken once, at the start.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    let socket = socket2::Socket::from(fd);
    if !socket.is_listener()? {
        return Err(std::io::Error::other("it is not a listening socket"));
    }
    if socket.domain()? == socket2::Domain::UNIX {
        return Ok(Listener::Unix(socket.into()));
    }
    // Accepted connections inherit it.
    socket.set_tcp_nodelay(true)?;
    Ok(Listener::Tcp(socket.into()))
}

/// Health and metrics on a listener of their own: its address, and the task that serves it until
/// `stop`.
pub(super) fn serve_admin(
    runtime: &Runtime,
    listener: TcpListener,
    router: axum::Router,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<(SocketAddr, JoinHandle<()>)> {
    let address = listener.local_addr().context("reading the admin listener's address")?;
    listener.set_nonblocking(true).context("admin")?;
    let _inside = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener).context("admin")?;
    let serving = runtime.spawn(async move {
        let stopped = async move {
            let _ = stop.wait_for(|stop| *stop).await;
        };
        if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stopped).await {
            tracing::error!(%error, "the admin listener ended");
        }
    });
    Ok((address, serving))
}

/// The address that local commands connect to.
pub(super) fn local_url(address: &ListenAddress) -> String {
    let Some(address) = address.tcp() else { return address.to_string() };
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V6(ip) if ip.is_unspecified() => "[::1]".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    format!("http://{host}:{}", address.port())
}

/// The addresses at which clients reach the listener. For the unspecified address: the loopback
/// address, and the address towards other machines.
pub(super) fn reachable(listener: SocketAddr) -> Vec<SocketAddr> {
    if !listener.ip().is_unspecified() {
        return vec![listener];
    }
    let port = listener.port();
    let here: IpAddr = match listener.ip() {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let mut all = vec![SocketAddr::new(here, port)];
    all.extend(outward_address(listener.ip()).map(|ip| SocketAddr::new(ip, port)));
    all
}

/// The address of this machine towards other machines. Connecting a datagram socket chooses a route
/// and sends nothing.
pub(super) fn outward_address(family: IpAddr) -> Option<IpAddr> {
    // Addresses for documentation, outside of any local network.
    let (any, elsewhere): (IpAddr, IpAddr) = match family {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        IpAddr::V6(_) => {
            (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into())
        }
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((elsewhere, 9)).ok()?;
    socket.local_addr().ok().map(|own| own.ip()).filter(|ip| !ip.is_unspecified())
}

/// Waits for SIGTERM or SIGINT. A second signal ends the process at once.
pub(super) async fn stop_signal() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(())
}

/// Raises the limit of open files as far as the system allows: every connection is one.
pub(super) fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

/// The runtime of everything that is not the redirect plane.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("back-office")
        .enable_all()
        .build()
        .context("starting the runtime")
}
