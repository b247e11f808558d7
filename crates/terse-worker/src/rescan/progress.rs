//! By which lists all links were scanned last, and when. The registry keeps it as the progress of
//! the job, so that a restart or another node does not scan all links again.

use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, io};

use serde::{Deserialize, Serialize};
use terse_core::registry::{FencingToken, JobProgress, RegistryError};

use super::Fingerprint;

/// The name of the job in the registry.
const JOB: &str = "rescan";

/// A scan of all links that was completed.
#[derive(Clone, Deserialize, PartialEq, Serialize)]
pub(super) struct CompletedScan {
    pub(super) lists: Fingerprint,
    /// When it began, in milliseconds since 1970.
    pub(super) at: i64,
}

/// The progress of the re-scan in the registry.
pub(super) struct Progress {
    registry: Arc<dyn JobProgress>,
    old_file: PathBuf,
}

impl Progress {
    pub(super) fn new(registry: Arc<dyn JobProgress>, old_file: PathBuf) -> Self {
        Self { registry, old_file }
    }

    /// The last completed scan. `None` if there was none, or if its record makes no sense: then
    /// all links are scanned again.
    pub(super) async fn read(
        &self,
        token: FencingToken,
    ) -> Result<Option<CompletedScan>, RegistryError> {
        Ok(match self.registry.job_progress(JOB).await? {
            Some(progress) => {
                self.remove_old_file();
                serde_json::from_slice(&progress).ok()
            }
            None => self.adopt_old_file(token).await,
        })
    }

    pub(super) async fn write(
        &self,
        token: FencingToken,
        done: &CompletedScan,
    ) -> Result<(), RegistryError> {
        let progress = serde_json::to_vec(done)
            .map_err(|error| terse_core::StoreError::Corrupt(error.into()))?;
        self.registry.put_job_progress(token, JOB, &progress).await
    }

    /// Moves the progress of an earlier version into the registry.
    async fn adopt_old_file(&self, token: FencingToken) -> Option<CompletedScan> {
        let done: CompletedScan = serde_json::from_slice(&fs::read(&self.old_file).ok()?).ok()?;
        match self.write(token, &done).await {
            Ok(()) => self.remove_old_file(),
            Err(error) => {
                tracing::warn!(%error, file = %self.old_file.display(), "the progress of the \
                    re-scan stays in its old file until the next start");
            }
        }
        Some(done)
    }

    fn remove_old_file(&self) {
        match fs::remove_file(&self.old_file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, file = %self.old_file.display(), "an old file could not be \
                    removed; it can be deleted by hand");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use terse_core::registry::{JobLease as _, NodeId};
    use terse_testkit::MemoryRegistry;

    use super::*;

    #[tokio::test]
    async fn the_file_of_an_earlier_version_is_read_once_and_removed() {
        let (folder, registry) = (tempfile::tempdir().unwrap(), Arc::new(MemoryRegistry::new()));
        let file = folder.path().join("judged.json");
        let node = NodeId::parse("local").unwrap();
        let lease = registry.acquire_lease("jobs", &node, Duration::from_secs(60)).await.unwrap();
        let token = lease.unwrap().token;
        let progress = || Progress::new(registry.clone(), file.clone());
        let old = CompletedScan { lists: Fingerprint::default(), at: 5 };
        assert!(progress().read(token).await.unwrap().is_none());
        fs::write(&file, serde_json::to_vec(&old).unwrap()).unwrap();
        registry.fail(true);
        assert!(progress().read(token).await.is_err());
        assert!(file.exists(), "the registry did not take it");
        registry.fail(false);
        assert!(progress().read(token).await.unwrap() == Some(old.clone()));
        assert!(!file.exists());
        assert!(progress().read(token).await.unwrap() == Some(old));
        let new = CompletedScan { lists: Fingerprint::default(), at: 6 };
        progress().write(token, &new).await.unwrap();
        fs::write(&file, b"left behind").unwrap();
        assert!(progress().read(token).await.unwrap() == Some(new));
        assert!(!file.exists());
    }
}
