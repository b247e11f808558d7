//! Codes: each is used once, and stored exactly as given.

use terse_core::{
    Domain, Insert, Inserted, MAX_CODE_LENGTH, MIN_CODE_LENGTH, ModerationStatus, OwnerId,
    RedirectKind, Revision, StoreError, Tags, Timestamp,
};
use terse_core::{Link, LinkFlags, ModerationSource, Notes, PasswordHash, Title};

use super::{LinkStoreHandle, leased_code, numbering, put, put_in_vain};
use crate::{alias, generated, key, preview, rules, timestamp};

pub async fn a_link_comes_back_byte_for_byte(store: LinkStoreHandle) {
    let long = format!("https://example.com/{}", "x".repeat(8000));
    let full = Link {
        owner: OwnerId(u64::MAX),
        created_at: Timestamp::MIN,
        updated_at: Timestamp::MAX,
        expires_at: Some(timestamp(-1)),
        valid_from: Some(timestamp(-2)),
        max_clicks: Some(i64::MAX as u64),
        imported_clicks: i64::MAX as u64,
        redirect: RedirectKind::Permanent,
        title: Some(Title::from_stored("Ünïcode ’ \u{1F517} \\ % _ \" '".into())),
        tags: Tags::parse(&["a", "größe", "x y", "%"]).unwrap(),
        notes: Some(Notes::from_stored("Größe\n\tund ’ \u{1F517} \\ % _ \" '".into())),
        password: Some(PasswordHash::from_phc("$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA")),
        archived_at: Some(timestamp(-3)),
        rules: rules(),
        preview: preview(),
        forward_query: true,
        crawlable: true,
        moderation: ModerationStatus::Blocked,
        moderated_by: ModerationSource::Moderator,
        flags: LinkFlags::new(["look_alike", "of_the_future"]),
        deleted_at: Some(timestamp(7)),
        revision: Revision(i64::MAX as u64),
        ..alias("Full_link-1", "https://example.com/%7Ea/?q=a%00b&x=%F0%9F%94%97#frag'\"%_")
    };
    let links = [
        full,
        alias("abc", "https://example.com/"),
        alias(&"Z".repeat(64), &long),
        generated(&leased_code(&store).await, "http://example.com/plain"),
        Link {
            reusable: true,
            ..generated(&leased_code(&store).await, "http://example.com/again")
        },
        Link { redirect: RedirectKind::MovedPermanently, ..alias("moved", "http://example.com/") },
        Link {
            redirect: RedirectKind::Temporary,
            moderation: ModerationStatus::Suspicious,
            ..alias("temp", "http://example.com/")
        },
        Link {
            owner: OwnerId::ANONYMOUS,
            forward_query: true,
            ..alias("anon", "http://example.com/")
        },
        Link { crawlable: true, max_clicks: Some(1), ..alias("crawl", "http://example.com/") },
        Link {
            password: Some(PasswordHash::from_phc("$argon2id$x")),
            ..alias("locked", "http://example.com/")
        },
        Link {
            notes: Some(Notes::from_stored("$argon2id$x".into())),
            ..alias("noted", "http://example.com/")
        },
        Link { archived_at: Some(Timestamp::MIN), ..alias("away", "http://example.com/") },
        Link { rules: rules(), ..alias("ruled", "http://example.com/") },
        Link { preview: preview(), ..alias("previewed", "http://example.com/") },
    ];
    for link in &links {
        put(&store, link).await;
    }
    for link in &links {
        assert_eq!(store.get(&link.key).await.unwrap().as_ref(), Some(link));
    }
    for absent in ["abd", "ABC", "zzz", "full_link-1", &leased_code(&store).await] {
        assert_eq!(store.get(&key(absent)).await.unwrap(), None, "{absent}");
    }
}

pub async fn a_code_is_given_once(store: LinkStoreHandle) {
    let code = leased_code(&store).await;
    for link in [alias("mine", "https://example.com/1"), generated(&code, "https://example.com/1")]
    {
        put(&store, &link).await;
        // Not even to the same owner, for the same target.
        put_in_vain(&store, &link).await;
        put_in_vain(
            &store,
            &Link {
                target: alias("x23", "https://example.com/2").target,
                owner: OwnerId(9),
                ..link.clone()
            },
        )
        .await;
        assert_eq!(store.get(&link.key).await.unwrap(), Some(link));
    }
}

pub async fn of_two_hundred_racing_inserts_one_wins(store: LinkStoreHandle) {
    for round in 0..4 {
        // Rounds of aliases, and of generated codes.
        let code = if round % 2 == 0 { format!("race-{round}") } else { leased_code(&store).await };
        let racers = (0..200).map(|racer| {
            let store = store.clone();
            let mut link = alias(&code, &format!("https://example.com/{racer}"));
            link.generated = round % 2 == 1;
            link.owner = OwnerId(1 + racer % 3);
            tokio::spawn(async move { (link.clone(), store.insert(Insert::new(link, None)).await) })
        });
        let racers: Vec<_> = racers.collect();
        let mut winners = Vec::new();
        for racer in racers {
            match racer.await.unwrap() {
                (link, Ok(Inserted::Created)) => winners.push(link),
                (_, Err(StoreError::CodeTaken)) => {}
                (_, other) => panic!("{other:?}"),
            }
        }
        let [winner] = &winners[..] else { panic!("{} winners", winners.len()) };
        assert_eq!(store.get(&winner.key).await.unwrap().as_ref(), Some(winner));
    }
}

