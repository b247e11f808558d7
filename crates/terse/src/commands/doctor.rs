//! `terse doctor`.

use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::Args;
use http::Method;
use serde_json::json;

use crate::backends;
use crate::backends::{DataDir, DataDirError};
use crate::cli::Context;
use crate::config::Config;
use terse_cli::terminal::{one_line, say};
use terse_core::{CheckResult, Clock, Finding, SelfCheck};
use terse_tls::Certificates;

/// Check the settings, the data folder and this machine, and say how to solve problems. If a server
/// runs on the data folder, it checks itself, with its own settings.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  terse doctor\n  terse doctor --deep --json\n\nExit code 1 if there \
        is a problem; warnings do not count."
)]
pub(crate) struct Doctor {
    /// Read the whole store, too; takes a while for a large one
    #[arg(long)]
    deep: bool,
    /// Let a deletion continue that stopped and named this number; the other checks are skipped
    #[arg(long, value_name = "ROUND", conflicts_with = "deep")]
    confirm: Option<u64>,
}

/// The checks that a running server and this command share.
pub(crate) struct Checks {
    config: Config,
}

impl Checks {
    pub(crate) fn new(config: Config) -> Self {
        Self { config }
    }

    /// The settings, the data folder and the machine.
    fn surroundings(&self) -> Vec<Finding> {
        let config = &self.config;
        let mut findings =
            vec![finding("settings", CheckResult::Good, "all known and within bounds", "")];
        findings.push(address(config));
        findings.extend(certificates(config, SystemTime::now()));
        findings.push(anonymous(config));
        findings.extend(unwanted_aliases(config));
        findings.extend(folder(config));
        findings.extend(loss(&config.store_file()));
        findings.push(clock(SystemTime::now(), &config.store_file()));
        findings.push(open_files(config));
        findings
    }

    /// The stores' files.
    fn stores(&self, deep: bool) -> Vec<Finding> {
        let config = &self.config;
        if config.is_shared() {
            let mut findings = backends::inspect_database(config);
            findings.extend(backends::inspect_cache(config));
            if config.clicks_database().is_none() {
                findings.push(self.clicks(deep));
            }
            return findings;
        }
        vec![
            store(
                STORES[0],
                "links",
                &config.store_file(),
                deep,
                backends::inspect,
                backends::verify,
            ),
            self.clicks(deep),
            store(
                STORES[2],
                "owners",
                &config.registry_file(),
                deep,
                backends::inspect_registry,
                backends::verify_registry,
            ),
        ]
    }

    fn clicks(&self, deep: bool) -> Finding {
        store(
            STORES[1],
            "clicks",
            &self.config.clicks_file(),
            deep,
            backends::inspect_clicks,
            backends::verify_clicks,
        )
    }
}

/// The names of the checks of the stores' files.
const STORES: [&str; 3] = ["store", "clicks", "owners"];

