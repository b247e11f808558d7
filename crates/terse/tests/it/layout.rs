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

/// The loops that sleep, and those that do nothing but repeat a call, each with the reason why it
/// is no job. Commands and test servers are left out: they end with their process.
const SLEEPING_LOOPS: &[(&str, &str)] = &[
    ("terse-clicks/src/edge_log.rs", "tries one batch again"),
    ("terse-clicks/src/pending.rs", "lets reports take a lock first"),
    ("terse-clicks/src/shipping.rs", "the thread of the shipper, which the click plane joins"),
    ("terse-clicks/src/shipping/storing.rs", "tries one batch again"),
    ("terse-core/src/links/imports.rs", "tries the rows of one import again"),
    ("terse-dynamodb/src/retry.rs", "tries one request again"),
    ("terse-dynamodb/src/table.rs", "waits until a new table is ready"),
    ("terse-embedded/src/clicks/store.rs", "erases the clicks of one owner in batches"),
    ("terse-embedded/src/data_dir.rs", "waits for the lock of a command"),
    ("terse-embedded/src/engine.rs", "tries a few times to empty the log"),
    ("terse-kafka/src/topic.rs", "waits until brokers know a new topic"),
    ("terse-kafka/src/worker.rs", "the worker of the bus, which the click plane joins"),
    ("terse-postgres/src/inspect.rs", "a check of `terse doctor`"),
    ("terse-postgres/src/links/inserts.rs", "commits one batch again"),
    ("terse-postgres/src/pool.rs", "tries one transaction again"),
    ("terse-postgres/src/replica.rs", "one read waits, under a limit, for the replica"),
    ("terse-postgres/src/schema.rs", "an upgrade waits for the lock of another node's"),
    ("terse-postgres/src/transfer/export.rs", "a command waits for a lock"),
    ("terse-redirect/src/serving_threads.rs", "the sweep of a serving thread, and its end"),
    ("terse-redis/src/announce.rs", "one connection, opened again after it was lost"),
    ("terse-redis/src/client.rs", "probes Redis while it is away"),
    ("terse-redis/src/replay.rs", "follows the state of the connection"),
    ("terse-safety/src/safe_browsing/service/revisits.rs", "one run of a job asks a few times"),
    ("terse-server/src/api/live.rs", "one stream of events, with its signs of life"),
    ("terse-traces/src/export.rs", "one run of a job sends all that waits"),
    ("terse-worker/src/lease.rs", "renews the lease that the scheduler runs jobs under"),
    ("terse-worker/src/reaper.rs", "one run of a job forgets requests in batches"),
    ("terse-worker/src/retention.rs", "pauses between the batches of one run of a job"),
    ("terse-worker/src/webhooks/delivery.rs", "writes one result again"),
    ("terse/src/backends/migrate/live.rs", "a command copies in rounds"),
    ("terse/src/local_api.rs", "a command waits for the lock of the data folder"),
];

#[test]
fn every_loop_that_sleeps_is_a_job_or_has_a_reason() {
    let mut found = BTreeSet::new();
    for path in crates() {
        if path.ends_with("terse-cli") || path.ends_with("terse-testkit") {
            continue;
        }
        for (file, text) in sources(&path.join("src")) {
            let is_tests = file.display().to_string().contains("tests");
            let code = text.split("#[cfg(test)]").next().unwrap();
            if !is_tests && loops(code).any(is_sleeping) {
                let name = file.strip_prefix(path.parent().unwrap()).unwrap();
                found.insert(name.display().to_string());
            }
        }
    }
    let allowed: BTreeSet<String> =
        SLEEPING_LOOPS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(found, allowed);
}

/// Every loop of a file, from its first word to its last line.
fn loops(code: &str) -> impl Iterator<Item = &str> {
    let starts = code.split_inclusive('\n').scan(0, |end, line| {
        let start = *end;
        *end += line.len();
        Some((start, line))
    });
    starts.filter_map(|(start, line)| {
        let words = line.trim_start();
        let words = words
            .strip_prefix('\'')
            .and_then(|rest| rest.split_once(": "))
            .map_or(words, |split| split.1);
        let at = match words.starts_with("while ") || words.starts_with("for ") {
            true => Some(0),
            false => line.find("loop {"),
        };
        Some(block(&code[start + at?..]))
    })
}

/// Whether a loop sleeps, or is one call that is repeated until it says otherwise.
fn is_sleeping(text: &str) -> bool {
    let is_repeated_call =
        text.trim_start().starts_with("while ") && text.contains(".await") && text.ends_with('{');
    text.contains("sleep(") || (is_repeated_call && text.contains("self."))
}

/// The text up to the brace that closes the first one.
fn block(text: &str) -> &str {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 1 => return &text[..at],
            '}' => depth -= 1,
            _ => {}
        }
    }
    text
}

/// rustfmt keeps code within 100 columns, but leaves comments as they are. Tables, code and
/// addresses cannot be wrapped.
#[test]
fn no_comment_is_wider_than_100_columns() {
    let mut wide = Vec::new();
    for path in crates().into_iter().chain([root().join("fuzz")]) {
        let parts = ["src", "tests", "examples"].map(|part| path.join(part));
        let parts = parts.iter().filter(|part| part.is_dir());
        for (file, text) in parts.flat_map(|part| sources(part)) {
            for (number, line) in text.lines().enumerate() {
                let comment = line.trim_start().strip_prefix("//");
                let comment = comment.map(|text| text.trim_start_matches(['/', '!', ' ']));
                let may_be_wide =
                    |text: &str| text.starts_with(['|', '`']) || text.contains("http");
                if line.chars().count() > 100 && comment.is_some_and(|text| !may_be_wide(text)) {
                    wide.push(format!("{}:{}", file.display(), number + 1));
                }
            }
        }
    }
    assert!(wide.is_empty(), "comments wider than 100 columns: {wide:#?}");
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
