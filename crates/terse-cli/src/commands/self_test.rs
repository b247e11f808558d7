//! `terse self-test`.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use http::Method;
use serde_json::{Value, json};
use terse_core::Secret;
use url::Url;

use super::{URLS, text};
use crate::client::{ApiClient, segment};
use crate::terminal::{one_line, say};

/// How long each step may take; slow disks and busy machines included.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often a step looks whether it is done.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The most that is read of what a program prints, in bytes.
const MAX_OUTPUT: u64 = 64 << 10;
/// Where the test's link leads. The test does not go there.
const TARGET: &str = "https://example.com/terse-self-test";

/// Check on this machine that terse works: start a server on a temporary folder and a free port of
/// 127.0.0.1, create a link, follow it, count the click, back up, restore, and follow it again.
/// Neither your data nor your settings nor other machines are used.
#[derive(Args, Debug)]
#[command(
    name = "self-test",
    after_help = "\
Examples:
  terse self-test
  terse self-test --dir /var/lib      on the disk that will hold the data

Exit code 1 if something does not work."
)]
pub struct SelfTestArgs {
    /// Create the temporary folder in this one [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl SelfTestArgs {
    /// Runs the steps until one fails.
    pub fn run(&self, json: bool) -> anyhow::Result<bool> {
        let builder = tempfile::Builder::new().prefix("terse-self-test").to_owned();
        let folder = match &self.dir {
            Some(dir) => builder.tempdir_in(dir),
            None => builder.tempdir(),
        };
        let folder = folder.context("creating a temporary folder (--dir names another place)")?;
        let mut steps = Steps { json, done: Vec::new(), failed: false };
        let result = steps.all(folder.path());
        if json {
            say(&json!({ "well": !steps.failed, "steps": steps.done }).to_string())?;
        } else if !steps.failed {
            say("terse works on this machine.")?;
        }
        result.map(|()| !steps.failed)
    }
}

/// The steps so far.
struct Steps {
    json: bool,
    done: Vec<Value>,
    failed: bool,
}

impl Steps {
    /// Runs one step and prints its result; `None` if it failed.
    fn step<T>(
        &mut self,
        what: &str,
        run: impl FnOnce() -> anyhow::Result<(T, String)>,
    ) -> anyhow::Result<Option<T>> {
        let (works, found, value) = match run() {
            Ok((value, found)) => (true, found, Some(value)),
            Err(error) => (false, format!("{error:#}"), None),
        };
        self.failed |= !works;
        if self.json {
            self.done.push(json!({ "what": what, "works": works, "found": found }));
        } else {
            let mark = if works { '✔' } else { '✖' };
            say(&format!("{mark} {what}: {}", one_line(&found)))?;
        }
        Ok(value)
    }

    fn all(&mut self, folder: &Path) -> anyhow::Result<()> {
        let (data, copy) = (folder.join("data"), folder.join("backup"));
        let Some(server) = self.step("start", || started(&data))? else { return Ok(()) };
        let Some(code) = self.step("create a link", || server.create())? else { return Ok(()) };
        let steps = [
            self.step("follow it", || server.follow(&code))?,
            self.step("count the click", || server.count(&code))?,
            self.step("back up", || backup(&data, &copy))?,
            self.step("stop", || server.stop())?,
        ];
        if steps.contains(&None) {
            return Ok(());
        }
        let data = folder.join("restored");
        let restored = self.step("restore", || restore(&data, &copy))?;
        if restored.is_none() {
            return Ok(());
        }
        let Some(server) = self.step("start again", || started(&data))? else { return Ok(()) };
        self.step("follow it again", || server.follow(&code))?;
        self.step("stop again", || server.stop())?;
        Ok(())
    }
}

/// This program, without settings from the environment or the folder that it was started in.
fn program(data: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    for (name, _) in std::env::vars_os() {
        let shown = name.to_string_lossy();
        if shown.starts_with("TERSE_") || shown.starts_with("LISTEN_") {
            command.env_remove(&name);
        }
    }
    let around = data.parent().context("the data folder has no parent")?;
    command.current_dir(around).arg("--data-dir").arg(data).stdin(Stdio::null());
    Ok(command)
}

/// Runs a command to its end; its own words if it fails.
fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().context("starting this program")?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(said)
}

