//! An HTTP proxy in front of DynamoDB that answers some requests itself.
#![allow(clippy::unwrap_used, reason = "tests stop where their proxy fails")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The answer to an operation, and how many times it is given.
type Planned = HashMap<String, (u32, String)>;

#[derive(Default)]
struct State {
    planned: Mutex<Planned>,
    seen: Mutex<HashMap<String, u32>>,
}

/// Passes requests on to a server, except those that a test wants to fail.
pub struct AnsweringProxy {
    port: u16,
    state: Arc<State>,
}

impl AnsweringProxy {
    /// Starts one in front of a port of this machine.
    pub fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(&state, client, to));
            }
        });
        Self { port, state }
    }

    /// Where it listens.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Answers the next `times` requests of an operation with an error of this type.
    pub fn fail(&self, operation: &str, times: u32, kind: &str) {
        let kind = format!("com.amazonaws.dynamodb.v20120810#{kind}");
        self.answer(operation, times, &format!(r#"{{"__type":"{kind}","message":"on purpose"}}"#));
    }

    /// Answers the next `times` requests of an operation with status 400 and this body.
    pub fn answer(&self, operation: &str, times: u32, body: &str) {
        let mut planned = self.state.planned.lock().unwrap();
        planned.insert(operation.to_owned(), (times, body.to_owned()));
    }

    /// How many requests of an operation have arrived.
    pub fn seen(&self, operation: &str) -> u32 {
        self.state.seen.lock().unwrap().get(operation).copied().unwrap_or(0)
    }
}

/// Serves one connection.
fn serve(state: &State, mut client: TcpStream, to: u16) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    while let Some((head, operation, body)) = read_request(&mut reader) {
        *state.seen.lock().unwrap().entry(operation.clone()).or_default() += 1;
        let planned = match state.planned.lock().unwrap().get_mut(&operation) {
            Some((left @ 1.., answer)) => {
                *left -= 1;
                Some(answer.clone())
            }
            _ => None,
        };
        let answer = match planned {
            Some(answer) => format!(
                "HTTP/1.1 400 Bad Request\r\nContent-Type: application/x-amz-json-1.0\r\n\
                 Content-Length: {}\r\n\r\n{answer}",
                answer.len()
            )
            .into_bytes(),
            None => pass_on(to, &head, &body),
        };
        if client.write_all(&answer).is_err() {
            return;
        }
    }
}

/// The head, the operation and the body of a request.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, String, Vec<u8>)> {
    let (mut head, mut operation, mut length) = (String::new(), String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            match name.to_ascii_lowercase().as_str() {
                "x-amz-target" => value.trim().rsplit('.').next()?.clone_into(&mut operation),
                "content-length" => length = value.trim().parse().ok()?,
                _ => {}
            }
        }
        head += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, operation, body))
}

fn pass_on(to: u16, head: &str, body: &[u8]) -> Vec<u8> {
    let mut server = TcpStream::connect(("127.0.0.1", to)).unwrap();
    let lines = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let mut request: String = lines.map(|line| format!("{line}\r\n")).collect();
    request += "Connection: close\r\n\r\n";
    server.write_all(request.as_bytes()).unwrap();
    server.write_all(body).unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).unwrap();
    // The client may use its connection again.
    let text = String::from_utf8_lossy(&answer).replacen("Connection: close\r\n", "", 1);
    text.into_bytes()
}
