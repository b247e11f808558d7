//! Faults of a registry file: restarts, copies, damage, a full disk, kills and foreign files.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rusqlite::Connection;
use terse_core::registry::prelude::*;
use terse_core::registry::{
    AccountName, AcmeRecordKind, Actor, Attribution, BlockedHost, DeliveryClaim, EventKind,
    NewAccount, NewEvent, NewKey, NewWebhook, NodeId, RegistryError, Role, Scope, SecretHash,
    Session, WebhookId,
};
use terse_core::{OwnerId, StoreError};
use terse_embedded::{
    ClickOptions, EmbeddedClicks, EmbeddedOpenError, EmbeddedRegistry, RegistryOptions,
    backup_registry, inspect_registry, skip_ahead_registry, verify_registry,
};
use terse_testkit::registry::{RegistryHandle, everything, fill};
use terse_testkit::timestamp;

pub(crate) struct Folder(pub(crate) tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.0.path().join("registry.db")
    }

    pub(crate) fn open(&self) -> Arc<EmbeddedRegistry> {
        Arc::new(EmbeddedRegistry::open(RegistryOptions::new(self.db())).unwrap())
    }
}

pub(crate) fn sql(path: &Path, statement: &str) {
    Connection::open(path).unwrap().execute_batch(statement).unwrap();
}

pub(crate) fn by() -> Attribution {
    Attribution { actor: Actor::Owner(OwnerId::ADMIN), at: timestamp(0), why: None }
}

pub(crate) fn new(name: &str) -> NewAccount {
    let name = AccountName::parse(name).unwrap();
    NewAccount { name, role: Role::User, password: None, identity: None, created_at: timestamp(0) }
}

pub(crate) fn token(of: OwnerId) -> SecretHash {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&of.0.to_le_bytes());
    SecretHash(bytes)
}

pub(crate) fn new_key(owner: OwnerId) -> NewKey {
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
    let claim = DeliveryClaim {
        now: timestamp(1),
        claim_duration: std::time::Duration::from_secs(3600),
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
        browser: None,
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

const LIFE: &str = "TERSE_TEST_REGISTRY";

/// Not a test: a process that another test kills.
#[test]
#[ignore = "run by the test below"]
fn a_process_that_is_killed() {
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
                "registry_file::a_process_that_is_killed",
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