impl SelfCheck for Checks {
    fn check(&self) -> Vec<Finding> {
        let mut findings = self.surroundings();
        findings.extend(self.stores(false));
        findings
    }
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
pub(crate) fn without_settings(error: &anyhow::Error, json: bool) -> anyhow::Result<bool> {
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

impl Doctor {
    pub(crate) fn run(&self, context: &Context) -> anyhow::Result<bool> {
        if let Some(round) = self.confirm {
            return confirm(context.config(), round, context.json);
        }
        let checks = Checks::new(context.config().clone());
        let mut findings = match server(context.config()) {
            // Its settings may differ from those of this command.
            Server::Checked(mut findings) => {
                findings.extend(removals(context.config()));
                if self.deep {
                    findings.retain(|finding| !STORES.contains(&finding.what.as_str()));
                    findings.extend(checks.stores(true));
                }
                return tell(&findings, context.json);
            }
            Server::Unchecked(finding) => vec![finding],
        };
        findings.splice(0..0, checks.surroundings());
        findings.extend(checks.stores(self.deep));
        tell(&findings, context.json)
    }
}

/// Confirms a removal that stopped.
fn confirm(config: &Config, round: u64, json: bool) -> anyhow::Result<bool> {
    let api = crate::local_api::open(config)?;
    let path = format!("/api/v1/admin/removals/{round}/confirm");
    let answer = api.call(&Method::POST, &path, None)?;
    let (verdict, found) = match answer.status {
        200 => (CheckResult::Good, format!("round {round} is confirmed; the deletion continues")),
        404 => (CheckResult::Problem, format!("no deletion with the number {round} waits")),
        status => (CheckResult::Problem, format!("the server answers {status}")),
    };
    let advice = "run `terse doctor`: it shows what waits, and its number";
    tell(&[finding("removals", verdict, found, advice)], json)
}

/// A deletion by age that stopped and waits for a confirmation.
fn removals(config: &Config) -> Option<Finding> {
    let api = crate::local_api::open(config).ok()?;
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
        let mark = match finding.verdict {
            CheckResult::Good => '✔',
            CheckResult::Warning => '!',
            CheckResult::Problem => '✖',
        };
        say(&format!("{mark} {}: {}", finding.what, one_line(&finding.found)))?;
        if finding.verdict != CheckResult::Good && !finding.advice.is_empty() {
            say(&format!("    {}", finding.advice))?;
        }
    }
    Ok(well)
}

fn address(config: &Config) -> Finding {
    let what = "base_url";
    let url = config.base_url();
    let text = url.as_str().trim_end_matches('/').to_owned();
    let inside = match url.host() {
        Some(url::Host::Ipv4(ip)) => !terse_core::is_public_address(ip.into()),
        Some(url::Host::Ipv6(ip)) => !terse_core::is_public_address(ip.into()),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => true,
    };
    if inside && !config.listen.ip().is_loopback() {
        return finding(
            what,
            CheckResult::Warning,
            format!("{text} cannot be visited from elsewhere"),
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

/// The certificates, if terse has a listener for TLS.
fn certificates(config: &Config, now: SystemTime) -> Vec<Finding> {
    let what = "certificates";
    if config.tls.listen.is_none() {
        return Vec::new();
    }
    let found = match crate::tls::open_files(config) {
        Ok(files) => Certificates::of(&files.certificates()),
        Err(error) => {
            let advice = "correct tls.certificate and tls.key; the server keeps the old ones until \
                          it stops";
            return vec![finding(what, CheckResult::Problem, error.to_string(), advice)];
        }
    };
    let mut findings = Vec::new();
    for key in config.tls.key.0.iter().filter(|key| terse_tls::readable_by_others(key)) {
        let found = format!("every user of this machine can read {}", key.display());
        let advice = "chmod 600 the file, and make the user that runs terse its owner";
        findings.push(finding("tls.key", CheckResult::Warning, found, advice));
    }
    let base = config.base_url();
    let hosts = base.host_str().into_iter().chain(config.domains.iter().map(String::as_str));
    let hosts = hosts.chain(config.api.host.as_deref());
    for host in hosts.filter(|host| found.for_name(host).is_none()) {
        let found = format!("none is for {host}: browsers warn its visitors");
        let advice = "add a certificate for it to tls.certificate and tls.key";
        findings.push(finding(what, CheckResult::Warning, found, advice));
    }
    let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
    let soonest = found.expiries().into_iter().min_by_key(|(_, ends)| *ends);
    let Some((name, ends)) = soonest else { return findings };
    let days = (ends - now).div_euclid(86_400);
    let (verdict, found) = match days {
        ..0 => (CheckResult::Problem, format!("the one for {name} has expired")),
        0..crate::tls::EXPIRES_SOON_DAYS => {
            (CheckResult::Warning, format!("the one for {name} expires in {days} days"))
        }
        _ => (CheckResult::Good, format!("the first to expire, for {name}, has {days} days left")),
    };
    findings.push(finding(what, verdict, found, "renew it; terse reads the new file by itself"));
    findings
}

fn anonymous(config: &Config) -> Finding {
    if config.anonymous.create && !config.listen.ip().is_loopback() {
        let found = format!(
            "anyone who reaches {} can make links for {}",
            config.listen, config.anonymous.ttl
        );
        return finding(
            "anonymous",
            CheckResult::Warning,
            found,
            "set anonymous.create = false unless this is meant",
        );
    }
    let found =
        if config.anonymous.create { "allowed, on this machine only" } else { "not allowed" };
    finding("anonymous", CheckResult::Good, found, "")
}

/// The list of unwanted aliases, if the settings name one.
fn unwanted_aliases(config: &Config) -> Option<Finding> {
    config.links.unwanted_aliases.as_ref()?;
    let (what, advice) =
        ("unwanted_aliases", "correct links.unwanted_aliases, or make it readable");
    Some(match crate::serve::unwanted_aliases(config) {
        Ok(unwanted) => {
            let (count, skipped) = (unwanted.len(), unwanted.skipped());
            let found = match skipped {
                0 => format!("{count} aliases"),
                _ => format!("{count} aliases; lines that cannot be an alias: {skipped}"),
            };
            finding(what, CheckResult::Good, found, "")
        }
        Err(error) => finding(what, CheckResult::Problem, format!("{error:#}"), advice),
    })
}

fn folder(config: &Config) -> Vec<Finding> {
    let what = "data_dir";
    let path = &config.data_dir;
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
                format!("{shown} does not exist yet; the first start makes it"),
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
        let reserve = config.storage.reserve;
        let verdict = match free {
            0..100 => CheckResult::Problem,
            _ if free < reserve.bytes() >> 20 => CheckResult::Problem,
            100..1024 => CheckResult::Warning,
            _ => CheckResult::Good,
        };
        let advice = match free < reserve.bytes() >> 20 {
            true => "make room: clicks are counted and not stored one by one",
            false => "make room: without it, no link can be made",
        };
        let found = format!("{free} MiB free, storage.reserve = {reserve}");
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

fn server(config: &Config) -> Server {
    let what = "server";
    let unchecked =
        |verdict, found: String, advice| Server::Unchecked(finding(what, verdict, found, advice));
    let Some(dir) = DataDir::existing(&config.data_dir) else {
        return unchecked(CheckResult::Good, "not running".into(), "");
    };
    let pid = match dir.lock() {
        Ok(_) => return unchecked(CheckResult::Good, "not running".into(), ""),
        Err(DataDirError::InUse { pid, .. }) => pid,
        Err(error) => {
            return unchecked(
                CheckResult::Problem,
                format!("{:#}", anyhow::Error::new(error)),
                "make the data folder's owner the user that runs terse",
            );
        }
    };
    let who = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    let asked = crate::local_api::open(config)
        .and_then(|api| api.call(&Method::GET, "/api/v1/admin/doctor", None));
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
fn store(
    what: &'static str,
    held: &str,
    file: &Path,
    deep: bool,
    inspect: impl Fn(&Path) -> anyhow::Result<()>,
    verify: impl Fn(&Path) -> anyhow::Result<Option<u64>>,
) -> Finding {
    let Ok(meta) = std::fs::metadata(file) else {
        return finding(
            what,
            CheckResult::Good,
            format!("{} does not exist yet", file.display()),
            "",
        );
    };
    let looked = if deep { verify(file) } else { inspect(file).map(|()| None) };
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

/// Whether the store has lost writes within the last month.
fn loss(store: &Path) -> Option<Finding> {
    let at = backends::last_loss(store)?;
    let month_ago = Clock::default().now().saturating_sub(Duration::from_hours(30 * 24));
    let found = format!(
        "on {at} the links file had lost writes: its log was damaged, or an older copy was put back"
    );
    let advice = "look for links that are missing, and restore a backup that has them; no code \
                  was issued twice";
    (at > month_ago).then(|| finding("lost writes", CheckResult::Warning, found, advice))
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

fn open_files(config: &Config) -> Finding {
    let what = "open files";
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    // Besides connections: the store, its readers, the log, and listeners.
    let wanted = u64::from(config.redirect.max_connections) + 256;
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
        let config = |listen: &str, base: Option<&str>| Config {
            listen: listen.parse().unwrap(),
            base_url: base.map(|base| base.parse().unwrap()),
            ..Config::default()
        };
        for (listen, base, verdict) in [
            ("127.0.0.1:1", None, CheckResult::Good),
            ("0.0.0.0:1", None, CheckResult::Warning),
            ("0.0.0.0:1", Some("http://10.0.0.1"), CheckResult::Warning),
            ("127.0.0.1:1", Some("http://go.example"), CheckResult::Warning),
            ("127.0.0.1:1", Some("https://go.example"), CheckResult::Good),
        ] {
            assert_eq!(address(&config(listen, base)).verdict, verdict, "{listen} {base:?}");
        }
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
        let config = |path: &Path| Config { data_dir: path.to_owned(), ..Config::default() };
        assert_eq!(folder(&config(&temp.path().join("absent")))[0].verdict, CheckResult::Good);
        let file = temp.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(folder(&config(&file))[0].verdict, CheckResult::Problem);
        let dir = DataDir::open(&temp.path().join("data")).unwrap();
        assert_eq!(folder(&config(dir.path()))[0].verdict, CheckResult::Good);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(folder(&config(dir.path()))[0].verdict, CheckResult::Warning);
        }
        let Server::Unchecked(found) = server(&config(dir.path())) else { panic!("no server") };
        assert_eq!(found.found, "not running");
    }
}
