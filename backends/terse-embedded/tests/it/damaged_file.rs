//! Damage to the links file: only what is damaged fails.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{Seek as _, SeekFrom, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use terse_core::{
    Alphabet, Domain, IdempotencyKey, Insert, Inserted, Link, LinkKey, LinkReader as _,
    LinkStore as _, ListQuery, Numbering, Revision, Sort, StoreError,
};
use terse_embedded::{EmbeddedLinks, EmbeddedOpenError, EmbeddedOptions, verify};
use terse_testkit::{alias, generated, key, timestamp};

use crate::file::{Folder, put, sql};

#[test]
fn damage_and_another_alphabet_are_reported_at_open() {
    let folder = Folder::new();
    let store = folder.open();
    drop(store);
    let error = EmbeddedLinks::open(EmbeddedOptions {
        alphabet: Alphabet::Base58,
        ..EmbeddedOptions::new(folder.db())
    })
    .unwrap_err();
    assert!(
        matches!(error, EmbeddedOpenError::Alphabet { stored: "base62", wanted: "base58" }),
        "{error:?}"
    );
    sql(&folder.db(), "DELETE FROM meta WHERE name = 'secret'; INSERT INTO leases VALUES (7, 100)");
    let error = EmbeddedLinks::open(EmbeddedOptions::new(folder.db())).unwrap_err();
    assert!(matches!(error, EmbeddedOpenError::Damaged(_)), "{error:?}");
    assert!(verify(&folder.db()).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_link_is_an_error_and_never_a_redirect() {
    let folder = Folder::new();
    let code = {
        let store = folder.open();
        store.lease(7, 1, u64::MAX, 0).await.unwrap();
        let code = Numbering::new(store.identity()).code(7, 0).to_string();
        put(&store, &Link { reusable: true, ..generated(&code, "https://example.com/number-one") })
            .await;
        put(&store, &alias("named", "https://example.com/name-one")).await;
        put(&store, &alias("other", "https://example.com/untouched")).await;
        code
    };
    assert!(verify(&folder.db()).unwrap().is_clean());
    // Raw bytes that SQLite itself does not check.
    let mut bytes = std::fs::read(folder.db()).unwrap();
    for (from, to) in [(&b"number-one"[..], &b"number-two"[..]), (b"name-one", b"name-0ne")] {
        let at = bytes.windows(from.len()).position(|part| part == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    std::fs::write(folder.db(), bytes).unwrap();
    let store = folder.open();
    for code in [&code[..], "named"] {
        let found = store.get(&key(code)).await;
        assert!(matches!(found, Err(StoreError::Corrupt(_))), "{found:?}");
        let updated = store.update(&alias(code, "https://example.com/"), Revision(1), &[]).await;
        assert!(matches!(updated, Err(StoreError::Corrupt(_))), "{updated:?}");
    }
    assert!(store.get(&key("other")).await.unwrap().is_some());
    store.check().await.unwrap();
    let report = verify(&folder.db()).unwrap();
    assert_eq!((report.links, report.problems.count), (1, 2), "{report:?}");

    // Through SQL, column by column.
    for (n, change) in [
        "target = 'https://evil.example/'",
        "owner = 7",
        "flags = flags | 32",
        "flags = flags | 128",
        "signs = 'userinfo'",
        "password = '$argon2id$'",
        "notes = 'x'",
        "archived_at = 5",
        "rules = '[]'",
        "created_at = created_at + 1",
        "updated_at = 5",
        "expires_at = 5",
        "valid_from = 5",
        "max_clicks = 5",
        "deleted_at = 5",
        "revision = 5",
        "title = 'x'",
        "tags = 'x'",
        "reuse = 5",
        "checksum = checksum + 1",
        "domain = 99",
        "target = x'ff' || 'not text'",
    ]
    .into_iter()
    .enumerate()
    {
        let link = alias(&format!("column-{n}"), "https://example.com/");
        put(&store, &link).await;
        sql(&folder.db(), &format!("UPDATE links SET {change} WHERE code = 'column-{n}'"));
        let found = store.get(&link.key).await;
        assert!(matches!(found, Err(StoreError::Corrupt(_))), "{change}: {found:?}");
    }
    // An alias that points at another link.
    sql(
        &folder.db(),
        "UPDATE aliases SET id = (SELECT id FROM aliases WHERE code = 'column-0') WHERE code = \
         'other'",
    );
    assert!(matches!(store.get(&key("other")).await, Err(StoreError::Corrupt(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_go_on_behind_a_damaged_link() {
    let folder = Folder::new();
    let store = folder.open();
    for n in 0..5 {
        put(
            &store,
            &Link {
                created_at: timestamp(n),
                updated_at: timestamp(n),
                ..alias(&format!("link-{n}"), "https://e.com/")
            },
        )
        .await;
    }
    sql(
        &folder.db(),
        "UPDATE links SET target = 'https://evil.example/' WHERE code IN ('link-2', 'link-4')",
    );
    for limit in [1, 2, 100] {
        let (mut codes, mut after) = (Vec::new(), None);
        loop {
            let page = store.list(&ListQuery { limit, after, ..everything() }).await.unwrap();
            codes.extend(page.links.into_iter().map(|link| link.key.code.to_string()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(codes, ["link-3", "link-1", "link-0"]);
    }
}

fn everything() -> ListQuery {
    ListQuery {
        owner: None,
        domain: None,
        tag: None,
        text: None,
        status: None,
        archived: None,
        sort: Sort::Newest,
        after: None,
        limit: 100,
        now: timestamp(0),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_on_one_domain_is_not_met_on_another() {
    let folder = Folder::new();
    let store = folder.open();
    store.lease(7, 1, u64::MAX, 0).await.unwrap();
    let code = Numbering::new(store.identity()).code(7, 0);
    let here = generated(code.as_str(), "https://example.com/here");
    let mut there = generated(code.as_str(), "https://example.com/there");
    there.key.domain = Domain::from_stored("go.example");
    put(&store, &here).await;
    put(&store, &there).await;
    sql(&folder.db(), "UPDATE links SET target = x'ff' || 'not text' WHERE code IS NULL");
    assert!(matches!(store.get(&here.key).await, Err(StoreError::Corrupt(_))));
    assert_eq!(store.get(&there.key).await.unwrap(), Some(there));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_keys_only_those_fail_that_meet_the_damage() {
    let folder = Folder::new();
    let codes: Vec<LinkKey> = {
        let store = folder.open();
        let range = store.lease(7, 5, u64::MAX, 0).await.unwrap();
        let numbering = Numbering::new(store.identity());
        for n in range.clone() {
            put(&store, &generated(numbering.code(7, n).as_str(), "https://example.com/")).await;
        }
        put(&store, &alias("named", "https://example.com/")).await;
        range.map(|n| key(numbering.code(7, n).as_str())).collect()
    };
    let conn = Connection::open(folder.db()).unwrap();
    let page: i64 = conn
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'aliases'", [], |row| {
            row.get(0)
        })
        .unwrap();
    drop(conn);
    let store = folder.open();
    // In a store that is already open, because opening checks all aliases.
    let mut file = std::fs::File::options().write(true).open(folder.db()).unwrap();
    file.seek(SeekFrom::Start((page as u64 - 1) * 4096)).unwrap();
    file.write_all(&[0xee; 4096]).unwrap();
    for _ in 0..3 {
        let keys = [&codes[..2], &[key("named")], &codes[2..]].concat();
        for (n, found) in store.get_many(&keys).await.into_iter().enumerate() {
            match n {
                2 => assert!(matches!(found, Err(StoreError::Corrupt(_))), "{found:?}"),
                _ => assert!(found.unwrap().is_some()),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_page_concerns_only_what_lies_on_it() {
    let folder = Folder::new();
    drop(folder.open());
    let conn = Connection::open(folder.db()).unwrap();
    let page = |name: &str| -> i64 {
        conn.query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [name], |row| {
            row.get(0)
        })
        .unwrap()
    };
    let requests = page("requests");
    drop(conn);
    let mut bytes = std::fs::read(folder.db()).unwrap();
    let start = (requests as usize - 1) * 4096;
    bytes[start..start + 4096].fill(0xee);
    std::fs::write(folder.db(), bytes).unwrap();

    let store = Arc::new(folder.open());
    put(&store, &alias("first", "https://example.com/")).await;
    let other = Connection::open(folder.db()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let tasks: Vec<_> = (0..20u8)
        .map(|n| {
            let store = store.clone();
            let request =
                (n % 4 == 1).then_some(IdempotencyKey { id: [n; 32], fingerprint: [0; 32] });
            let link = alias(&format!("link-{n}"), "https://example.com/");
            tokio::spawn(async move { store.insert(Insert::new(link, request)).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    other.execute_batch("ROLLBACK").unwrap();
    for (n, task) in tasks.into_iter().enumerate() {
        match (n % 4, task.await.unwrap()) {
            (1, outcome) => assert!(matches!(outcome, Err(StoreError::Corrupt(_))), "{outcome:?}"),
            (_, outcome) => assert_eq!(outcome.unwrap(), Inserted::Created),
        }
    }
    store.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_counters_give_no_number_twice() {
    let folder = Folder::new();
    let code = {
        let store = folder.open();
        let range = store.lease(7, 10, u64::MAX, 0).await.unwrap();
        let code = Numbering::new(store.identity()).code(7, range.end - 1).to_string();
        put(&store, &generated(&code, "https://example.com/number")).await;
        put(&store, &alias("named", "https://example.com/name")).await;
        code
    };
    sql(&folder.db(), "DELETE FROM leases; DELETE FROM meta WHERE name = 'next_named'");
    let store = folder.open();
    assert!(store.get(&key(&code)).await.unwrap().is_some());
    assert_eq!(store.lease(7, 10, u64::MAX, 0).await.unwrap(), 10..20);
    put(&store, &alias("another", "https://example.com/")).await;
}
