//! Registry files of other versions.
#![allow(clippy::unwrap_used, reason = "a test")]

use rusqlite::Connection;
use terse_core::registry::prelude::*;
use terse_core::registry::{
    AccountChange, AuditQuery, BlockedHost, ConditionalAccountChange, EventKind, NewEvent,
    NewWebhook, PasswordReset, SecretHash, TotpSeed, TwoFactor,
};
use terse_core::{Insert, LinkStore as _, OwnerId, Target};
use terse_embedded::{
    ClickOptions, EmbeddedClicks, EmbeddedLinks, EmbeddedOptions, backup_registry,
    move_into_registry, skip_ahead_registry, verify_registry,
};
use terse_testkit::timestamp;

use crate::registry_file::{Folder, by, new, new_key, sql, token};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_key_and_the_salts_of_an_earlier_version_move_into_the_registry() {
    let folder = Folder::new();
    let (links, clicks) = (folder.0.path().join("terse.db"), folder.0.path().join("clicks.db"));
    let embedded = EmbeddedLinks::open(EmbeddedOptions::new(&links)).unwrap();
    let embedded_clicks = EmbeddedClicks::open(ClickOptions::new(&clicks)).unwrap();
    let registry = folder.open();
    let (hash, salts) = ([9; 32], [[0xa7; 16], [0xb8; 16]]);
    Connection::open(&links)
        .unwrap()
        .execute("INSERT INTO meta VALUES ('admin_key', ?1)", [hash])
        .unwrap();
    for (day, salt) in (20_000..).zip(salts) {
        Connection::open(&clicks)
            .unwrap()
            .execute("INSERT INTO salts VALUES (?1, ?2)", rusqlite::params![day, salt])
            .unwrap();
    }
    for _ in 0..2 {
        move_into_registry(&embedded, &embedded_clicks, &registry).await.unwrap();
        assert_eq!(registry.admin_key().await.unwrap(), Some(SecretHash(hash)));
        assert_eq!(registry.salt(20_000).await.unwrap(), salts[0]);
        assert_eq!(registry.salt(20_001).await.unwrap(), salts[1]);
        assert_eq!(embedded_clicks.old_salts().await.unwrap(), []);
    }
    let kept = Connection::open(&links).unwrap();
    let kept = kept.prepare("SELECT 1 FROM meta WHERE name = 'admin_key'").unwrap().exists([]);
    assert!(!kept.unwrap());
}

