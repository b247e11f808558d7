//! `terse doctor`: what is checked, by the settings.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use terse_cli::{DataFiles, DoctorChecks, LocalServer};
use terse_core::{
    CheckResult, Clock, Code, Domain, EdgeCache, Finding, LinkKey, ListenAddress, Purge, PurgeError,
};
use terse_tls::AcmeCertificates;
use tokio::task::JoinSet;

use crate::backends::{self, DataDir, DataDirError};
use crate::config::{CdnProvider, Config};
use crate::outgoing::edge_caches;

/// The checks for these settings.
pub(crate) fn checks(config: &Config) -> DoctorChecks {
    let DataFiles { links, clicks, owners, .. } = backends::data_files(config);
    let files = match (config.is_shared(), config.has_clicks_file()) {
        (true, false) => vec![],
        (true, true) => vec![("clicks", clicks)],
        (false, _) => vec![("store", links), ("clicks", clicks), ("owners", owners)],
    };
    let (tls, aliases, servers) = (config.clone(), config.clone(), config.clone());
    let store = config.store_file();
    DoctorChecks {
        base_url: config.base_url(),
        listen: config.listen.clone(),
        trusts_unix_peer: config
            .proxies()
            .is_ok_and(|proxies| proxies.trusts(ListenAddress::UNIX_PEER.ip())),
        anonymous_ttl: config.anonymous.create.then(|| config.anonymous.ttl.to_string()),
        data_dir: config.data_dir.clone(),
        reserve: (config.storage.reserve.bytes(), config.storage.reserve.to_string()),
        max_connections: config.redirect.max_connections,
        links_file: store.clone(),
        files,
        others: vec![
            Box::new(move || certificates(&tls)),
            Box::new(move || unwanted_aliases(&aliases).into_iter().collect()),
            Box::new(move || backends::lost_writes(&store).into_iter().collect()),
        ],
        servers: Box::new(move || {
            let mut findings = backends::inspect_database(&servers);
            findings.extend(backends::inspect_clickhouse(&servers));
            findings.extend(backends::inspect_bus(&servers));
            findings.extend(backends::inspect_cache(&servers));
            findings.extend(backends::inspect_archive(&servers));
            findings.extend(cdn(&servers));
            findings
        }),
    }
}

/// The checks of a running server, which knows the certificates that it ordered.
pub(crate) fn checks_of_server(
    config: &Config,
    acme: Option<Arc<AcmeCertificates>>,
) -> DoctorChecks {
    let mut checks = checks(config);
    checks.others.extend(acme.map(|acme| -> Check { Box::new(move || acme.findings()) }));
    checks
}

type Check = Box<dyn Fn() -> Vec<Finding> + Send + Sync>;

/// The server of the data folder.
pub(crate) fn server(config: &Config) -> LocalServer {
    match DataDir::existing(&config.data_dir).map(|dir| dir.lock()) {
        None | Some(Ok(_)) => LocalServer::Stopped,
        Some(Err(DataDirError::InUse { pid, .. })) => LocalServer::Running(pid),
        Some(Err(error)) => LocalServer::Unknown(format!("{:#}", anyhow::Error::new(error))),
    }
}

/// The certificates, if terse has a listener for TLS.
fn certificates(config: &Config) -> Vec<Finding> {
    if config.tls.listen.is_none() {
        return Vec::new();
    }
    let base = config.base_url();
    let hosts = base.host_str().into_iter().chain(config.domains.iter().map(String::as_str));
    let hosts = hosts.chain(config.api.host.as_deref());
    // A running server tells about the certificates that it ordered.
    let hosts = hosts.filter(|_| !config.tls.acme.enabled);
    let keys = config.tls.key.0.iter().map(PathBuf::as_path);
    terse_tls::findings(crate::serve::open_files(config).as_ref(), keys, hosts, SystemTime::now())
}

/// Asks each cache of the CDN to forget a link, which shows that address and token are right.
/// Blocks, and may be called on any thread.
fn cdn(config: &Config) -> Vec<Finding> {
    let finding = |verdict, found, advice: &str| {
        let (what, advice) = ("cdn".to_owned(), advice.to_owned());
        Finding { what, verdict, found, advice }
    };
    if config.cdn.enabled && config.cdn.purge == CdnProvider::CloudFront {
        let found = "CloudFront was not asked: invalidations may cost money".to_owned();
        return vec![finding(CheckResult::Good, found, "")];
    }
    let caches = edge_caches(config, &Clock::default());
    if caches.is_empty() {
        return Vec::new();
    }
    let asked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        anyhow::Ok(runtime.block_on(purge_one_link(caches)))
    });
    let Ok(Ok(answers)) = asked.join() else {
        return vec![finding(CheckResult::Problem, "it could not be checked".to_owned(), "")];
    };
    let answer = |(name, answer): (&str, Result<(), PurgeError>)| match answer {
        Ok(()) => finding(CheckResult::Good, format!("{name}: accepted"), ""),
        Err(error) => finding(
            CheckResult::Problem,
            format!("{name}: {:#}", anyhow::Error::new(error)),
            "correct the settings `cdn.*`: meanwhile edges serve changed and blocked links for \
             `cdn.ttl`",
        ),
    };
    answers.into_iter().map(answer).collect()
}

async fn purge_one_link(
    caches: Vec<(&'static str, Arc<dyn EdgeCache>)>,
) -> Vec<(&'static str, Result<(), PurgeError>)> {
    let mut asking = JoinSet::new();
    for (name, cache) in caches {
        asking.spawn(async move {
            // Forgetting is harmless, whether there is such a link or not.
            let code = Code::parse("terse-doctor").into_iter();
            let links = code.map(|code| LinkKey { domain: Domain::primary(), code }).collect();
            (name, cache.purge(&Purge::Links(links)).await)
        });
    }
    let mut answers = asking.join_all().await;
    answers.sort_unstable_by_key(|(name, _)| *name);
    answers
}

/// The list of unwanted aliases, if the settings name one.
fn unwanted_aliases(config: &Config) -> Option<Finding> {
    config.links.unwanted_aliases.as_ref()?;
    let (verdict, found, advice) = match crate::serve::unwanted_aliases(config) {
        Ok(unwanted) => {
            let (count, skipped) = (unwanted.len(), unwanted.skipped());
            let found = match skipped {
                0 => format!("{count} aliases"),
                _ => format!("{count} aliases; lines that cannot be an alias: {skipped}"),
            };
            (CheckResult::Good, found, "")
        }
        Err(error) => {
            let advice = "correct links.unwanted_aliases, or make it readable";
            (CheckResult::Problem, format!("{error:#}"), advice)
        }
    };
    let (what, advice) = ("unwanted_aliases".to_owned(), advice.to_owned());
    Some(Finding { what, verdict, found, advice })
}
