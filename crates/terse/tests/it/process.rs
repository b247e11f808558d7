//! The real binary as a process.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A command on a data folder, without settings from the environment.
pub(crate) fn command(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terse"));
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TERSE_"))
    {
        command.env_remove(name);
    }
    // A folder without `terse.toml`.
    command
        .current_dir(data.parent().expect("a folder around it"))
        .arg("--data-dir")
        .arg(data)
        .stdin(Stdio::null());
    command
}

/// A server process on a free port.
pub(crate) struct Served {
    child: Child,
    pub(crate) url: String,
}

impl Served {
    pub(crate) fn start(data: &Path, settings: &[&str]) -> Self {
        Self::start_with(data, settings, Stdio::null())
    }

    /// Writes standard output to a file.
    #[allow(dead_code, reason = "not every test binary listens")]
    pub(crate) fn start_with_output(data: &Path, settings: &[&str], to: &Path) -> Self {
        let served =
            Self::start_with(data, settings, std::fs::File::create(to).expect("a file").into());
        let begun = Instant::now();
        // It prints after it has started to serve.
        while std::fs::read_to_string(to).unwrap_or_default().is_empty() {
            assert!(begun.elapsed() < TIMEOUT, "terse says nothing");
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    fn start_with(data: &Path, settings: &[&str], stdout: Stdio) -> Self {
        let mut command = command(data);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        Self::spawn(data, command.stdout(stdout).stderr(Stdio::piped()))
    }

    /// Starts a command that serves on the data folder.
    pub(crate) fn spawn(data: &Path, command: &mut Command) -> Self {
        let child = command.spawn().expect("terse starts");
        let mut served = Self { child, url: String::new() };
        let begun = Instant::now();
        while served.url.is_empty() {
            if let Some(status) = served.child.try_wait().expect("a status") {
                panic!("terse ended with {status}: {}", served.said());
            }
            assert!(begun.elapsed() < TIMEOUT, "terse does not start");
            // Written after the port is open.
            let note = std::fs::read_to_string(data.join("run.json")).unwrap_or_default();
            let note: Value = serde_json::from_str(&note).unwrap_or_default();
            if note["pid"] == served.child.id() {
                served.url = note["url"].as_str().expect("a URL").to_owned();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    /// Status, `Location` and body of a GET; status 0 without a server.
    pub(crate) fn get(&self, path: &str) -> (u16, Option<String>, String) {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(10)))
            .build()
            .into();
        match agent.get(format!("{}{path}", self.url)).call() {
            Ok(mut answer) => {
                let location = answer
                    .headers()
                    .get("location")
                    .map(|at| String::from_utf8_lossy(at.as_bytes()).into_owned());
                (
                    answer.status().as_u16(),
                    location,
                    answer.body_mut().read_to_string().unwrap_or_default(),
                )
            }
            Err(_) => (0, None, String::new()),
        }
    }

    /// Status and body of an API call with this key; each line of a response is an item if the
    /// whole is no JSON.
    #[allow(dead_code, reason = "not every test binary calls")]
    pub(crate) fn call(
        &self,
        key: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .build()
            .into();
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}/api/v1{path}", self.url))
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json");
        let body = body.map_or(String::new(), |body| body.to_string());
        let mut answer = agent.run(request.body(body).unwrap()).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        if text.is_empty() {
            return (answer.status().as_u16(), Value::Null);
        }
        let lines = || text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let body = serde_json::from_str(&text).unwrap_or_else(|_| Value::Array(lines()));
        (answer.status().as_u16(), body)
    }

    /// The reading end of standard output, if it is a pipe.
    #[allow(dead_code, reason = "not every test binary listens")]
    pub(crate) fn stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once.
    #[allow(dead_code, reason = "not every test binary kills")]
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("kill runs");
        self.child.wait().expect("it ends");
    }

    /// Stops it for a while, as a busy machine does.
    #[allow(dead_code, reason = "not every test binary pauses")]
    pub(crate) fn pause(&self, time: Duration) {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).expect("kill runs");
        std::thread::sleep(time);
        kill_process(pid, Signal::CONT).expect("kill runs");
    }

    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("kill runs");
    }

    /// The exit status and the output.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a status") {
                return (status, self.said());
            }
            assert!(begun.elapsed() < TIMEOUT, "terse does not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn said(&mut self) -> String {
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        said
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // For failing tests: report whether the server was still running.
        let ended = self.child.try_wait().ok().flatten();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!(
                "the server had {}: {}",
                ended.map_or("not ended".into(), |how| format!("ended, {how}")),
                self.said()
            );
        }
    }
}

/// A data folder with an empty store, as the first start of a server leaves it.
#[allow(dead_code, reason = "not every test binary works without a server")]
pub(crate) fn store() -> (tempfile::TempDir, PathBuf) {
    let (temp, data) = folder();
    let server = Served::start(&data, &[]);
    server.terminate();
    server.wait();
    (temp, data)
}

/// A data folder inside a temporary folder.
pub(crate) fn folder() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().expect("a temporary folder");
    let data = temp.path().join("data");
    (temp, data)
}
