//! Promises that only two handles on the same store can break, as two nodes have them.

use std::sync::Arc;

use terse_core::registry::EventKind;
use terse_core::{
    AbsenceCertainty, ChangeCursor, ChangeFollower, ClickSpend, IdempotencyKey, Insert, Inserted,
    Link, LinkKey, OutboxEvent, OutboxPage, OwnerId, Revision, RouteCache, StoreError, Updated,
};

use super::{LinkStorePair, leased_code, numbering, put};
use crate::{alias, generated, key, timestamp};

/// Alternates between the two handles.
fn handle(shared: &LinkStorePair, n: usize) -> super::LinkStoreHandle {
    if n.is_multiple_of(2) { shared.a.clone() } else { shared.b.clone() }
}

pub async fn what_one_handle_writes_the_other_reads_at_once(shared: LinkStorePair) {
    for n in 0..20 {
        let (writer, reader) = (handle(&shared, n), handle(&shared, n + 1));
        let link = if n % 4 < 2 {
            alias(&format!("new-{n}"), "https://example.com/")
        } else {
            generated(&leased_code(&writer).await, "https://example.com/")
        };
        assert_eq!(reader.get(&link.key).await.unwrap(), None);
        put(&writer, &link).await;
        assert_eq!(reader.get(&link.key).await.unwrap().as_ref(), Some(&link));
        let absence = reader.surely_absent(&link.key.domain, link.key.code.as_str());
        assert_ne!(absence, AbsenceCertainty::Certain, "{:?}", link.key);
    }
}

pub async fn a_handle_learns_of_leases_from_the_links_that_it_reads(shared: LinkStorePair) {
    let absence = |link: &Link| shared.b.surely_absent(&link.key.domain, link.key.code.as_str());
    for _ in 0..3 {
        // A lease of the other handle, which this one did not see.
        let link = generated(&leased_code(&shared.a).await, "https://example.com/");
        put(&shared.a, &link).await;
        assert_ne!(absence(&link), AbsenceCertainty::Certain);
        assert_eq!(shared.b.get(&link.key).await.unwrap().as_ref(), Some(&link));
        assert_eq!(absence(&link), AbsenceCertainty::Unknown);
    }
}

pub async fn an_alias_raced_through_two_handles_has_one_owner(shared: LinkStorePair) {
    for round in 0..4 {
        let racers: Vec<_> = (0..40usize)
            .map(|racer| {
                let store = handle(&shared, racer);
                // Half of the rounds race for one spelling, half for two spellings that look alike.
                let word = match (round % 2, racer % 3) {
                    (1, 0) => format!("Race-{round}"),
                    _ => format!("race-{round}"),
                };
                let owner = OwnerId(2 + racer as u64);
                let link = Link { owner, ..alias(&word, "https://example.com/") };
                tokio::spawn(
                    async move { (link.clone(), store.insert(Insert::new(link, None)).await) },
                )
            })
            .collect();
        let mut winners = Vec::new();
        for racer in racers {
            match racer.await.unwrap() {
                (link, Ok(Inserted::Created)) => winners.push(link),
                (_, Err(StoreError::CodeTaken)) => {}
                (_, other) => panic!("{other:?}"),
            }
        }
        let [winner] = &winners[..] else { panic!("{} winners", winners.len()) };
        for store in [&shared.a, &shared.b] {
            assert_eq!(store.get(&winner.key).await.unwrap().as_ref(), Some(winner));
        }
    }
}

pub async fn leases_of_two_handles_never_overlap(shared: LinkStorePair) {
    let capacity = numbering(&shared.a).capacity(7);
    let leases: Vec<_> = (0..60usize)
        .map(|n| {
            let store = handle(&shared, n);
            let count = 1 + n as u64 % 7;
            tokio::spawn(async move { store.lease(7, count, capacity, 0).await.unwrap() })
        })
        .collect();
    let mut ranges = Vec::new();
    for lease in leases {
        ranges.push(lease.await.unwrap());
    }
    ranges.sort_by_key(|range| range.start);
    assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{ranges:?}");
    assert!(ranges.iter().all(|range| !range.is_empty()));
}

