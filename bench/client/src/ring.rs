//! The connections, driven by one io_uring: a system call submits what all connections send and
//! receive next, and waits for what has arrived.
#![allow(unsafe_code, reason = "io_uring reads and writes buffers that this module keeps alive")]

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};
use serde_json::{Value, json};

use crate::Options;
use crate::answers::{Answer, Ended};
use crate::picks::Paths;

const BUFFER: usize = 4096;
/// The kernel waits for data before it tries to receive: an answer is never there at once.
const POLL_FIRST: u16 = 1;
/// Marks what is sent; the low bit of the user data. Receipts have the number of the connection.
const SENT: u64 = 1;
/// How long to wait for an answer before the client checks the clock again.
const TICK: Duration = Duration::from_millis(50);
/// How long to wait at the end for answers to requests that are sent.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// Latencies above this many microseconds are counted as this long.
const SLOWEST: usize = 1_000_000;

const BROWSER: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 \
    Firefox/140.0\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: de,en-US;q=0.7,en;q=0.3\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
    Referer: https://news.example/articles?page=2\r\nUpgrade-Insecure-Requests: 1\r\n\
    Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: cross-site\r\n";

struct Connection {
    /// Kept open while the ring uses its descriptor.
    stream: TcpStream,
    request: Vec<u8>,
    buffer: Box<[u8; BUFFER]>,
    answer: Answer,
    sent_at: Instant,
}

/// What was seen since the warm-up.
struct Counts {
    answers: u64,
    errors: u64,
    latencies: Vec<u64>,
}

/// What was seen from the first request to the last answer: a server that counts must agree.
#[derive(Default)]
struct Total {
    /// Right answers, those of the warm-up and after the measurement included.
    answered: u64,
    /// Requests that are sent and not answered yet; at the end, what has no answer.
    open: u64,
}

impl Total {
    fn ended(&mut self, ended: Ended) {
        self.open -= 1;
        self.answered += u64::from(ended != Ended::Wrong);
    }
}

/// Runs the load, and reports it.
pub(crate) fn run(options: &Options) -> io::Result<Value> {
    let mut paths = Paths::read(&options.paths, options.pick)?;
    let entries = (options.connections * 2).next_power_of_two().clamp(256, 16_384);
    let mut ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_clamp()
        .setup_cqsize(entries * 2)
        .build(entries)?;
    let tail = tail(options);
    let mut connections = (0..options.connections)
        .map(|_| connect(options.server))
        .collect::<io::Result<Vec<_>>>()?;
    let mut counts = Counts { answers: 0, errors: 0, latencies: vec![0; SLOWEST + 1] };
    let status: [u8; 3] = options
        .status
        .to_string()
        .into_bytes()
        .try_into()
        .map_err(|_| io::Error::other("status"))?;
    let mut begun = Instant::now();
    let mut measuring = options.warm_up <= 0.0;
    let mut until = begun + Duration::from_secs_f64(options.warm_up.max(0.0));
    let mut cpu = cpu_seconds()?;
    if measuring {
        until = begun + Duration::from_secs_f64(options.seconds);
    }
    for (index, connection) in connections.iter_mut().enumerate() {
        request(&mut ring, index, connection, paths.next(), &tail)?;
    }
    let mut total = Total { answered: 0, open: u64::from(options.connections) };
    let mut arrived: Vec<(usize, i32)> = Vec::new();
    loop {
        let timeout = types::Timespec::from(TICK);
        let wait = types::SubmitArgs::new().timespec(&timeout);
        match ring.submitter().submit_with_args(1, &wait) {
            Err(error) if error.raw_os_error() != Some(libc::ETIME) => return Err(error),
            _ => {}
        }
        let now = Instant::now();
        if now >= until {
            if measuring {
                break;
            }
            measuring = true;
            (begun, cpu) = (now, cpu_seconds()?);
            until = begun + Duration::from_secs_f64(options.seconds);
            (counts.answers, counts.errors) = (0, 0);
            counts.latencies.fill(0);
        }
        arrived.clear();
        for event in ring.completion() {
            // A send that succeeds makes no event; one that fails is an error.
            if event.user_data() & SENT == 0 {
                arrived.push(((event.user_data() >> 1) as usize, event.result()));
            } else {
                counts.errors += 1;
            }
        }
        for &(index, result) in &arrived {
            let connection = &mut connections[index];
            let received = usize::try_from(result).unwrap_or(0);
            let ended = match received {
                0 => Some(Ended::Wrong),
                _ => connection.answer.receive(&connection.buffer[..received], &status),
            };
            let Some(ended) = ended else {
                receive(&mut ring, index, connection)?;
                continue;
            };
            total.ended(ended);
            counts.answers += u64::from(received > 0);
            counts.errors += u64::from(ended == Ended::Wrong);
            let micros = now.saturating_duration_since(connection.sent_at).as_micros();
            counts.latencies[usize::try_from(micros).unwrap_or(SLOWEST).min(SLOWEST)] += 1;
            if options.close || received == 0 {
                *connection = connect(options.server)?;
            }
            request(&mut ring, index, connection, paths.next(), &tail)?;
            total.open += 1;
        }
        if measuring && options.requests.is_some_and(|most| counts.answers >= most) {
            break;
        }
    }
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
    receive_last(&mut ring, &mut connections, &mut total, &status)?;
    // The ring goes first: the kernel must not write into buffers that are freed.
    drop(ring);
    drop(connections);
    Ok(json!({
        "requests": counts.answers, "seconds": seconds, "errors": counts.errors,
        "p50_us": quantile(&counts.latencies, 0.5), "p99_us": quantile(&counts.latencies, 0.99),
        "client_cpu": cpu, "paths": paths.count(), "answered": total.answered, "open": total.open,
    }))
}

