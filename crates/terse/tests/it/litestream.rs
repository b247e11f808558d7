//! Continuous copies by Litestream, as docs/operate.md describes them.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use terse_testkit::{S3Server, litestream, wait_until};

use crate::process::{Served, command, folder};

/// Ends with the test.
struct Replicating(Child);

impl Drop for Replicating {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn run(data: &Path, arguments: &[&str]) -> Output {
    let output = command(data).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    output
}

#[test]
fn litestream_brings_every_link_back_after_the_machine_is_lost() {
    let (temp, data) = folder();
    let server = S3Server::start();
    let (bucket, endpoint) = (server.bucket(), server.endpoint());
    let db = |name: &str| {
        format!(
            "  - path: {}/{name}\n    replica: {{ type: s3, bucket: {bucket}, path: {name}, \
             endpoint: \"{endpoint}\", region: us-east-1, force-path-style: true }}\n",
            data.display()
        )
    };
    let config = temp.path().join("litestream.yml");
    let text = ["terse.db", "registry.db", "clicks.db"].map(db).concat();
    std::fs::write(&config, format!("dbs:\n{text}")).unwrap();
    let litestream = |command: &str| {
        let mut program = Command::new(litestream());
        program.args([command, "-config"]).arg(&config);
        program.env("AWS_ACCESS_KEY_ID", S3Server::ACCESS_KEY_ID);
        program.env("AWS_SECRET_ACCESS_KEY", S3Server::SECRET_ACCESS_KEY);
        // Litestream cannot use it with a server of its own settings.
        program.env_remove("AWS_CA_BUNDLE");
        program.stdout(Stdio::null()).stderr(Stdio::null());
        program
    };
    let served = Served::start(&data, &[]);
    run(&data, &["shorten", "https://example.com/before"]);
    let _replicating = Replicating(litestream("replicate").spawn().unwrap());
    for n in 0..20 {
        run(&data, &["shorten", &format!("https://example.com/{n}")]);
    }
    served.kill();
    let (mut tries, mut found) = (0, Value::Null);
    wait_until("all links are in the copy", || {
        tries += 1;
        let copy = temp.path().join(format!("copy-{tries}"));
        std::fs::create_dir(&copy).unwrap();
        for name in ["terse.db", "registry.db", "clicks.db"] {
            let mut restore = litestream("restore");
            restore.arg("-o").arg(copy.join(name)).arg(data.join(name));
            if !restore.status().unwrap().success() {
                return false;
            }
        }
        let listed = command(&copy).args(["list", "--json", "--limit", "100"]).output().unwrap();
        found = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        found["links"].as_array().is_some_and(|links| links.len() == 21)
    });
    let copy = temp.path().join(format!("copy-{tries}"));
    run(&copy, &["doctor", "--deep"]);
    // The copy serves.
    let served = Served::start(&copy, &[]);
    let code = found["links"][20]["short_code"].as_str().unwrap();
    assert_eq!(served.get(&format!("/{code}")).1.as_deref(), Some("https://example.com/before"));
}