pub async fn a_change_by_one_handle_is_a_conflict_for_the_other(shared: LinkStorePair) {
    let link = alias("contended", "https://example.com/");
    put(&shared.a, &link).await;
    let by_a = Link { updated_at: timestamp(1), revision: Revision(2), ..link.clone() };
    let by_b = Link { updated_at: timestamp(2), revision: Revision(2), ..link.clone() };
    assert_eq!(shared.a.update(&by_a, Revision(1), &[]).await.unwrap(), Updated::Done);
    let late = shared.b.update(&by_b, Revision(1), &[]).await;
    assert!(matches!(late, Err(StoreError::Conflict)), "{late:?}");
    assert_eq!(shared.b.get(&link.key).await.unwrap(), Some(by_a));
}

pub async fn a_request_is_replayed_through_the_other_handle(shared: LinkStorePair) {
    let request = IdempotencyKey { id: [1; 32], fingerprint: [2; 32] };
    let link = alias("first", "https://example.com/");
    let first = Insert::new(link.clone(), Some(request.clone()));
    assert_eq!(shared.a.insert(first).await.unwrap(), Inserted::Created);
    let again = Insert::new(alias("second", "https://example.com/"), Some(request.clone()));
    let answer = shared.b.insert(again).await.unwrap();
    assert_eq!(answer, Inserted::Replayed { link: Some(Box::new(link)), created: true });
    assert_eq!(shared.a.get(&key("second")).await.unwrap(), None);
    let other = IdempotencyKey { fingerprint: [3; 32], ..request };
    let mismatch = Insert::new(alias("third", "https://example.com/"), Some(other));
    assert_eq!(shared.b.insert(mismatch).await.unwrap(), Inserted::RequestMismatch);
}

pub async fn clicks_are_spent_exactly_through_two_handles(shared: LinkStorePair) {
    let link = Link { max_clicks: Some(37), ..alias("few", "https://example.com/") };
    put(&shared.a, &link).await;
    let visitors: Vec<_> = (0..100usize)
        .map(|n| {
            let (store, key) = (handle(&shared, n), link.key.clone());
            tokio::spawn(async move { store.spend(&key).await.unwrap() })
        })
        .collect();
    let mut spent = 0;
    for visitor in visitors {
        spent += usize::from(visitor.await.unwrap() == ClickSpend::Yes);
    }
    assert_eq!(spent, 37);
    assert_eq!(shared.b.get(&link.key).await.unwrap().unwrap().spent_clicks, 37);
}

async fn changed(
    store: &super::LinkStoreHandle,
    after: ChangeCursor,
) -> (Vec<(LinkKey, u64)>, ChangeCursor) {
    let page = store.changes(after, 100).await.unwrap();
    assert!(!page.gap);
    let changes = page.changes.into_iter().map(|change| (change.key, change.revision.0));
    (changes.collect(), page.next)
}

pub async fn changes_through_one_handle_are_read_through_the_other(shared: LinkStorePair) {
    let (a, b) = (&shared.a, &shared.b);
    let start = b.last_change().await.unwrap();
    assert_eq!(changed(b, start).await, (vec![], start));
    let named = alias("named", "https://example.com/");
    put(a, &named).await;
    let (changes, after) = changed(b, start).await;
    assert_eq!(changes, [(named.key.clone(), 1)], "a new alias may be cached as missing");
    // A new generated code cannot have been cached, and a spent click is no change.
    let numbered =
        Link { max_clicks: Some(9), ..generated(&leased_code(a).await, "https://example.com/") };
    put(a, &numbered).await;
    a.spend(&numbered.key).await.unwrap();
    assert_eq!(changed(b, after).await, (vec![], after));
    // Every change of a stored link, whatever kind of link it is, in order.
    for link in [&numbered, &named] {
        let new = Link { updated_at: timestamp(1), revision: Revision(2), ..link.clone() };
        assert_eq!(a.update(&new, Revision(1), &[]).await.unwrap(), Updated::Done);
    }
    let (changes, after) = changed(b, after).await;
    assert_eq!(changes, [(numbered.key.clone(), 2), (named.key.clone(), 2)]);
    // A refused write records no change.
    assert!(a.update(&named, Revision(1), &[]).await.is_err());
    assert!(a.insert(Insert::new(named.clone(), None)).await.is_err());
    assert_eq!(changed(b, after).await, (vec![], after));
    // The link expires and is purged.
    let expiring = Link { expires_at: Some(timestamp(5)), revision: Revision(3), ..named.clone() };
    assert_eq!(a.update(&expiring, Revision(2), &[]).await.unwrap(), Updated::Done);
    assert_eq!(a.mark_expired(timestamp(6), 10, &[]).await.unwrap(), [named.key.clone()]);
    assert_eq!(a.purge(timestamp(6).into(), 10, None).await.unwrap(), [named.key.clone()]);
    let (changes, after) = changed(b, after).await;
    assert_eq!(changes, vec![(named.key.clone(), 3); 3]);
    // A page is limited and returns the cursor to continue from.
    let page = b.changes(start, 2).await.unwrap();
    assert_eq!(page.changes.len(), 2);
    let rest = b.changes(page.next, 100).await.unwrap();
    assert_eq!((rest.changes.len(), rest.next), (4, after));
}

