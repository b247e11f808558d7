//! A TCP proxy that breaks connections where a test says so.
#![allow(clippy::unwrap_used, reason = "tests stop where their proxy does not work")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Passes connections on to a port of this machine.
pub struct TcpProxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Where new connections lead.
    to: AtomicU16,
    /// New connections are closed at once.
    refuses: AtomicBool,
    /// How long each answer of the server is held back, in milliseconds.
    delay_ms: AtomicU64,
    stopped: AtomicBool,
    passed_on: AtomicUsize,
    cut: Mutex<Option<Cut>>,
    cuts: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
}

/// Where a connection is cut, once.
#[derive(Clone)]
enum Cut {
    /// Before the server gets the client's bytes that contain this.
    Before(Vec<u8>),
    /// After the server has got them and answered with this; the client gets none of the answer.
    After(Vec<u8>, Vec<u8>),
}

impl TcpProxy {
    /// Listens on a free port of 127.0.0.1 and passes on to another port there.
    pub fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State { to: AtomicU16::new(to), ..State::default() });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.stopped.load(Ordering::Relaxed) {
                    return;
                }
                if shared.refuses.load(Ordering::Relaxed) {
                    continue;
                }
                let to = shared.to.load(Ordering::Relaxed);
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                shared.passed_on.fetch_add(1, Ordering::Relaxed);
                pass_on(&shared, client, server);
            }
        });
        Self { port, state }
    }

    /// New connections lead to another port.
    pub fn lead_to(&self, port: u16) {
        self.state.to.store(port, Ordering::Relaxed);
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections, and new ones at once until [`TcpProxy::accept`].
    pub fn refuse(&self) {
        self.state.refuses.store(true, Ordering::Relaxed);
        for stream in self.state.open.lock().unwrap().drain(..) {
            let _closed = stream.shutdown(Shutdown::Both);
        }
    }

    /// Passes new connections on again.
    pub fn accept(&self) {
        self.state.refuses.store(false, Ordering::Relaxed);
    }

    /// Delays every answer of the server by this time.
    pub fn delay(&self, time: Duration) {
        self.state.delay_ms.store(time.as_millis() as u64, Ordering::Relaxed);
    }

    /// Cuts the next connection whose client sends this, before it arrives.
    pub fn cut_before(&self, bytes: &str) {
        *self.state.cut.lock().unwrap() = Some(Cut::Before(bytes.into()));
    }

    /// Cuts the next connection whose client sends this, once the server has answered with these
    /// bytes, and before any of the answer comes back.
    pub fn cut_after(&self, bytes: &str, answer: &str) {
        *self.state.cut.lock().unwrap() = Some(Cut::After(bytes.into(), answer.into()));
    }

    /// How many connections were passed on.
    pub fn connections(&self) -> usize {
        self.state.passed_on.load(Ordering::Relaxed)
    }

    /// How many connections were cut.
    pub fn cuts(&self) -> usize {
        self.state.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.refuse();
        self.state.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _woken = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn pass_on(state: &Arc<State>, client: TcpStream, server: TcpStream) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
        state.open.lock().unwrap().push(stream.try_clone().unwrap());
    }
    // The answer after which the connection is cut.
    let is_cut = Arc::new(Mutex::new(None::<Vec<u8>>));
    let (mut from_server, mut to_client) =
        (server.try_clone().unwrap(), client.try_clone().unwrap());
    let answer_is_cut = Arc::clone(&is_cut);
    let delays = Arc::clone(state);
    std::thread::spawn(move || {
        let mut buffer = [0; 64 * 1024];
        let mut swallowed = Vec::new();
        while let Ok(read @ 1..) = from_server.read(&mut buffer) {
            let delay = delays.delay_ms.load(Ordering::Relaxed);
            if delay > 0 {
                std::thread::sleep(Duration::from_millis(delay));
            }
            let wanted = answer_is_cut.lock().unwrap().clone();
            match wanted {
                None if to_client.write_all(&buffer[..read]).is_err() => break,
                None => {}
                Some(wanted) => {
                    swallowed.extend_from_slice(&buffer[..read]);
                    // The server has answered, so what was sent has taken effect.
                    if swallowed.windows(wanted.len()).any(|part| part == wanted) {
                        break;
                    }
                }
            }
        }
        let _closed = to_client.shutdown(Shutdown::Both);
        let _closed = from_server.shutdown(Shutdown::Both);
    });
    let (state, mut client, mut server) = (Arc::clone(state), client, server);
    std::thread::spawn(move || {
        let mut buffer = [0; 64 * 1024];
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            let sent = &buffer[..read];
            let cut = {
                let mut cut = state.cut.lock().unwrap();
                let contains = |bytes: &[u8]| sent.windows(bytes.len()).any(|part| part == bytes);
                let applies = match &*cut {
                    Some(Cut::Before(bytes) | Cut::After(bytes, _)) => contains(bytes),
                    None => false,
                };
                if applies { cut.take() } else { None }
            };
            if cut.is_some() {
                state.cuts.fetch_add(1, Ordering::Relaxed);
            }
            match cut {
                Some(Cut::Before(_)) => break,
                Some(Cut::After(_, answer)) => *is_cut.lock().unwrap() = Some(answer),
                None => {}
            }
            if server.write_all(sent).is_err() {
                break;
            }
        }
        let _closed = server.shutdown(Shutdown::Write);
        if is_cut.lock().unwrap().is_none() {
            let _closed = server.shutdown(Shutdown::Both);
        }
        let _closed = client.shutdown(Shutdown::Both);
    });
}
