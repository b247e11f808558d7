//! The guides in `docs/guides`: their commands run, and the messages that they quote exist.
//!
//! The `sh` blocks of a guide are one script, which runs in `scripts/sandbox`: as root, on a copy
//! of this machine's file system, with a network of its own. So the commands run as they are
//! written, with their paths and ports. `tests/shipping/guides/NAME.before` prepares what the guide
//! takes as given (a DNS record, an exported file), and `NAME.after` checks what it promises. The
//! `.sh` files there start servers that several guides need.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::sandbox::{Sandbox, root};

fn guides() -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(root().join("docs/guides")).unwrap();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    entries.map(|entry| read(entry.unwrap().path())).collect()
}

/// A block of commands, with the line where it begins.
struct Block {
    line: usize,
    /// Why the test cannot run it.
    not_run: Option<String>,
    text: String,
}

/// The `sh` blocks of a guide. A block that cannot run says so: `sh not-run: REASON`.
fn blocks(guide: &str) -> Vec<Block> {
    let (mut blocks, mut open) = (Vec::new(), None);
    for (at, line) in guide.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                let not_run = info.strip_prefix("sh not-run: ").map(str::to_owned);
                let is_shell = info == "sh" || not_run.is_some();
                assert!(
                    is_shell || !info.starts_with("sh") && !info.is_empty(),
                    "line {}: {info:?} is no kind of block",
                    at + 1
                );
                open = Some((is_shell, Block { line: at + 1, not_run, text: String::new() }));
            }
            (Some(_), open) => blocks.extend(open.take()),
            (None, Some((_, block))) => {
                block.text += line;
                block.text += "\n";
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block does not end");
    blocks.into_iter().filter(|(is_shell, _)| *is_shell).map(|(_, block)| block).collect()
}

/// What a guide's script does before or after it.
fn around(name: &str, when: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shipping/guides");
    std::fs::read_to_string(folder.join(format!("{name}.{when}"))).unwrap_or_default()
}

/// Runs the commands of a guide.
fn run(name: &str) {
    let guide = &guides()[name];
    let mut script = String::from("cd /root\n");
    // Most guides begin with a server that is installed.
    if !["install", "own-domain"].contains(&name) {
        script += "dpkg -i terse_0.1.0_amd64.deb >/dev/null\n";
    }
    writeln!(script, "{}", around(name, "before")).unwrap();
    for block in blocks(guide) {
        match block.not_run {
            Some(why) => println!("docs/guides/{name}.md:{}: not run: {why}", block.line),
            None => {
                writeln!(script, "echo '--- {name}.md:{}' >&2\n{}", block.line, block.text)
                    .unwrap();
            }
        }
    }
    writeln!(script, "{}", around(name, "after")).unwrap();
    let Some(sandbox) = Sandbox::new() else { return };
    let said = sandbox.run(&script);
    println!("{said}");
}

macro_rules! guide_tests {
    ($($test:ident: $name:literal,)*) => {
        $(#[test] fn $test() { run($name); })*
        const TESTED: &[&str] = &[$($name),*];
    };
}

guide_tests! {
    a_wave_of_abuse: "abuse",
    back_up_and_restore: "backup",
    behind_caddy: "behind-caddy",
    behind_cloudflare: "behind-cloudflare",
    behind_nginx: "behind-nginx",
    docker_compose: "docker-compose",
    install: "install",
    kubernetes: "kubernetes",
    lost_password: "lost-password",
    move_from_another_shortener: "move",
    own_domain_with_tls: "own-domain",
}

#[test]
fn every_guide_is_run_and_in_the_table_of_contents() {
    let names: Vec<_> = guides().into_keys().collect();
    // It has no commands to run in order; the next test reads it.
    let expected: Vec<_> = names.iter().filter(|name| *name != "troubleshooting").collect();
    assert_eq!(expected, TESTED);
    let contents = std::fs::read_to_string(root().join("docs/README.md")).unwrap();
    for name in &names {
        assert!(
            contents.contains(&format!("(guides/{name}.md)")),
            "{name} is not in docs/README.md"
        );
    }
}

/// The text of all sources, with literals that go on in the next line as one line.
fn sources() -> String {
    let (mut folders, mut all) =
        (vec![root().join("crates"), root().join("backends")], String::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                all += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    let mut text = String::new();
    let mut parts = all.split("\\\n");
    text += parts.next().unwrap_or_default();
    for part in parts {
        text += part.trim_start();
    }
    text
}

#[test]
fn messages_that_the_troubleshooting_guide_quotes_exist() {
    let (guides, sources) = (guides(), sources());
    let messages: Vec<_> =
        guides["troubleshooting"].lines().filter_map(|line| line.strip_prefix("### `")).collect();
    assert!(messages.len() > 30, "{messages:?}");
    let mut missing = Vec::new();
    for message in messages {
        let message = message.strip_suffix('`').expect("a heading is one message");
        // `…` stands for what the program fills in.
        let mut pieces = message.split('…').map(str::trim).filter(|piece| !piece.is_empty());
        if !pieces.all(|piece| sources.contains(piece)) {
            missing.push(message);
        }
    }
    assert!(missing.is_empty(), "no source has {missing:#?}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut documents = vec![root().join("README.md"), root().join("ARCHITECTURE.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                documents.push(path);
            }
        }
    }
    let mut broken = Vec::new();
    for document in documents.iter().filter(|path| path.extension().is_some_and(|e| e == "md")) {
        let text = std::fs::read_to_string(document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.contains(' ') {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            let found = std::fs::read_to_string(&target).unwrap_or_default();
            if !target.exists() || !heading.is_empty() && !headings(&found).any(|at| at == heading)
            {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The anchors of a document's headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    })
}
