//! Paging through lists.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terse_core::{Cursor, Link, LinkKey, ListQuery, Revision, Sort};

use super::{LinkStoreHandle, leased_code, put};
use crate::{alias, generated, timestamp};

/// A query for everything, newest first.
pub(super) fn all() -> ListQuery {
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

/// All pages of a list.
pub(super) async fn walk(store: &LinkStoreHandle, query: &ListQuery) -> Vec<Link> {
    let mut query = query.clone();
    let mut links = Vec::new();
    for _ in 0..100_000 {
        let page = store.list(&query).await.unwrap();
        assert!(page.links.len() <= query.limit);
        links.extend(page.links);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return links,
        }
    }
    panic!("a walk that does not end");
}

async fn made_at(store: &LinkStoreHandle, ms: i64, n: usize) -> Link {
    let target = format!("https://example.com/{n}");
    let link = if n.is_multiple_of(3) {
        alias(&format!("alias-{n}"), &target)
    } else {
        generated(&leased_code(store).await, &target)
    };
    Link { created_at: timestamp(ms), updated_at: timestamp(ms), ..link }
}

pub async fn lists_are_in_order(store: LinkStoreHandle) {
    assert!(walk(&store, &all()).await.is_empty());
    let mut made = Vec::new();
    for (n, ms) in [5, 3, 9, -4, 7, 1, 8, 2, 6, 0].into_iter().enumerate() {
        let link = made_at(&store, ms, n).await;
        put(&store, &link).await;
        made.push(link);
    }
    made.sort_by_key(|link| link.created_at);
    for limit in [1, 3, 10, 100] {
        let oldest = ListQuery { sort: Sort::Oldest, limit, ..all() };
        assert_eq!(walk(&store, &oldest).await, made);
        let mut newest = walk(&store, &ListQuery { limit, ..all() }).await;
        newest.reverse();
        assert_eq!(newest, made);
    }
    // One owner's links are in the same order.
    let own = ListQuery { owner: Some(made[0].owner), sort: Sort::Oldest, limit: 4, ..all() };
    assert_eq!(walk(&store, &own).await, made);
}

pub async fn a_walk_sees_every_link_once_while_others_write(store: LinkStoreHandle) {
    let mut steady = Vec::new();
    for n in 0..120 {
        let link = made_at(&store, (n as i64) / 4, n).await;
        put(&store, &link).await;
        steady.push(link.key);
    }
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, done) = (store.clone(), done.clone());
        tokio::spawn(async move {
            let mut n = 1000;
            while !done.load(Ordering::Relaxed) {
                // Links are created, changed and deleted all over the list.
                let link = made_at(&store, (n as i64 * 7) % 40 - 5, n).await;
                put(&store, &link).await;
                let gone = Link { deleted_at: Some(timestamp(0)), revision: Revision(2), ..link };
                store.update(&gone, Revision(1), &[]).await.unwrap();
                if n % 4 == 0 {
                    store.purge(timestamp(1).into(), 2, None).await.unwrap();
                }
                n += 1;
            }
        })
    };
    for round in 0..6 {
        let sort = if round % 2 == 0 { Sort::Newest } else { Sort::Oldest };
        let owner = (round % 3 == 0).then_some(terse_core::OwnerId::ADMIN);
        let seen = walk(&store, &ListQuery { sort, owner, limit: 7, ..all() }).await;
        let mut times: HashMap<LinkKey, usize> = HashMap::new();
        for link in seen {
            *times.entry(link.key).or_default() += 1;
        }
        for key in &steady {
            assert_eq!(times.get(key), Some(&1), "{key:?}");
        }
        assert!(times.values().all(|times| *times == 1), "nothing is seen twice");
    }
    done.store(true, Ordering::Relaxed);
    writer.await.unwrap();
}

pub async fn links_of_one_moment_are_walked_without_loss(store: LinkStoreHandle) {
    let mut made = Vec::new();
    for n in 0..50 {
        let link = made_at(&store, 0, n).await;
        put(&store, &link).await;
        made.push(link.key);
    }
    made.sort();
    for sort in [Sort::Newest, Sort::Oldest] {
        for limit in [1, 7] {
            let mut seen: Vec<_> = walk(&store, &ListQuery { sort, limit, ..all() })
                .await
                .into_iter()
                .map(|link| link.key)
                .collect();
            seen.sort();
            assert_eq!(seen, made);
        }
    }
}

pub async fn a_foreign_cursor_is_an_error(store: LinkStoreHandle) {
    put(&store, &alias("abc", "https://example.com/")).await;
    for garbage in [&b""[..], b"x", b"not a cursor", &[0xff; 3], &[0; 300]] {
        let query = ListQuery { after: Some(Cursor(garbage.to_vec())), ..all() };
        assert!(store.list(&query).await.is_err(), "{garbage:?}");
    }
}
