//! A scripted web server that records requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver as Channel, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// A generous timeout for slow machines.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Got {
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(have, _)| have.eq_ignore_ascii_case(name));
        found
            .map(|(_, value)| value.as_str())
            .unwrap_or_else(|| panic!("no {name} in {:?}", self.headers))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    got: Mutex<Channel<Got>>,
    accepted: Arc<AtomicUsize>,
    /// The maximum number of concurrent connections so far.
    pub(crate) most_open: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
}

impl Receiver {
    /// Answers the n-th request, from 0, with a complete response, or with nothing for `None` until
    /// the client disconnects.
    pub(crate) fn start(
        at: &str,
        answer: impl Fn(usize) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(at).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, got) = channel();
        let (accepted, open, most_open) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::default());
        let stopping = Arc::<AtomicBool>::default();
        let (counted, most, stop, answer) =
            (accepted.clone(), Arc::clone(&most_open), stopping.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                AtomicUsize::fetch_max(
                    &most,
                    open.fetch_add(1, Ordering::SeqCst) + 1,
                    Ordering::SeqCst,
                );
                let (sender, answer, open) =
                    (sender.clone(), Arc::clone(&answer), Arc::clone(&open));
                let n = counted.load(Ordering::SeqCst) - 1;
                std::thread::spawn(move || {
                    if let Some(got) = read(&stream) {
                        let _ = sender.send(got);
                        match answer(n) {
                            Some(text) => drop(stream.write_all(text.as_bytes())),
                            None => drop(stream.read(&mut [0])),
                        }
                    }
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, got: Mutex::new(got), accepted, most_open, stopping }
    }

    /// Always responds with this status.
    pub(crate) fn responding(status: u16) -> Self {
        Self::start("127.0.0.1:0", move |_| Some(status_line(status)))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The next request.
    #[track_caller]
    pub(crate) fn next(&self) -> Got {
        self.got.lock().unwrap().recv_timeout(TIMEOUT).expect("a request")
    }

    /// Requests that no test has read yet.
    pub(crate) fn waiting(&self) -> usize {
        self.got.lock().unwrap().try_iter().count()
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

pub(crate) fn status_line(status: u16) -> String {
    format!("HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n")
}

fn read(stream: &TcpStream) -> Option<Got> {
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    let pairs = lines[1..].iter().filter_map(|line| line.split_once(": "));
    let headers: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Got { line: lines[0].clone(), headers, body })
}
