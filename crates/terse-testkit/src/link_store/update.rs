//! Changing a link and spending its clicks.

use terse_core::{
    ClickSpend, Link, LinkFlags, ModerationSource, ModerationStatus, Notes, OwnerId, PasswordHash,
    RedirectKind, Revision, StoreError, Tags, Title, Updated,
};

use super::{LinkStoreHandle, leased_code, put, put_in_vain};
use crate::{alias, generated, key, preview, rules, timestamp};

pub async fn an_update_needs_the_latest_revision(store: LinkStoreHandle) {
    let numbered = generated(&leased_code(&store).await, "https://example.com/");
    for link in [alias("edit", "https://example.com/"), numbered] {
        put(&store, &link).await;
        let changed = Link {
            target: alias("x23", "https://example.com/changed").target,
            updated_at: timestamp(5),
            expires_at: Some(timestamp(100)),
            valid_from: Some(timestamp(50)),
            max_clicks: Some(3),
            redirect: RedirectKind::Temporary,
            title: Some(Title::from_stored("a title".into())),
            tags: Tags::parse(&["a", "b"]).unwrap(),
            notes: Some(Notes::from_stored("a note".into())),
            password: Some(PasswordHash::from_phc("$argon2id$x")),
            archived_at: Some(timestamp(4)),
            rules: rules(),
            preview: preview(),
            forward_query: true,
            crawlable: true,
            moderation: ModerationStatus::Suspicious,
            flags: LinkFlags::new(["userinfo"]),
            revision: Revision(2),
            ..link.clone()
        };
        assert_eq!(store.update(&changed, Revision(1), &[]).await.unwrap(), Updated::Done);
        assert_eq!(store.get(&link.key).await.unwrap().as_ref(), Some(&changed));
        for stale in [Revision(0), Revision(1), Revision(3)] {
            assert!(matches!(store.update(&link, stale, &[]).await, Err(StoreError::Conflict)));
        }
        assert_eq!(store.get(&link.key).await.unwrap().as_ref(), Some(&changed));
        // And back to the first content.
        let back = Link { revision: Revision(3), ..link.clone() };
        assert_eq!(store.update(&back, Revision(2), &[]).await.unwrap(), Updated::Done);
        assert_eq!(store.get(&link.key).await.unwrap(), Some(back));
    }
}

pub async fn a_moderation_status_keeps_its_source(store: LinkStoreHandle) {
    let link = alias("judged", "https://example.com/");
    put(&store, &link).await;
    let mut revision = 1;
    for moderation in
        [ModerationStatus::Blocked, ModerationStatus::Clear, ModerationStatus::Suspicious]
    {
        for moderated_by in [ModerationSource::Moderator, ModerationSource::Screen] {
            for flags in [LinkFlags::new(["shortener"]), LinkFlags::default()] {
                let new = Link {
                    moderation,
                    moderated_by,
                    flags,
                    revision: Revision(revision + 1),
                    ..link.clone()
                };
                assert_eq!(
                    store.update(&new, Revision(revision), &[]).await.unwrap(),
                    Updated::Done
                );
                assert_eq!(store.get(&link.key).await.unwrap().as_ref(), Some(&new));
                revision += 1;
            }
        }
    }
}

pub async fn an_update_of_nothing_says_so(store: LinkStoreHandle) {
    let numbered = generated(&leased_code(&store).await, "https://example.com/");
    for link in [alias("absent", "https://example.com/"), numbered] {
        assert_eq!(store.update(&link, Revision(1), &[]).await.unwrap(), Updated::Missing);
        assert_eq!(store.get(&link.key).await.unwrap(), None);
    }
}

pub async fn what_identifies_a_link_never_changes(store: LinkStoreHandle) {
    let link = Link {
        max_clicks: Some(10),
        imported_clicks: 1234,
        ..alias("fixed", "https://example.com/")
    };
    put(&store, &link).await;
    assert_eq!(store.spend(&link.key).await.unwrap(), ClickSpend::Yes);
    let attempt = Link {
        owner: OwnerId(99),
        generated: true,
        created_at: timestamp(999),
        spent_clicks: 0,
        imported_clicks: 0,
        updated_at: timestamp(1),
        revision: Revision(2),
        ..link.clone()
    };
    assert_eq!(store.update(&attempt, Revision(1), &[]).await.unwrap(), Updated::Done);
    let want = Link { spent_clicks: 1, updated_at: timestamp(1), revision: Revision(2), ..link };
    assert_eq!(store.get(&want.key).await.unwrap(), Some(want));
}

