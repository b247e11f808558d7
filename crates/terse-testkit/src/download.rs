//! Servers for tests that no Debian package has: fetched once, and kept in a folder outside of the
//! tree.
#![allow(clippy::unwrap_used, reason = "tests stop where their server cannot be fetched")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of a download: `$TERSE_TEST_CACHE` or `~/.cache/terse-test`, and its name there. If
/// it does not exist, `fetch` fills an empty folder, which then gets the name. Processes that need
/// the same one wait for each other.
pub fn cached(name: &str, fetch: impl FnOnce(&Path)) -> PathBuf {
    let cache = std::env::var_os("TERSE_TEST_CACHE").map(PathBuf::from).unwrap_or_else(|| {
        let home = std::env::var_os("HOME").expect("a home folder");
        Path::new(&home).join(".cache/terse-test")
    });
    let folder = cache.join(name);
    std::fs::create_dir_all(&cache).unwrap();
    let lock = std::fs::File::create(cache.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    if !folder.exists() {
        let new = cache.join(format!("{name}.new"));
        let _removed = std::fs::remove_dir_all(&new);
        std::fs::create_dir(&new).unwrap();
        fetch(&new);
        std::fs::rename(&new, &folder).unwrap();
    }
    folder
}

/// Runs a program that must succeed.
pub fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {error}{out}");
}

/// A folder with packages of PyPI: programs in `bin`, and a `python3` that knows them.
pub(crate) fn python_packages(name: &str, packages: &[&str]) -> PathBuf {
    cached(name, |folder| {
        run(Command::new("/usr/bin/python3").args(["-m", "venv", "--copies"]).arg(folder));
        let mut install = Command::new(folder.join("bin/python3"));
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        run(install.args(["--only-binary=:all:"]).args(packages));
    })
}