/// A cache that records which keys it had to drop.
#[derive(Default)]
struct Forgotten(std::sync::Mutex<(Vec<LinkKey>, usize)>);

impl RouteCache for Forgotten {
    fn forget(&self, key: &LinkKey) {
        self.0.lock().unwrap().0.push(key.clone());
    }

    fn forget_all(&self) {
        self.0.lock().unwrap().1 += 1;
    }
}

pub async fn a_follower_on_one_handle_forgets_what_the_other_changes(shared: LinkStorePair) {
    let link = alias("followed", "https://example.com/");
    put(&shared.a, &link).await;
    let cache = Arc::new(Forgotten::default());
    let mut follower = ChangeFollower::new(shared.b.clone(), cache.clone());
    assert_eq!(follower.poll().await.unwrap(), 0, "it begins at the end of the feed");
    assert_eq!(*cache.0.lock().unwrap(), (vec![], 1), "what was cached before may be stale");
    for revision in 1..=3 {
        let new = Link { revision: Revision(revision + 1), ..link.clone() };
        shared.a.update(&new, Revision(revision), &[]).await.unwrap();
        assert_eq!(follower.poll().await.unwrap(), 1);
        assert_eq!(follower.poll().await.unwrap(), 0);
    }
    assert_eq!(*cache.0.lock().unwrap(), (vec![link.key; 3], 1));
}

pub async fn what_is_announced_through_one_handle_is_forgotten_through_the_other(
    shared: LinkStorePair,
) {
    let link = alias("announced", "https://example.com/");
    put(&shared.a, &link).await;
    let cache = Arc::new(Forgotten::default());
    let mut follower = ChangeFollower::new(shared.b.clone(), cache.clone());
    follower.poll().await.unwrap();
    let after = shared.b.last_change().await.unwrap();
    // Whether or not the link exists.
    for key in [&link.key, &key("never-was")] {
        shared.a.announce(key).await.unwrap();
        assert_eq!(follower.poll().await.unwrap(), 1);
    }
    assert_eq!(*cache.0.lock().unwrap(), (vec![link.key.clone(), key("never-was")], 1));
    let page = shared.b.changes(after, 10).await.unwrap();
    assert!(page.changes.iter().all(|change| change.revision == Revision::UNKNOWN), "{page:?}");
    assert_eq!(shared.b.get(&link.key).await.unwrap(), Some(link), "nothing was changed");
}

pub async fn a_store_never_continues_below_a_mark_that_a_node_knows(shared: LinkStorePair) {
    let (a, b) = (&shared.a, &shared.b);
    let numbering = numbering(a);
    let (seven, eight) = (numbering.capacity(7), numbering.capacity(8));
    let created_at = a.incarnation().await.unwrap();
    assert_eq!(a.lease(7, 10, seven, 0).await.unwrap(), 0..10);
    assert_eq!(b.lease(7, 10, seven, 10).await.unwrap(), 10..20, "a mark that the store knows too");
    assert_eq!(b.incarnation().await.unwrap(), created_at);
    // The store has lost leases: it was restored from an older copy.
    let range = b.lease(7, 10, seven, 5000).await.unwrap();
    assert!(range.start > 5000, "others may know of more: {range:?}");
    assert_eq!(a.incarnation().await.unwrap(), created_at + 1);
    assert!(a.lease(7, 10, seven, 0).await.unwrap().start >= range.end);
    assert!(a.lease(8, 10, eight, 0).await.unwrap().start > 0, "all ranges skip ahead");
}

pub async fn an_incarnation_is_raised_once_for_all_who_notice(shared: LinkStorePair) {
    let numbering = numbering(&shared.a);
    let capacity = numbering.capacity(6);
    let before = shared.a.lease(6, 10, capacity, 0).await.unwrap();
    let created_at = shared.a.incarnation().await.unwrap();
    for n in 0..4 {
        let raised = handle(&shared, n).raise_incarnation(created_at).await.unwrap();
        assert_eq!(raised, created_at + 1);
    }
    let after = shared.b.lease(6, 10, capacity, 0).await.unwrap();
    assert!(after.start > before.end + 1_000_000, "{before:?}, then {after:?}");
}

