//! Sockets, signals and limits of the process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use anyhow::Context as _;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A listening socket whose connections send small responses at once.
pub(super) fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
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

/// Health and metrics on a listener of their own.
pub(super) fn serve_admin(
    runtime: &Runtime,
    listener: TcpListener,
    router: axum::Router,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<SocketAddr> {
    let address = listener.local_addr().context("reading the admin listener's address")?;
    listener.set_nonblocking(true).context("admin")?;
    let _inside = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener).context("admin")?;
    runtime.spawn(async move {
        let stopped = async move {
            let _ = stop.wait_for(|stop| *stop).await;
        };
        if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stopped).await {
            tracing::error!(%error, "the admin listener ended");
        }
    });
    Ok(address)
}

/// The address that local commands connect to.
pub(super) fn local_url(address: SocketAddr) -> String {
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V6(ip) if ip.is_unspecified() => "[::1]".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    format!("http://{host}:{}", address.port())
}

/// The addresses at which people reach the listener. The unspecified address stands for all of this
/// machine: its own, and the one that leads to other machines.
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
