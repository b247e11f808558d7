//! A Safe Browsing v5 server: named lists with versions, updates and checksums, and full hashes for
//! prefixes. Written from the published definition, independently of the client code.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// The valid API key.
pub(crate) const KEY: &str = "AIza-a-key-for-tests";

/// How it answers one of the two requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Behaviour {
    Well,
    Status(u16),
    /// The response is not a valid message.
    Garbage,
    /// The checksum of one list is wrong, once.
    WrongSum,
    /// Responds only after the behaviour has changed.
    Stuck,
}

pub(crate) struct State {
    /// All versions of each list.
    history: BTreeMap<String, Vec<BTreeSet<u32>>>,
    /// Threat types and attributes of full hashes, by expression.
    threats: BTreeMap<String, (u8, Vec<u8>)>,
    pub(crate) wait: u64,
    pub(crate) keep: u64,
    pub(crate) lists: Behaviour,
    pub(crate) search: Behaviour,
    /// The requests so far: path and query pairs.
    pub(crate) requests: Vec<(String, Vec<(String, String)>)>,
}

pub(crate) struct SafeBrowsingServer {
    pub(crate) address: SocketAddr,
    shared: Arc<(Mutex<State>, Condvar)>,
    stopping: Arc<AtomicBool>,
}

pub(crate) fn hash(expression: &str) -> [u8; 32] {
    Sha256::digest(expression).into()
}

fn prefix(expression: &str) -> u32 {
    u32::from_be_bytes(hash(expression)[..4].try_into().expect("four"))
}

impl SafeBrowsingServer {
    /// Starts with these expressions on the social engineering list, without full hashes.
    pub(crate) fn start(listed: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let state = State {
            history: ["se-4b", "mw-4b", "uws-4b", "uwsa-4b", "pha-4b"]
                .map(|name| (name.to_owned(), vec![]))
                .into(),
            threats: BTreeMap::new(),
            wait: 1800,
            keep: 300,
            lists: Behaviour::Well,
            search: Behaviour::Well,
            requests: vec![],
        };
        let address = listener.local_addr().expect("an address");
        let server = Self {
            address,
            shared: Arc::new((Mutex::new(state), Condvar::new())),
            stopping: Arc::default(),
        };
        // The list is never empty.
        server.publish("mw-4b", (0..2000).map(|n| prefix(&format!("malware-{n}.example.net/"))));
        for name in ["uws-4b", "uwsa-4b", "pha-4b"] {
            server.publish(name, []);
        }
        server.list(listed);
        let (shared, stopping) = (Arc::clone(&server.shared), Arc::clone(&server.stopping));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopping.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&shared)) else { return };
                std::thread::spawn(move || serve(&stream, &shared));
            }
        });
        server
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.0.lock().expect("the state"));
        self.shared.1.notify_all();
    }

    fn publish(&self, name: &str, prefixes: impl IntoIterator<Item = u32>) {
        let prefixes = prefixes.into_iter().collect();
        self.change(|state| state.history.get_mut(name).expect("a list").push(prefixes));
    }

    /// A new version of the social engineering list.
    pub(crate) fn list(&self, expressions: &[&str]) {
        self.publish("se-4b", expressions.iter().map(|expression| prefix(expression)));
    }

    /// Sets the threat type and attributes of a full hash.
    pub(crate) fn threat(&self, expression: &str, kind: u8, attributes: &[u8]) {
        self.change(|state| {
            drop(state.threats.insert(expression.to_owned(), (kind, attributes.to_vec())));
        });
    }

    /// Removes a full hash.
    pub(crate) fn remove_threat(&self, expression: &str) {
        self.change(|state| drop(state.threats.remove(expression)));
    }

    /// The number of requests for this path.
    pub(crate) fn requests(&self, path: &str) -> usize {
        self.shared
            .0
            .lock()
            .expect("the state")
            .requests
            .iter()
            .filter(|(have, _)| have == path)
            .count()
    }

    /// The values of a query parameter in the last request for this path.
    pub(crate) fn last(&self, path: &str, name: &str) -> Vec<String> {
        let state = self.shared.0.lock().expect("the state");
        let last = state.requests.iter().rev().find(|(have, _)| have == path);
        let pairs = last.map(|(_, pairs)| pairs.clone()).unwrap_or_default();
        pairs.into_iter().filter(|(have, _)| have == name).map(|(_, value)| value).collect()
    }
}

