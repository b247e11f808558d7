//! A server for tests that sends configured responses and records its requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::wire::BenchTarget;

/// Lives until the test process ends.
pub(super) struct FakeServer {
    pub(super) server: BenchTarget,
    pub(super) connections: Arc<AtomicUsize>,
    pub(super) requests: Arc<Mutex<Vec<String>>>,
}

impl FakeServer {
    /// Answers each request, numbered from 0, with this head and body.
    pub(super) fn answering(
        answer: impl Fn(usize, &str) -> String + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server =
            BenchTarget::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let (connections, requests) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (answer, accepted, seen) =
            (Arc::new(answer), Arc::clone(&connections), Arc::clone(&requests));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                accepted.fetch_add(1, Ordering::SeqCst);
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                std::thread::spawn(move || serve(stream.unwrap(), &*answer, &seen));
            }
        });
        Self { server, connections, requests }
    }
}

fn serve(stream: TcpStream, answer: &dyn Fn(usize, &str) -> String, seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let (mut request, mut length) = (String::new(), 0);
        while !request.ends_with("\r\n\r\n") {
            let start = request.len();
            if !reader.read_line(&mut request).is_ok_and(|count| count > 0) {
                return;
            }
            if let Some(digits) = request[start..].strip_prefix("Content-Length: ") {
                length = digits.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        request.push_str(std::str::from_utf8(&body).unwrap());
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(request.clone());
            seen.len() - 1
        };
        if writer.write_all(answer(number, &request).as_bytes()).is_err() {
            return;
        }
    }
}
