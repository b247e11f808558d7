//! The socket: goes to the checked addresses and nowhere else, and obeys one deadline whatever the
//! other side does.

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

/// Opens one connection to one of the addresses it was made with. The client's own lookup has no
/// say.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) policy: Policy,
    pub(crate) deadline: Instant,
}

impl Connector<()> for Wire {
    type Out = Line;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Line>, Error> {
        let mut last = Error::ConnectionFailed;
        for (at, address) in self.addresses.iter().enumerate() {
            // Checked already. Once more beside the call that connects, so that no later change can
            // come between.
            if !self.policy.allows(*address) {
                return Err(Error::ConnectionFailed);
            }
            let left = time_left(self.deadline)?;
            // An address that does not answer leaves time for the next.
            let share = if at + 1 == self.addresses.len() { left } else { left / 2 };
            match TcpStream::connect_timeout(address, share.max(Duration::from_millis(1))) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let buffers = LazyBuffers::new(
                        details.config.input_buffer_size(),
                        details.config.output_buffer_size(),
                    );
                    return Ok(Some(Line { stream, buffers, deadline: self.deadline }));
                }
                Err(error) => last = Error::Io(error),
            }
        }
        Err(last)
    }
}

/// One connection.
pub(crate) struct Line {
    stream: TcpStream,
    buffers: LazyBuffers,
    deadline: Instant,
}

impl Transport for Line {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
        let mut rest = &self.buffers.output()[..amount];
        // Not `write_all`: a reader that takes a byte at a time would renew its time with each.
        while !rest.is_empty() {
            self.stream.set_write_timeout(Some(time_left(self.deadline)?))?;
            match self.stream.write(rest) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(written) => rest = &rest[written..],
                Err(error) => passing(error)?,
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
                Err(error) => passing(error)?,
            }
        }
    }

    /// Never kept for another call: that one must be checked for itself.
    fn is_open(&mut self) -> bool {
        false
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

/// What is left of the time, never zero: to a socket zero would mean for ever.
fn time_left(deadline: Instant) -> Result<Duration, Error> {
    match deadline.saturating_duration_since(Instant::now()) {
        left if left < Duration::from_millis(1) => Err(Error::Timeout(Timeout::Global)),
        left => Ok(left),
    }
}

/// Errors that mean "not yet" lead back to the loop, which looks at the clock.
fn passing(error: io::Error) -> Result<(), Error> {
    match error.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(()),
        _ => Err(error.into()),
    }
}

/// The client insists on resolving; it gets what was resolved.
#[derive(Debug)]
pub(crate) struct Pinned(pub(crate) Vec<SocketAddr>);

impl Resolver for Pinned {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        self.0.iter().for_each(|address| addresses.push(*address));
        Ok(addresses)
    }
}

/// TLS on top, its set-up shared by all calls.
#[derive(Clone, Debug)]
pub(crate) struct Tls(pub(crate) Arc<RustlsConnector>);

impl<In: Transport> Connector<In> for Tls {
    type Out = <RustlsConnector as Connector<In>>::Out;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        below: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        self.0.connect(details, below)
    }
}
