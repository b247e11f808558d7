//! Schemathesis checks the API against its OpenAPI document.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{KEY, TestTerse};

const VERSION: &str = "4.32.5";
const TIMEOUT: Duration = Duration::from_secs(300);

#[test]
fn the_api_holds_to_its_description() {
    if std::env::var_os("TERSE_TEST_ALL").is_none() {
        println!("skipped: schemathesis runs with TERSE_TEST_ALL=1, as scripts/test does");
        return;
    }
    let schemathesis = schemathesis();
    // Default settings: links begin with the listen address.
    let terse = TestTerse::with(|config| config.base_url = None);
    for code in ["first-one", "second-one"] {
        let link = json!({
            "long_url": format!("https://example.com/{code}"), "alias": code, "tags": ["spring"]
        });
        let fields =
            [("host", &*terse.address.to_string()), ("authorization", &*format!("Bearer {KEY}"))];
        assert_eq!(
            terse.send("POST", "/api/v1/urls", &fields, Some(link.to_string().as_bytes())).status,
            201
        );
    }
    let log = terse.folder().join("schemathesis.log");
    let out = std::fs::File::create(&log).expect("a log");
    let mut command = Command::new(schemathesis);
    command
        .arg("run")
        .arg(terse.url("/openapi.json"))
        .args(["--header", &format!("Authorization: Bearer {KEY}")]);
    command.args([
        "--phases",
        "examples,coverage,fuzzing,stateful",
        "--seed",
        "7",
        "--max-examples",
        "30",
        "--no-color",
    ]);
    // The live stream never ends, so it cannot be checked.
    command.args(["--exclude-path", "/api/v1/urls/{code}/live"]);
    command.args(["--request-timeout", "5", "--checks", "all", "--exclude-checks"]);
    command.arg(
        // A schema cannot express which hosts are public, which dates exist, that `ttl` excludes
        // `expires_at`, or which cursors are valid, so some valid input is refused. The hostile
        // corpus covers what is accepted.
        "positive_data_acceptance",
    );
    // A generated body can be larger than the API takes: 413 is a refusal like any other.
    std::fs::write(
        terse.folder().join("schemathesis.toml"),
        "[checks.negative_data_rejection]\nexpected-statuses = [\"4xx\", \"503\"]\n",
    )
    .expect("a configuration");
    let out_too = out.try_clone().expect("a second handle");
    let mut running = command
        .current_dir(terse.folder())
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(out_too)
        .spawn()
        .expect("schemathesis runs");
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = running.try_wait().expect("a status") {
            break status;
        }
        if begun.elapsed() > TIMEOUT {
            let _ = running.kill();
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    assert!(status.success(), "{status} after {:?}\n{said}", begun.elapsed());
    println!(
        "{}",
        said.lines()
            .rev()
            .take(20)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
            .join("\n")
    );
}

/// Schemathesis in its own environment, installed on first use.
fn schemathesis() -> PathBuf {
    let target =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder").to_owned();
    let home = target.join("tools").join(format!("schemathesis-{VERSION}"));
    let program = home.join("bin/schemathesis");
    if !program.exists() {
        let run = |command: &mut Command| {
            assert!(command.status().expect("it runs").success(), "{command:?}");
        };
        run(Command::new("python3").args(["-m", "venv"]).arg(&home));
        run(Command::new(home.join("bin/pip")).args([
            "install",
            "--quiet",
            &format!("schemathesis=={VERSION}"),
        ]));
    }
    program
}
