//! Filters of lists.

use terse_core::rules::Rules;
use terse_core::{
    Domain, Link, LinkStatus, ListQuery, ModerationStatus, OwnerId, Revision, Tags, Title, Updated,
};

use super::list::{all, walk};
use super::{LinkStoreHandle, leased_code, put};
use crate::{alias, generated, timestamp};

async fn codes(store: &LinkStoreHandle, query: &ListQuery) -> Vec<String> {
    let mut codes: Vec<_> =
        walk(store, query).await.iter().map(|link| link.key.code.to_string()).collect();
    codes.sort();
    codes
}

pub async fn lists_are_filtered_by_owner_domain_and_tag(store: LinkStoreHandle) {
    let tags = |tags: &[&str]| Tags::parse(tags).unwrap();
    put(&store, &Link { tags: tags(&["red", "green"]), ..alias("one", "https://example.com/") })
        .await;
    put(
        &store,
        &Link { owner: OwnerId(2), tags: tags(&["red"]), ..alias("two", "https://example.com/") },
    )
    .await;
    put(
        &store,
        &Link {
            owner: OwnerId(2),
            tags: tags(&["redder", "Red"]),
            ..alias("three", "https://example.com/")
        },
    )
    .await;
    put(&store, &Link { owner: OwnerId::ANONYMOUS, ..alias("four", "https://example.com/") }).await;
    let mut elsewhere = Link { owner: OwnerId(u64::MAX), ..alias("one", "https://example.com/") };
    elsewhere.key.domain = Domain::from_stored("go.example");
    put(&store, &elsewhere).await;

    let owner = |id| ListQuery { owner: Some(OwnerId(id)), limit: 1, ..all() };
    assert_eq!(codes(&store, &owner(1)).await, ["one"]);
    assert_eq!(codes(&store, &owner(2)).await, ["three", "two"]);
    assert_eq!(codes(&store, &owner(0)).await, ["four"]);
    assert_eq!(codes(&store, &owner(u64::MAX)).await, ["one"]);
    assert_eq!(codes(&store, &owner(3)).await, [""; 0]);
    let domain = |domain| ListQuery { domain: Some(domain), limit: 2, ..all() };
    assert_eq!(codes(&store, &domain(Domain::primary())).await, ["four", "one", "three", "two"]);
    assert_eq!(walk(&store, &domain(elsewhere.key.domain.clone())).await, [elsewhere]);
    assert_eq!(codes(&store, &domain(Domain::from_stored("c.example"))).await, [""; 0]);
    let tag = |tag: &str| ListQuery { tag: Some(tag.into()), ..all() };
    assert_eq!(codes(&store, &tag("red")).await, ["one", "two"]);
    assert_eq!(codes(&store, &tag("green")).await, ["one"]);
    assert_eq!(codes(&store, &tag("re")).await, [""; 0]);
    assert_eq!(codes(&store, &ListQuery { owner: Some(OwnerId(2)), ..tag("red") }).await, ["two"]);
}

pub async fn archived_links_are_listed_as_asked_for(store: LinkStoreHandle) {
    put(&store, &alias("here", "https://example.com/")).await;
    put(&store, &Link { archived_at: Some(timestamp(0)), ..alias("away", "https://example.com/") })
        .await;
    let asked = |archived| ListQuery { archived, ..all() };
    assert_eq!(codes(&store, &asked(None)).await, ["away", "here"]);
    assert_eq!(codes(&store, &asked(Some(false))).await, ["here"]);
    assert_eq!(codes(&store, &asked(Some(true))).await, ["away"]);
}

pub async fn text_is_searched_literally(store: LinkStoreHandle) {
    let title = |text: &str| Some(Title::from_stored(text.into()));
    let code = leased_code(&store).await;
    put(&store, &generated(&code, "https://example.com/Needle?q=1")).await;
    put(&store, &Link { title: title("100% Größe"), ..alias("percent", "https://example.com/a") })
        .await;
    put(
        &store,
        &Link {
            title: title("a_b \\ 'quoted' *"),
            ..alias("In-The_Code", "https://example.com/b")
        },
    )
    .await;
    put(&store, &alias("aXbYcZd", "https://example.com/c%20d")).await;
    let text = |text: &str| ListQuery { text: Some(text.into()), limit: 2, ..all() };
    for (part, want) in [
        ("needle", &[&code[..]][..]),
        ("NEEDLE?Q", &[&code]),
        (&code.to_ascii_uppercase(), &[&code]),
        ("100%", &["percent"]),
        ("%", &["aXbYcZd", "percent"]),
        ("_", &["In-The_Code"]),
        ("a_b", &["In-The_Code"]),
        ("axbycz", &["aXbYcZd"]),
        ("the_c", &["In-The_Code"]),
        ("größe", &["percent"]),
        ("GRößE", &["percent"]),
        ("\\", &["In-The_Code"]),
        ("'quoted'", &["In-The_Code"]),
        ("*", &["In-The_Code"]),
        ("nowhere", &[]),
    ] {
        assert_eq!(codes(&store, &text(part)).await, want, "{part}");
    }
    assert_eq!(codes(&store, &text("example.com")).await.len(), 4);
}

