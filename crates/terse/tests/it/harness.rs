//! A complete terse server in this process: the components of `terse serve`, a free port, a
//! temporary folder and a test clock.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use terse::Config;
use terse::serve::Server;
use terse_core::Clock;

/// The admin key of every test server.
pub(crate) const KEY: &str = "a-key-for-tests-0123456789";
/// The host of every test server.
pub(crate) const HOST: &str = "go.example";

pub(crate) struct TestTerse {
    server: Option<Server>,
    pub(crate) address: SocketAddr,
    pub(crate) config: Config,
    agent: ureq::Agent,
    folder: TempDir,
}

/// A complete response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(have, _)| have.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn location(&self) -> Option<&str> {
        self.header("location")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }
}

impl TestTerse {
    pub(crate) fn start() -> Self {
        Self::with(|_| ())
    }

    /// Starts with changed settings. Limits are off unless `change` sets them.
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::build(change, true)
    }

    /// Starts with or without the fast path.
    pub(crate) fn with_fast_path(fast_path: bool, change: impl FnOnce(&mut Config)) -> Self {
        Self::build(change, fast_path)
    }

    fn build(change: impl FnOnce(&mut Config), fast_path: bool) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let mut config = Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)).into(),
            data_dir: folder.path().join("data"),
            base_url: Some(format!("http://{HOST}/").parse().expect("a base URL")),
            admin_key: Some(terse::config::Secret::new(KEY)),
            ..Config::default()
        };
        // Tests create more links and request more unknown codes than the limits allow.
        config.limits = terse::config::LimitsConfig::off();
        config.safety.blocked_hosts = vec!["evil.example".into()];
        change(&mut config);
        let adjust =
            |settings: &mut terse_redirect::RedirectSettings| settings.fast_path = fast_path;
        let server = Server::start_with(&config, Clock::default(), adjust).expect("terse starts");
        let agent = ureq::Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(30)))
            .max_idle_connections_per_host(64)
            .build()
            .into();
        Self { address: tcp(&server), server: Some(server), config, agent, folder }
    }

    /// Stops the server and keeps its folder.
    pub(crate) fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(Duration::from_secs(5));
        }
    }

    /// Restarts the server on the same folder. A process that another test has just started holds
    /// a copy of the folder's lock until it runs its own program.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let begun = Instant::now();
        let server = loop {
            match Server::start(&self.config, Clock::default()) {
                Ok(server) => break server,
                Err(error)
                    if format!("{error:#}").contains("another terse is running")
                        && begun.elapsed() < Duration::from_secs(30) =>
                {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => panic!("terse does not start again: {error:#}"),
            }
        };
        self.address = tcp(&server);
        self.server = Some(server);
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.server.as_ref().expect("it is running").clock()
    }

    /// The registry as another node uses it: this server is not notified of changes.
    pub(crate) fn registry(&self) -> &std::sync::Arc<dyn terse_core::registry::Registry> {
        self.server.as_ref().expect("it is running").registry()
    }

    pub(crate) fn tls_address(&self) -> SocketAddr {
        self.server.as_ref().and_then(Server::tls_address).expect("it listens for TLS")
    }

    pub(crate) fn admin_address(&self) -> Option<SocketAddr> {
        self.server.as_ref().and_then(Server::admin_address)
    }

    pub(crate) fn fresh_key(&self) -> Option<String> {
        self.server.as_ref().and_then(Server::fresh_key).map(str::to_owned)
    }

    /// The setup link for the first admin.
    pub(crate) fn setup_link(&self) -> Option<String> {
        self.server.as_ref().and_then(Server::setup_link).map(str::to_owned)
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends any request. A body is sent as JSON unless a content type is given.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Answer {
        let mut request = http::Request::builder().method(method).uri(self.url(path));
        if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request = request.header("host", HOST);
        }
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        if body.is_some()
            && !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(()).expect("a request");
        let send = || match body {
            Some(body) => self.agent.run(request.clone().map(|()| body)),
            None => self.agent.run(request.clone()),
        };
        // A test that turns the clock forward makes the server close idle connections, one of which
        // the agent may just have taken.
        let sent = match send() {
            Err(ureq::Error::Io(error))
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe
                ) =>
            {
                send()
            }
            sent => sent,
        };
        let mut answer = sent.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let headers = answer.headers().iter();
        let headers = headers.map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        Answer {
            status: answer.status().as_u16(),
            headers: headers.collect(),
            body: answer.body_mut().with_config().limit(64 << 20).read_to_vec().expect("a body"),
        }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    /// Sends a request like a browser.
    pub(crate) fn browse(&self, path: &str) -> Answer {
        self.send("GET", path, &[("accept", "text/html,*/*")], None)
    }

    /// Calls the API with the admin key.
    pub(crate) fn api(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let bytes = body.map(|body| body.to_string().into_bytes());
        self.send(
            method,
            &format!("/api/v1{path}"),
            &[("authorization", &format!("Bearer {KEY}"))],
            bytes.as_deref(),
        )
    }

    /// Calls the API without a key.
    pub(crate) fn anonymous(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let bytes = body.map(|body| body.to_string().into_bytes());
        self.send(method, &format!("/api/v1{path}"), &[], bytes.as_deref())
    }

    /// Creates a link and returns its code.
    pub(crate) fn create(&self, body: Value) -> String {
        let answer = self.api("POST", "/urls", Some(body));
        assert!(
            answer.status == 201 || answer.status == 200,
            "{} {}",
            answer.status,
            answer.text()
        );
        answer.json()["short_code"].as_str().expect("a code").to_owned()
    }

    /// Creates a link under an alias.
    pub(crate) fn alias(&self, alias: &str, target: &str) {
        self.create(json!({"long_url": target, "custom_alias": alias}));
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        stream.set_write_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        stream
    }

    /// Sends raw bytes and reads until the server closes the connection.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // The server may close the connection before everything is sent.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    /// Sends raw bytes, even invalid ones, and reads the first complete response; `None` if the
    /// server closes without one.
    pub(crate) fn exchange(&self, bytes: &[u8]) -> Option<Answer> {
        let mut stream = self.connect();
        let mut writer = stream.try_clone().expect("a second handle");
        std::thread::scope(|scope| {
            // The server may respond and close before everything is sent.
            scope.spawn(move || writer.write_all(bytes));
            let answer = read_answer(&mut stream, bytes.starts_with(b"HEAD "));
            let _ = stream.shutdown(Shutdown::Both);
            answer
        })
    }
}

/// Reads one response, skipping `100 Continue`.
pub(crate) fn read_answer(stream: &mut TcpStream, head_only: bool) -> Option<Answer> {
    let (mut bytes, mut part) = (Vec::new(), [0; 16 * 1024]);
    loop {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let mut lines = head.trim_end().split("\r\n");
            let status: u16 = lines.next()?.split(' ').nth(1)?.parse().ok()?;
            if status == 100 {
                bytes.drain(..end);
                continue;
            }
            let pairs = lines.filter_map(|line| line.split_once(':'));
            let headers =
                pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
            let mut answer = Answer { status, headers, body: Vec::new() };
            let length: usize =
                answer.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            assert!(
                answer.header("transfer-encoding").is_none(),
                "our answers have a length: {head}"
            );
            let whole = if head_only { end } else { end + length };
            if bytes.len() >= whole {
                answer.body = bytes[end..whole].to_vec();
                return Some(answer);
            }
        }
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend(&part[..read]),
        }
    }
}

impl Drop for TestTerse {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(Duration::from_secs(5));
        }
    }
}

fn tcp(server: &Server) -> SocketAddr {
    server.address().tcp().expect("it listens at a port")
}
