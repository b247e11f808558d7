//! Clients that are generated from the OpenAPI document create, list and read statistics.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::KEY;
use crate::process::Served;

const PYTHON_GENERATOR: &str = "0.29.1";
const TYPESCRIPT: &[&str] =
    &["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3", "@types/node@20"];

#[test]
fn a_generated_python_client_works() {
    if !asked_for() {
        return;
    }
    let (folder, served) = serve();
    let home = tools().join(format!("openapi-python-client-{PYTHON_GENERATOR}"));
    if !home.join("bin/openapi-python-client").exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&home));
        run(Command::new(home.join("bin/pip"))
            .args(["install", "--quiet"])
            .arg(format!("openapi-python-client=={PYTHON_GENERATOR}")));
    }
    let package = folder.path().join("terse_client");
    let mut generator = Command::new(home.join("bin/openapi-python-client"));
    generator
        .args(["generate", "--meta", "none", "--url"])
        .arg(format!("{}/openapi.json", served.url))
        .arg("--output-path")
        .arg(&package);
    let said = run(&mut generator);
    assert!(!said.contains("will not be generated"), "{said}");
    let script = folder.path().join("use_client.py");
    std::fs::write(&script, include_str!("generated_client.py")).expect("a script");
    run(Command::new(home.join("bin/python")).arg(&script).args([&served.url, KEY]));
    assert_eq!(served.get("/from-python").1.as_deref(), Some("https://example.com/python"));
}

#[test]
fn a_generated_typescript_client_works() {
    if !asked_for() {
        return;
    }
    let (_folder, served) = serve();
    let home = tools().join("typescript-client");
    std::fs::create_dir_all(&home).expect("a folder");
    let installed = std::fs::read_to_string(home.join("installed")).unwrap_or_default();
    if installed != TYPESCRIPT.join(" ") {
        run(Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
            .arg(&home)
            .args(TYPESCRIPT));
        std::fs::write(home.join("installed"), TYPESCRIPT.join(" ")).expect("a note");
    }
    let program = |name: &str| Command::new(home.join("node_modules/.bin").join(name));
    run(program("openapi-typescript")
        .arg(format!("{}/openapi.json", served.url))
        .args(["-o", "schema.d.ts"])
        .current_dir(&home));
    std::fs::write(home.join("use_client.mts"), include_str!("generated_client.mts"))
        .expect("a script");
    run(program("tsc")
        .args(["--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck"])
        .args(["--lib", "es2022,dom", "use_client.mts"])
        .current_dir(&home));
    run(Command::new("node").arg("use_client.mjs").args([&served.url, KEY]).current_dir(&home));
    assert_eq!(served.get("/from-typescript").1.as_deref(), Some("https://example.com/typescript"));
}

fn asked_for() -> bool {
    let asked = std::env::var_os("TERSE_TEST_ALL").is_some();
    if !asked {
        println!("skipped: clients are generated with TERSE_TEST_ALL=1, as scripts/test does");
    }
    asked
}

fn serve() -> (tempfile::TempDir, Served) {
    let folder = tempfile::tempdir().expect("a folder");
    let served = Served::start(&folder.path().join("data"), &[&format!("admin_key={KEY}")]);
    (folder, served)
}

/// Where tools are installed on first use.
fn tools() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder");
    target.join("tools")
}

/// Runs a command to its end and returns what it said.
/// Runs a program to its end, at most ten minutes.
fn run(command: &mut Command) -> String {
    let mut limited = Command::new("timeout");
    limited.arg("600").arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let output = limited.stdin(Stdio::null()).output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}
