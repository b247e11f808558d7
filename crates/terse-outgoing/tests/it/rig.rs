//! Servers that misbehave, and a resolver that lies.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use terse_outgoing::{Limits, Outgoing, OutgoingError, OutgoingSettings, Over, Resolve};

/// A page with little patience, for tests that wait for the deadline.
pub(crate) const HASTY: Limits =
    Limits { time: Duration::from_millis(300), body: 64 << 10, over: Over::Cut };
/// A page with much patience, for tests that must not meet the deadline on a busy machine.
pub(crate) const PATIENT: Limits =
    Limits { time: Duration::from_secs(10), body: 64 << 10, over: Over::Cut };

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

    /// Always the same answer, once the request's head was read.
    pub(crate) fn saying(answer: impl Into<Vec<u8>>) -> Self {
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

    /// Connections so far. They are accepted in order, so once one of our own is seen none from
    /// before is outstanding.
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

/// The request's head, line by line.
pub(crate) fn read_head(stream: &TcpStream) -> Vec<String> {
    let mut lines = Vec::new();
    // One byte at a time, so that nothing of a body is taken along.
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

/// Answers from a list, the next one each time; the last one stays. Other names are all 127.0.0.1.
#[derive(Default)]
pub(crate) struct Liar {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}

impl Liar {
    pub(crate) fn new(answers: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parse = |list: &&[&str]| list.iter().map(|address| address.parse().unwrap()).collect();
        let answers = answers
            .iter()
            .map(|(name, lists)| (name.to_string(), lists.iter().rev().map(parse).collect()));
        Arc::new(Self { answers: Mutex::new(answers.collect()), asked: AtomicUsize::new(0) })
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Resolve for Liar {
    fn resolve(&self, host: &str, _: u16, _: Instant) -> io::Result<Vec<SocketAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let found = match answers.get_mut(host) {
            Some(lists) if lists.len() > 1 => lists.pop().unwrap(),
            Some(lists) => lists[0].clone(),
            None => vec![[127, 0, 0, 1].into()],
        };
        // A port of its own choosing: it must not matter.
        Ok(found.into_iter().map(|address| SocketAddr::new(address, 1)).collect())
    }
}

/// A client for which these servers are public, every name is 127.0.0.1, and everything else is as
/// in earnest.
pub(crate) fn client(allowed: &[&Server]) -> Outgoing {
    client_with(allowed, Liar::new(&[]))
}

pub(crate) fn client_with(allowed: &[&Server], resolver: Arc<Liar>) -> Outgoing {
    Outgoing::new(settings(allowed, resolver))
}

pub(crate) fn settings(allowed: &[&Server], resolver: Arc<Liar>) -> OutgoingSettings {
    OutgoingSettings {
        resolver: Some(resolver),
        post_time: PATIENT.time,
        allow: allowed.iter().map(|server| server.address).collect(),
        ..OutgoingSettings::new("9.9.9", "https://go.example")
    }
}

/// What kind of error, for comparing.
pub(crate) fn kind<T>(result: Result<T, OutgoingError>) -> &'static str {
    result.err().map_or("ok", |error| error.kind())
}