/// Removes what versions after 6 added.
const WITHOUT_SINCE_6: &str = "DROP INDEX users_resets; ALTER TABLE users DROP COLUMN reset_token;
    ALTER TABLE users DROP COLUMN reset_expires_at; ALTER TABLE users DROP COLUMN totp_seed;
    ALTER TABLE users DROP COLUMN totp_step; ALTER TABLE users DROP COLUMN recovery_codes;
    ALTER TABLE users DROP COLUMN preferences; DROP TABLE acme_records;
    ALTER TABLE webhooks DROP COLUMN active_since; ALTER TABLE keys DROP COLUMN requests;
    ALTER TABLE sessions DROP COLUMN browser; DROP TABLE nodes; PRAGMA user_version = 6;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_schema_version_6_takes_a_reset_link_and_two_factor_sign_in() {
    let folder = Folder::new();
    let ann = {
        let registry = folder.open();
        let ann = registry.add_account(new("ann"), by()).await.unwrap();
        registry.add_key(new_key(ann.id), by()).await.unwrap();
        ann
    };
    sql(&folder.db(), WITHOUT_SINCE_6);
    let registry = folder.open();
    assert_eq!(registry.account(ann.id).await.unwrap().as_ref(), Some(&ann));
    assert_eq!(registry.key(&token(ann.id)).await.unwrap().unwrap().1, ann);
    let reset = PasswordReset { token: SecretHash([9; 32]), expires_at: timestamp(9) };
    let two_factor =
        TwoFactor { seed: TotpSeed([3; 16]), last_step: 7, recovery: vec![SecretHash([4; 32]); 2] };
    let two_factor = Some(Some(two_factor));
    let change = AccountChange { reset: Some(Some(reset)), two_factor, ..AccountChange::default() };
    let change = ConditionalAccountChange { id: ann.id, change, expected: Some(ann.revision) };
    let changed = registry.change_account(change, by()).await.unwrap();
    assert_eq!(registry.account_by_reset(&SecretHash([9; 32])).await.unwrap(), Some(changed));
    assert!(verify_registry(&folder.db()).unwrap().is_clean());
    drop(registry);
    // A copy that is used again has no reset links.
    skip_ahead_registry(&folder.db()).unwrap();
    assert_eq!(folder.open().account_by_reset(&SecretHash([9; 32])).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_schema_version_3_opens_and_keeps_what_it_had() {
    let folder = Folder::new();
    {
        let registry = folder.open();
        registry.add_account(new("ann"), by()).await.unwrap();
    }
    // As version 3 left it, after five changes.
    sql(&folder.db(), WITHOUT_SINCE_6);
    sql(
        &folder.db(),
        "ALTER TABLE users DROP COLUMN plan;
         DROP INDEX deliveries_of_event; DROP TABLE leases; DROP TABLE job_progress; DROP TABLE salts;
         DELETE FROM meta WHERE name IN ('version', 'incarnation');
         INSERT INTO meta VALUES ('watermark', 5); PRAGMA user_version = 3;",
    );
    let copy = folder.0.path().join("copy.db");
    backup_registry(&folder.db(), &copy).unwrap();
    let registry = folder.open();
    let version = registry.version().await.unwrap();
    assert_eq!(version.version, 5);
    assert!(registry.account(OwnerId(1000)).await.unwrap().is_some());
    let host = BlockedHost { host: "evil.example".into(), at: timestamp(0), why: None };
    registry.block_host(host, by()).await.unwrap();
    assert_ne!(registry.version().await.unwrap(), version);
    assert!(verify_registry(&folder.db()).unwrap().is_clean());
}

/// An earlier version could enqueue an event twice after a crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_exists_twice_is_kept_once() {
    let folder = Folder::new();
    let (owner, webhook) = {
        let registry = folder.open();
        let owner = registry.add_account(new("ann"), by()).await.unwrap().id;
        let url = Target::from_stored("https://hook.example/".into());
        let events = EventKind::ALL.into_iter().collect();
        let webhook = NewWebhook { owner, url, events, created_at: timestamp(0) };
        let webhook = registry.add_webhook(webhook, by()).await.unwrap().id;
        for name in ["evt_1", "evt_2"] {
            let event = NewEvent::named(
                name.into(),
                EventKind::LinkCreated,
                owner,
                timestamp(1),
                &[("link", serde_json::Value::Null)],
            );
            assert_eq!(registry.enqueue(event).await.unwrap(), 1);
        }
        (owner, webhook)
    };
    sql(&folder.db(), WITHOUT_SINCE_6);
    sql(
        &folder.db(),
        "ALTER TABLE users DROP COLUMN plan;
         DROP INDEX deliveries_of_event; PRAGMA user_version = 4;
         INSERT INTO deliveries (webhook, event, kind, body, created_at, state, attempts, next_at)
             SELECT webhook, event, kind, body, created_at, state, attempts, next_at
             FROM deliveries WHERE event = 'evt_1';
         UPDATE webhooks SET waiting = 3;",
    );
    let registry = folder.open();
    let deliveries = registry.deliveries(owner, webhook, 10).await.unwrap();
    let names: Vec<_> = deliveries.iter().map(|delivery| delivery.event.as_str()).collect();
    assert_eq!(names, ["evt_2", "evt_1"]);
    assert_eq!(registry.webhooks(owner).await.unwrap()[0].waiting, 2);
    assert!(verify_registry(&folder.db()).unwrap().is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_that_is_older_than_the_links_gives_none_of_their_owners_to_another() {
    let folder = Folder::new();
    let registry = folder.open();
    let links = terse_embedded::EmbeddedLinks::open(terse_embedded::EmbeddedOptions::new(
        folder.db().with_file_name("links.db"),
    ))
    .unwrap();
    let skipped = || terse_embedded::skip_owners_of_links(&links, &registry);
    assert!(!skipped().await.unwrap(), "no links");
    let of = |owner: u64, alias: &str| terse_core::Link {
        owner: OwnerId(owner),
        ..terse_testkit::alias(alias, "https://example.com/")
    };
    for (owner, alias) in [(OwnerId::ADMIN.0, "of-admin"), (0, "of-nobody")] {
        links.insert(Insert::new(of(owner, alias), None)).await.unwrap();
    }
    assert!(!skipped().await.unwrap(), "nobody's, and the operator's");
    assert_eq!(registry.add_account(new("ann"), by()).await.unwrap().id, OwnerId(1000));
    links.insert(Insert::new(of(1000, "of-ann"), None)).await.unwrap();
    assert!(!skipped().await.unwrap(), "it knows her");
    // An account that the file that was put back does not know.
    links.insert(Insert::new(of(1007, "of-bob"), None)).await.unwrap();
    assert!(skipped().await.unwrap());
    let next = registry.add_account(new("eve"), by()).await.unwrap().id;
    assert!(next > OwnerId(1_000_000), "{next:?}");
    assert!(!skipped().await.unwrap(), "once");
    links.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_later_version_wrote_stops_neither_snapshots_nor_erasure() {
    let folder = Folder::new();
    let registry = folder.open();
    let ann = registry.add_account(new("ann"), by()).await.unwrap();
    let host =
        BlockedHost { host: "evil.example".into(), at: timestamp(0), why: Some("spam".into()) };
    registry.block_host(host, by()).await.unwrap();
    sql(
        &folder.db(),
        "INSERT OR REPLACE INTO meta VALUES ('branding', '{\"links\":7}'); \
         UPDATE audit SET act = 'later_act' WHERE act = 'user_added'",
    );
    let snapshot = registry.snapshot().await.unwrap();
    assert_eq!(snapshot.blocked_hosts.len(), 1);
    assert_eq!(snapshot.branding, terse_core::Branding::default());
    registry.erase_account(ann.id, by()).await.unwrap();
    let lines = registry.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.unwrap();
    let later: Vec<_> = lines.iter().filter(|line| line.act_name() == "later_act").collect();
    assert_eq!(later.len(), 1, "{lines:?}");
    assert!(!format!("{later:?}").contains("ann"), "{later:?}");
}