/// Receives the answers to the requests that are sent, and sends no others.
fn receive_last(
    ring: &mut IoUring,
    connections: &mut [Connection],
    total: &mut Total,
    status: &[u8; 3],
) -> io::Result<()> {
    let until = Instant::now() + LAST_ANSWERS;
    while total.open > 0 && Instant::now() < until {
        let timeout = types::Timespec::from(TICK);
        let wait = types::SubmitArgs::new().timespec(&timeout);
        match ring.submitter().submit_with_args(1, &wait) {
            Err(error) if error.raw_os_error() != Some(libc::ETIME) => return Err(error),
            _ => {}
        }
        let arrived: Vec<(usize, i32)> = ring
            .completion()
            .filter(|event| event.user_data() & SENT == 0)
            .map(|event| ((event.user_data() >> 1) as usize, event.result()))
            .collect();
        for (index, result) in arrived {
            let connection = &mut connections[index];
            let received = usize::try_from(result).unwrap_or(0);
            let ended = match received {
                0 => Some(Ended::Wrong),
                _ => connection.answer.receive(&connection.buffer[..received], status),
            };
            match ended {
                Some(ended) => total.ended(ended),
                None => receive(ring, index, connection)?,
            }
        }
    }
    Ok(())
}

fn tail(options: &Options) -> Vec<u8> {
    let browser = if options.browser { BROWSER } else { "" };
    let close = if options.close { "Connection: close\r\n" } else { "" };
    format!(" HTTP/1.1\r\nHost: {}\r\n{browser}{close}\r\n", options.server).into_bytes()
}

fn connect(server: SocketAddr) -> io::Result<Connection> {
    let stream = TcpStream::connect_timeout(&server, Duration::from_secs(5))?;
    stream.set_nodelay(true)?;
    Ok(Connection {
        stream,
        request: Vec::new(),
        buffer: Box::new([0; BUFFER]),
        answer: Answer::default(),
        sent_at: Instant::now(),
    })
}

/// Queues a request, and the receipt of its answer.
fn request(
    ring: &mut IoUring,
    index: usize,
    connection: &mut Connection,
    path: &[u8],
    tail: &[u8],
) -> io::Result<()> {
    connection.request.clear();
    for part in [b"GET ", path, tail] {
        connection.request.extend_from_slice(part);
    }
    connection.sent_at = Instant::now();
    let fd = types::Fd(connection.stream.as_raw_fd());
    let length = connection.request.len() as u32;
    let send = opcode::Send::new(fd, connection.request.as_ptr(), length)
        .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
        .build()
        .flags(squeue::Flags::SKIP_SUCCESS)
        .user_data(((index as u64) << 1) | SENT);
    push(ring, &send)?;
    receive(ring, index, connection)
}

