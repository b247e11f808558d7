//! By which lists all links were scanned last, and when. The registry keeps it as the progress of
//! the job, so that a restart or another node does not scan all links again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};
use terse_core::registry::{NodeId, Registry, RegistryError};

use crate::safety::Fingerprint;

/// The name of the job, and of the lease that its writes need.
const JOB: &str = "rescan";
/// Longer than one write takes.
const LEASE_TTL: Duration = Duration::from_mins(1);
/// Where earlier versions kept the progress, in the folder of the lists.
const OLD_FILE: &str = "judged.json";

/// A scan of all links that was completed.
#[derive(Clone, Deserialize, PartialEq, Serialize)]
pub(super) struct Done {
    pub(super) lists: Fingerprint,
    /// When it began, in milliseconds since 1970.
    pub(super) at: i64,
}

/// The progress of the re-scan in the registry.
pub(crate) struct Progress {
    registry: Arc<dyn Registry>,
    node: NodeId,
    old_file: PathBuf,
}

impl Progress {
    pub(crate) fn new(registry: Arc<dyn Registry>, node: NodeId, lists_folder: &Path) -> Self {
        Self { registry, node, old_file: lists_folder.join(OLD_FILE) }
    }

    /// The last completed scan. `None` if there was none or it cannot be read: then all links are
    /// scanned again.
    pub(super) async fn read(&self) -> Option<Done> {
        match self.registry.job_progress(JOB).await {
            Ok(Some(progress)) => {
                self.remove_old_file();
                serde_json::from_slice(&progress).ok()
            }
            Ok(None) => self.adopt_old_file().await,
            Err(error) => {
                tracing::warn!(%error, "the registry does not say which lists all links were \
                    scanned by; scanning all links again");
                None
            }
        }
    }

    pub(super) async fn write(&self, done: &Done) -> Result<(), RegistryError> {
        let progress = serde_json::to_vec(done)
            .map_err(|error| terse_core::StoreError::Corrupt(error.into()))?;
        let lease = self.registry.acquire_lease(JOB, &self.node, LEASE_TTL).await?;
        let token = lease.ok_or(RegistryError::Fenced)?.token;
        self.registry.put_job_progress(token, JOB, &progress).await?;
        self.registry.release_lease(token).await
    }

    /// Moves the progress of an earlier version into the registry.
    async fn adopt_old_file(&self) -> Option<Done> {
        let done: Done = serde_json::from_slice(&fs::read(&self.old_file).ok()?).ok()?;
        match self.write(&done).await {
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
    use terse_testkit::MemoryRegistry;

    use super::*;

    fn progress(registry: &Arc<MemoryRegistry>, folder: &Path) -> Progress {
        Progress::new(registry.clone(), NodeId::parse("local").unwrap(), folder)
    }

    #[tokio::test]
    async fn the_file_of_an_earlier_version_is_read_once_and_removed() {
        let (folder, registry) = (tempfile::tempdir().unwrap(), Arc::new(MemoryRegistry::new()));
        let file = folder.path().join(OLD_FILE);
        let old = Done { lists: Fingerprint::default(), at: 5 };
        assert!(progress(&registry, folder.path()).read().await.is_none());
        fs::write(&file, serde_json::to_vec(&old).unwrap()).unwrap();
        registry.fail(true);
        assert!(progress(&registry, folder.path()).read().await.is_none());
        assert!(file.exists(), "the registry did not take it");
        registry.fail(false);
        assert!(progress(&registry, folder.path()).read().await == Some(old.clone()));
        assert!(!file.exists());
        assert!(progress(&registry, folder.path()).read().await == Some(old));
        let new = Done { lists: Fingerprint::default(), at: 6 };
        progress(&registry, folder.path()).write(&new).await.unwrap();
        fs::write(&file, b"left behind").unwrap();
        assert!(progress(&registry, folder.path()).read().await == Some(new));
        assert!(!file.exists());
    }
}
