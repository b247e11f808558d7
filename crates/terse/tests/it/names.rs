//! Names in the source of all crates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All Rust files below a folder.
fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The name in `pub struct Name<T> {`, and likewise for enums, traits, unions and aliases. What is
/// public within its crate only does not count.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (kind, rest) = rest.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    // A macro's `pub struct $name` has no name of its own.
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&kind);
    (is_type && end > 0).then_some(&rest[..end])
}

/// A name means one thing in all crates, so that a reader knows a type at sight.
#[test]
fn no_two_public_types_share_a_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for group in ["crates", "backends"] {
        for entry in std::fs::read_dir(root.join(group)).unwrap() {
            rust_files(&entry.unwrap().path().join("src"), &mut files);
        }
    }
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let shown = file.strip_prefix(&root).unwrap().display().to_string();
        for (number, line) in text.lines().enumerate() {
            if let Some(name) = public_type(line) {
                let place = format!("{shown}:{}", number + 1);
                places.entry(name.to_owned()).or_default().push(place);
            }
        }
    }
    assert!(places.contains_key("LinkStore") && places.contains_key("Config"), "{places:?}");
    places.retain(|_, places| places.len() > 1);
    assert!(places.is_empty(), "public types that share a name: {places:#?}");
}
