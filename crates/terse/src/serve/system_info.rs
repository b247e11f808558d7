//! What the page System shows of this process.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use terse_core::metrics::{Metrics, MetricsSource};
use terse_core::{SettingInForce, StoredSize, SystemInfo};

use crate::config::Config;

/// How many files of a folder are added up.
const MAX_FILES: usize = 100_000;

/// The settings and files of this process, and its counters once they exist.
pub(super) struct ServerInfo {
    config: RwLock<Config>,
    pub(super) sources: OnceLock<Arc<Vec<MetricsSource>>>,
}

impl ServerInfo {
    pub(super) fn new(config: &Config) -> Self {
        Self { config: RwLock::new(config.clone()), sources: OnceLock::new() }
    }

    /// Shows these settings from now on.
    pub(super) fn set_config(&self, config: &Config) {
        self.config.write().unwrap_or_else(PoisonError::into_inner).clone_from(config);
    }

    fn config(&self) -> RwLockReadGuard<'_, Config> {
        self.config.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SystemInfo for ServerInfo {
    fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        self.sources.get().into_iter().flat_map(|all| all.iter()).for_each(|source| {
            source(&mut metrics);
        });
        metrics
    }

    fn sizes(&self) -> Vec<StoredSize> {
        let mut sizes: Vec<StoredSize> = Vec::new();
        let Ok(entries) = std::fs::read_dir(self.config().data_dir.clone()) else { return sizes };
        for entry in entries.flatten().take(MAX_FILES) {
            let name = entry.file_name().to_string_lossy().into_owned();
            // A database with its log counts as one.
            let name = name.trim_end_matches("-wal").trim_end_matches("-shm").to_owned();
            let size = size_of(&entry.path());
            match sizes.iter_mut().find(|(have, _)| *have == name) {
                Some((_, sum)) => *sum += size,
                None => sizes.push((name, size)),
            }
        }
        sizes.retain(|(_, size)| *size >= 4096);
        sizes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        sizes
    }

    fn settings(&self) -> Vec<SettingInForce> {
        self.config().settings_in_force()
    }
}

/// The bytes of a file, or of all files below a folder.
fn size_of(path: &Path) -> u64 {
    let (mut folders, mut sum, mut files): (Vec<PathBuf>, u64, usize) = (Vec::new(), 0, 0);
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => folders.push(path.to_owned()),
        Ok(found) => return found.len(),
        Err(_) => return 0,
    }
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            files += 1;
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(entry.path()),
                Ok(found) => sum += found.len(),
                Err(_) => {}
            }
            if files >= MAX_FILES {
                return sum;
            }
        }
    }
    sum
}
