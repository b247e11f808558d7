//! `terse doctor`.

mod watch;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use http::Method;
use serde_json::json;
use terse_core::{CheckResult, Finding, HumanDuration, ListenAddress, SelfCheck};
use url::Url;

use crate::client::ApiClient;
use crate::data_files::DataFile;
use crate::terminal::{one_line, say};

/// Check the settings, the data folder and this machine, and say how to solve problems. If a server
/// runs on the data folder, that server makes the checks, with its own settings.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  terse doctor\n  terse doctor --deep --json\n  terse doctor --watch 30s\n\nExit code 1 if there \
        is a problem; warnings do not count."
)]
pub struct DoctorArgs {
    /// Read the whole store, too; takes a while for a large one
    #[arg(long)]
    deep: bool,
    /// Confirm the deletion by age that stopped in this round, and check nothing else
    #[arg(long, value_name = "ROUND", conflicts_with = "deep")]
    confirm: Option<u64>,
    /// Check again at this interval (10s if none is given), and print each result that changes
    #[arg(
        long,
        value_name = "INTERVAL",
        num_args = 0..=1,
        default_missing_value = "10s",
        conflicts_with_all = ["deep", "confirm"]
    )]
    watch: Option<HumanDuration>,
}

/// The checks that a running server and this command share.
pub struct DoctorChecks {
    /// The address of this server for visitors.
    pub base_url: Url,
    /// Where it listens.
    pub listen: ListenAddress,
    /// Whether `trusted_proxies` has the address of clients at a Unix socket.
    pub trusts_unix_peer: bool,
    /// How long a link without an owner lives; `None` if `anonymous.create` is off.
    pub anonymous_ttl: Option<String>,
    /// The data folder.
    pub data_dir: PathBuf,
    /// The free space that `storage.reserve` keeps, in bytes and as it is set.
    pub reserve: (u64, String),
    /// The most connections.
    pub max_connections: u32,
    /// The file of the links. It shows when the store was last written.
    pub links_file: PathBuf,
    /// The files of the stores, each with the name of its check.
    pub files: Vec<(&'static str, DataFile)>,
    /// Checks of other components, after those of the settings.
    pub others: Vec<Box<dyn Fn() -> Vec<Finding> + Send + Sync>>,
    /// Checks of databases and caches.
    pub servers: Box<dyn Fn() -> Vec<Finding> + Send + Sync>,
}

impl DoctorChecks {
    /// The settings, the data folder and the machine.
    fn environment(&self) -> Vec<Finding> {
        let mut findings =
            vec![finding("settings", CheckResult::Good, "all known and within bounds", "")];
        findings.push(address(&self.base_url, &self.listen));
        findings.extend(unix_socket(&self.listen, self.trusts_unix_peer));
        findings.push(anonymous(self.anonymous_ttl.as_deref(), &self.listen));
        findings.extend(self.others.iter().flat_map(|check| check()));
        findings.extend(folder(&self.data_dir, &self.reserve));
        findings.push(clock(SystemTime::now(), &self.links_file));
        findings.push(open_files(self.max_connections));
        findings
    }

    /// The stores.
    fn stores(&self, deep: bool) -> Vec<Finding> {
        let mut findings = (self.servers)();
        findings.extend(self.files.iter().map(|(what, file)| store(what, file, deep)));
        findings
    }

    fn is_of_file(&self, finding: &Finding) -> bool {
        self.files.iter().any(|(what, _)| *what == finding.what)
    }
}

impl SelfCheck for DoctorChecks {
    fn check(&self) -> Vec<Finding> {
        let mut findings = self.environment();
        findings.extend(self.stores(false));
        findings
    }
}

/// The server of the data folder.
pub enum LocalServer {
    /// None runs.
    Stopped,
    /// One runs, with this process id if it is known.
    Running(Option<u32>),
    /// Not known, and why.
    Unknown(String),
}

/// What the command needs besides the checks.
pub struct DoctorContext {
    /// Print JSON.
    pub json: bool,
    /// Finds out whether a server runs on the data folder.
    pub server: Box<dyn Fn() -> LocalServer>,
    /// Opens the API of the local data folder.
    pub local: Box<dyn Fn() -> anyhow::Result<ApiClient>>,
}

fn finding(
    what: &'static str,
    verdict: CheckResult,
    found: impl Into<String>,
    advice: &'static str,
) -> Finding {
    // A good result needs no advice.
    let advice = if verdict == CheckResult::Good { "" } else { advice };
    Finding { what: what.to_owned(), verdict, found: found.into(), advice: advice.to_owned() }
}

/// The report if the settings cannot be loaded.
pub fn without_settings(error: &anyhow::Error, json: bool) -> anyhow::Result<bool> {
    tell(
        &[finding(
            "settings",
            CheckResult::Problem,
            format!("{error:#}"),
            "correct it; `terse config --markdown` lists every setting",
        )],
        json,
    )
}

impl DoctorArgs {
    /// Runs the checks, or asks the running server for them.
    pub fn run(&self, checks: &DoctorChecks, context: &DoctorContext) -> anyhow::Result<bool> {
        if let Some(round) = self.confirm {
            return confirm(context, round);
        }
        match self.watch {
            Some(interval) => {
                watch::watch(interval.get(), context.json, || self.findings(checks, context))
            }
            None => tell(&self.findings(checks, context), context.json),
        }
    }

