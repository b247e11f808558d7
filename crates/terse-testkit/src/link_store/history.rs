//! Earlier revisions of a link.

use terse_core::{
    Link, LinkFlags, LinkVersion, MAX_REVISIONS, ModerationSource, ModerationStatus, Notes,
    OwnerId, PasswordHash, Revision, StoreError, Tags, Title, Updated,
};

use super::{LinkStoreHandle, leased_code, put};
use crate::{alias, generated, key, timestamp};

async fn change(store: &LinkStoreHandle, new: &Link) {
    assert_eq!(store.update(new, Revision(new.revision.0 - 1), &[]).await.unwrap(), Updated::Done);
}

fn past(link: &Link, until: i64) -> LinkVersion {
    LinkVersion { link: link.clone(), until: timestamp(until) }
}

pub async fn every_change_keeps_what_the_link_was(store: LinkStoreHandle) {
    let numbered = generated(&leased_code(&store).await, "https://example.com/");
    for first in [alias("changing", "https://example.com/"), numbered] {
        put(&store, &first).await;
        assert_eq!(store.history(&first.key, 10).await.unwrap(), []);
        let second = Link {
            target: alias("x23", "https://example.com/2").target,
            password: Some(PasswordHash::from_phc("$argon2id$x")),
            notes: Some(Notes::from_stored("a note".into())),
            tags: Tags::parse(&["a", "b"]).unwrap(),
            title: Some(Title::from_stored("T".into())),
            expires_at: Some(timestamp(1000)),
            max_clicks: Some(9),
            archived_at: Some(timestamp(2)),
            updated_at: timestamp(2),
            revision: Revision(2),
            ..first.clone()
        };
        change(&store, &second).await;
        assert_eq!(store.history(&first.key, 10).await.unwrap(), [past(&first, 2)]);
        store.spend(&first.key).await.unwrap();
        change(
            &store,
            &Link {
                crawlable: true,
                updated_at: timestamp(3),
                revision: Revision(3),
                ..second.clone()
            },
        )
        .await;
        let second = Link { spent_clicks: 1, ..second };
        assert_eq!(
            store.history(&first.key, 10).await.unwrap(),
            [past(&second, 3), past(&first, 2)]
        );
        assert_eq!(store.history(&first.key, 1).await.unwrap(), [past(&second, 3)]);
        assert_eq!(store.history(&first.key, 0).await.unwrap(), []);
    }
    assert_eq!(store.history(&key("nothing-here"), 10).await.unwrap(), []);
}

pub async fn what_no_owner_sees_is_not_kept(store: LinkStoreHandle) {
    let link = alias("judged", "https://example.com/");
    put(&store, &link).await;
    let mut new = Link {
        moderation: ModerationStatus::Suspicious,
        flags: LinkFlags::new(["odd"]),
        revision: Revision(2),
        ..link.clone()
    };
    change(&store, &new).await;
    new = Link {
        moderation: ModerationStatus::Clear,
        moderated_by: ModerationSource::Moderator,
        updated_at: timestamp(5),
        revision: Revision(3),
        ..new
    };
    change(&store, &new).await;
    new = Link { deleted_at: Some(timestamp(6)), revision: Revision(4), ..new };
    change(&store, &new).await;
    // Fields that an update ignores make no difference either.
    new = Link {
        owner: OwnerId(99),
        created_at: timestamp(7),
        spent_clicks: 8,
        revision: Revision(5),
        ..new
    };
    change(&store, &new).await;
    assert_eq!(store.history(&link.key, 10).await.unwrap(), []);
    assert!(matches!(
        store.update(&Link { crawlable: true, ..link.clone() }, Revision(1), &[]).await,
        Err(StoreError::Conflict)
    ));
    assert_eq!(store.history(&link.key, 10).await.unwrap(), [], "a refused change keeps nothing");
}

pub async fn of_many_changes_the_last_are_kept(store: LinkStoreHandle) {
    let (link, other) =
        (alias("restless", "https://example.com/"), alias("calm", "https://example.com/"));
    put(&store, &link).await;
    put(&store, &other).await;
    change(&store, &Link { crawlable: true, revision: Revision(2), ..other.clone() }).await;
    let last = MAX_REVISIONS as u64 + 6;
    for revision in 2..=last {
        let title = Some(Title::from_stored(revision.to_string()));
        change(&store, &Link { title, revision: Revision(revision), ..link.clone() }).await;
    }
    let kept: Vec<u64> = store
        .history(&link.key, 1000)
        .await
        .unwrap()
        .iter()
        .map(|past| past.link.revision.0)
        .collect();
    assert_eq!(kept, (last - MAX_REVISIONS as u64..last).rev().collect::<Vec<_>>());
    assert_eq!(
        store.history(&other.key, 1000).await.unwrap(),
        [past(&other, 0)],
        "another's are its own"
    );
}

pub async fn a_history_goes_with_its_link(store: LinkStoreHandle) {
    let numbered = generated(&leased_code(&store).await, "https://example.com/");
    for link in [alias("brief", "https://example.com/"), numbered] {
        put(&store, &link).await;
        change(&store, &Link { crawlable: true, revision: Revision(2), ..link.clone() }).await;
        change(
            &store,
            &Link {
                deleted_at: Some(timestamp(1)),
                crawlable: true,
                revision: Revision(3),
                ..link.clone()
            },
        )
        .await;
        assert_eq!(store.history(&link.key, 10).await.unwrap(), [past(&link, 0)]);
        assert_eq!(store.purge(timestamp(2).into(), 10, None).await.unwrap(), [link.key.clone()]);
        assert_eq!(store.history(&link.key, 10).await.unwrap(), []);
        put(&store, &link).await;
        assert_eq!(
            store.history(&link.key, 10).await.unwrap(),
            [],
            "a later link of the same name begins anew"
        );
    }
}

pub async fn a_history_is_forgotten_on_demand(store: LinkStoreHandle) {
    let (link, other) =
        (alias("forgetful", "https://example.com/"), alias("mindful", "https://example.com/"));
    for link in [&link, &other] {
        put(&store, link).await;
        change(&store, &Link { crawlable: true, revision: Revision(2), ..link.clone() }).await;
    }
    for _ in 0..2 {
        store.forget_history(&link.key).await.unwrap();
        assert_eq!(store.history(&link.key, 10).await.unwrap(), []);
    }
    assert_eq!(store.history(&other.key, 10).await.unwrap(), [past(&other, 0)]);
    assert_eq!(
        store.get(&link.key).await.unwrap().unwrap().revision,
        Revision(2),
        "the link itself stays"
    );
    store.forget_history(&key("nothing-here")).await.unwrap();
    change(&store, &Link { revision: Revision(3), ..link.clone() }).await;
    assert_eq!(store.history(&link.key, 10).await.unwrap().len(), 1, "and may change again");
}
