//! Folders for stores that a suite owns.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

/// A new folder. The suite owns the store in it and drops it at an unknown time, so a later process
/// removes the folder.
pub(crate) fn folder() -> PathBuf {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("contract");
    std::fs::create_dir_all(&parent).unwrap();
    sweep(&parent);
    let prefix = format!("{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(&parent).unwrap().keep()
}

/// Removes the folders of processes that have ended. Other test processes may run at the same time,
/// and may sweep too.
fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(process).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[test]
fn a_sweep_removes_folders_of_dead_processes_only() {
    let parent = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = parent.path().join(format!("{}-x", child.id()));
    child.wait().unwrap();
    let alive = parent.path().join(format!("{}-x", std::process::id()));
    for folder in [&dead, &alive] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("terse.db"), "x").unwrap();
    }
    sweep(parent.path());
    assert_eq!((dead.exists(), alive.exists()), (false, true));
}
