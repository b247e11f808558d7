//! Counting tags.

use terse_core::{Link, OwnerId, TagCount, Tags, Updated};

use super::{LinkStoreHandle, leased_code, put};
use crate::{alias, generated, timestamp};

async fn counted(store: &LinkStoreHandle, owner: u64, limit: usize) -> Vec<(String, u64)> {
    let counts = store.tags(OwnerId(owner), limit).await.unwrap();
    counts.into_iter().map(|TagCount { tag, links }| (tag, links)).collect()
}

fn tagged(owner: u64, code: &str, tags: &[&str]) -> Link {
    Link {
        owner: OwnerId(owner),
        tags: Tags::parse(tags).unwrap(),
        ..alias(code, "https://example.com/")
    }
}

fn owned(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
    counts.iter().map(|(tag, links)| ((*tag).to_owned(), *links)).collect()
}

pub async fn tags_are_counted_by_owner(store: LinkStoreHandle) {
    assert_eq!(counted(&store, 7, 10).await, []);
    put(&store, &tagged(7, "one", &["red", "green"])).await;
    put(&store, &tagged(7, "two", &["green"])).await;
    put(&store, &tagged(7, "three", &[])).await;
    put(&store, &tagged(7, "four", &["Red", "größe & co"])).await;
    let code = leased_code(&store).await;
    put(
        &store,
        &Link {
            tags: Tags::parse(&["green"]).unwrap(),
            owner: OwnerId(7),
            ..generated(&code, "https://example.com/")
        },
    )
    .await;
    put(&store, &tagged(8, "five", &["red"])).await;
    put(&store, &tagged(0, "six", &["red"])).await;
    put(&store, &tagged(u64::MAX, "seven", &["last"])).await;
    assert_eq!(
        counted(&store, 7, 10).await,
        owned(&[("green", 3), ("Red", 1), ("größe & co", 1), ("red", 1)])
    );
    assert_eq!(counted(&store, 8, 10).await, owned(&[("red", 1)]));
    assert_eq!(counted(&store, 0, 10).await, [], "links without an owner");
    assert_eq!(counted(&store, u64::MAX, 10).await, owned(&[("last", 1)]));

    // Changed links count with their present tags, deleted ones not at all.
    let two = tagged(7, "two", &["green"]);
    let mut changed = Link { tags: Tags::parse(&["blue"]).unwrap(), ..two.clone() };
    changed.revision.0 += 1;
    assert_eq!(store.update(&changed, two.revision, &[]).await.unwrap(), Updated::Done);
    let one = tagged(7, "one", &["red", "green"]);
    let mut deleted = Link { deleted_at: Some(timestamp(5)), ..one.clone() };
    deleted.revision.0 += 1;
    assert_eq!(store.update(&deleted, one.revision, &[]).await.unwrap(), Updated::Done);
    assert_eq!(
        counted(&store, 7, 10).await,
        owned(&[("Red", 1), ("blue", 1), ("green", 1), ("größe & co", 1)])
    );
}

pub async fn the_tags_of_most_links_come_first(store: LinkStoreHandle) {
    for n in 0..30 {
        let own = format!("own-{n:02}");
        let tags = ["every", &own, if n % 3 == 0 { "third" } else { "other" }];
        put(&store, &tagged(7, &format!("link-{n}"), &tags)).await;
    }
    assert_eq!(
        counted(&store, 7, 4).await,
        owned(&[("every", 30), ("other", 20), ("third", 10), ("own-00", 1)])
    );
    assert_eq!(counted(&store, 7, 100).await.len(), 33);
    assert_eq!(counted(&store, 7, 0).await, []);
}