pub async fn events_are_written_with_their_link_or_not_at_all(shared: LinkStorePair) {
    let (a, b) = (&shared.a, &shared.b);
    let event = |kind| OutboxEvent { kind, at: timestamp(1) };
    let carrying = |link: &Link, request| Insert {
        events: vec![event(EventKind::LinkCreated)],
        ..Insert::new(link.clone(), request)
    };
    let request = IdempotencyKey { id: [1; 32], fingerprint: [2; 32] };
    assert_eq!(b.outbox(None, 10).await.unwrap(), OutboxPage::default());
    let named = Link {
        expires_at: Some(timestamp(50)),
        owner: OwnerId(7),
        rules: crate::rules(),
        preview: crate::preview(),
        ..alias("named", "https://example.com/")
    };
    a.insert(carrying(&named, Some(request.clone()))).await.unwrap();
    // Replayed and refused writes leave no entries.
    a.insert(carrying(&alias("other", "https://example.com/"), Some(request))).await.unwrap();
    assert!(a.insert(carrying(&named, None)).await.is_err());
    assert!(a.update(&named, Revision(9), &[event(EventKind::LinkBlocked)]).await.is_err());
    let missing = alias("missing", "https://example.com/");
    let outcome = a.update(&missing, Revision(1), &[event(EventKind::LinkBlocked)]).await;
    assert_eq!(outcome.unwrap(), Updated::Missing);
    let changed = Link { updated_at: timestamp(2), revision: Revision(2), ..named.clone() };
    let events = [event(EventKind::LinkChanged), event(EventKind::LinkFlagged)];
    assert_eq!(a.update(&changed, Revision(1), &events).await.unwrap(), Updated::Done);
    // Expiry writes entries only for subscribers' links that were not deleted before.
    let others = Link { owner: OwnerId(8), ..named.clone() };
    let others = Link { key: key("others"), ..others };
    put(a, &others).await;
    let deleted = Link { key: key("deleted"), deleted_at: Some(timestamp(3)), ..named.clone() };
    put(a, &deleted).await;
    assert_eq!(a.mark_expired(timestamp(60), 10, &[OwnerId(7)]).await.unwrap().len(), 3);

    let page = b.outbox(None, 10).await.unwrap();
    let seen: Vec<_> =
        page.entries.iter().map(|entry| (entry.event.kind, entry.link.clone())).collect();
    let expected = [
        (EventKind::LinkCreated, named),
        (EventKind::LinkChanged, changed.clone()),
        (EventKind::LinkFlagged, changed.clone()),
        (EventKind::LinkExpired, changed),
    ];
    assert_eq!(seen, expected);
    assert!(page.entries.windows(2).all(|pair| pair[0].position < pair[1].position));
    let ids: std::collections::HashSet<_> = page.entries.iter().map(|entry| entry.id).collect();
    assert_eq!((ids.len(), &page.unreadable[..]), (4, &[][..]), "every event has an id of its own");
    assert_eq!((page.entries[0].event.at, page.entries[3].event.at), (timestamp(1), timestamp(60)));
    assert_eq!(b.outbox(None, 2).await.unwrap().entries, page.entries[..2]);
    let behind = Some(page.entries[1].position);
    assert_eq!(b.outbox(behind, 1).await.unwrap().entries, page.entries[2..3]);
    assert_eq!(b.outbox(behind, 10).await.unwrap().entries, page.entries[2..]);
    // Exactly the named entries go: one before them may have been committed later.
    let positions: Vec<u64> = page.entries.iter().map(|entry| entry.position).collect();
    b.outbox_done(&[positions[1], positions[2], positions[3] + 1]).await.unwrap();
    let left = [page.entries[0].clone(), page.entries[3].clone()];
    assert_eq!(a.outbox(None, 10).await.unwrap().entries, left);
    b.outbox_done(&positions).await.unwrap();
    assert_eq!(a.outbox(None, 10).await.unwrap().entries, []);
    // A position is never used twice.
    a.insert(carrying(&missing, None)).await.unwrap();
    assert!(b.outbox(None, 10).await.unwrap().entries[0].position > positions[3]);
}
