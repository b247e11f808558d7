//! Pruning of expired data.

use std::time::Duration;

use terse_core::registry::{
    Attribution, EXPIRED_KEY_RETENTION, Invitation, NewKey, RegistryError, ReportState, Role,
    Session,
};
use terse_core::{OwnerId, Timestamp};

use super::reports::report;
use super::{DAY, RegistryHandle, add, by, log, new, new_key, refused, session, token};
use crate::{key, timestamp};

const KEEP: Duration = Duration::from_secs(10 * 24 * 3600);

fn at(at: Timestamp) -> Attribution {
    Attribution { at, ..by() }
}

pub async fn expired_rows_are_pruned(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    let now = timestamp(100 * DAY);
    let prune = async || store.prune(None, now, KEEP, 1000).await.unwrap();
    let later = Timestamp::from_ms(now.as_ms() + 1);
    let forgotten = now.saturating_sub(EXPIRED_KEY_RETENTION);
    // The audit record about the account.
    assert_eq!(prune().await, 1);
    assert_eq!(prune().await, 0);
    for (n, expires_at) in [(1, now), (2, later)] {
        let session = Session { expires_at, ..session(ann.id, n) };
        store.add_session(session, ann.revision).await.unwrap();
        let invitation =
            Invitation { token: token(n), role: Role::User, by: OwnerId::ADMIN, expires_at };
        store.invite(invitation, at(now)).await.unwrap();
    }
    for (n, expires_at) in [(1, Some(forgotten)), (2, Some(now)), (3, None)] {
        store.add_key(NewKey { expires_at, ..new_key(ann.id, n) }, at(now)).await.unwrap();
    }
    // Old and settled, old and open, new and settled.
    for (code, settled) in [("old", true), ("open", false), ("new", true)] {
        let mut report = report(code, 1);
        if code == "new" {
            report.at = now.saturating_sub(KEEP);
        }
        store.report(report).await.unwrap();
        if settled {
            store
                .settle_reports(None, &key(code), timestamp(-5), ReportState::Cleared, at(now))
                .await
                .unwrap();
        }
    }
    let lines = log(&store).await;
    assert_eq!(prune().await, 4, "a session, an invitation, a key, a report");
    assert_eq!(prune().await, 0);
    assert!(store.session(&token(1), timestamp(0)).await.unwrap().is_none());
    assert!(store.session(&token(2), now).await.unwrap().is_some());
    refused!(store.accept(&token(1), new("bob")).await, Missing);
    store.accept(&token(2), new("bob")).await.unwrap();
    assert_eq!(store.keys(ann.id).await.unwrap().len(), 2);
    assert_eq!(store.reports(ReportState::Cleared, None, 10).await.unwrap()[0].link, key("new"));
    assert_eq!(store.reports(ReportState::Open, None, 10).await.unwrap()[0].link, key("open"));
    assert_eq!(log(&store).await[1..], lines, "tidying is no act, and new lines stay");
    assert_eq!(store.account(ann.id).await.unwrap(), Some(ann));
}

pub async fn pruning_stops_at_its_limit(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    let now = timestamp(100 * DAY);
    for n in 0..20 {
        let session = Session { expires_at: timestamp(1), ..session(ann.id, n) };
        store.add_session(session, ann.revision).await.unwrap();
        store
            .record(
                terse_core::registry::AuditAction::LinkModerated,
                "link:/abc",
                (None, None),
                by(),
            )
            .await
            .unwrap();
    }
    let mut each = Vec::new();
    loop {
        each.push(store.prune(None, now, KEEP, 9).await.unwrap());
        if each.last() == Some(&0) {
            break;
        }
    }
    assert_eq!(each, [9, 9, 9, 9, 5, 0]);
    assert_eq!(store.prune(None, now, KEEP, 0).await.unwrap(), 0);
}

pub async fn a_pruned_log_keeps_its_numbering(store: RegistryHandle) {
    add(&store, "ann").await;
    let last = log(&store).await[0].number;
    store.prune(None, timestamp(100 * DAY), KEEP, 10).await.unwrap();
    assert!(log(&store).await.is_empty());
    add(&store, "bob").await;
    assert!(log(&store).await[0].number > last);
}
