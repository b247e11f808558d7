//! Faults of a registry file: restarts, copies, damage, a full disk, kills and foreign files.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rusqlite::Connection;
use terse_core::registry::{
    AccountChange, AccountName, AccountStore, AcmeRecordKind, AcmeStore, Actor, AdminKeyStore,
    Attribution, AuditLog, AuditQuery, BlockedHost, BlocklistStore, ChangeAccount, Claim,
    CredentialStore, EventKind, JobLease, NewAccount, NewEvent, NewKey, NewWebhook, NodeId,
    PasswordReset, RegistryError, RegistryMaintenance, RegistrySnapshots, Role, Salts, Scope,
    Session, Token, TotpSeed, TwoFactor, WebhookId, WebhookStore,
};
use terse_core::{Insert, LinkStore as _, OwnerId, StoreError, Target};
use terse_embedded::{
    ClickOptions, Embedded, EmbeddedClicks, EmbeddedOpenError, EmbeddedOptions, EmbeddedRegistry,
    RegistryOptions, backup_registry, inspect_registry, move_into_registry, skip_ahead_registry,
    verify_registry,
};
use terse_testkit::registry::{RegistryHandle, everything, fill};
use terse_testkit::timestamp;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn db(&self) -> PathBuf {
        self.0.path().join("registry.db")
    }

    fn open(&self) -> Arc<EmbeddedRegistry> {
        Arc::new(EmbeddedRegistry::open(RegistryOptions::new(self.db())).unwrap())
    }
}

fn sql(path: &Path, statement: &str) {
    Connection::open(path).unwrap().execute_batch(statement).unwrap();
}

fn by() -> Attribution {
    Attribution { actor: Actor::Owner(OwnerId::ADMIN), at: timestamp(0), why: None }
}

fn new(name: &str) -> NewAccount {
    let name = AccountName::parse(name).unwrap();
    NewAccount { name, role: Role::User, password: None, identity: None, created_at: timestamp(0) }
}

fn token(of: OwnerId) -> Token {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&of.0.to_le_bytes());
    Token(bytes)
}

