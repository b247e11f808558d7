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
    type_after("pub ", line)
}

/// The same for `pub(crate) struct Name<T> {`.
fn crate_type(line: &str) -> Option<&str> {
    type_after("pub(crate) ", line)
}

fn type_after<'a>(visibility: &str, line: &'a str) -> Option<&'a str> {
    let rest = line.trim_start().strip_prefix(visibility)?;
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
    let mut places = places_of(public_type);
    assert!(places.contains_key("LinkStore") && places.contains_key("Config"), "{places:?}");
    places.retain(|_, places| places.len() > 1);
    assert!(places.is_empty(), "public types that share a name: {places:#?}");
}

/// Types inside a crate whose names the core uses for something else. The messages of Kafka are
/// named by their schema, `docs/click-message.proto`; the core's `Format` and `Source` are always
/// named with their module, `import_file`; tables are of each store's own kind.
const SHARED_WITH_THE_CORE: [(&str, &str); 10] = [
    ("Format", "crates/terse-cli/src/transfer/format.rs"),
    ("Format", "crates/terse-metrics/src/format.rs"),
    ("Link", "backends/terse-kafka/src/wire.rs"),
    ("Network", "backends/terse-kafka/src/wire.rs"),
    ("Source", "backends/terse-dynamodb/src/lookups.rs"),
    ("Source", "backends/terse-embedded/src/clicks/block_builder.rs"),
    ("Source", "backends/terse-postgres/src/replica.rs"),
    ("Table", "backends/terse-clickhouse/src/visible.rs"),
    ("Table", "crates/terse-safety/src/hash_table.rs"),
    ("Target", "backends/terse-kafka/src/wire.rs"),
];

/// Every crate knows the core, so its names are taken there too.
#[test]
fn no_type_inside_a_crate_has_the_name_of_a_public_type_of_the_core() {
    let is_core = |place: &String| place.starts_with("crates/terse-core/");
    let public = places_of(public_type);
    let core: Vec<&String> = public
        .iter()
        .filter(|(_, places)| places.iter().any(is_core))
        .map(|(name, _)| name)
        .collect();
    let mut shared = Vec::new();
    for (name, places) in places_of(crate_type) {
        if core.contains(&&name) {
            let file = |place: &String| place.rsplit_once(':').unwrap().0.to_owned();
            shared.extend(places.iter().map(|place| (name.clone(), file(place))));
        }
    }
    let allowed = SHARED_WITH_THE_CORE.map(|(name, file)| (name.to_owned(), file.to_owned()));
    assert_eq!(shared, allowed);
}

/// Where the types are that `name_in` finds in a line, by their name.
fn places_of(name_in: fn(&str) -> Option<&str>) -> BTreeMap<String, Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for group in ["crates", "backends"] {
        for entry in std::fs::read_dir(root.join(group)).unwrap() {
            rust_files(&entry.unwrap().path().join("src"), &mut files);
        }
    }
    files.sort();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let shown = file.strip_prefix(&root).unwrap().display().to_string();
        for (number, line) in text.lines().enumerate() {
            if let Some(name) = name_in(line) {
                let place = format!("{shown}:{}", number + 1);
                places.entry(name.to_owned()).or_default().push(place);
            }
        }
    }
    places
}
