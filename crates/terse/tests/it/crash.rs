//! `kill -9` under load: every acknowledged link exists afterwards, unchanged.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::harness::KEY;

/// The real binary on a data folder; killed with SIGKILL on drop.
pub(crate) struct Killable {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Killable {
    pub(crate) fn start(data_dir: &Path) -> Self {
        Self::start_with(data_dir, &[])
    }

    /// Starts with additional settings as environment variables.
    pub(crate) fn start_with(data_dir: &Path, settings: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_terse"))
            .arg("serve")
            .env("TERSE_LISTEN", "127.0.0.1:0")
            .env("TERSE_DATA_DIR", data_dir)
            .env("TERSE_ADMIN_KEY", KEY)
            .env("TERSE_CODES__LEASE", "100")
            .envs(settings.iter().copied())
            .current_dir(data_dir.parent().expect("a parent"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("terse starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let said = |line: &String| line.contains("terse is listening on http://");
        let line =
            lines.by_ref().map_while(Result::ok).find(said).expect("terse says where it listens");
        let address = line
            .rsplit("http://")
            .next()
            .and_then(|at| at.trim().parse().ok())
            .expect("an address");
        // Keep reading its output, or it blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("an end");
    }
}

impl Drop for Killable {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A raw connection, so that no client library retries.
struct Client(Option<BufReader<TcpStream>>, SocketAddr);

impl Client {
    fn call(&mut self, request: &[u8]) -> Option<(u16, String, Vec<u8>)> {
        if self.0.is_none() {
            let stream = TcpStream::connect(self.1).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
            self.0 = Some(BufReader::new(stream));
        }
        let answer = self.0.as_mut().and_then(|stream| Self::exchange(stream, request));
        if answer.is_none() {
            self.0 = None;
        }
        answer
    }

    fn exchange(
        stream: &mut BufReader<TcpStream>,
        request: &[u8],
    ) -> Option<(u16, String, Vec<u8>)> {
        stream.get_mut().write_all(request).ok()?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let status = head.get(9..12)?.parse().ok()?;
        let length = head
            .to_ascii_lowercase()
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok())?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        Some((status, head, body))
    }

    fn create(&mut self, target: &str, alias: Option<&str>) -> Option<String> {
        let alias = alias.map(|alias| format!(r#","alias":"{alias}""#)).unwrap_or_default();
        let body = format!(r#"{{"long_url":"{target}"{alias}}}"#);
        let request = format!(
            "POST /api/v1/urls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \
             {KEY}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let (status, _, body) = self.call(request.as_bytes())?;
        let link: serde_json::Value = serde_json::from_slice(&body).ok()?;
        assert!(status == 201 || status == 503, "{status} {link}");
        (status == 201).then(|| link["short_code"].as_str().expect("a code").to_owned())
    }

    fn follow(&mut self, code: &str) -> Option<(u16, Option<String>)> {
        let (status, head, _) =
            self.call(format!("GET /{code} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
        Some((
            status,
            head.lines().find_map(|line| line.strip_prefix("location: ").map(str::to_owned)),
        ))
    }
}

#[test]
fn no_acknowledged_link_is_lost_when_the_process_is_killed() {
    let cycles: usize =
        std::env::var("TERSE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(50);
    let folder = tempfile::TempDir::new().expect("a folder");
    let data_dir = folder.path().join("data");
    let mut acknowledged: Vec<(String, String)> = Vec::new();
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    for cycle in 0..cycles {
        let terse = Killable::start(&data_dir);
        let address = terse.address;
        // A crash most likely loses the last acknowledged links: check these and a sample of the
        // rest.
        let mut visitor = Client(None, address);
        let recent = acknowledged.len().saturating_sub(400);
        let sample = acknowledged[..recent].iter().step_by(recent / 100 + 1);
        for (code, target) in acknowledged[recent..].iter().chain(sample) {
            let found = visitor.follow(code).expect("an answer");
            assert_eq!(found, (302, Some(target.clone())), "cycle {cycle}, {code}");
        }
        let over = AtomicBool::new(false);
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let life = Duration::from_millis(20 + dice % 180);
        let made: Vec<(String, String)> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|client| {
                    let over = &over;
                    scope.spawn(move || {
                        let (mut server, mut made) = (Client(None, address), Vec::new());
                        for i in 0.. {
                            if over.load(Ordering::Relaxed) {
                                break;
                            }
                            let target =
                                format!("https://example.com/{cycle}/{client}/{i}?q=a%20b");
                            let alias = (i % 3 == 0).then(|| format!("c{cycle}-{client}-{i}"));
                            match server.create(&target, alias.as_deref()) {
                                Some(code) => made.push((code, target)),
                                None => std::thread::sleep(Duration::from_millis(1)),
                            }
                        }
                        made
                    })
                })
                .collect();
            let until = Instant::now() + life;
            while Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            terse.kill();
            over.store(true, Ordering::Relaxed);
            clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
        });
        acknowledged.extend(made);
    }
    let codes: std::collections::HashSet<_> = acknowledged.iter().map(|(code, _)| code).collect();
    assert_eq!(codes.len(), acknowledged.len(), "a code was given out twice");
    assert!(
        acknowledged.len() > cycles / 2,
        "only {} links in {cycles} cycles",
        acknowledged.len()
    );
    let terse = Killable::start(&data_dir);
    let mut visitor = Client(None, terse.address);
    for (code, target) in &acknowledged {
        assert_eq!(visitor.follow(code).expect("an answer"), (302, Some(target.clone())), "{code}");
    }
    terse.kill();
    let report = terse_embedded::verify(&data_dir.join("terse.db")).expect("a readable store");
    assert!(report.is_clean() && report.links >= acknowledged.len() as u64, "{report:?}");
    println!("{} acknowledged links survived {cycles} kills", acknowledged.len());
}
