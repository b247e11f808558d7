//! `scripts/sandbox`, and the package that is installed in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use tempfile::TempDir;

/// The binary under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_terse");

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn script(name: &str) -> Command {
    Command::new(root().join("scripts").join(name))
}

/// Runs scripts in a sandbox.
pub(crate) struct Sandbox(TempDir);

impl Sandbox {
    /// `None` where the sandbox cannot run, outside of CI.
    pub(crate) fn new() -> Option<Self> {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("try"), "true").unwrap();
        let tried = script("sandbox").arg(temp.path().join("try")).output().unwrap();
        if !tried.status.success() {
            assert!(std::env::var_os("TERSE_TEST_ALL").is_none(), "{tried:?}");
            println!("skipped: scripts/sandbox needs root: {tried:?}");
            return None;
        }
        Some(Self(temp))
    }

    /// Runs a script with the package in root's home folder. Returns what it printed, and panics
    /// with it if the script fails.
    pub(crate) fn run(&self, text: &str) -> String {
        let (file, package) = (self.0.path().join("script"), package());
        let name = package.file_name().unwrap().to_str().unwrap();
        let link = format!("ln -s /mnt/files/{name} ~/terse_0.1.0_amd64.deb\n");
        std::fs::write(&file, link + text).unwrap();
        let mut command = script("sandbox");
        let output =
            command.env("SANDBOX_FILES", package.parent().unwrap()).arg(&file).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "{}\n{said}", output.status);
        said
    }
}

/// The Debian package of the binary under test, or the one in `TERSE_PACKAGE`, which is about to be
/// released. Packed again if what it consists of is newer.
fn package() -> PathBuf {
    if let Some(package) = std::env::var_os("TERSE_PACKAGE") {
        return package.into();
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    std::fs::create_dir_all(&folder).unwrap();
    // One process at a time: tests may be processes.
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let package = folder.join("terse_0.1.0_amd64.deb");
    let program = Path::new(PROGRAM);
    let parts = ["docs", "deploy", "scripts", "Cargo.toml"].map(|part| newest(&root().join(part)));
    let changed = parts.into_iter().chain([newest(program)]).max().unwrap();
    if newest(&package) > changed {
        return package;
    }
    let stripped = folder.join("terse");
    strip(&stripped);
    let mut pack = script("deb");
    pack.env("COMPRESSION", "none").env("VERSION", "0.1.0");
    let packed = pack.arg(&stripped).arg("amd64").arg(&folder).output().unwrap();
    assert!(packed.status.success(), "{packed:?}");
    package
}

/// Copies the binary under test without its debug information, which is most of a debug build.
pub(crate) fn strip(to: &Path) {
    let mut strip = Command::new("strip");
    assert!(strip.arg("-o").arg(to).arg(PROGRAM).status().unwrap().success());
}

/// When a file, or the newest one in a folder, was changed.
fn newest(path: &Path) -> SystemTime {
    let Ok(meta) = std::fs::metadata(path) else { return SystemTime::UNIX_EPOCH };
    let entries = std::fs::read_dir(path).into_iter().flatten();
    let inside = entries.map(|entry| newest(&entry.unwrap().path()));
    inside.max().unwrap_or(SystemTime::UNIX_EPOCH).max(meta.modified().unwrap())
}
