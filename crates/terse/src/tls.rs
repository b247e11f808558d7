//! The certificates of the listener for TLS: from the files in the settings, and again when these
//! change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use terse_core::{BoxError, Clock, Notices};
use terse_tls::{CertificateFiles, Certificates, ServerConfig, readable_by_others};
use terse_worker::{Context, Job, Next};

use crate::config::Config;

/// How often the job checks whether the files have changed.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// From so many days before a certificate expires, `/readyz` and `terse doctor` say so.
pub(crate) const EXPIRES_SOON_DAYS: i64 = 14;

/// The certificates in use and the files that they come from.
pub(crate) struct Tls {
    pub(crate) certificates: Arc<Certificates>,
    files: Arc<Mutex<CertificateFiles>>,
}

impl Tls {
    /// Reads the certificates of the settings.
    pub(crate) fn open(config: &Config) -> anyhow::Result<Self> {
        let files = open_files(config).context("tls.certificate and tls.key")?;
        for key in config.tls.key.0.iter().filter(|key| readable_by_others(key)) {
            let key = key.display().to_string();
            tracing::warn!(key, "every user of this machine can read a private key of tls.key");
        }
        let certificates = Arc::new(Certificates::of(&files.certificates()));
        Ok(Self { certificates, files: Arc::new(Mutex::new(files)) })
    }

    /// What the listener needs.
    pub(crate) fn server_config(&self) -> anyhow::Result<Arc<ServerConfig>> {
        terse_tls::server_config(Arc::clone(&self.certificates)).context("setting up TLS")
    }

    /// The job that reads changed files.
    pub(crate) fn reload_job(&self, clock: &Clock, notices: &Arc<Notices>) -> CertificateReload {
        CertificateReload {
            certificates: Arc::clone(&self.certificates),
            files: Arc::clone(&self.files),
            clock: clock.clone(),
            notices: Arc::clone(notices),
            failed: BTreeMap::new(),
        }
    }
}

/// Reads all files of the settings.
pub(crate) fn open_files(config: &Config) -> Result<CertificateFiles, terse_tls::CertificateError> {
    let certificates = config.tls.certificate.0.iter().cloned();
    CertificateFiles::open(certificates.zip(config.tls.key.0.iter().cloned()).collect())
}

/// Reads files that have changed. A file that cannot be used changes nothing.
pub(crate) struct CertificateReload {
    certificates: Arc<Certificates>,
    files: Arc<Mutex<CertificateFiles>>,
    clock: Clock,
    notices: Arc<Notices>,
    /// The last failure of each certificate, until its files can be used again.
    failed: BTreeMap<PathBuf, String>,
}

impl CertificateReload {
    fn reload(files: &Mutex<CertificateFiles>, certificates: &Certificates) -> Reloaded {
        let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = files.reload();
        if changed.iter().any(|(_, read)| read.is_ok()) {
            certificates.set(&files.certificates());
        }
        changed
            .into_iter()
            .map(|(path, read)| (path, read.map_err(|why| why.to_string())))
            .collect()
    }

    /// What the operator should know.
    fn notice(&self) -> Option<String> {
        if let Some(failed) = self.failed.values().next() {
            return Some(format!("a certificate was not replaced: {failed}"));
        }
        let now = self.clock.now().as_ms() / 1000;
        let (name, ends) =
            self.certificates.expiries().into_iter().min_by_key(|(_, ends)| *ends)?;
        match (ends - now).div_euclid(86_400) {
            ..0 => Some(format!("the certificate for {name} has expired")),
            days @ 0..EXPIRES_SOON_DAYS => {
                Some(format!("the certificate for {name} expires in {days} days"))
            }
            _ => None,
        }
    }
}

/// The changed files, each with the result.
type Reloaded = Vec<(PathBuf, Result<(), String>)>;

#[async_trait]
impl Job for CertificateReload {
    fn name(&self) -> &'static str {
        "certificates"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        let (files, certificates) = (Arc::clone(&self.files), Arc::clone(&self.certificates));
        let reload = tokio::task::spawn_blocking(move || Self::reload(&files, &certificates));
        for (path, read) in reload.await? {
            let shown = path.display().to_string();
            match read {
                Ok(()) => {
                    self.failed.remove(&path);
                    tracing::info!(path = shown, "a changed certificate is in use");
                }
                // A file that cannot be read is tried again and again.
                Err(error) if self.failed.get(&path) == Some(&error) => {}
                Err(error) => {
                    tracing::warn!(error, "a changed certificate is not used; the old one stays");
                    self.failed.insert(path, error);
                }
            }
        }
        self.notices.set("certificates", self.notice());
        Ok(Next::Interval)
    }
}
