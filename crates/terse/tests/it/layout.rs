//! Which crate may know which, and what may stand where.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders of all crates.
fn crates() -> Vec<PathBuf> {
    let folders = ["crates", "backends"].map(|folder| std::fs::read_dir(root().join(folder)));
    let entries = folders.into_iter().flat_map(|folder| folder.unwrap());
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

/// All Rust files below a folder, with their text.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    files
}

#[test]
fn crates_know_the_core_and_not_one_another() {
    let crates = crates();
    assert!(crates.len() > 12, "{crates:?}");
    for path in crates.iter().filter(|path| !path.ends_with("crates/terse")) {
        let manifest = std::fs::read_to_string(path.join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("\n[").find(|part| part.starts_with("dependencies]"));
        for line in
            dependencies.unwrap_or_default().lines().filter(|line| line.starts_with("terse"))
        {
            // Two macros that expand to nothing, and a list that is a crate so that `fuzz` can
            // compare it with another.
            let allowed = ["terse-core", "terse-openapi-off", "terse-suffix-list"];
            let known = allowed.iter().any(|name| line.starts_with(name));
            assert!(known, "{}: {line}", path.display());
        }
    }
}

#[test]
fn only_the_backends_module_knows_which_features_are_built_in() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let with_features: Vec<_> = sources(&source)
        .into_iter()
        .filter(|(_, text)| text.contains("cfg(feature") || text.contains("cfg!(feature"))
        .map(|(path, _)| path.strip_prefix(&source).unwrap().to_owned())
        .collect();
    assert_eq!(with_features, [Path::new("backends.rs")]);
}

/// A background job is a `Job`, and the scheduler repeats it. What remains belongs to one
/// connection: the sweep of a serving thread, and the check of a stream of events.
#[test]
fn nothing_but_the_scheduler_repeats_work_at_an_interval() {
    let mut found = Vec::new();
    for path in crates() {
        for (file, text) in sources(&path.join("src")) {
            if text.contains("time::interval(") || text.contains("interval_at(") {
                let name = file.strip_prefix(path.parent().unwrap()).unwrap();
                found.push(name.display().to_string());
            }
        }
    }
    found.sort();
    assert_eq!(found, ["terse-redirect/src/serving_threads.rs", "terse-server/src/api/live.rs"]);
}

/// The binary reads the settings and connects the parts.
#[test]
fn the_binary_implements_no_job() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let jobs = sources(&source).into_iter().filter(|(_, text)| text.contains("impl Job for"));
    assert_eq!(jobs.map(|(path, _)| path).collect::<Vec<_>>(), Vec::<PathBuf>::new());
}

/// `redirect/routes.rs` in ARCHITECTURE.md means `crates/terse-redirect/src/routes.rs`.
#[test]
fn every_file_that_architecture_names_exists() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let files: Vec<String> = crates()
        .iter()
        .flat_map(|path| sources(path))
        .map(|(file, _)| file.display().to_string())
        .collect();
    let named = text.split('`').skip(1).step_by(2);
    let named: BTreeSet<&str> =
        named.filter(|name| name.ends_with(".rs") && !name.contains('*')).collect();
    assert!(named.len() > 50, "{named:?}");
    let missing: Vec<&str> = named
        .into_iter()
        .filter(|name| {
            let (short, rest) = name.split_once('/').unwrap_or(("", name));
            let ends = [format!("/{name}"), format!("terse-{short}/src/{rest}")];
            let in_binary = short == "terse" && root().join("crates/terse/src").join(rest).exists();
            !in_binary && !files.iter().any(|file| ends.iter().any(|end| file.ends_with(end)))
        })
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}
