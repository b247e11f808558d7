//! HTTP through the Unix socket of a server on this machine.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use ureq::config::Config;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// The base of URLs that go through a Unix socket: its host is the one of commands on this machine,
/// and needs no lookup.
pub(crate) const BASE: &str = "http://127.0.0.1";

/// An agent whose requests all go to this socket.
pub(crate) fn agent(config: Config, socket: &Path) -> ureq::Agent {
    ureq::Agent::with_parts(config, UnixConnector(socket.to_owned()), DefaultResolver::default())
}

#[derive(Debug)]
struct UnixConnector(PathBuf);

impl Connector for UnixConnector {
    type Out = UnixTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _chained: Option<()>,
    ) -> Result<Option<UnixTransport>, ureq::Error> {
        let stream = UnixStream::connect(&self.0)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(UnixTransport { stream, buffers }))
    }
}

struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

/// A socket says `WouldBlock` when its timeout has passed.
fn timed_out(error: io::Error, timeout: &NextTimeout) -> ureq::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ureq::Error::Timeout(timeout.reason),
        _ => ureq::Error::Io(error),
    }
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.set_write_timeout(timeout.not_zero().map(|limit| *limit))?;
        let output = &self.buffers.output()[..amount];
        self.stream.write_all(output).map_err(|error| timed_out(error, &timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.set_read_timeout(timeout.not_zero().map(|limit| *limit))?;
        let input = self.buffers.input_append_buf();
        let amount = self.stream.read(input).map_err(|error| timed_out(error, &timeout))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// A server that restarts closes its connections: each request makes a new one.
    fn is_open(&mut self) -> bool {
        false
    }
}

impl fmt::Debug for UnixTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixTransport").finish_non_exhaustive()
    }
}