fn backup(data: &Path, copy: &Path) -> anyhow::Result<((), String)> {
    let said = run(program(data)?.args(["--json", "backup"]).arg(copy))?;
    let manifest: Value = serde_json::from_str(&said).context("reading what the backup printed")?;
    ensure!(manifest["links"] == 1, "the backup has {} links instead of 1", manifest["links"]);
    Ok(((), "1 link, read back and compared with its checksum".into()))
}

fn restore(data: &Path, copy: &Path) -> anyhow::Result<((), String)> {
    run(program(data)?.arg("restore").arg(copy))?;
    Ok(((), "into an empty folder".into()))
}

/// A server process, which ends with this value.
struct Server {
    child: std::cell::RefCell<Child>,
    url: Url,
    api: ApiClient,
}

/// Starts a server and waits until it serves.
fn started(data: &Path) -> anyhow::Result<(Server, String)> {
    let begun = Instant::now();
    let mut command = program(data)?;
    command.args(["serve", "--listen", "127.0.0.1:0", "--set", "shutdown.drain_delay=0s"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = Ended(Some(child.context("starting this program")?));
    let (url, key) = loop {
        let process = child.0.as_mut().context("the process is gone")?;
        if let Some(status) = process.try_wait()? {
            bail!("the server ended with {status}: {}", said(process));
        }
        // The server writes it when it serves.
        let run = std::fs::read(data.join("run.json")).unwrap_or_default();
        let run: Value = serde_json::from_slice(&run).unwrap_or_default();
        if run["pid"] == process.id() {
            break (text(&run, "url").to_owned(), Secret::new(text(&run, "key")));
        }
        ensure!(begun.elapsed() < TIMEOUT, "the server does not serve after {TIMEOUT:?}");
        std::thread::sleep(POLL_INTERVAL);
    };
    let url = Url::parse(&url).context("run.json does not say where the server is")?;
    let api = ApiClient::same_machine(url.clone(), key, String::new());
    let found = format!("serves after {} ms on {url}", begun.elapsed().as_millis());
    let child = child.0.take().context("the process is gone")?.into();
    Ok((Server { child, url, api }, found))
}

impl Server {
    fn create(&self) -> anyhow::Result<(String, String)> {
        let body = json!({ "long_url": TARGET });
        let link = self.api.expect(&Method::POST, URLS, Some(&body))?.body;
        let code = text(&link, "short_code").to_owned();
        ensure!(!code.is_empty(), "the answer has no code");
        Ok((code, text(&link, "short_url").to_owned()))
    }

    fn follow(&self, code: &str) -> anyhow::Result<((), String)> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build()
            .into();
        let answer = agent.get(self.url.join(code)?.as_str()).call()?;
        let location = answer.headers().get("location").and_then(|at| at.to_str().ok());
        let (status, location) = (answer.status().as_u16(), location.unwrap_or_default());
        ensure!(
            status == 302 && location == TARGET,
            "the server answers {status} to {location:?} instead of 302 to {TARGET:?}"
        );
        Ok(((), format!("302 to {TARGET}")))
    }

    fn count(&self, code: &str) -> anyhow::Result<((), String)> {
        let (begun, path) = (Instant::now(), format!("{URLS}/{}/stats", segment(code)));
        loop {
            let stats = self.api.expect(&Method::GET, &path, None)?.body;
            if stats["total_clicks"] == 1 {
                return Ok(((), "1 click in the statistics".into()));
            }
            let clicks = &stats["total_clicks"];
            ensure!(begun.elapsed() < TIMEOUT, "{clicks} clicks instead of 1 after {TIMEOUT:?}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn stop(&self) -> anyhow::Result<((), String)> {
        let mut child = self.child.borrow_mut();
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::TERM,
        )?;
        let begun = Instant::now();
        loop {
            match child.try_wait()? {
                Some(status) if status.success() => break,
                Some(status) => bail!("the server ended with {status}: {}", said(&mut child)),
                None => ensure!(begun.elapsed() < TIMEOUT, "it still runs after {TIMEOUT:?}"),
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(((), "after SIGTERM, with exit code 0".into()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child.borrow_mut());
    }
}

/// Ends a process that has not been taken out.
struct Ended(Option<Child>);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            end(child);
        }
    }
}

fn end(child: &mut Child) {
    // An error means that it has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

/// What a process that has ended wrote to its log.
fn said(child: &mut Child) -> String {
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(MAX_OUTPUT).read_to_end(&mut said);
    }
    String::from_utf8_lossy(&said).trim().to_owned()
}
