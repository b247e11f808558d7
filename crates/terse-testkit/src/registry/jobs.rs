//! Leases, fencing tokens and the progress of background jobs.

use std::time::Duration;

use terse_core::registry::{
    AlarmKind, AlarmState, AuditAction, FencingToken, Lease, MAX_PROGRESS_BYTES, NodeId,
    RegistryError, RemovalAlarm, ReportState,
};

use super::reports::report;
use super::{RegistryHandle, acts, by, race, refused};
use crate::{key, timestamp};

const LEASE: &str = "jobs";
/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);

fn node(name: &str) -> NodeId {
    NodeId::parse(name).unwrap()
}

async fn acquire(store: &RegistryHandle, name: &str, ttl: Duration) -> Option<Lease> {
    store.acquire_lease(LEASE, &node(name), ttl).await.unwrap()
}

pub async fn a_node_takes_its_own_lease_again(store: RegistryHandle) {
    let first = acquire(&store, "a", LONG).await.unwrap();
    assert_eq!((first.token.lease, &first.node), (LEASE, &node("a")));
    store.check_lease(first.token).await.unwrap();
    // As after a restart. A late write of the earlier process is refused.
    let second = acquire(&store, "a", LONG).await.unwrap();
    assert!(second.token.number > first.token.number);
    refused!(store.check_lease(first.token).await, Fenced);
    refused!(store.renew_lease(first.token, LONG).await, Fenced);
    let renewed = store.renew_lease(second.token, 2 * LONG).await.unwrap();
    assert!(renewed > second.expires_at, "a renewal extends the lease");
    store.check_lease(second.token).await.unwrap();
}

pub async fn a_lease_that_is_given_back_is_free(store: RegistryHandle) {
    let first = acquire(&store, "a", LONG).await.unwrap();
    store.release_lease(first.token).await.unwrap();
    store.release_lease(first.token).await.unwrap();
    refused!(store.check_lease(first.token).await, Fenced);
    refused!(store.renew_lease(first.token, LONG).await, Fenced);
    // No holder has the number that the release itself consumed.
    let between = FencingToken { number: first.token.number + 1, ..first.token };
    refused!(store.check_lease(between).await, Fenced);
    refused!(store.renew_lease(between, LONG).await, Fenced);
    let second = acquire(&store, "b", LONG).await.unwrap();
    assert!(second.token.number > first.token.number);
    store.release_lease(first.token).await.unwrap();
    store.check_lease(second.token).await.unwrap();
}

pub async fn every_name_is_a_lease_of_its_own(store: RegistryHandle) {
    let one = store.acquire_lease("one", &node("a"), LONG).await.unwrap().unwrap();
    let two = store.acquire_lease("two", &node("b"), LONG).await.unwrap().unwrap();
    assert!(store.acquire_lease("two", &node("a"), LONG).await.unwrap().is_none());
    store.release_lease(two.token).await.unwrap();
    store.check_lease(one.token).await.unwrap();
    let never = FencingToken { lease: "three", number: 1 };
    refused!(store.check_lease(never).await, Fenced);
}

pub async fn progress_is_kept_per_job(store: RegistryHandle) {
    let token = acquire(&store, "a", LONG).await.unwrap().token;
    assert_eq!(store.job_progress("scan").await.unwrap(), None);
    store.put_job_progress(token, "scan", b"\x00\xff1").await.unwrap();
    store.put_job_progress(token, "sweep", b"").await.unwrap();
    store.put_job_progress(token, "scan", b"\x00\xff2").await.unwrap();
    assert_eq!(store.job_progress("scan").await.unwrap().unwrap(), b"\x00\xff2");
    assert_eq!(store.job_progress("sweep").await.unwrap().unwrap(), b"");
    let most = vec![7; MAX_PROGRESS_BYTES + 1];
    refused!(store.put_job_progress(token, "scan", &most).await, TooMany);
    assert_eq!(store.job_progress("scan").await.unwrap().unwrap(), b"\x00\xff2");
    store.put_job_progress(token, "scan", &most[1..]).await.unwrap();
    assert_eq!(store.job_progress("scan").await.unwrap().unwrap(), &most[1..]);
}

