//! axe-core: finds what keeps people from using a page.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::browser::Browser;

const VERSION: &str = "4.14.0";

/// The script, installed on first use; `None` where npm cannot install it.
fn script() -> Option<&'static str> {
    static SCRIPT: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let home = target.parent()?.join("tools").join(format!("axe-core-{VERSION}"));
        let script = home.join("node_modules/axe-core/axe.min.js");
        if !script.exists() {
            std::fs::create_dir_all(&home).ok()?;
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
                .arg(&home)
                .arg(format!("axe-core@{VERSION}"));
            npm.status().ok().filter(std::process::ExitStatus::success)?;
        }
        std::fs::read_to_string(script).ok()
    };
    let found = SCRIPT.get_or_init(read).as_deref();
    assert!(found.is_some() || std::env::var_os("TERSE_TEST_ALL").is_none(), "axe-core is needed");
    found
}

impl Browser {
    /// What axe-core finds on the page that is open, each with the name of the page.
    pub(crate) async fn axe(&self, what: &str) -> Vec<String> {
        let Some(script) = script() else {
            println!("skipped: axe-core could not be installed");
            return Vec::new();
        };
        let is_there = self.client.execute("return 'axe' in window", vec![]).await;
        if is_there.expect("a page") != Value::Bool(true) {
            self.client.execute(script, vec![]).await.expect("axe-core loads");
        }
        let run = "const done = arguments[0]; axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', \
            'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then((found) => \
            done(found.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html + \
            ' ' + (node.any[0] || node.all[0] || node.none[0] || {}).message).join(' | '))), \
            (error) => done([String(error)]))";
        let found: Value = self.client.execute_async(run, vec![]).await.expect("axe-core runs");
        let found = found.as_array().expect("a list").iter();
        found.map(|one| format!("{what}: {}", one.as_str().unwrap_or_default())).collect()
    }
}