    fn findings(&self, checks: &DoctorChecks, context: &DoctorContext) -> Vec<Finding> {
        let mut findings = match server(context) {
            // Its settings may differ from those of this command.
            Server::Checked(mut findings) => {
                findings.extend(removals(context));
                if self.deep {
                    findings.retain(|finding| !checks.is_of_file(finding));
                    findings
                        .extend(checks.files.iter().map(|(what, file)| store(what, file, true)));
                }
                return findings;
            }
            Server::Unchecked(finding) => vec![finding],
        };
        findings.splice(0..0, checks.environment());
        findings.extend(checks.stores(self.deep));
        findings
    }
}

/// Confirms a removal that stopped.
fn confirm(context: &DoctorContext, round: u64) -> anyhow::Result<bool> {
    let path = format!("/api/v1/admin/removals/{round}/confirm");
    let answer = (context.local)()?.call(&Method::POST, &path, None)?;
    let (verdict, found) = match answer.status {
        200 => (CheckResult::Good, format!("round {round} is confirmed; the deletion continues")),
        404 => (CheckResult::Problem, format!("no deletion with the number {round} waits")),
        status => (CheckResult::Problem, format!("the server answers {status}")),
    };
    let advice = "run `terse doctor`: it shows what waits, and its number";
    tell(&[finding("removals", verdict, found, advice)], context.json)
}

/// A deletion by age that stopped and waits for a confirmation.
fn removals(context: &DoctorContext) -> Option<Finding> {
    let api = (context.local)().ok()?;
    let answer = api.call(&Method::GET, "/api/v1/admin/removals", None).ok()?;
    let waiting = &answer.body["waiting"];
    let found = format!("round {} stopped: {}", waiting["round"], waiting["why"].as_str()?);
    let advice = "check this machine's clock; if the deletion is right, run `terse doctor \
                  --confirm` with the number of the round";
    Some(finding("removals", CheckResult::Problem, found, advice))
}

fn tell(findings: &[Finding], json: bool) -> anyhow::Result<bool> {
    let well = findings.iter().all(|finding| finding.verdict != CheckResult::Problem);
    if json {
        let list: Vec<_> = findings
            .iter()
            .map(|f| {
                let verdict = f.verdict.as_str();
                json!({ "what": f.what, "verdict": verdict, "found": f.found, "advice": f.advice })
            })
            .collect();
        say(&json!({ "well": well, "findings": list }).to_string())?;
        return Ok(well);
    }
    for finding in findings {
        let mark = mark(finding.verdict);
        say(&format!("{mark} {}: {}", finding.what, one_line(&finding.found)))?;
        if finding.verdict != CheckResult::Good && !finding.advice.is_empty() {
            say(&format!("    {}", finding.advice))?;
        }
    }
    Ok(well)
}

fn mark(verdict: CheckResult) -> char {
    match verdict {
        CheckResult::Good => '✔',
        CheckResult::Warning => '!',
        CheckResult::Problem => '✖',
    }
}

fn address(url: &Url, listen: &ListenAddress) -> Finding {
    let what = "base_url";
    let text = url.as_str().trim_end_matches('/').to_owned();
    let inside = match url.host() {
        Some(url::Host::Ipv4(ip)) => !terse_core::is_public_address(ip.into()),
        Some(url::Host::Ipv6(ip)) => !terse_core::is_public_address(ip.into()),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => true,
    };
    if inside && !listen.is_local() {
        return finding(
            what,
            CheckResult::Warning,
            format!("{text} cannot be reached from the public Internet"),
            "set base_url to the address that visitors use",
        );
    }
    if inside {
        return finding(what, CheckResult::Good, format!("{text}, for this machine only"), "");
    }
    if url.scheme() == "http" {
        return finding(
            what,
            CheckResult::Warning,
            format!("{text} is not https"),
            "set tls.listen, or put a proxy with TLS in front, and set base_url to the https:// \
             address",
        );
    }
    finding(what, CheckResult::Good, text, "")
}

/// A server at a Unix socket gets all visitors through a proxy.
fn unix_socket(listen: &ListenAddress, trusts_unix_peer: bool) -> Option<Finding> {
    let found = match trusts_unix_peer {
        true => format!("{listen}, for a trusted proxy"),
        false => format!("all visitors at {listen} count as one, the proxy"),
    };
    let verdict = if trusts_unix_peer { CheckResult::Good } else { CheckResult::Warning };
    let advice = "add 127.0.0.1 to trusted_proxies, and let the proxy send X-Forwarded-For";
    listen.unix().map(|_| finding("listen", verdict, found, advice))
}

fn anonymous(ttl: Option<&str>, listen: &ListenAddress) -> Finding {
    let what = "anonymous";
    match ttl {
        Some(ttl) if !listen.is_local() => finding(
            what,
            CheckResult::Warning,
            format!("anyone who reaches {listen} can create links that expire after {ttl}"),
            "set anonymous.create = false unless this is meant",
        ),
        Some(_) => finding(what, CheckResult::Good, "allowed, on this machine only", ""),
        None => finding(what, CheckResult::Good, "not allowed", ""),
    }
}

fn folder(path: &Path, (reserve, reserve_shown): &(u64, String)) -> Vec<Finding> {
    let what = "data_dir";
    let shown = path.display();
    if !path.is_dir() {
        return vec![if path.exists() {
            finding(
                what,
                CheckResult::Problem,
                format!("{shown} is not a folder"),
                "name another with data_dir",
            )
        } else {
            finding(
                what,
                CheckResult::Good,
                format!("{shown} does not exist yet; the first start creates it"),
                "",
            )
        }];
    }
    let mut findings = Vec::new();
    let own_eyes = "chmod 700 the folder: it holds keys";
    findings.push(match (tempfile::tempfile_in(path), others_may(path)) {
        (Err(error), _) => finding(
            what,
            CheckResult::Problem,
            format!("{shown} cannot be written: {error}"),
            "make its owner the user that runs terse",
        ),
        (Ok(_), true) => {
            finding(what, CheckResult::Warning, format!("{shown} is open to other users"), own_eyes)
        }
        (Ok(_), false) => {
            finding(what, CheckResult::Good, format!("{shown} is writable, and private"), "")
        }
    });
    if let Ok(space) = rustix::fs::statvfs(path) {
        let free = space.f_bavail.saturating_mul(space.f_frsize) >> 20;
        let verdict = match free {
            0..100 => CheckResult::Problem,
            _ if free < reserve >> 20 => CheckResult::Problem,
            100..1024 => CheckResult::Warning,
            _ => CheckResult::Good,
        };
        let advice = match free < reserve >> 20 {
            true => "free disk space: clicks are counted and not stored one by one",
            false => "free disk space: without it no link can be created",
        };
        let found = format!("{free} MiB free, storage.reserve = {reserve_shown}");
        findings.push(finding("space", verdict, found, advice));
    }
    findings
}

#[cfg(unix)]
fn others_may(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn others_may(_path: &Path) -> bool {
    false
}

/// What is known about the server of the data folder.
enum Server {
    /// It runs, and has checked itself.
    Checked(Vec<Finding>),
    /// None runs, or it could not check itself.
    Unchecked(Finding),
}

/// The check of the server itself.
const SERVER: &str = "server";

fn server(context: &DoctorContext) -> Server {
    let what = SERVER;
    let unchecked =
        |verdict, found: String, advice| Server::Unchecked(finding(what, verdict, found, advice));
    let pid = match (context.server)() {
        LocalServer::Stopped => return unchecked(CheckResult::Good, "not running".into(), ""),
        LocalServer::Running(pid) => pid,
        LocalServer::Unknown(error) => {
            return unchecked(
                CheckResult::Problem,
                error,
                "make the data folder's owner the user that runs terse",
            );
        }
    };
    let who = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    let asked =
        (context.local)().and_then(|api| api.call(&Method::GET, "/api/v1/admin/doctor", None));
    match asked {
        Ok(answer) if answer.status == 200 => {
            let running = format!("running{who}; the other findings are its own");
            let mut findings = vec![finding(what, CheckResult::Good, running, "")];
            findings.extend(answer.body["findings"].as_array().into_iter().flatten().map(read));
            Server::Checked(findings)
        }
        Ok(answer) => unchecked(
            CheckResult::Problem,
            format!("running{who}, and answers {}", answer.status),
            "look at its log",
        ),
        Err(error) => unchecked(
            CheckResult::Problem,
            format!("running{who}, but {error:#}"),
            "look at its log; restart it if it hangs",
        ),
    }
}

/// A finding of the server.
fn read(body: &serde_json::Value) -> Finding {
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    Finding {
        what: text("what"),
        verdict: CheckResult::parse(&text("verdict")).unwrap_or(CheckResult::Problem),
        found: text("found"),
        advice: text("advice"),
    }
}

/// Checks one of the store's files and counts its entries.
fn store(what: &'static str, of: &DataFile, deep: bool) -> Finding {
    let (file, held) = (of.path.as_path(), of.holds);
    let Ok(meta) = std::fs::metadata(file) else {
        return finding(
            what,
            CheckResult::Good,
            format!("{} does not exist yet", file.display()),
            "",
        );
    };
    let looked = if deep { (of.verify)(file) } else { (of.inspect)(file).map(|()| None) };
    match looked {
        Ok(_) if !deep => {
            let found =
                format!("{}, {} KiB (--deep reads all of it)", file.display(), meta.len() >> 10);
            finding(what, CheckResult::Good, found, "")
        }
        Ok(count) => {
            let count = count.map(|count| format!(", {count} {held}")).unwrap_or_default();
            finding(what, CheckResult::Good, format!("{} is sound{count}", file.display()), "")
        }
        Err(error) => finding(
            what,
            CheckResult::Problem,
            format!("{}: {error:#}", file.display()),
            "stop the server and restore the latest backup",
        ),
    }
}

fn clock(now: SystemTime, store: &Path) -> Finding {
    let what = "clock";
    let advice = "set this machine's clock, and keep it set with NTP";
    // 2025-01-01 to 2100-01-01: terse did not exist before; later dates need another check.
    let sane = Duration::from_secs(1_735_689_600)..Duration::from_secs(4_102_444_800);
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if !sane.contains(&since) {
        return finding(what, CheckResult::Problem, "far from any likely date", advice);
    }
    let written = std::fs::metadata(store).and_then(|meta| meta.modified()).ok();
    if written.is_some_and(|written| written > now + Duration::from_secs(300)) {
        return finding(what, CheckResult::Problem, "behind the last change of the store", advice);
    }
    finding(what, CheckResult::Good, "plausible", "")
}

fn open_files(max_connections: u32) -> Finding {
    let what = "open files";
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    // Besides connections: the store, its readers, the log, and listeners.
    let wanted = u64::from(max_connections) + 256;
    match limit.current {
        Some(now) if now < wanted => {
            let possible =
                limit.maximum.map_or("no bound".to_owned(), |maximum| maximum.to_string());
            let found = format!(
                "{now} allowed ({possible} possible), {wanted} wanted by redirect.max_connections"
            );
            finding(
                what,
                CheckResult::Warning,
                found,
                "raise LimitNOFILE (systemd) or `ulimit -n`, or lower redirect.max_connections",
            )
        }
        Some(now) => finding(what, CheckResult::Good, format!("{now} allowed"), ""),
        None => finding(what, CheckResult::Good, "no limit", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_has_its_verdict() {
        for (listen, base, verdict) in [
            ("127.0.0.1:1", "http://127.0.0.1:1", CheckResult::Good),
            ("0.0.0.0:1", "http://localhost:1", CheckResult::Warning),
            ("0.0.0.0:1", "http://10.0.0.1", CheckResult::Warning),
            ("127.0.0.1:1", "http://go.example", CheckResult::Warning),
            ("127.0.0.1:1", "https://go.example", CheckResult::Good),
            ("unix:/run/terse.sock", "https://go.example", CheckResult::Good),
        ] {
            let found = address(&base.parse().unwrap(), &listen.parse().unwrap());
            assert_eq!(found.verdict, verdict, "{listen} {base:?}");
        }
        let of = |listen: &str, trusted| {
            unix_socket(&listen.parse().unwrap(), trusted).map(|finding| finding.verdict)
        };
        assert_eq!(of("127.0.0.1:1", false), None);
        assert_eq!(of("unix:/run/terse.sock", false), Some(CheckResult::Warning));
        assert_eq!(of("unix:/run/terse.sock", true), Some(CheckResult::Good));
        let store = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(clock(SystemTime::now(), store.path()).verdict, CheckResult::Good);
        assert_eq!(clock(SystemTime::UNIX_EPOCH, store.path()).verdict, CheckResult::Problem);
        assert_eq!(
            clock(SystemTime::now() - Duration::from_secs(86_400), store.path()).verdict,
            CheckResult::Problem
        );
    }

    #[test]
    fn the_folder_is_looked_at() {
        let temp = tempfile::tempdir().unwrap();
        let verdict = |path: &Path| folder(path, &(0, "0".into()))[0].verdict;
        assert_eq!(verdict(&temp.path().join("absent")), CheckResult::Good);
        let file = temp.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(verdict(&file), CheckResult::Problem);
        #[cfg(unix)]
        for (mode, expected) in [(0o700, CheckResult::Good), (0o755, CheckResult::Warning)] {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(temp.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(verdict(temp.path()), expected, "{mode:o}");
        }
        let local = Box::new(|| anyhow::bail!("no server"));
        let stopped =
            DoctorContext { json: false, server: Box::new(|| LocalServer::Stopped), local };
        let Server::Unchecked(found) = server(&stopped) else { panic!("no server") };
        assert_eq!(found.found, "not running");
    }
}