pub async fn an_alias_and_a_generated_code_exclude_each_other(store: LinkStoreHandle) {
    let (first, second) = (leased_code(&store).await, leased_code(&store).await);
    put(&store, &generated(&first, "https://example.com/")).await;
    put_in_vain(&store, &alias(&first, "https://example.com/evil")).await;
    put(&store, &alias(&second, "https://example.com/")).await;
    put_in_vain(&store, &generated(&second, "https://example.com/")).await;
    // The same if the alias existed before its number was leased.
    let numbering = numbering(&store);
    let ahead = store.lease(7, 1, numbering.capacity(7), 0).await.unwrap().end + 1;
    let squatted = numbering.code(7, ahead).to_string();
    put(&store, &alias(&squatted, "https://example.com/early")).await;
    store.lease(7, 5, numbering.capacity(7), 0).await.unwrap();
    put_in_vain(&store, &generated(&squatted, "https://example.com/late")).await;
    let found = store.get(&key(&squatted)).await.unwrap().unwrap();
    assert_eq!(found.target.as_str(), "https://example.com/early");
}

pub async fn generated_codes_that_were_never_leased_are_links_too(store: LinkStoreHandle) {
    let numbering = numbering(&store);
    let mut links = Vec::new();
    for length in MIN_CODE_LENGTH..=MAX_CODE_LENGTH {
        let code = numbering.code(length, 3).to_string();
        links.push(generated(&code, &format!("https://example.com/{length}")));
    }
    // Other strategies may generate codes in any alphabet.
    links.push(generated("0OIl0OI", "https://example.com/other"));
    for link in &links {
        put(&store, link).await;
        put_in_vain(&store, link).await;
    }
    // Leasing their numbers later must not hide them.
    for length in MIN_CODE_LENGTH..=MAX_CODE_LENGTH {
        store.lease(length, 10, numbering.capacity(length), 0).await.unwrap();
    }
    for link in &links {
        assert_eq!(store.get(&link.key).await.unwrap().as_ref(), Some(link));
        put_in_vain(&store, link).await;
    }
}

pub async fn domains_are_separate_name_spaces(store: LinkStoreHandle) {
    let code = leased_code(&store).await;
    let domains =
        [Domain::primary(), Domain::from_stored("go.example"), Domain::from_stored("b.example")];
    let mut links = Vec::new();
    for (n, domain) in domains.iter().enumerate() {
        for template in
            [generated(&code, "https://example.com/g"), alias("same", "https://example.com/a")]
        {
            let mut link = Link { owner: OwnerId(n as u64), ..template };
            link.key.domain = domain.clone();
            put(&store, &link).await;
            put_in_vain(&store, &link).await;
            links.push(link);
        }
    }
    for link in &links {
        assert_eq!(store.get(&link.key).await.unwrap().as_ref(), Some(link));
    }
    let mut elsewhere = key("same");
    elsewhere.domain = Domain::from_stored("c.example");
    assert_eq!(store.get(&elsewhere).await.unwrap(), None);
}

pub async fn many_are_found_as_one_by_one(store: LinkStoreHandle) {
    let code = leased_code(&store).await;
    let links = [
        generated(&code, "https://example.com/1"),
        alias("my-link", "https://example.com/2"),
        alias("Other", "https://example.com/3"),
    ];
    for link in &links {
        put(&store, link).await;
    }
    let keys = [
        key("nothing"),
        links[1].key.clone(),
        links[0].key.clone(),
        links[1].key.clone(),
        key("other"),
        links[2].key.clone(),
    ];
    let found = store.get_many(&keys).await;
    assert_eq!(found.len(), keys.len());
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(found.unwrap(), store.get(key).await.unwrap(), "{key:?}");
    }
    assert!(store.get_many(&[]).await.is_empty());
}

/// A link can be followed as soon as its creation is acknowledged.
pub async fn what_was_acknowledged_is_found_at_once_by_everyone(store: LinkStoreHandle) {
    let (tell, mut told) = tokio::sync::mpsc::channel::<Link>(1);
    let visitor = {
        let store = store.clone();
        tokio::spawn(async move {
            let mut followed = 0;
            while let Some(link) = told.recv().await {
                assert_eq!(
                    store.get(&link.key).await.unwrap().as_ref(),
                    Some(&link),
                    "after {followed} others"
                );
                assert_eq!(
                    store.get_many(&[link.key.clone()]).await.pop().unwrap().unwrap(),
                    Some(link)
                );
                followed += 1;
            }
            followed
        })
    };
    for n in 0..100 {
        let target = format!("https://example.com/{n}");
        let link = if n % 2 == 0 {
            alias(&format!("new-{n}"), &target)
        } else {
            generated(&leased_code(&store).await, &target)
        };
        // Looked up before it exists, so that a cached absence would fail the test.
        assert_eq!(store.get(&link.key).await.unwrap(), None);
        put(&store, &link).await;
        tell.send(link).await.unwrap();
    }
    drop(tell);
    assert_eq!(visitor.await.unwrap(), 100);
}
