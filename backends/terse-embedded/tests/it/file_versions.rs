//! Links files of other versions.
#![allow(clippy::unwrap_used, reason = "a test")]

use rusqlite::Connection;
use terse_core::registry::EventKind;
use terse_core::rules::Rules;
use terse_core::{
    CodeRequest, CodeSource as _, HashedCodes, Insert, Link, LinkFlags, LinkReader as _,
    LinkStore as _, ListQuery, ModerationSource, ModerationStatus, Notes, Outbox as _, OutboxEvent,
    OwnerId, Revision, Sort, TagCount, Tags, Target, Updated,
};
use terse_embedded::{EmbeddedLinks, EmbeddedOpenError, EmbeddedOptions, verify};
use terse_testkit::{alias, timestamp};

use crate::file::{Folder, put, sql};

#[test]
fn a_file_from_the_future_is_refused_and_left_alone() {
    let folder = Folder::new();
    drop(folder.open());
    let version = || -> i64 {
        let conn = Connection::open(folder.db()).unwrap();
        conn.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
    };
    let present = version();
    sql(&folder.db(), "PRAGMA user_version = 99");
    let error = EmbeddedLinks::open(EmbeddedOptions::new(folder.db())).unwrap_err();
    assert!(
        matches!(error, EmbeddedOpenError::Newer { found: 99, known } if known == present),
        "{error}"
    );
    assert!(error.to_string().contains("99") && error.to_string().contains(&present.to_string()));
    assert_eq!(version(), 99);
    sql(&folder.db(), &format!("PRAGMA user_version = {present}"));
    drop(folder.open());
}

/// The schema before screening: no flags, and every status set by a moderator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_the_first_version_is_brought_up_to_date() {
    let folder = Folder::new();
    let plain =
        Link { tags: Tags::parse(&["a"]).unwrap(), ..alias("plain", "https://example.com/") };
    let blocked = Link {
        moderation: ModerationStatus::Blocked,
        moderated_by: ModerationSource::Moderator,
        ..alias("blocked", "https://example.com/")
    };
    {
        let store = folder.open();
        put(&store, &plain).await;
        put(&store, &blocked).await;
    }
    // As the first version wrote it: an unchanged row keeps its checksum.
    let checksum = |code: &str| -> i64 {
        let conn = Connection::open(folder.db()).unwrap();
        conn.query_row("SELECT checksum FROM links WHERE code = ?1", [code], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(
        (checksum("plain"), checksum("blocked")),
        (-43900088757068297, -7054719790225027295)
    );
    sql(&folder.db(), include_str!("../first_version.sql"));
    let store = folder.open();
    assert_eq!(store.get(&plain.key).await.unwrap(), Some(plain.clone()));
    assert_eq!(store.get(&blocked.key).await.unwrap(), Some(blocked));
    let text = Some("PLAIN".into());
    let search = ListQuery { text, ..ListQuery::all(Sort::Newest, 9, timestamp(1)) };
    assert_eq!(store.list(&search).await.unwrap().links, std::slice::from_ref(&plain), "upgraded");
    let flagged = Link {
        flags: LinkFlags::new(["userinfo"]),
        moderation: ModerationStatus::Suspicious,
        notes: Some(Notes::from_stored("a note".into())),
        rules: Rules::from_stored(r#"[{"device":"mobile","to":"https://example.com/m"}]"#),
        revision: Revision(2),
        ..plain
    };
    assert_eq!(store.tags(plain.owner, 9).await.unwrap(), [TagCount { tag: "a".into(), links: 1 }]);
    assert_eq!(store.update(&flagged, Revision(1), &[]).await.unwrap(), Updated::Done);
    drop(store);
    assert_eq!(folder.open().get(&flagged.key).await.unwrap(), Some(flagged));
    assert!(verify(&folder.db()).unwrap().is_clean());
}

/// The first version did not key the hash of a target with the secret of its store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_the_first_version_keeps_its_codes_from_targets() {
    let folder = Folder::new();
    let target = Target::from_stored("https://a.example/".into());
    let code_in = async |store: EmbeddedLinks| {
        let codes = HashedCodes::new(store.identity(), 7);
        let wanted = CodeRequest { owner: OwnerId::ADMIN, target: &target, attempt: 0 };
        let code = codes.next(wanted).await.unwrap().to_string();
        store.close();
        code
    };
    // What SHA-256 makes of the target and its owner, whatever the secret is.
    let unkeyed = "QOH18dY";
    let keyed = code_in(folder.open()).await;
    assert_ne!(keyed, unkeyed, "a new file has the keyed hash");
    assert_eq!(code_in(folder.open()).await, keyed);
    sql(&folder.db(), include_str!("../first_version.sql"));
    for _ in 0..2 {
        assert_eq!(code_in(folder.open()).await, unkeyed, "also after it was brought up to date");
    }
}

/// Entries that an earlier version wrote have no id; they get one that stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_events_of_an_earlier_version_get_a_lasting_id() {
    let folder = Folder::new();
    {
        let store = folder.open();
        let event = OutboxEvent { kind: EventKind::LinkCreated, at: timestamp(1) };
        let link = alias("named", "https://example.com/");
        store.insert(Insert { events: vec![event], ..Insert::new(link, None) }).await.unwrap();
    }
    sql(
        &folder.db(),
        "DROP INDEX links_of_owner; DROP INDEX links_in_state; DROP INDEX links_scheduled; \
         ALTER TABLE links DROP COLUMN state; DROP TABLE search; DROP TABLE unindexed; \
         ALTER TABLE outbox DROP COLUMN event; ALTER TABLE links DROP COLUMN imported_clicks; \
         ALTER TABLE revisions DROP COLUMN imported_clicks; ALTER TABLE links DROP COLUMN preview; \
         ALTER TABLE revisions DROP COLUMN preview; PRAGMA user_version = 7",
    );
    let first = folder.open().outbox(None, 10).await.unwrap();
    assert_eq!((first.entries.len(), first.unreadable.len()), (1, 0));
    let copy = folder.db().with_file_name("copy.db");
    terse_embedded::backup(&folder.db(), &copy).unwrap();
    terse_embedded::skip_ahead(&copy).unwrap();
    let restored = EmbeddedLinks::open(EmbeddedOptions::new(&copy)).unwrap();
    assert_eq!(restored.outbox(None, 10).await.unwrap(), first, "the same id after a restore");
}
