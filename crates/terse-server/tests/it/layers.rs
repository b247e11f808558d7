//! Which module of the server may import which.

use std::path::Path;

/// The lines of the Rust files in a folder, and in the folders below, that contain one of these
/// paths.
fn lines_with(folder: &str, paths: &[&str]) -> Vec<String> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().path();
            if file.is_dir() {
                folders.push(file);
                continue;
            }
            if file.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap();
            let lines = text.lines().filter(|line| paths.iter().any(|path| line.contains(path)));
            found.extend(lines.map(|line| format!("{}: {line}", file.display())));
        }
    }
    found
}

#[test]
fn the_common_module_knows_neither_the_api_nor_the_pages() {
    assert_eq!(lines_with("http", &["crate::api", "crate::pages"]), Vec::<String>::new());
}

#[test]
fn the_api_and_the_pages_do_not_know_each_other() {
    assert_eq!(lines_with("api", &["crate::pages"]), Vec::<String>::new());
    assert_eq!(lines_with("pages", &["crate::api"]), Vec::<String>::new());
}

/// Reports of clicks have no rules of their own: a handler asks a service whose clicks the caller
/// may see, and then reads them from the click store. Counting, pruning and erasing are for the
/// services.
#[test]
fn handlers_only_read_the_click_store() {
    const READS: [&str; 5] = ["clone()", "report(", "clicks(", "counts(", "top("];
    for folder in ["api", "pages", "http"] {
        let mut found = lines_with(folder, &["state.clicks."]);
        found.retain(|line| {
            let mut calls = line.split("state.clicks.").skip(1);
            calls.any(|call| !READS.iter().any(|read| call.starts_with(read)))
        });
        assert_eq!(found, Vec::<String>::new());
    }
}

/// Rules live in the services: a handler that writes to the registry itself would bypass limits,
/// permissions and the audit log. The state makes the services.
#[test]
fn no_handler_asks_the_registry_itself() {
    let mut found = lines_with("", &["registry."]);
    let is_of_state = |line: &String| {
        let file = line.split(": ").next().unwrap_or_default();
        file.ends_with("src/http/state.rs")
    };
    found.retain(|line| !is_of_state(line) && !line.contains("//"));
    assert_eq!(found, Vec::<String>::new());
}