pub async fn a_deleted_link_holds_its_code_and_can_be_restored(store: LinkStoreHandle) {
    let numbered = generated(&leased_code(&store).await, "https://example.com/");
    for link in [alias("oops", "https://example.com/"), numbered] {
        put(&store, &link).await;
        let deleted =
            Link { deleted_at: Some(timestamp(5)), revision: Revision(2), ..link.clone() };
        store.update(&deleted, Revision(1), &[]).await.unwrap();
        assert_eq!(store.get(&link.key).await.unwrap(), Some(deleted));
        put_in_vain(&store, &link).await;
        let restored = Link { revision: Revision(3), ..link };
        store.update(&restored, Revision(2), &[]).await.unwrap();
        assert_eq!(store.get(&restored.key).await.unwrap().as_ref(), Some(&restored));
        assert_eq!(
            store.purge(timestamp(1000).into(), 10, None).await.unwrap(),
            [],
            "what was restored is not purged"
        );
    }
}

pub async fn of_racing_updates_one_wins(store: LinkStoreHandle) {
    let link = alias("contended", "https://example.com/");
    put(&store, &link).await;
    for revision in 1..5 {
        let racers: Vec<_> = (0..20)
            .map(|racer| {
                let store = store.clone();
                let target = alias("x23", &format!("https://example.com/{racer}")).target;
                let new = Link { target, revision: Revision(revision + 1), ..link.clone() };
                tokio::spawn(async move {
                    (new.clone(), store.update(&new, Revision(revision), &[]).await)
                })
            })
            .collect();
        let mut winners = Vec::new();
        for racer in racers {
            match racer.await.unwrap() {
                (new, Ok(Updated::Done)) => winners.push(new),
                (_, Err(StoreError::Conflict)) => {}
                (_, other) => panic!("{other:?}"),
            }
        }
        assert_eq!(winners.len(), 1);
        assert_eq!(store.get(&link.key).await.unwrap(), winners.pop());
    }
}

pub async fn clicks_are_spent_exactly(store: LinkStoreHandle) {
    let numbered = generated(&leased_code(&store).await, "https://example.com/");
    for link in [alias("few", "https://example.com/"), numbered] {
        let link = Link { max_clicks: Some(37), ..link };
        put(&store, &link).await;
        let visitors: Vec<_> = (0..100)
            .map(|_| {
                let (store, key) = (store.clone(), link.key.clone());
                tokio::spawn(async move { store.spend(&key).await.unwrap() })
            })
            .collect();
        let mut counted = 0;
        for visitor in visitors {
            match visitor.await.unwrap() {
                ClickSpend::Yes => counted += 1,
                ClickSpend::UsedUp => {}
                ClickSpend::Missing => panic!("the link is there"),
            }
        }
        assert_eq!(counted, 37);
        let spent = store.get(&link.key).await.unwrap().unwrap();
        assert_eq!(spent, Link { spent_clicks: 37, ..link }, "spending is no change of the link");
        // The owner can raise the limit later.
        let more = Link { max_clicks: Some(38), revision: Revision(2), ..spent };
        store.update(&more, Revision(1), &[]).await.unwrap();
        assert_eq!(store.spend(&more.key).await.unwrap(), ClickSpend::Yes);
        assert_eq!(store.spend(&more.key).await.unwrap(), ClickSpend::UsedUp);
    }
    assert_eq!(store.spend(&key("nothing-here")).await.unwrap(), ClickSpend::Missing);
}

pub async fn a_change_does_not_undo_what_is_spent_meanwhile(store: LinkStoreHandle) {
    let link = Link { max_clicks: Some(60), ..alias("busy", "https://example.com/") };
    put(&store, &link).await;
    let visitors: Vec<_> = (0..4)
        .map(|_| {
            let (store, key) = (store.clone(), link.key.clone());
            tokio::spawn(async move {
                let mut counted = 0;
                for _ in 0..25 {
                    counted += u64::from(store.spend(&key).await.unwrap() == ClickSpend::Yes);
                }
                counted
            })
        })
        .collect();
    let mut revision = 1;
    while !visitors.iter().all(tokio::task::JoinHandle::is_finished) {
        // The click count it has read is outdated by the time it writes.
        let seen = store.get(&link.key).await.unwrap().unwrap();
        let new = Link {
            updated_at: timestamp(revision as i64),
            revision: Revision(revision + 1),
            ..seen
        };
        assert_eq!(
            store.update(&new, Revision(revision), &[]).await.unwrap(),
            Updated::Done,
            "a visit is no change"
        );
        revision += 1;
    }
    let mut counted = 0;
    for visitor in visitors {
        counted += visitor.await.unwrap();
    }
    assert_eq!(counted, 60);
    assert_eq!(store.get(&link.key).await.unwrap().unwrap().spent_clicks, 60);
}

pub async fn spending_without_a_limit_counts_nothing(store: LinkStoreHandle) {
    let link = alias("endless", "https://example.com/");
    put(&store, &link).await;
    for _ in 0..3 {
        assert_eq!(store.spend(&link.key).await.unwrap(), ClickSpend::Yes);
    }
    assert_eq!(store.get(&link.key).await.unwrap(), Some(link));
}
