//! Misbehaving test servers and a scripted resolver.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use terse_core::{OutgoingError, OversizePolicy, RequestLimits};
use terse_outgoing::{HostResolver, OutgoingClient, OutgoingSettings};

/// A short timeout, for tests that wait for the deadline.
pub(crate) const SHORT_DEADLINE: RequestLimits = RequestLimits {
    timeout: Duration::from_millis(300),
    max_body: 64 << 10,
    oversize: OversizePolicy::Truncate,
};
/// A long timeout, for tests that must not reach the deadline on a busy machine.
pub(crate) const LONG_DEADLINE: RequestLimits = RequestLimits {
    timeout: Duration::from_secs(10),
    max_body: 64 << 10,
    oversize: OversizePolicy::Truncate,
};

/// Counts the connections it accepts and lets a function answer each.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    accepted: Arc<Mutex<Vec<SocketAddr>>>,
    stopping: Arc<AtomicBool>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        Self::bind("127.0.0.1:0", answer).unwrap()
    }

    /// Sends a fixed response after it has read the request header.
    pub(crate) fn responding(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |mut stream| {
            read_head(&stream);
            let _ = stream.write_all(&answer);
        })
    }

    pub(crate) fn bind(
        address: &str,
        answer: impl Fn(TcpStream) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (accepted, stopping) =
            (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (seen, stop, answer) = (Arc::clone(&accepted), Arc::clone(&stopping), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(stream) = stream {
                    let Ok(peer) = stream.peer_addr() else { continue };
                    seen.lock().unwrap().push(peer);
                    let answer = Arc::clone(&answer);
                    std::thread::spawn(move || answer(stream));
                }
            }
        });
        Ok(Self { address, accepted, stopping })
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/", self.port())
    }

    /// The number of connections so far. Connections are accepted in order, so once our own probe
    /// is seen, no earlier one is outstanding.
    pub(crate) fn connections(&self) -> usize {
        let knock = TcpStream::connect(self.address).unwrap();
        let ours = knock.local_addr().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let mut seen = self.accepted.lock().unwrap();
            if let Some(at) = seen.iter().position(|peer| *peer == ours) {
                seen.remove(at);
                return seen.len();
            }
            drop(seen);
            assert!(Instant::now() < until, "the server has stopped accepting");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// The lines of the request header.
pub(crate) fn read_head(stream: &TcpStream) -> Vec<String> {
    let mut lines = Vec::new();
    // One byte at a time, so that no byte of the body is consumed.
    let mut reader = BufReader::with_capacity(1, stream);
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(1..) if line.trim_end() != "" => lines.push(line.trim_end().to_owned()),
            _ => return lines,
        }
    }
}

/// A request's body of known length.
pub(crate) fn read_body(mut stream: &TcpStream, length: usize) -> Vec<u8> {
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    body
}

pub(crate) fn page(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) fn redirect(location: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")
}

/// Resolves names from a list, one result per call; the last one repeats. Other names resolve to
/// 127.0.0.1.
#[derive(Default)]
pub(crate) struct FakeResolver {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}

impl FakeResolver {
    pub(crate) fn new(answers: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parse = |list: &&[&str]| list.iter().map(|address| address.parse().unwrap()).collect();
        let answers = answers
            .iter()
            .map(|(name, lists)| (name.to_string(), lists.iter().rev().map(parse).collect()));
        Arc::new(Self { answers: Mutex::new(answers.collect()), asked: AtomicUsize::new(0) })
    }

    pub(crate) fn calls(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl HostResolver for FakeResolver {
    fn resolve(&self, host: &str, _: u16, _: Instant) -> io::Result<Vec<SocketAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let found = match answers.get_mut(host) {
            Some(lists) if lists.len() > 1 => lists.pop().unwrap(),
            Some(lists) => lists[0].clone(),
            None => vec![[127, 0, 0, 1].into()],
        };
        // A wrong port: the client must ignore it.
        Ok(found.into_iter().map(|address| SocketAddr::new(address, 1)).collect())
    }
}

/// A client for which these servers count as public and every name resolves to 127.0.0.1.
pub(crate) fn client(allowed: &[&Server]) -> OutgoingClient {
    client_with(allowed, FakeResolver::new(&[]))
}

pub(crate) fn client_with(allowed: &[&Server], resolver: Arc<FakeResolver>) -> OutgoingClient {
    OutgoingClient::new(settings(allowed, resolver))
}

pub(crate) fn settings(allowed: &[&Server], resolver: Arc<FakeResolver>) -> OutgoingSettings {
    OutgoingSettings {
        resolver: Some(resolver),
        post_timeout: LONG_DEADLINE.timeout,
        allow: allowed.iter().map(|server| server.address).collect(),
        ..OutgoingSettings::new("9.9.9", "https://go.example")
    }
}

/// The kind of error, for comparisons.
pub(crate) fn kind<T>(result: Result<T, OutgoingError>) -> &'static str {
    result.err().map_or("ok", |error| error.kind())
}