impl Drop for SafeBrowsingServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.change(|state| {
            (state.lists, state.search) = (Behaviour::Status(503), Behaviour::Status(503));
        });
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: &TcpStream, (state, changed): &(Mutex<State>, Condvar)) {
    let head: Vec<String> = BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    let Some(path) = head.first().and_then(|line| line.strip_prefix("GET ")?.split(' ').next())
    else {
        return;
    };
    let url = url::Url::parse(&format!("http://server{path}")).expect("a URL");
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let path = url.path().to_owned();
    let behaviour =
        |state: &State| if path == "/v5/hashes:search" { state.search } else { state.lists };
    let mut state = state.lock().expect("the state");
    state.requests.push((path.clone(), pairs.clone()));
    state =
        changed.wait_while(state, |state| behaviour(state) == Behaviour::Stuck).expect("the state");
    let all = |name: &str| {
        pairs
            .iter()
            .filter(|(have, _)| have == name)
            .map(|(_, value)| value.as_str())
            .collect::<Vec<_>>()
    };
    let answer = match (behaviour(&state), path.as_str()) {
        _ if all("key") != [KEY] => Err(403),
        _ if all("alt") != ["proto"] => Err(501),
        (Behaviour::Status(status), _) => Err(status),
        (Behaviour::Garbage, _) => Ok(b"<html>sign in</html>".to_vec()),
        (behaviour, "/v5/hashLists:batchGet") => {
            if behaviour == Behaviour::WrongSum {
                state.lists = Behaviour::Well;
            }
            batch(&state, &all("names"), &all("version"), behaviour == Behaviour::WrongSum)
        }
        (_, "/v5/hashes:search") => search(&state, &all("hashPrefixes")),
        _ => Err(404),
    };
    drop(state);
    let (status, body) = match answer {
        Ok(body) => (200, body),
        Err(status) => (status, b"{}".to_vec()),
    };
    let head = format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/x-protobuf\r\nConnection: \
         close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
}

/// `BatchGetHashListsResponse`.
fn batch(state: &State, names: &[&str], versions: &[&str], wrong: bool) -> Result<Vec<u8>, u16> {
    if names.iter().collect::<BTreeSet<_>>().len() != names.len() {
        return Err(400);
    }
    let versions: Vec<String> = versions
        .iter()
        .map(|version| {
            STANDARD.decode(version).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(400)
        })
        .collect::<Result<_, u16>>()?;
    let mut answer = Vec::new();
    for name in names {
        let history = state.history.get(*name).ok_or(404u16)?;
        let new = history.last().ok_or(503u16)?;
        let mut theirs =
            versions.iter().filter_map(|version| version.strip_prefix(&format!("{name}@")));
        let old = theirs.next().and_then(|number| history.get(number.parse::<usize>().ok()?));
        if theirs.next().is_some() {
            return Err(400);
        }
        let mut list = Vec::new();
        bytes(&mut list, 1, name.as_bytes());
        bytes(&mut list, 2, format!("{name}@{}", history.len() - 1).as_bytes());
        let (gone, added): (Vec<u32>, Vec<u32>) = match old {
            Some(old) => {
                number(&mut list, 3, 1);
                let gone =
                    (0..).zip(old).filter(|(_, prefix)| !new.contains(prefix)).map(|(at, _)| at);
                (gone.collect(), new.difference(old).copied().collect())
            }
            None => (vec![], new.iter().copied().collect()),
        };
        for (field, numbers, parameter) in [(4, &added, 28), (5, &gone, 3)] {
            if !numbers.is_empty() {
                bytes(&mut list, field, &rice(numbers, parameter));
            }
        }
        bytes(&mut list, 6, &seconds(state.wait));
        if old != Some(new) {
            let all: Vec<u8> = new.iter().flat_map(|prefix| prefix.to_be_bytes()).collect();
            let mut sum = Sha256::digest(all).to_vec();
            sum[0] ^= u8::from(wrong && *name == "se-4b");
            bytes(&mut list, 7, &sum);
        }
        bytes(&mut answer, 1, &list);
    }
    Ok(answer)
}

/// `SearchHashesResponse`.
fn search(state: &State, prefixes: &[&str]) -> Result<Vec<u8>, u16> {
    if prefixes.is_empty() || prefixes.len() > 1000 {
        return Err(400);
    }
    let mut answer = Vec::new();
    for requests in prefixes {
        let requests =
            STANDARD.decode(requests).ok().filter(|prefix| prefix.len() == 4).ok_or(400u16)?;
        for (expression, (kind, attributes)) in &state.threats {
            if hash(expression).starts_with(&requests) {
                let (mut whole, mut detail) = (Vec::new(), Vec::new());
                number(&mut detail, 1, (*kind).into());
                if !attributes.is_empty() {
                    bytes(&mut detail, 2, attributes);
                }
                bytes(&mut whole, 1, &hash(expression));
                bytes(&mut whole, 2, &detail);
                bytes(&mut answer, 1, &whole);
            }
        }
    }
    bytes(&mut answer, 2, &seconds(state.keep));
    Ok(answer)
}

/// `RiceDeltaEncoded32Bit`.
fn rice(numbers: &[u32], parameter: u32) -> Vec<u8> {
    let mut bits = Vec::new();
    for pair in numbers.windows(2) {
        let distance = pair[1] - pair[0];
        bits.extend(std::iter::repeat_n(1u8, (distance >> parameter) as usize));
        bits.push(0);
        bits.extend((0..parameter).map(|bit| (distance >> bit & 1) as u8));
    }
    let data: Vec<u8> =
        bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect();
    let mut message = Vec::new();
    number(&mut message, 1, numbers[0].into());
    number(&mut message, 2, parameter.into());
    number(&mut message, 3, numbers.len() as u64 - 1);
    bytes(&mut message, 4, &data);
    message
}

/// `google.protobuf.Duration`.
fn seconds(seconds: u64) -> Vec<u8> {
    let mut message = Vec::new();
    number(&mut message, 1, seconds);
    message
}

fn varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn number(to: &mut Vec<u8>, field: u64, value: u64) {
    varint(to, field << 3);
    varint(to, value);
}

fn bytes(to: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(to, field << 3 | 2);
    varint(to, value.len() as u64);
    to.extend(value);
}
