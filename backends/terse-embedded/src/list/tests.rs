//! How much a list reads until it finds a link.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use terse_core::{Domain, Insert, LinkStore as _, ModerationStatus, Numbering, Tags, Timestamp};
use terse_testkit::{alias, timestamp};

use super::*;
use crate::issued_codes::IssuedCodes;
use crate::writes::LinkWrites;
use crate::{EmbeddedLinks, EmbeddedOptions};

const MANY: i64 = 30_000;
/// Far fewer steps of SQLite's machine than one for each of the links.
const FEW_STEPS: u64 = 10_000;

async fn put(store: &EmbeddedLinks, links: Vec<Link>) {
    let write = move |writes: &mut LinkWrites| {
        for link in &links {
            writes.insert(&Insert::new(link.clone(), None))?;
        }
        Ok(())
    };
    store.threads().write(write).await.unwrap();
}

/// A connection to the store's file whose steps are counted, in tens.
fn counted(store: &EmbeddedLinks, path: &std::path::Path) -> (LinkQueries, Arc<AtomicU64>) {
    let mut conn = Connection::open(path).unwrap();
    let numbering = Numbering::new(store.identity());
    let issued = Arc::new(IssuedCodes::load(&conn, &numbering).unwrap());
    let steps = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&steps);
    conn.progress_handler(
        10,
        Some(move || {
            counter.fetch_add(10, Ordering::Relaxed);
            false
        }),
    )
    .unwrap();
    (LinkQueries::new(conn, numbering, issued, Arc::default()), steps)
}

fn now() -> Timestamp {
    timestamp(1_000_000)
}

fn query() -> ListQuery {
    ListQuery::all(Sort::Newest, 50, now())
}

fn with(status: LinkStatus) -> ListQuery {
    ListQuery { status: Some(status), ..query() }
}

