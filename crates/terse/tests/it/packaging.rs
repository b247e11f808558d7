//! The units for systemd.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn the_unit_is_hardened() {
    let unit = units().join("terse.service");
    let text = std::fs::read_to_string(&unit).expect("the unit");
    assert!(text.contains("\nLimitCORE=0\n"), "a core file would contain keys");
    let mut analyze = Command::new("systemd-analyze");
    // The threshold is in tenths: below 2.0.
    analyze.args(["security", "--offline=true", "--threshold=19", "--no-pager"]).arg(&unit);
    succeeds(&mut analyze);
}

#[test]
fn systemd_understands_the_sockets() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = std::fs::read_to_string(units().join("terse.socket")).expect("the unit");
    let service = std::fs::read_to_string(units().join("terse.service")).expect("the unit");
    // systemd-analyze wants the programs of the units to exist.
    let service = service.replace("/usr/local/bin/terse", env!("CARGO_BIN_EXE_terse"));
    // Both the port and the Unix socket of the comments.
    let all = socket.replace("\n#ListenStream", "\nListenStream").replace("\n#Socket", "\nSocket");
    assert_eq!(all.matches("\nListenStream=").count(), 2);
    for (name, text) in [("terse.service", &service), ("terse.socket", &all)] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["verify", "--man=no"]).arg(folder.path().join("terse.socket"));
    let Some(said) = succeeds(&mut analyze) else { return };
    assert!(!said.contains("terse.socket:"), "{said}");
}

fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd")
}

/// What a program of systemd says; `None` if it is not installed.
fn succeeds(command: &mut Command) -> Option<String> {
    match command.output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(output.status.success(), "{said}");
            Some(said)
        }
        Err(error) => {
            assert!(std::env::var_os("TERSE_TEST_ALL").is_none(), "systemd is needed: {error}");
            println!("skipped: systemd-analyze is not installed");
            None
        }
    }
}
