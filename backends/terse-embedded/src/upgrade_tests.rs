//! Files of every earlier version, with rows in them, are brought up to date.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use rusqlite::Connection;
use terse_core::clicks::{
    Click, ClickIngest as _, ClickReports as _, ClickSubject, ClickTarget, JournalId, LinkId,
    Period,
};
use terse_core::registry::{AccountName, AccountStore as _, Actor, Attribution, NewAccount, Role};
use terse_core::{Insert, Inserted, Link, LinkReader as _, LinkStore as _, OwnerId, Tags};
use terse_testkit::{add_clicks, alias, key, timestamp};

use crate::clicks::schema::CLICKS;
use crate::registry::schema::REGISTRY;
use crate::schema::{FileSchema, LINKS};
use crate::{
    ClickOptions, EmbeddedClicks, EmbeddedLinks, EmbeddedOptions, EmbeddedRegistry,
    RegistryOptions, verify, verify_clicks, verify_registry,
};

/// Makes a file of an earlier version with the rows of a present one, as far as it had their
/// tables and columns.
fn write_as_version(schema: &FileSchema, version: usize, present: &Path, to: &Path) {
    let (done, later) = schema.steps.split_at(version);
    let conn = Connection::open(to).unwrap();
    done.iter().for_each(|step| conn.execute_batch(step).unwrap());
    let names = |sql: &str| -> Vec<String> {
        let mut statement = conn.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get(0)).unwrap();
        names.collect::<Result<_, _>>().unwrap()
    };
    // The index of searches is made again after an upgrade.
    let tables = names(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' \
         AND name NOT LIKE 'search%'",
    );
    conn.execute("ATTACH ?1 AS present", [present.to_str().unwrap()]).unwrap();
    for table in tables {
        let columns = names(&format!(
            "SELECT old.name FROM pragma_table_info('{table}', 'main') AS old \
             JOIN pragma_table_info('{table}', 'present') AS new ON new.name = old.name"
        ));
        if columns.is_empty() {
            continue;
        }
        let columns = columns.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>();
        let columns = columns.join(", ");
        // A step may have written other random numbers.
        let or = if table == "meta" { "REPLACE" } else { "IGNORE" };
        conn.execute_batch(&format!(
            "INSERT OR {or} INTO main.{table} ({columns}) SELECT {columns} FROM present.{table}"
        ))
        .unwrap();
        if table == "meta" {
            // A version does not have what a later step writes.
            for name in names("SELECT name FROM main.meta") {
                if later.iter().any(|step| step.contains(&format!("'{name}'"))) {
                    conn.execute("DELETE FROM main.meta WHERE name = ?1", [name]).unwrap();
                }
            }
        }
    }
    conn.execute_batch(&format!(
        "DETACH present; PRAGMA application_id = {}; PRAGMA user_version = {version}",
        schema.application
    ))
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_links_file_of_every_version_is_brought_up_to_date() {
    let temp = tempfile::tempdir().unwrap();
    let present = temp.path().join("present.db");
    let links = [
        alias("plain", "https://example.com/"),
        Link {
            tags: Tags::parse(&["a", "b"]).unwrap(),
            expires_at: Some(timestamp(1_000_000_000_000)),
            owner: OwnerId(7),
            ..alias("full", "https://example.com/full?a=b")
        },
    ];
    let put = async |store: &EmbeddedLinks, link: &Link| {
        let inserted = store.insert(Insert::new(link.clone(), None)).await.unwrap();
        assert_eq!(inserted, Inserted::Created);
    };
    let store = EmbeddedLinks::open(EmbeddedOptions::new(&present)).unwrap();
    for link in &links {
        put(&store, link).await;
    }
    drop(store);
    for version in 1..=LINKS.steps.len() {
        let file = temp.path().join(format!("{version}.db"));
        write_as_version(&LINKS, version, &present, &file);
        let opened = EmbeddedLinks::open(EmbeddedOptions::new(&file));
        let store = opened.unwrap_or_else(|error| panic!("version {version}: {error}"));
        for link in &links {
            let found = store.get(&link.key).await.unwrap().expect("it is there");
            let comparable =
                |link: &Link| (link.target.clone(), link.owner, link.expires_at, link.tags.clone());
            assert_eq!(comparable(&found), comparable(link), "version {version}");
        }
        put(&store, &alias("new", "https://example.com/new")).await;
        drop(store);
        let checked = verify(&file).unwrap();
        assert!(checked.is_clean() && checked.links == 3, "version {version}: {checked:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_file_of_every_version_is_brought_up_to_date() {
    let temp = tempfile::tempdir().unwrap();
    let present = temp.path().join("present.db");
    let by = || Attribution { actor: Actor::Owner(OwnerId::ADMIN), at: timestamp(0), why: None };
    let new = |name: &str| NewAccount {
        name: AccountName::parse(name).unwrap(),
        role: Role::User,
        password: None,
        identity: None,
        created_at: timestamp(0),
    };
    let registry = EmbeddedRegistry::open(RegistryOptions::new(&present)).unwrap();
    let ann = registry.add_account(new("ann"), by()).await.unwrap();
    drop(registry);
    for version in 1..=REGISTRY.steps.len() {
        let file = temp.path().join(format!("{version}.db"));
        write_as_version(&REGISTRY, version, &present, &file);
        let opened = EmbeddedRegistry::open(RegistryOptions::new(&file));
        let registry = opened.unwrap_or_else(|error| panic!("version {version}: {error}"));
        let found = registry.account(ann.id).await.unwrap().expect("she is there");
        assert_eq!((found.name, found.role), (ann.name.clone(), ann.role), "version {version}");
        registry.add_account(new("bob"), by()).await.unwrap();
        drop(registry);
        let checked = verify_registry(&file).unwrap();
        assert!(checked.is_clean() && checked.accounts == 2, "version {version}: {checked:?}");
    }
}

/// Single clicks move with the versions that have their blocks; the sums of all versions are kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clicks_file_of_every_version_is_brought_up_to_date() {
    let temp = tempfile::tempdir().unwrap();
    let present = temp.path().join("present.db");
    let link = |n: i64| LinkId { key: key(&format!("link-{n}")), created_at: timestamp(-5) };
    let click = |n: i64| {
        let target = ClickTarget::Link(link(n % 3), OwnerId(7));
        Click { country: Some("DE".into()), ..Click::bare(timestamp(n * 1_000), target) }
    };
    let store = EmbeddedClicks::open(ClickOptions::new(&present)).unwrap();
    add_clicks(&store, (0..9).map(click).collect()).await;
    store.close();
    for version in 1..=CLICKS.steps.len() {
        let file = temp.path().join(format!("{version}.db"));
        write_as_version(&CLICKS, version, &present, &file);
        let opened = EmbeddedClicks::open(ClickOptions::new(&file));
        let store = opened.unwrap_or_else(|error| panic!("version {version}: {error}"));
        // The first journal that is opened gets the positions of a file from before journals.
        store.open(JournalId([9; 16])).await.unwrap();
        add_clicks(&store, vec![click(9)]).await;
        let count = async |subject: ClickSubject, period| {
            let report = store.report(&subject, period, timestamp(20_000)).await.unwrap();
            let hours: u64 = report.buckets.iter().map(|bucket| bucket.clicks.all()).sum();
            (report.tally.clicks.humans, hours)
        };
        for period in [Period::default(), Period { from: Some(timestamp(-9)), to: None }] {
            let first = count(ClickSubject::Link(link(0)), period).await;
            let all = count(ClickSubject::Everything, period).await;
            let owner = count(ClickSubject::Owner(OwnerId(7)), period).await;
            assert_eq!([first, all, owner], [(4, 4), (10, 10), (10, 10)], "version {version}");
        }
        store.close();
        let checked = verify_clicks(&file).unwrap();
        assert!(checked.is_clean() && checked.clicks == 10, "version {version}: {checked:?}");
    }
}