fn new_key(owner: OwnerId) -> NewKey {
    let (name, prefix) = ("a key".to_owned(), "tk_1".to_owned());
    NewKey {
        owner,
        name,
        prefix,
        token: token(owner),
        scope: Scope::Read,
        created_at: timestamp(0),
        expires_at: None,
        plan: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_there_when_opened_again() {
    let folder = Folder::new();
    let registry = folder.open();
    let store: RegistryHandle = registry.clone();
    fill(&store).await;
    let before = everything(&store).await;
    assert!(
        before.contains("bobby") && before.contains("phishing") && before.contains("a.example"),
        "{before}"
    );
    assert!(registry.disk_size() > 4096 && registry.queue_depth() == 0);
    registry.close();
    assert!(matches!(
        store.account(OwnerId(1000)).await,
        Err(RegistryError::Store(StoreError::Unavailable(_)))
    ));
    assert!(matches!(
        store.end_session(&token(OwnerId(1))).await,
        Err(RegistryError::Store(StoreError::Unavailable(_)))
    ));
    assert!(store.check().await.is_err());
    assert!(!folder.0.path().join("registry.db-wal").exists(), "everything is in the one file");
    #[cfg(unix)]
    {
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&folder.db().metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "only the owner may read it");
    }
    drop((registry, store));
    let store: RegistryHandle = folder.open();
    assert_eq!(everything(&store).await, before);
    assert!(!store.offer_setup(token(OwnerId(1))).await.unwrap(), "there was an admin");
    let latest = store.accounts(None, 100).await.unwrap().pop().unwrap().id;
    assert!(store.add_account(new("later"), by()).await.unwrap().id > latest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_not_given_out_again_after_reopening() {
    let folder = Folder::new();
    let erased = {
        let registry = folder.open();
        let account = registry.add_account(new("ann"), by()).await.unwrap();
        registry.erase_account(account.id, by()).await.unwrap();
        account.id
    };
    assert_eq!(erased, OwnerId(1000));
    assert_eq!(folder.open().add_account(new("ann"), by()).await.unwrap().id, OwnerId(1001));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_leased_by_a_dead_process_are_due_again() {
    let folder = Folder::new();
    let url = terse_core::Target::from_stored("https://hook.example/".into());
    let webhook = NewWebhook {
        owner: OwnerId::ADMIN,
        url,
        events: EventKind::ALL.into_iter().collect(),
        created_at: timestamp(0),
    };
    let event = NewEvent {
        id: "evt_1".into(),
        owner: OwnerId::ADMIN,
        kind: EventKind::LinkCreated,
        body: "{}".into(),
        at: timestamp(0),
        only: None,
    };
    let claim = Claim {
        now: timestamp(1),
        lease: std::time::Duration::from_secs(3600),
        after: WebhookId(0),
        limit: 10,
    };
    let registry = folder.open();
    registry.add_webhook(webhook, by()).await.unwrap();
    registry.enqueue(event).await.unwrap();
    let lent = registry.due(claim).await.unwrap();
    assert!(lent.len() == 1 && registry.due(claim).await.unwrap().is_empty());
    drop(registry);
    let registry = folder.open();
    let again = registry.due(claim).await.unwrap();
    assert_eq!((again.len(), &again[0].delivery), (1, &lent[0].delivery));
    assert!(
        verify_registry(&folder.db()).unwrap().is_clean(),
        "the operator's webhooks have an owner"
    );
}

#[test]
fn files_of_others_and_from_the_future_are_refused_and_left_alone() {
    let folder = Folder::new();
    let text = folder.0.path().join("notes.txt");
    std::fs::write(&text, "nothing of ours, but long enough to be looked at ".repeat(100)).unwrap();
    let clicks = folder.0.path().join("clicks.db");
    drop(EmbeddedClicks::open(ClickOptions::new(&clicks)).unwrap());
    for other in [&text, &clicks] {
        let before = std::fs::read(other).unwrap();
        assert!(matches!(
            EmbeddedRegistry::open(RegistryOptions::new(other)),
            Err(EmbeddedOpenError::NotTerse(_))
        ));
        assert!(inspect_registry(other).is_err());
        assert_eq!(std::fs::read(other).unwrap(), before);
    }
    drop(folder.open());
    inspect_registry(&folder.db()).unwrap();
    sql(&folder.db(), "PRAGMA user_version = 99");
    assert!(matches!(
        EmbeddedRegistry::open(RegistryOptions::new(folder.db())),
        Err(EmbeddedOpenError::Newer { found: 99, .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_made_while_writing_is_whole() {
    let folder = Folder::new();
    let registry = folder.open();
    let store: RegistryHandle = registry.clone();
    fill(&store).await;
    let writing = tokio::spawn({
        let registry = registry.clone();
        async move {
            for n in 0..200 {
                registry.add_account(new(&format!("more{n}")), by()).await.unwrap();
            }
        }
    });
    let to = folder.0.path().join("copy.db");
    let (db, copy) = (folder.db(), to.clone());
    tokio::task::spawn_blocking(move || backup_registry(&db, &copy)).await.unwrap().unwrap();
    writing.await.unwrap();
    assert!(registry.backup(&to).is_err(), "nothing is overwritten");
    let report = verify_registry(&to).unwrap();
    assert!(
        report.is_clean() && report.accounts >= 4 && report.keys == 3 && report.lines > 10,
        "{report:?}"
    );
    let copy = EmbeddedRegistry::open(RegistryOptions::new(&to)).unwrap();
    assert!(copy.account_by_name(&AccountName::parse("bobby").unwrap()).await.unwrap().is_some());
    assert!(verify_registry(&folder.db()).unwrap().is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_from_the_past_gives_out_nothing_that_was_given_out_since() {
    let folder = Folder::new();
    let registry = folder.open();
    let ann = registry.add_account(new("ann"), by()).await.unwrap();
    let session = Session {
        token: token(ann.id),
        owner: ann.id,
        created_at: timestamp(0),
        expires_at: timestamp(9),
    };
    registry.add_session(session, ann.revision).await.unwrap();
    let to = folder.0.path().join("copy.db");
    registry.backup(&to).unwrap();
    let (bob, key) = (
        registry.add_account(new("bob"), by()).await.unwrap(),
        registry.add_key(new_key(ann.id), by()).await.unwrap(),
    );
    let host = BlockedHost { host: "evil.example".into(), at: timestamp(0), why: None };
    registry.block_host(host, by()).await.unwrap();
    skip_ahead_registry(&to).unwrap();
    assert!(verify_registry(&to).unwrap().is_clean());
    let copy = EmbeddedRegistry::open(RegistryOptions::new(&to)).unwrap();
    assert_eq!(copy.account(ann.id).await.unwrap(), Some(ann.clone()));
    assert!(
        copy.session(&token(ann.id), timestamp(1)).await.unwrap().is_none(),
        "it may have been ended since"
    );
    assert!(copy.add_account(new("cid"), by()).await.unwrap().id > bob.id);
    assert!(copy.add_key(new_key(ann.id), by()).await.unwrap().id > key.id);
    let url = terse_core::Target::from_stored("https://hook.example/".into());
    let hook = NewWebhook {
        owner: ann.id,
        url,
        events: EventKind::ALL.into_iter().collect(),
        created_at: timestamp(0),
    };
    let since = registry.add_webhook(hook.clone(), by()).await.unwrap();
    assert!(copy.add_webhook(hook, by()).await.unwrap().id > since.id);
    let (restored, known) = (copy.version().await.unwrap(), registry.version().await.unwrap());
    assert_ne!(restored.incarnation, known.incarnation, "{restored:?} {known:?}");
    let empty = folder.0.path().join("empty.db");
    std::fs::write(&empty, "").unwrap();
    assert!(skip_ahead_registry(&empty).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_an_error_and_nothing_else() {
    for (damage, told) in [
        ("UPDATE users SET role = 'emperor' WHERE id = 1000", "user's role"),
        ("UPDATE users SET name = 'x y' WHERE id = 1000", "user's name"),
        ("UPDATE users SET name = 'x' || char(0) WHERE id = 1000", "user's name"),
        ("UPDATE users SET suspended_at = 5 WHERE id = 1000", "half written"),
        ("UPDATE users SET subject = 'x' WHERE id = 1000", "half written"),
        ("UPDATE keys SET scope = 'some' WHERE owner = 1000", "scope"),
        ("UPDATE keys SET name = CAST(x'ff' AS TEXT) WHERE owner = 1000", "utf"),
        ("UPDATE users SET password = CAST(x'ff' AS TEXT) WHERE id = 1000", "utf"),
    ] {
        let folder = Folder::new();
        {
            let registry = folder.open();
            for name in ["ann", "bob"] {
                let account = registry.add_account(new(name), by()).await.unwrap();
                registry.add_key(new_key(account.id), by()).await.unwrap();
            }
        }
        sql(&folder.db(), damage);
        let registry = folder.open();
        let outcome = registry.key(&token(OwnerId(1000))).await;
        assert!(
            matches!(outcome, Err(RegistryError::Store(StoreError::Corrupt(_)))),
            "{damage}: {outcome:?}"
        );
        // Writes that read a damaged row change nothing and do not affect others.
        let erased = registry.erase_account(OwnerId(1000), by()).await;
        assert_eq!(erased.is_err(), damage.contains("users"), "{damage}: {erased:?}");
        assert!(registry.key(&token(OwnerId(1001))).await.unwrap().is_some(), "{damage}");
        registry.erase_account(OwnerId(1001), by()).await.unwrap();
        registry.check().await.unwrap();
        if erased.is_err() {
            let report = verify_registry(&folder.db()).unwrap();
            assert!(
                !report.is_clean() && report.problems.shown[0].to_lowercase().contains(told),
                "{damage}: {report:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_fails_half_way_leaves_nothing_behind() {
    let folder = Folder::new();
    let registry = folder.open();
    let ann = registry.add_account(new("ann"), by()).await.unwrap();
    // An unreadable audit record is read after the account was deleted.
    sql(
        &folder.db(),
        "INSERT INTO audit (at, act, subject, about) VALUES (1, CAST(x'ff' AS TEXT), 'user:1000', 1000)",
    );
    let outcome = registry.erase_account(ann.id, by()).await;
    assert!(matches!(outcome, Err(RegistryError::Store(StoreError::Corrupt(_)))), "{outcome:?}");
    assert_eq!(registry.account(ann.id).await.unwrap(), Some(ann));
    assert!(!verify_registry(&folder.db()).unwrap().is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_and_serves_reads() {
    let folder = Folder::new();
    let mut options = RegistryOptions::new(folder.db());
    options.max_pages = Some(60);
    let registry = EmbeddedRegistry::open(options).unwrap();
    let mut made = Vec::new();
    loop {
        match registry.add_account(new(&format!("user{}", made.len())), by()).await {
            Ok(account) => made.push(account),
            Err(error) => {
                assert!(
                    matches!(error, RegistryError::Store(StoreError::Unavailable(_))),
                    "{error:?}"
                );
                break;
            }
        }
    }
    assert!(made.len() > 10);
    for account in &made {
        assert_eq!(registry.account(account.id).await.unwrap().as_ref(), Some(account));
    }
    drop(registry);
    let registry = folder.open();
    assert_eq!(registry.accounts(None, 10_000).await.unwrap(), made);
    registry.add_account(new("room-again"), by()).await.unwrap();
}

fn holds(path: &Path, bytes: &[u8]) -> bool {
    std::fs::read(path).is_ok_and(|file| file.windows(bytes.len()).any(|window| window == bytes))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_copy_has_the_key_of_a_certificate() {
    let folder = Folder::new();
    let registry = folder.open();
    let (node, ttl) = (NodeId::parse("a").unwrap(), std::time::Duration::from_secs(60));
    let token = registry.acquire_lease("jobs", &node, ttl).await.unwrap().unwrap().token;
    let (kind, key) = (AcmeRecordKind::Certificate, "BEGIN PRIVATE KEY MIGHAgEAMBMG");
    let secret = terse_core::Secret::new(key);
    registry.put_acme_record(token, kind, "go.example", Some(&secret)).await.unwrap();
    let wal = folder.db().with_extension("db-wal");
    let is_there = holds(&folder.db(), key.as_bytes()) || holds(&wal, key.as_bytes());
    assert!(is_there, "the search works");
    let copy = folder.0.path().join("copy.db");
    registry.backup(&copy).unwrap();
    assert!(!holds(&copy, key.as_bytes()));
    assert!(verify_registry(&copy).unwrap().is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_salt_is_nowhere_and_no_copy_has_any() {
    let folder = Folder::new();
    let registry = folder.open();
    let wal = folder.db().with_extension("db-wal");
    let salt = registry.salt(100).await.unwrap();
    assert!(holds(&folder.db(), &salt) || holds(&wal, &salt), "it is there: the search works");
    let copy = folder.0.path().join("copy.db");
    registry.backup(&copy).unwrap();
    assert!(!holds(&copy, &salt));
    assert!(verify_registry(&copy).unwrap().is_clean());
    let node = NodeId::parse("a").unwrap();
    let ttl = std::time::Duration::from_secs(60);
    let lease = registry.acquire_lease("salts", &node, ttl).await.unwrap().unwrap();
    assert_eq!(registry.delete_old_salts(lease.token).await.unwrap(), 1);
    for file in [folder.db(), wal] {
        assert!(!holds(&file, &salt), "{}", file.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_key_and_the_salts_of_an_earlier_version_move_into_the_registry() {
    let folder = Folder::new();
    let (links, clicks) = (folder.0.path().join("terse.db"), folder.0.path().join("clicks.db"));
    let embedded = Embedded::open(EmbeddedOptions::new(&links)).unwrap();
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
        assert_eq!(registry.admin_key().await.unwrap(), Some(Token(hash)));
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
    DROP TABLE acme_records; PRAGMA user_version = 6;";

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
    let reset = PasswordReset { token: Token([9; 32]), expires_at: timestamp(9) };
    let two_factor =
        TwoFactor { seed: TotpSeed([3; 16]), last_step: 7, recovery: vec![Token([4; 32]); 2] };
    let two_factor = Some(Some(two_factor));
    let change = AccountChange { reset: Some(Some(reset)), two_factor, ..AccountChange::default() };
    let change = ChangeAccount { id: ann.id, change, expected: Some(ann.revision) };
    let changed = registry.change_account(change, by()).await.unwrap();
    assert_eq!(registry.account_by_reset(&Token([9; 32])).await.unwrap(), Some(changed));
    assert!(verify_registry(&folder.db()).unwrap().is_clean());
    drop(registry);
    // A copy that is used again has no reset links.
    skip_ahead_registry(&folder.db()).unwrap();
    assert_eq!(folder.open().account_by_reset(&Token([9; 32])).await.unwrap(), None);
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

const LIFE: &str = "TERSE_TEST_REGISTRY";

/// Not a test: a process that another test kills.
#[test]
#[ignore = "run by the test below"]
fn a_life_that_is_cut_short() {
    let Ok(path) = std::env::var(LIFE) else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let registry = Arc::new(EmbeddedRegistry::open(RegistryOptions::new(path)).unwrap());
    let life = std::process::id();
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let registry = registry.clone();
            runtime.spawn(async move {
                for n in 0..100_000 {
                    let account = registry
                        .add_account(new(&format!("u{life}-{caller}-{n}")), by())
                        .await
                        .unwrap();
                    registry.add_key(new_key(account.id), by()).await.unwrap();
                    writeln!(std::io::stdout(), "made {} {}", account.id.0, account.name).unwrap();
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for caller in callers {
            caller.await.unwrap();
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_owner_or_key_is_lost_when_the_process_is_killed() {
    let folder = Folder::new();
    let mut acknowledged: Vec<(OwnerId, String)> = Vec::new();
    for cycle in 0..6 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "registry_file::a_life_that_is_cut_short",
                "--ignored",
                "--nocapture",
            ])
            .env(LIFE, folder.db())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut seen = 0;
        let mut line = String::new();
        while lines.read_line(&mut line).unwrap() > 0 {
            // An incomplete line was never acknowledged.
            if let Some(made) = line.strip_suffix('\n').and_then(|line| line.strip_prefix("made "))
            {
                let (id, name) = made.split_once(' ').unwrap();
                acknowledged.push((OwnerId(id.parse().unwrap()), name.to_owned()));
                seen += 1;
                if seen == 50 + cycle * 37 {
                    child.kill().unwrap();
                }
            }
            line.clear();
        }
        child.wait().unwrap();
        assert!(seen >= 50, "it was killed while at work");
        let registry = folder.open();
        for (id, name) in &acknowledged {
            let (key, account) =
                registry.key(&token(*id)).await.unwrap().expect("an acknowledged key");
            assert_eq!(
                (account.id, account.name.as_str(), key.owner),
                (*id, name.as_str(), *id),
                "cycle {cycle}"
            );
        }
        let report = verify_registry(&folder.db()).unwrap();
        assert!(
            report.is_clean() && report.lines == report.accounts + report.keys,
            "a line for each: {report:?}"
        );
    }
    println!("{} acknowledged owners survived", acknowledged.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_that_is_older_than_the_links_gives_none_of_their_owners_to_another() {
    let folder = Folder::new();
    let registry = folder.open();
    let links = terse_embedded::Embedded::open(terse_embedded::EmbeddedOptions::new(
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
