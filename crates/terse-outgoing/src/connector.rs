//! The TCP connector and transport: connect only to the checked addresses and enforce one deadline.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, RustlsConnector, Transport,
};
use ureq::{Error, Timeout};

use crate::policy::Policy;

/// Opens one connection to one of its checked addresses. Ignores ureq's own resolution.
#[derive(Debug)]
pub(crate) struct GuardedConnector {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) policy: Policy,
    pub(crate) deadline: Instant,
}

impl Connector<()> for GuardedConnector {
    type Out = GuardedTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<GuardedTransport>, Error> {
        let mut last = Error::ConnectionFailed;
        for (at, address) in self.addresses.iter().enumerate() {
            // Already checked. The check is repeated next to the connect call, so that no later
            // change to the code can bypass it.
            if !self.policy.allows(*address) {
                return Err(Error::ConnectionFailed);
            }
            let left = time_left(self.deadline)?;
            // Half of the remaining time per address leaves time for the next one.
            let timeout = if at + 1 == self.addresses.len() { left } else { left / 2 };
            match TcpStream::connect_timeout(address, timeout.max(Duration::from_millis(1))) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let buffers = LazyBuffers::new(
                        details.config.input_buffer_size(),
                        details.config.output_buffer_size(),
                    );
                    return Ok(Some(GuardedTransport { stream, buffers, deadline: self.deadline }));
                }
                Err(error) => last = Error::Io(error),
            }
        }
        Err(last)
    }
}

/// One connection.
pub(crate) struct GuardedTransport {
    stream: TcpStream,
    buffers: LazyBuffers,
    deadline: Instant,
}

impl Transport for GuardedTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
        let mut rest = &self.buffers.output()[..amount];
        // Not `write_all`: its timeout would restart with every byte that a slow reader takes.
        while !rest.is_empty() {
            self.stream.set_write_timeout(Some(time_left(self.deadline)?))?;
            match self.stream.write(rest) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(written) => rest = &rest[written..],
                Err(error) => retry_if_transient(error)?,
            }
        }
        Ok(())
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
        loop {
            self.stream.set_read_timeout(Some(time_left(self.deadline)?))?;
            match self.stream.read(self.buffers.input_append_buf()) {
                Ok(read) => {
                    self.buffers.input_appended(read);
                    return Ok(read > 0);
                }
                Err(error) => retry_if_transient(error)?,
            }
        }
    }

    /// Connections are never reused, because every call is checked on its own.
    fn is_open(&mut self) -> bool {
        false
    }
}

impl fmt::Debug for GuardedTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardedTransport")
    }
}

/// The remaining time, never zero: a zero socket timeout would mean no timeout.
fn time_left(deadline: Instant) -> Result<Duration, Error> {
    match deadline.saturating_duration_since(Instant::now()) {
        left if left < Duration::from_millis(1) => Err(Error::Timeout(Timeout::Global)),
        left => Ok(left),
    }
}

/// Ignores transient errors; the calling loop then checks the deadline.
fn retry_if_transient(error: io::Error) -> Result<(), Error> {
    match error.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(()),
        _ => Err(error.into()),
    }
}

/// Returns the addresses that were already resolved and checked.
#[derive(Debug)]
pub(crate) struct PinnedResolver(pub(crate) Vec<SocketAddr>);

impl Resolver for PinnedResolver {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        self.0.iter().for_each(|address| addresses.push(*address));
        Ok(addresses)
    }
}

/// TLS on top of the transport, with a configuration shared by all calls.
#[derive(Clone, Debug)]
pub(crate) struct TlsConnector(pub(crate) Arc<RustlsConnector>);

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = <RustlsConnector as Connector<In>>::Out;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        inner: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        self.0.connect(details, inner)
    }
}
