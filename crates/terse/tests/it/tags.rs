//! Tags are listed, renamed and removed across all links of an owner.

use serde_json::{Value, json};
use terse_core::registry::Role;

use crate::bans::TestAccount;
use crate::harness::TestTerse;

fn tags(answer: &Value) -> Vec<(String, u64)> {
    let tags = answer["tags"].as_array().unwrap().iter();
    tags.map(|tag| (tag["tag"].as_str().unwrap().to_owned(), tag["links"].as_u64().unwrap()))
        .collect()
}

fn pair(tag: &str, links: u64) -> (String, u64) {
    (tag.to_owned(), links)
}

#[test]
fn tags_are_listed_renamed_and_removed_across_all_links_of_one_owner() {
    let terse = TestTerse::start();
    let ann = TestAccount::new(&terse, "ann", Role::User);
    let shown = |answer: crate::harness::Answer| tags(&answer.json());
    let links: Vec<Value> = (0..250)
        .map(|n| {
            let tags = if n % 2 == 0 {
                json!(["spring", "sale & co"])
            } else {
                json!(["spring", "summer"])
            };
            json!({"long_url": format!("https://example.com/{n}"), "tags": tags})
        })
        .collect();
    assert_eq!(ann.api(&terse, "POST", "/urls/bulk", Some(json!(links))).status, 207);
    terse.create(
        json!({"long_url": "https://example.com/", "custom_alias": "of-admin", "tags": ["spring"]}),
    );
    assert_eq!(
        shown(ann.api(&terse, "GET", "/tags", None)),
        [pair("spring", 250), pair("sale & co", 125), pair("summer", 125)]
    );
    assert_eq!(shown(terse.api("GET", "/tags", None)), [pair("spring", 1)], "an admin's own");
    assert_eq!(terse.anonymous("GET", "/tags", None).status, 401);

    let renamed = ann.api(&terse, "PATCH", "/tags/spring", Some(json!({"name": " summer "})));
    assert_eq!((renamed.status, renamed.json()), (200, json!({"changed": 250, "more": false})));
    assert_eq!(
        shown(ann.api(&terse, "GET", "/tags", None)),
        [pair("summer", 250), pair("sale & co", 125)]
    );
    // Half of the links had both tags before: each keeps the tag once.
    let listed = ann.api(&terse, "GET", "/urls?limit=100", None).json();
    for link in listed["links"].as_array().unwrap() {
        let tags = &link["tags"];
        let allowed = [json!(["summer"]), json!(["summer", "sale & co"])];
        assert!(allowed.contains(tags), "{tags}");
    }
    let again = ann.api(&terse, "PATCH", "/tags/spring", Some(json!({"name": "summer"})));
    assert_eq!(again.json(), json!({"changed": 0, "more": false}));
    let removed = ann.api(&terse, "DELETE", "/tags/sale%20%26%20co", None);
    assert_eq!((removed.status, &removed.json()["changed"]), (200, &json!(125)));
    assert_eq!(shown(ann.api(&terse, "GET", "/tags", None)), [pair("summer", 250)]);
    // Tags of other owners are unchanged, even for an admin.
    assert_eq!(terse.api("DELETE", "/tags/summer", None).json()["changed"], json!(0));
    assert_eq!(shown(terse.api("GET", "/tags", None)), [pair("spring", 1)]);
    for (tag, body, field) in [
        ("spring", json!({"name": "a,b"}), "name"),
        ("spring", json!({"name": ""}), "name"),
        ("spring", json!({"nam": "x"}), "nam"),
        ("a%2Cb", json!({"name": "x"}), "tag"),
    ] {
        let refused = ann.api(&terse, "PATCH", &format!("/tags/{tag}"), Some(body.clone()));
        assert_eq!((refused.status, &refused.json()["field"]), (400, &json!(field)), "{body}");
    }
}

#[test]
fn more_links_than_one_call_changes_are_changed_by_calling_again() {
    let terse = TestTerse::start();
    for part in 0..3 {
        let links: Vec<Value> = (0..500)
            .map(
                |n| json!({"long_url": format!("https://example.com/{part}/{n}"), "tags": ["old"]}),
            )
            .collect();
        assert_eq!(terse.api("POST", "/urls/bulk", Some(json!(links))).status, 207);
    }
    let mut changed = 0;
    for _ in 0..50 {
        let shown = terse.api("PATCH", "/tags/old", Some(json!({"name": "new"}))).json();
        changed += shown["changed"].as_u64().unwrap();
        assert!(shown["changed"].as_u64().unwrap() <= 1000);
        if shown["more"] == json!(false) {
            break;
        }
    }
    assert_eq!(changed, 1500);
    assert_eq!(tags(&terse.api("GET", "/tags", None).json()), [pair("new", 1500)]);
}