/// The first page holds these links, and no page follows that could hold more. Returns the steps.
fn check(at: &(LinkQueries, Arc<AtomicU64>), query: &ListQuery, want: &[&str]) -> u64 {
    at.1.store(0, Ordering::Relaxed);
    let page = at.0.list(query).unwrap();
    let found: Vec<&str> = page.links.iter().map(|link| link.key.code.as_str()).collect();
    assert_eq!(found, want, "{query:?}");
    at.1.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_page_holds_a_rare_link_behind_many_ordinary_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("links.db");
    let store = EmbeddedLinks::open(EmbeddedOptions::new(&path)).unwrap();
    let rare = |n: i64, code: &str| Link {
        owner: OwnerId(7),
        created_at: timestamp(n),
        ..alias(code, "https://example.com/")
    };
    let rare = vec![
        Link { expires_at: Some(timestamp(100)), ..rare(1, "marked-expired") },
        Link { expires_at: Some(timestamp(900)), ..rare(2, "due") },
        Link { max_clicks: Some(1), spent_clicks: 1, ..rare(3, "used") },
        Link { valid_from: Some(timestamp(2_000_000)), ..rare(4, "scheduled") },
        Link { moderation: ModerationStatus::Suspicious, ..rare(5, "suspicious") },
        Link { moderation: ModerationStatus::Blocked, ..rare(6, "blocked") },
        Link { deleted_at: Some(timestamp(10)), ..rare(7, "deleted") },
        Link { archived_at: Some(timestamp(10)), ..rare(8, "archived") },
        Link {
            tags: Tags::parse(&["rare"]).unwrap(),
            target: terse_core::Target::from_stored("https://example.com/zq".into()),
            ..rare(9, "tagged")
        },
        Link {
            valid_from: Some(timestamp(10)),
            moderation: ModerationStatus::Suspicious,
            ..rare(10, "started-suspicious")
        },
    ];
    put(&store, rare).await;
    store.mark_expired(timestamp(500), 100, &[]).await.unwrap();
    // What could be expired, used up or scheduled, and is not.
    let ordinary = (0..MANY).map(|n| Link {
        owner: OwnerId(7),
        created_at: timestamp(1000 + n / 3),
        expires_at: Some(timestamp(5_000_000)),
        max_clicks: Some(5),
        valid_from: (n % 2 == 0).then(|| timestamp(20)),
        ..alias(&format!("plain-{n}"), "https://example.com/plain")
    });
    put(&store, ordinary.collect()).await;
    // The connection below reads outside of a transaction: nothing may move meanwhile.
    store.stop_indexing();
    while store.threads().write(|writes| writes.index_waiting(5000)).await.unwrap() {}
    let at = counted(&store, &path);
    for owner in [None, Some(OwnerId(7))] {
        for (query, want) in [
            (with(LinkStatus::Expired), &["due", "marked-expired"][..]),
            (with(LinkStatus::UsedUp), &["used"]),
            (with(LinkStatus::Scheduled), &["scheduled"]),
            (with(LinkStatus::Suspicious), &["started-suspicious", "suspicious"]),
            (with(LinkStatus::Blocked), &["blocked"]),
            (with(LinkStatus::Deleted), &["deleted"]),
            (ListQuery { archived: Some(true), ..query() }, &["archived"]),
        ] {
            for sort in [Sort::Newest, Sort::Oldest] {
                let mut want = want.to_vec();
                if sort == Sort::Oldest {
                    want.reverse();
                }
                let steps = check(&at, &ListQuery { owner, sort, ..query.clone() }, &want);
                assert!(steps < FEW_STEPS, "{steps} for {query:?} of {owner:?}");
            }
        }
        for query in [
            ListQuery { tag: Some("rare".into()), ..query() },
            ListQuery { text: Some("zq".into()), ..query() },
            ListQuery { text: Some("com/zq".into()), ..query() },
        ] {
            check(&at, &ListQuery { owner, ..query }, &["tagged"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_page_holds_an_ordinary_link_behind_many_that_have_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("links.db");
    let store = EmbeddedLinks::open(EmbeddedOptions::new(&path)).unwrap();
    let elsewhere = Domain::parse("go.example").unwrap();
    let ended = (0..MANY).map(|n| {
        let mut link = alias(&format!("ended-{n}"), "https://example.com/plain");
        link.key.domain = elsewhere.clone();
        (link.owner, link.created_at) = (OwnerId(7), timestamp(1000 + n));
        link.archived_at = Some(timestamp(10));
        match n % 6 {
            0 => link.deleted_at = Some(timestamp(20)),
            1 => link.moderation = ModerationStatus::Blocked,
            2 => link.expires_at = Some(timestamp(30)),
            3 => (link.max_clicks, link.spent_clicks) = (Some(1), 1),
            4 => link.valid_from = Some(timestamp(2_000_000)),
            _ => link.moderation = ModerationStatus::Suspicious,
        }
        link
    });
    let plain = Link {
        owner: OwnerId(7),
        created_at: timestamp(1),
        ..alias("plain", "https://example.com/")
    };
    put(&store, std::iter::once(plain).chain(ended).collect()).await;
    let at = counted(&store, &path);
    for owner in [None, Some(OwnerId(7))] {
        for query in [
            with(LinkStatus::Active),
            ListQuery { archived: Some(false), ..query() },
            ListQuery { domain: Some(Domain::primary()), ..query() },
        ] {
            let steps = check(&at, &ListQuery { owner, ..query.clone() }, &["plain"]);
            let is_indexed = owner.is_some() && query.archived.is_some();
            assert!(!is_indexed || steps < FEW_STEPS, "{steps} for {query:?}");
        }
    }
    // Pages follow one another over states, and hold each link once.
    let mut query = ListQuery { owner: Some(OwnerId(7)), limit: 700, ..query() };
    let mut codes = HashSet::new();
    loop {
        let page = at.0.list(&query).unwrap();
        for link in page.links {
            assert!(codes.insert(link.key.code));
        }
        let Some(next) = page.next else { break };
        query.after = Some(next);
    }
    assert_eq!(codes.len() as i64, 1 + MANY / 6 * 5);
}
