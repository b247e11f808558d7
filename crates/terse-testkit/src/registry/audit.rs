//! The audit log: who did what, when and why.

use terse_core::OwnerId;
use terse_core::registry::{
    Actor, Attribution, AuditAction, AuditEntry, AuditQuery, RegistryError, Role, subject,
};

use super::durable::fill;
use super::{
    HASH, RegistryHandle, acts, add, add_key, by, change, log, name, new, refused, reinstate, role,
    suspend, token,
};
use crate::timestamp;

pub async fn every_write_has_an_audit_record(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    let key = add_key(&store, ann.id, 1).await.id;
    change(&store, ann.id, role(Role::Moderator)).await.unwrap();
    change(&store, ann.id, suspend()).await.unwrap();
    change(&store, ann.id, reinstate()).await.unwrap();
    store.revoke_key(ann.id, key, by()).await.unwrap();
    let account = subject::account(ann.id);
    let want = [
        (AuditAction::UserAdded, account.clone(), false, true),
        (AuditAction::KeyAdded, subject::key(key), false, true),
        (AuditAction::UserChanged, account.clone(), true, true),
        (AuditAction::UserSuspended, account.clone(), true, true),
        (AuditAction::UserReinstated, account, true, true),
        (AuditAction::KeyRevoked, subject::key(key), true, false),
    ];
    let mut lines = log(&store).await;
    lines.reverse();
    let shape = |line: &AuditEntry| {
        (line.act, line.subject.clone(), line.before.is_some(), line.after.is_some())
    };
    assert_eq!(lines.iter().map(shape).collect::<Vec<_>>(), want);
    for line in &lines {
        let Attribution { actor, at, why } = by();
        assert_eq!((line.actor, line.at, &line.why), (actor, at, &why));
    }
    assert!(lines.is_sorted_by(|one, next| one.number < next.number));
    let role = &lines[2];
    assert!(
        role.before.as_ref().unwrap().contains("user")
            && role.after.as_ref().unwrap().contains("moderator"),
        "{role:?}"
    );
}

pub async fn a_refused_change_has_no_audit_record(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    add_key(&store, ann.id, 1).await;
    refused!(store.add_account(new("Ann"), by()).await, NameTaken);
    refused!(change(&store, OwnerId(5), role(Role::Admin)).await, Missing);
    refused!(store.accept(&token(9), new("bob")).await, Missing);
    refused!(store.take_setup(&token(9), new("bob")).await, Missing);
    assert_eq!(acts(&store).await, [AuditAction::UserAdded, AuditAction::KeyAdded]);
    assert!(store.account_by_name(&name("bob")).await.unwrap().is_none());
}

pub async fn no_secret_is_in_the_log(store: RegistryHandle) {
    fill(&store).await;
    let lines = log(&store).await;
    let found: std::collections::HashSet<AuditAction> = lines.iter().map(|line| line.act).collect();
    assert_eq!(found.len(), AuditAction::ALL.len(), "every act was done: {found:?}");
    let hex: String = token(0).0[2..].iter().map(|byte| format!("{byte:02x}")).collect();
    for line in lines {
        let text = format!("{line:?}");
        // Of tokens, all but the first bytes are the same here: as hex, as a list and as text.
        for secret in [HASH, "argon2", &hex, "90,90,90", "90, 90, 90", "ZZZZZ"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

pub async fn the_log_is_walked_backwards(store: RegistryHandle) {
    for n in 0..10 {
        let act = if n % 3 == 0 { AuditAction::LinkModerated } else { AuditAction::HostBlocked };
        store
            .record(
                act,
                if n % 2 == 0 { "link:/even" } else { "link:/odd" },
                (None, Some(n.to_string())),
                by(),
            )
            .await
            .unwrap();
    }
    let all = log(&store).await;
    assert_eq!(all.len(), 10);
    for (subject, action, want) in [
        (None, None, vec![9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        (Some("link:/even"), None, vec![8, 6, 4, 2, 0]),
        (None, Some(AuditAction::LinkModerated), vec![9, 6, 3, 0]),
        (Some("link:/odd"), Some(AuditAction::LinkModerated), vec![9, 3]),
        (Some("link:/"), None, vec![]),
        (None, Some(AuditAction::UserAdded), vec![]),
    ] {
        let mut query =
            AuditQuery { before: None, subject: subject.map(Into::into), action, limit: 3 };
        let mut walked = Vec::new();
        loop {
            let some = store.audit(&query).await.unwrap();
            assert!(some.len() <= 3);
            query.before = match some.last() {
                Some(line) => Some(line.number),
                None => break,
            };
            walked.extend(some.into_iter().map(|line| line.after.unwrap().parse::<i32>().unwrap()));
        }
        assert_eq!(walked, want, "{subject:?} {action:?}");
    }
    let beyond = AuditQuery { before: Some(u64::MAX), limit: 1, ..AuditQuery::default() };
    assert_eq!(store.audit(&beyond).await.unwrap(), all[..1]);
}

pub async fn a_note_is_kept_as_it_is(store: RegistryHandle) {
    let change =
        (Some(r#"{"standing":"clear"}"#.to_owned()), Some(r#"{"standing":"blocked"}"#.to_owned()));
    let by = Attribution { actor: Actor::Terse, at: timestamp(12), why: None };
    store.record(AuditAction::LinkModerated, "link:/abc", change.clone(), by).await.unwrap();
    let [line] = &log(&store).await[..] else { panic!("one line") };
    assert_eq!(
        (line.actor, line.at, &line.why, line.act),
        (Actor::Terse, timestamp(12), &None, AuditAction::LinkModerated)
    );
    assert_eq!(
        (line.subject.as_str(), &(line.before.clone(), line.after.clone())),
        ("link:/abc", &change)
    );
    for act in AuditAction::ALL {
        store.record(act, "link:/abc", (None, None), self::by()).await.unwrap();
    }
    assert_eq!(acts(&store).await[1..], AuditAction::ALL);
}
