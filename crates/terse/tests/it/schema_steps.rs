//! Migrations that a release has are never changed: what an earlier version stored is made from
//! them in the tests of upgrades, and databases that exist have run them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// The statements without comments and line ends, which may change.
fn statements(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("--").next().unwrap_or_default());
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// The checksum of each step, by its path below the root of the tree.
fn steps(root: &Path) -> BTreeMap<String, String> {
    let (mut folders, mut found) = (vec![root.join("backends")], BTreeMap::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "sql") {
                let text = std::fs::read_to_string(&path).unwrap();
                let mut hex = String::new();
                for octet in &Sha256::digest(statements(&text))[..8] {
                    write!(hex, "{octet:02x}").unwrap();
                }
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                found.insert(name.to_owned(), hex);
            }
        }
    }
    found
}

/// `schema_steps.txt` has the steps of releases; `scripts/release` stops if one is missing there.
/// `UPDATE=1` adds the new ones, and changes no other line.
#[test]
fn released_steps_are_never_changed() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list: PathBuf = own.join("tests/it/schema_steps.txt");
    let present = steps(&own.join("../.."));
    let text = std::fs::read_to_string(&list).unwrap();
    let mut released: BTreeMap<_, _> =
        text.lines().map(|line| line.split_once(' ').expect("a path and a checksum")).collect();
    assert!(released.len() > 45, "{released:?}");
    for (path, checksum) in &released {
        let found = present.get(*path).map(String::as_str);
        assert_eq!(found, Some(*checksum), "{path}: add a step instead of changing this one");
    }
    if std::env::var_os("UPDATE").is_some() {
        released.extend(present.iter().map(|(path, checksum)| (&path[..], &checksum[..])));
        let lines = released.iter().map(|(path, checksum)| format!("{path} {checksum}\n"));
        std::fs::write(list, lines.collect::<String>()).unwrap();
    }
}
