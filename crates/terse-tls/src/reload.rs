//! Reads certificates again when their files change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, Clock, Notices};

use crate::certificates::Certificates;
use crate::files::CertificateFiles;

/// How often the job checks whether the files have changed.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// `/readyz` and `terse doctor` warn this many days before a certificate expires.
pub(crate) const EXPIRES_SOON_DAYS: i64 = 14;

/// Reads files that have changed. A file that cannot be used changes nothing.
pub struct CertificateReload {
    certificates: Arc<Certificates>,
    files: Arc<Mutex<CertificateFiles>>,
    clock: Clock,
    notices: Arc<Notices>,
    /// The last failure of each certificate, until its files can be used again.
    failed: BTreeMap<PathBuf, String>,
}

impl CertificateReload {
    /// Keeps `certificates` up to date with the files that they were read from.
    pub fn new(
        certificates: Arc<Certificates>,
        files: CertificateFiles,
        clock: Clock,
        notices: Arc<Notices>,
    ) -> Self {
        let files = Arc::new(Mutex::new(files));
        Self { certificates, files, clock, notices, failed: BTreeMap::new() }
    }

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
            self.certificates.only_files().expiries().into_iter().min_by_key(|(_, ends)| *ends)?;
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

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
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
        Ok(NextRun::Interval)
    }
}
