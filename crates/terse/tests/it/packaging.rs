//! The unit for systemd.

use std::path::Path;
use std::process::Command;

#[test]
fn the_unit_is_hardened() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd/terse.service");
    let text = std::fs::read_to_string(&unit).expect("the unit");
    assert!(text.contains("\nLimitCORE=0\n"), "a core file would contain keys");
    let mut analyze = Command::new("systemd-analyze");
    // The threshold is in tenths: below 2.0.
    analyze.args(["security", "--offline=true", "--threshold=19", "--no-pager"]).arg(&unit);
    match analyze.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        }
        Err(error) => {
            assert!(std::env::var_os("TERSE_TEST_ALL").is_none(), "systemd is needed: {error}");
            println!("skipped: systemd-analyze is not installed");
        }
    }
}