pub async fn a_search_finds_the_targets_of_redirect_rules(store: LinkStoreHandle) {
    let rules = |target: &str| {
        let stored = format!(r#"[{{"country": "AT", "to": "{target}"}}]"#);
        Some(Rules::from_stored(&stored).expect("rules"))
    };
    let ruled = Link {
        rules: rules(r"https://Elsewhere.example/a?b=\\c"),
        ..alias("ruled", "https://example.com/")
    };
    put(&store, &ruled).await;
    put(&store, &alias("plain", "https://example.com/")).await;
    let text = |text: &str| ListQuery { text: Some(text.into()), limit: 2, ..all() };
    for (part, want) in [
        ("elsewhere.EXAMPLE", &["ruled"][..]),
        ("https://elsewhere", &["ruled"]),
        (r"b=\c", &["ruled"]),
        ("country", &[]),
    ] {
        assert_eq!(codes(&store, &text(part)).await, want, "{part}");
    }
    // A change of the rules is found at once, and what they were before is not.
    let rules = rules("https://third.example/");
    let changed = Link { rules, revision: Revision(ruled.revision.0 + 1), ..ruled.clone() };
    let updated = store.update(&changed, ruled.revision, &[]).await.unwrap();
    assert_eq!(updated, Updated::Done);
    assert_eq!(codes(&store, &text("third.example")).await, ["ruled"]);
    assert_eq!(codes(&store, &text("elsewhere")).await, [""; 0]);
}

pub async fn a_status_is_decided_at_the_given_time(store: LinkStoreHandle) {
    let link = |code| alias(code, "https://example.com/");
    put(&store, &link("active")).await;
    put(&store, &Link { valid_from: Some(timestamp(10)), ..link("scheduled") }).await;
    put(&store, &Link { expires_at: Some(timestamp(10)), ..link("expiring") }).await;
    put(&store, &Link { max_clicks: Some(1), ..link("spent") }).await;
    store.spend(&crate::key("spent")).await.unwrap();
    put(&store, &Link { moderation: ModerationStatus::Suspicious, ..link("suspicious") }).await;
    put(&store, &Link { moderation: ModerationStatus::Blocked, ..link("blocked") }).await;
    put(&store, &Link { deleted_at: Some(timestamp(1)), ..link("deleted") }).await;
    let at = |ms, status| ListQuery { now: timestamp(ms), status, limit: 3, ..all() };
    let some = |status| at(9, Some(status));
    assert_eq!(codes(&store, &some(LinkStatus::Active)).await, ["active", "expiring"]);
    assert_eq!(codes(&store, &some(LinkStatus::Scheduled)).await, ["scheduled"]);
    assert_eq!(codes(&store, &some(LinkStatus::Expired)).await, [""; 0]);
    assert_eq!(codes(&store, &some(LinkStatus::UsedUp)).await, ["spent"]);
    assert_eq!(codes(&store, &some(LinkStatus::Suspicious)).await, ["suspicious"]);
    assert_eq!(codes(&store, &some(LinkStatus::Blocked)).await, ["blocked"]);
    assert_eq!(codes(&store, &some(LinkStatus::Deleted)).await, ["deleted"]);
    assert_eq!(codes(&store, &at(10, Some(LinkStatus::Active))).await, ["active", "scheduled"]);
    assert_eq!(codes(&store, &at(10, Some(LinkStatus::Expired))).await, ["expiring"]);
    assert_eq!(
        codes(&store, &at(9, None)).await,
        ["active", "blocked", "expiring", "scheduled", "spent", "suspicious"]
    );
}
