//! Searches before, while and after links are indexed.

use std::path::Path;

use terse_core::{Insert, LinkStatus, LinkStore, ListQuery, Tags, Title};
use terse_testkit::{alias, generated, timestamp};

use super::*;
use crate::{EmbeddedLinks, EmbeddedOptions};

#[test]
fn a_text_has_the_trigrams_that_every_link_with_it_has() {
    for (text, want) in [
        ("", &[][..]),
        ("ab", &[]),
        ("abc", &["abc"]),
        ("abcd", &["abc", "bcd"]),
        ("aaaa", &["aaa"]),
        ("größe", &["grö", "röß", "öße"]),
        ("http", &[]),
        ("ttps:", &[]),
        ("https://ab", &["//a", "/ab"]),
        ("s://ab", &["//a", "/ab"]),
        ("s:/", &[]),
        (":80", &[":80"]),
        ("shop", &["sho", "hop"]),
        ("a\0b", &[]),
    ] {
        assert_eq!(trigrams(text), want, "{text}");
    }
    let long: String = ('a'..='z').chain('0'..='9').collect();
    assert!((6..=MAX_TRIGRAMS).contains(&trigrams(&long).len()));
}

#[test]
fn the_numbers_of_the_index_have_the_order_of_the_times() {
    let at = |created_at, id| position(ListPosition { created_at, id });
    assert!(at(5, 9) < at(6, 0) && at(-5, 0) < at(0, 0) && at(5, 1) < at(5, 2));
    assert_eq!(at(5, 7), at(5, (1 << 61) + 7));
    for time in [-70_000, 0, 1, 1_794_000_000_000] {
        assert_eq!(created_at(at(time, (1 << 61) + 12345)), time);
    }
}

fn open(folder: &Path) -> EmbeddedLinks {
    EmbeddedLinks::open(EmbeddedOptions::new(folder.join("terse.db"))).unwrap()
}

async fn put(store: &EmbeddedLinks, links: Vec<Link>) {
    let write = move |writes: &mut LinkWrites| {
        for link in &links {
            writes.insert(&Insert::new(link.clone(), None))?;
        }
        Ok(())
    };
    store.threads().write(write).await.unwrap();
}

async fn index(store: &EmbeddedLinks) {
    while store.threads().write(|writes| writes.index_waiting(500)).await.unwrap() {}
}

/// Empties the index, as it is after the upgrade of a file from before there was one.
async fn forget_index(store: &EmbeddedLinks) {
    let forget = |writes: &mut LinkWrites| {
        writes.conn.execute_batch(
            "INSERT INTO search(search) VALUES ('delete-all'); DELETE FROM unindexed; \
             INSERT OR REPLACE INTO meta VALUES \
             ('search_floor', '9223372036854775807 9223372036854775807')",
        )?;
        writes.floor = writes.search_floor()?;
        Ok(())
    };
    store.threads().write(forget).await.unwrap();
}

fn all(sort: Sort) -> ListQuery {
    ListQuery::all(sort, 7, timestamp(1))
}

async fn found(store: &EmbeddedLinks, query: &ListQuery) -> Vec<String> {
    let (mut query, mut codes) = (query.clone(), Vec::new());
    loop {
        let page = store.list(&query).await.unwrap();
        codes.extend(page.links.iter().map(|link| link.key.code.to_string()));
        query.after = page.next;
        if query.after.is_none() {
            return codes;
        }
    }
}

/// Links with few different times, owners, tags and words, so that they share many trigrams.
async fn mixed(store: &EmbeddedLinks) -> Vec<Link> {
    let numbering = terse_core::Numbering::new(store.identity());
    let range = store.lease(7, 300, numbering.capacity(7), 0).await.unwrap();
    let words = ["spring", "summer", "Sale", "über-uns", "news"];
    let links: Vec<Link> = (0..300u64)
        .map(|n| {
            let (a, b) = (words[(n % 5) as usize], words[(n / 5 % 5) as usize]);
            let target = format!("https://{a}.example/{b}?{n}");
            let mut link = if n.is_multiple_of(2) {
                generated(numbering.code(7, range.start + n / 2).as_str(), &target)
            } else {
                alias(&format!("named-{n}-news"), &target)
            };
            link.owner = OwnerId(n % 4);
            link.created_at = timestamp((n * 7919 % 20) as i64);
            link.updated_at = link.created_at;
            link.title = n.is_multiple_of(3).then(|| Title::from_stored(format!("{b} {a}")));
            link.tags = Tags::from_stored(["", "x", "x,y", "y"][(n / 3 % 4) as usize]);
            link
        })
        .collect();
    put(store, links.clone()).await;
    links
}

