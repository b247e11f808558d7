//! The public suffix list, compared with the crate that has it as generated code.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use terse_suffix_list::{LIST, PublicSuffix, public_suffix};

/// The rules that `psl` was generated from. `cargo metadata` says where its source is.
fn rules_of_psl() -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version=1", "--offline", "--locked"];
    let output = Command::new(cargo).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let psl = packages.iter().find(|package| package["name"] == "psl").unwrap();
    let manifest = Path::new(psl["manifest_path"].as_str().unwrap());
    let rules = std::fs::read_to_string(manifest.with_file_name("data/rules.txt")).unwrap();
    rules.lines().map(str::to_owned).collect()
}

/// A name that a rule makes a suffix, or takes from the suffixes.
fn name_of(rule: &str) -> String {
    match rule.strip_prefix('!') {
        Some(name) => name.to_owned(),
        None => rule.replace('*', "any"),
    }
}

/// The list in the format of publicsuffix.org, with international names in both spellings, sorted.
fn list_of_psl() -> String {
    let mut sections = [Vec::new(), Vec::new()];
    for rule in rules_of_psl() {
        let (mark, name) =
            rule.split_at(rule.len() - rule.trim_start_matches(['!', '*', '.']).len());
        let encoded = format!("{mark}{}", idna::domain_to_ascii(name).unwrap());
        let suffix = psl::suffix(name_of(&rule).as_bytes()).map(|suffix| suffix.typ());
        let section = &mut sections[usize::from(suffix == Some(Some(psl::Type::Private)))];
        if encoded != rule {
            section.push(encoded);
        }
        section.push(rule);
    }
    sections.iter_mut().for_each(|section| section.sort_unstable());
    format!(
        "// The Public Suffix List, https://publicsuffix.org, without its comments.
// This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0.
// If a copy of the MPL was not distributed with this file, You can obtain one at
// https://mozilla.org/MPL/2.0/.
// ===BEGIN ICANN DOMAINS===
{}
// ===BEGIN PRIVATE DOMAINS===
{}
",
        sections[0].join("\n"),
        sections[1].join("\n")
    )
}

/// `cargo update -p psl`, then `UPDATE=1 cargo test -p terse-fuzz suffix_list`, brings a newer
/// list.
#[test]
fn the_suffix_list_is_the_one_of_psl() {
    let list = list_of_psl();
    if std::env::var_os("UPDATE").is_some() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/terse-suffix-list/src");
        std::fs::write(source.join("public_suffix_list.dat"), list).unwrap();
        return;
    }
    assert!(list == LIST, "psl has another list: run with UPDATE=1");
}

#[test]
fn every_suffix_is_found_as_psl_finds_it() {
    let rules: HashSet<_> = LIST.lines().filter(|line| !line.starts_with("//")).collect();
    assert!(rules.len() > 10_000);
    // By the rule `*.r.example`, `a.r.example` is a suffix. psl overlooks it if there is another
    // rule `*.a.r.example`.
    let is_overlooked = |host: &str| {
        let parent = host.split_once('.').map_or("", |(_, parent)| parent);
        [host, parent].iter().all(|name| rules.contains(format!("*.{name}").as_str()))
    };
    for name in rules.iter().copied().map(name_of) {
        let parent = name.split_once('.').map_or("", |(_, parent)| parent).to_owned();
        let hosts = [format!("a.{name}"), format!("b.a.{name}"), parent, name];
        for host in hosts.iter().filter(|host| !is_overlooked(host)) {
            let expected = psl::suffix(host.as_bytes()).map(|suffix| PublicSuffix {
                len: suffix.as_bytes().len(),
                is_private: suffix.typ() == Some(psl::Type::Private),
            });
            assert_eq!(public_suffix(host), expected, "{host}");
        }
    }
}