pub async fn an_alarm_is_confirmed_by_its_number(store: RegistryHandle) {
    let token = acquire(&store, "a", LONG).await.unwrap().token;
    assert_eq!(store.removal_alarm().await.unwrap(), None);
    refused!(store.confirm_removal(1, by()).await, Missing);
    let alarm = RemovalAlarm {
        round: 7,
        kind: AlarmKind::Share,
        why: "900 of 1000 links".into(),
        state: AlarmState::Waiting,
    };
    store.put_removal_alarm(token, alarm.clone()).await.unwrap();
    assert_eq!(store.removal_alarm().await.unwrap(), Some(alarm.clone()));
    refused!(store.confirm_removal(6, by()).await, Missing);
    let confirmed = RemovalAlarm { state: AlarmState::Confirmed, ..alarm.clone() };
    assert_eq!(store.confirm_removal(7, by()).await.unwrap(), confirmed);
    assert_eq!(store.removal_alarm().await.unwrap(), Some(confirmed));
    refused!(store.confirm_removal(7, by()).await, Missing);
    assert_eq!(acts(&store).await.last(), Some(&AuditAction::RemovalConfirmed));
    let later = acquire(&store, "a", LONG).await.unwrap().token;
    refused!(store.put_removal_alarm(token, alarm.clone()).await, Fenced);
    store.put_removal_alarm(later, alarm).await.unwrap();
}

pub async fn one_node_at_a_time_holds_a_lease(one: RegistryHandle, other: RegistryHandle) {
    let held = acquire(&one, "a", LONG).await.unwrap();
    assert!(acquire(&other, "b", LONG).await.is_none());
    one.renew_lease(held.token, LONG).await.unwrap();
    assert!(acquire(&other, "b", LONG).await.is_none());
    one.release_lease(held.token).await.unwrap();
    let taken = acquire(&other, "b", LONG).await.unwrap();
    assert!(taken.token.number > held.token.number);
    assert!(acquire(&one, "a", LONG).await.is_none());
}

pub async fn of_racing_nodes_one_gets_the_lease(one: RegistryHandle, other: RegistryHandle) {
    for _ in 0..20 {
        let racing = [("a", one.clone()), ("b", other.clone()), ("c", one.clone())];
        let won: Vec<Lease> =
            race(racing.map(|(name, store)| async move { acquire(&store, name, LONG).await }))
                .await
                .into_iter()
                .flatten()
                .collect();
        assert_eq!(won.len(), 1, "{won:?}");
        other.check_lease(won[0].token).await.unwrap();
        other.release_lease(won[0].token).await.unwrap();
    }
}

pub async fn a_lease_that_is_over_is_taken_with_a_higher_token(
    one: RegistryHandle,
    other: RegistryHandle,
) {
    let mut last = 0;
    for _ in 0..3 {
        // A lease without duration: expired at once, by any clock.
        for (store, name) in [(&one, "a"), (&other, "b")] {
            let lease = acquire(store, name, Duration::ZERO).await.unwrap();
            assert!(lease.token.number > last, "{lease:?}");
            last = lease.token.number;
        }
    }
    // Until another node takes the lease, its last holder may continue to use it.
    let token = FencingToken { lease: LEASE, number: last };
    other.renew_lease(token, LONG).await.unwrap();
    assert!(acquire(&one, "a", LONG).await.is_none());
}

pub async fn a_write_with_an_old_token_is_fenced(one: RegistryHandle, other: RegistryHandle) {
    let old = acquire(&one, "a", Duration::ZERO).await.unwrap().token;
    one.put_job_progress(old, "scan", b"a").await.unwrap();
    one.report(report("abc", 1)).await.unwrap();
    let new = acquire(&other, "b", LONG).await.unwrap().token;
    refused!(one.put_job_progress(old, "scan", b"late").await, Fenced);
    refused!(one.check_lease(old).await, Fenced);
    assert_eq!(other.job_progress("scan").await.unwrap().unwrap(), b"a");
    other.put_job_progress(new, "scan", b"b").await.unwrap();
    refused!(one.put_job_progress(old, "sweep", b"late").await, Fenced);
    assert_eq!(one.job_progress("scan").await.unwrap().unwrap(), b"b");
    assert_eq!(one.job_progress("sweep").await.unwrap(), None);

    let settle = |store: &RegistryHandle, token| {
        let store = store.clone();
        async move {
            let (link, created_at) = (key("abc"), timestamp(-5));
            let cleared = ReportState::Cleared;
            store.settle_reports(Some(token), &link, created_at, cleared, by()).await
        }
    };
    let (end, keep) = (timestamp(1_000_000), Duration::ZERO);
    refused!(settle(&one, old).await, Fenced);
    refused!(one.prune(Some(old), end, keep, 10).await, Fenced);
    let open = one.reported(ReportState::Open, None, 10).await.unwrap();
    assert_eq!(open.len(), 1, "nothing was settled or pruned");
    assert_eq!(settle(&other, new).await.unwrap(), 1);
    assert!(other.prune(Some(new), end, keep, 10).await.unwrap() > 0);
}