async fn check(store: &EmbeddedLinks, when: &str) {
    for sort in [Sort::Newest, Sort::Oldest] {
        let everything = {
            let mut query = ListQuery { limit: 1000, ..all(sort) };
            query.text = None;
            store.list(&query).await.unwrap().links
        };
        assert_eq!(everything.len(), 300, "{when}");
        for text in
            [None, Some("SPRING"), Some("//sale"), Some("uns?1"), Some("-NEWS"), Some("absent")]
        {
            for owner in [None, Some(OwnerId(1)), Some(OwnerId(0))] {
                for tag in [None, Some("x")] {
                    let query = ListQuery {
                        text: text.map(str::to_owned),
                        owner,
                        tag: tag.map(str::to_owned),
                        ..all(sort)
                    };
                    let want: Vec<String> = everything
                        .iter()
                        .filter(|link| {
                            let text = text.unwrap_or_default().to_ascii_lowercase();
                            let has = |part: &str| part.to_ascii_lowercase().contains(&text);
                            (has(link.target.as_str())
                                || has(link.key.code.as_str())
                                || link.title.as_ref().is_some_and(|it| has(it.as_str())))
                                && owner.is_none_or(|owner| link.owner == owner)
                                && tag.is_none_or(|tag| link.tags.iter().any(|it| it == tag))
                        })
                        .map(|link| link.key.code.to_string())
                        .collect();
                    assert_eq!(found(store, &query).await, want, "{when}: {query:?}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_finds_links_before_while_and_after_they_are_indexed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    // This test indexes by itself.
    store.stop_indexing();
    mixed(&store).await;
    check(&store, "just written").await;
    index(&store).await;
    check(&store, "indexed").await;
    forget_index(&store).await;
    check(&store, "upgraded").await;
    for limit in [1, 100, 100] {
        assert!(store.threads().write(move |writes| writes.index_waiting(limit)).await.unwrap());
        check(&store, "in part").await;
    }
    index(&store).await;
    check(&store, "indexed again").await;
    store.close();
}

/// The number of a row in the index is too short for all ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_waits_is_found_once_beside_an_indexed_one_with_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.stop_indexing();
    let links = ["first", "second", "third"];
    put(&store, links.iter().map(|code| alias(code, "https://example.com/needle")).collect()).await;
    index(&store).await;
    // The next id that has the number of the first link.
    let skip = |writes: &mut LinkWrites| {
        writes.skip_named(TIES - 3);
        Ok(())
    };
    store.threads().write(skip).await.unwrap();
    put(&store, vec![alias("twin", "https://example.com/needle")]).await;
    for sort in [Sort::Newest, Sort::Oldest] {
        let query = ListQuery { text: Some("needle".into()), ..all(sort) };
        let mut codes = found(&store, &query).await;
        codes.sort_unstable();
        assert_eq!(codes, ["first", "second", "third", "twin"], "{sort:?}");
    }
    store.close();
}

/// Without the index, a page would end after 20,000 compared links.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_page_has_what_the_oldest_of_many_links_contains() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let link = |n: i64| {
        let mut link = alias(&format!("code-{n}"), "https://example.com/hay");
        link.created_at = timestamp(n);
        if n == 0 {
            link.title = Some(Title::from_stored("the needle".into()));
            link.tags = Tags::from_stored("rare");
            link.moderation = terse_core::ModerationStatus::Blocked;
        }
        link
    };
    put(&store, (0..21_000).map(link).collect()).await;
    index(&store).await;
    let needle = ListQuery { text: Some("NEEDLE".into()), ..all(Sort::Newest) };
    let rare = ListQuery { tag: Some("rare".into()), ..all(Sort::Newest) };
    let absent = ListQuery { text: Some("no such".into()), ..all(Sort::Newest) };
    let blocked = ListQuery { status: Some(LinkStatus::Blocked), ..all(Sort::Newest) };
    for (query, want) in [(needle, 1), (rare, 1), (blocked, 1), (absent, 0)] {
        let page = store.list(&query).await.unwrap();
        assert_eq!((page.links.len(), page.next), (want, None), "{query:?}");
    }
    store.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_changed_or_deleted_link_stays_in_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut links: Vec<Link> = (0..50)
        .map(|n| {
            let target = format!("https://example.com/qzx{n}");
            Link { owner: OwnerId(7), ..alias(&format!("qzc-{n}"), &target) }
        })
        .collect();
    links.push(alias("stays", "https://example.com/"));
    put(&store, links.clone()).await;
    index(&store).await;
    for old in &links[..50] {
        let target = terse_core::Target::from_stored("https://example.com/qzy".into());
        let mut new = Link { target, ..old.clone() };
        new.revision.0 += 1;
        store.update(&new, old.revision, &[]).await.unwrap();
    }
    let text = |text: &str| ListQuery { text: Some(text.into()), ..all(Sort::Newest) };
    assert_eq!(found(&store, &text("qzx1")).await, [""; 0]);
    assert_eq!(found(&store, &text("m/qzy")).await.len(), 50);
    index(&store).await;
    assert_eq!(found(&store, &text("m/qzy")).await.len(), 50);
    for old in &links[..50] {
        let deleted_at = Some(timestamp(0));
        let mut new = Link { deleted_at, ..store_link(&store, old).await };
        let expected = new.revision;
        new.revision.0 += 1;
        store.update(&new, expected, &[]).await.unwrap();
    }
    let purged = store.purge(timestamp(1).into(), 100, None).await.unwrap();
    assert_eq!(purged.len(), 50);
    assert_eq!(found(&store, &text("example")).await, ["stays"]);
    store.close();
    let conn = rusqlite::Connection::open(folder.path().join("terse.db")).unwrap();
    conn.execute_batch("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, search, row)")
        .unwrap();
    let terms: Vec<String> = conn
        .prepare("SELECT term FROM terms")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(terms.iter().any(|term| term == "tay"), "{terms:?}");
    let left: Vec<_> = terms.iter().filter(|term| term.contains("qz")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(crate::verify(&folder.path().join("terse.db")).unwrap().is_clean());
}

async fn store_link(store: &EmbeddedLinks, link: &Link) -> Link {
    terse_core::LinkReader::get(store, &link.key).await.unwrap().unwrap()
}