fn receive(ring: &mut IoUring, index: usize, connection: &mut Connection) -> io::Result<()> {
    let fd = types::Fd(connection.stream.as_raw_fd());
    let receive = opcode::Recv::new(fd, connection.buffer.as_mut_ptr(), BUFFER as u32)
        .ioprio(POLL_FIRST)
        .build()
        .user_data((index as u64) << 1);
    push(ring, &receive)
}

fn push(ring: &mut IoUring, entry: &squeue::Entry) -> io::Result<()> {
    loop {
        // SAFETY: the entry points into the request or the buffer of a connection. A connection
        // keeps both while an operation uses them: it sends only after the answer to its last
        // request, receives into its buffer once at a time, and is replaced only when nothing of it
        // is under way. All connections outlive the ring.
        let pushed = unsafe { ring.submission().push(entry) };
        match pushed {
            Ok(()) => return Ok(()),
            Err(_full) => drop(ring.submit()?),
        }
    }
}

/// The CPU time of this process.
fn cpu_seconds() -> io::Result<f64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec into the place that it is given.
    match unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) } {
        0 => Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The microseconds within which this part of the answers came.
fn quantile(latencies: &[u64], part: f64) -> usize {
    let all: u64 = latencies.iter().sum();
    let wanted = (all as f64 * part).ceil() as u64;
    let mut seen = 0;
    latencies
        .iter()
        .position(|count| {
            seen += count;
            seen >= wanted.max(1)
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::picks::Pick;

    /// Answers every request, and counts them by path.
    fn server(status: &'static str) -> (SocketAddr, Arc<[AtomicU64; 2]>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counts: Arc<[AtomicU64; 2]> = Arc::default();
        let shared = counts.clone();
        // Ends with the test process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, counts) = (stream.unwrap(), shared.clone());
                std::thread::spawn(move || {
                    let (mut bytes, mut head) = ([0; 4096], Vec::new());
                    while let Ok(count @ 1..) = stream.read(&mut bytes) {
                        head.extend_from_slice(&bytes[..count]);
                        if !head.ends_with(b"\r\n\r\n") {
                            continue;
                        }
                        let text = String::from_utf8(std::mem::take(&mut head)).unwrap();
                        let path = usize::from(text.starts_with("GET /two HTTP/1.1\r\n"));
                        counts[path].fetch_add(1, Ordering::Relaxed);
                        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nok");
                        let sent = stream.write_all(answer.as_bytes());
                        if sent.is_err() || text.contains("Connection: close") {
                            return;
                        }
                    }
                });
            }
        });
        (address, counts)
    }

    fn options(server: SocketAddr, paths: &std::path::Path) -> Options {
        Options {
            server,
            paths: paths.to_owned(),
            pick: Pick::Each,
            connections: 4,
            seconds: 60.0,
            warm_up: 0.0,
            requests: Some(200),
            status: 302,
            browser: false,
            close: false,
        }
    }

    #[test]
    fn every_answer_is_counted_and_a_wrong_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let paths = folder.path().join("paths");
        std::fs::write(&paths, "/one\n/two\n").unwrap();
        let (address, counts) = server("302");
        let plain = options(address, &paths);
        let report = match run(&plain) {
            // Containers may forbid io_uring.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
            report => report.unwrap(),
        };
        let answers = report["requests"].as_u64().unwrap();
        assert!((200..=204).contains(&answers) && report["errors"] == 0, "{report}");
        let asked = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        assert_eq!(report["answered"], asked[0] + asked[1], "{report}");
        assert!(asked.iter().all(|n| *n >= 90) && report["open"] == 0, "{asked:?}");
        // Those of the warm-up are counted, too.
        let before = asked[0] + asked[1];
        let warmed =
            run(&Options { warm_up: 0.1, seconds: 0.1, requests: None, ..plain.clone() }).unwrap();
        let asked: u64 = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        assert_eq!(warmed["answered"], asked - before, "{warmed}");
        assert!(warmed["requests"].as_u64() < warmed["answered"].as_u64(), "{warmed}");

        for (browser, close, pick) in
            [(true, false, Pick::Zipf), (false, true, Pick::Uniform), (true, true, Pick::Single)]
        {
            let report = run(&Options { browser, close, pick, ..plain.clone() }).unwrap();
            assert_eq!(report["errors"], 0, "{report}");
        }
        let (gone, _) = server("404");
        let report = run(&Options { server: gone, ..plain }).unwrap();
        assert_eq!(report["errors"], report["requests"], "{report}");
    }
}
