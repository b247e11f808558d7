//! Links by their clicks: of a period, of a tag, and as the order of a list.

use serde_json::{Value, json};
use terse_core::clicks::*;
use terse_core::*;

use crate::web::{OTHER, OWNER, Web};

const DAY: i64 = 86_400_000;

/// Five links of an owner; all but the last two have a tag.
async fn with_links(web: &Web) -> Vec<LinkId> {
    let mut links = Vec::new();
    for (n, code) in ["one", "two", "three", "four", "five"].into_iter().enumerate() {
        let tags = if n < 3 { json!(["spring"]) } else { json!([]) };
        let target = format!("https://example.com/{code}");
        let body = json!({"long_url": target, "alias": code, "tags": tags});
        let made = web.as_owner("POST /api/v1/urls", OWNER.0, body).await.json();
        let key = LinkKey { domain: Domain::primary(), code: Code::parse(code).unwrap() };
        let created_at = Timestamp::parse(made["created_at"].as_str().unwrap()).unwrap();
        links.push(LinkId { key, created_at });
        web.clock.advance(std::time::Duration::from_secs(1));
    }
    links
}

/// Counts clicks so many days ago.
fn add(web: &Web, link: &LinkId, days: i64, humans: usize, bots: usize) {
    let at = Timestamp::from_ms(web.clock.now().as_ms() - days * DAY);
    let click = Click::bare(at, ClickTarget::Link(link.clone(), OWNER.1));
    let bot = Click { bot: Some(BotKind::Crawler), ..click.clone() };
    web.clicks.add(vec![click; humans]);
    web.clicks.add(vec![bot; bots]);
}

fn day(web: &Web, days: i64) -> String {
    Timestamp::from_ms(web.clock.now().as_ms() - days * DAY).to_string()
}

async fn get(web: &Web, path: &str) -> Value {
    let answer = web.as_owner(&format!("GET /api/v1/{path}"), OWNER.0, Value::Null).await;
    assert_eq!(answer.status, 200, "{path} {}", answer.text());
    answer.json()
}

fn top(stats: &Value) -> Vec<(String, u64)> {
    let links = stats["top_links"].as_array().unwrap().iter();
    links
        .map(|link| {
            (link["short_code"].as_str().unwrap().to_owned(), link["clicks"].as_u64().unwrap())
        })
        .collect()
}

fn want(wanted: &[(&str, u64)]) -> Vec<(String, u64)> {
    wanted.iter().map(|(code, clicks)| ((*code).to_owned(), *clicks)).collect()
}

#[tokio::test]
async fn top_links_are_those_of_the_period() {
    let web = Web::new();
    let links = with_links(&web).await;
    add(&web, &links[0], 20, 5, 0);
    add(&web, &links[1], 10, 3, 4);
    add(&web, &links[2], 1, 1, 0);
    add(&web, &links[3], 40, 9, 0);
    assert_eq!(top(&get(&web, "stats").await), want(&[("two", 7), ("one", 5), ("three", 1)]));
    let humans = get(&web, "stats?bots=exclude").await;
    assert_eq!(top(&humans), want(&[("one", 5), ("two", 3), ("three", 1)]));
    let bots = get(&web, "stats?bots=only").await;
    assert_eq!(top(&bots), want(&[("two", 4)]));
    let (from, to) = (day(&web, 50), day(&web, 15));
    let long_ago = get(&web, &format!("stats?from={from}&to={to}")).await;
    assert_eq!(top(&long_ago), want(&[("four", 9), ("one", 5)]));
    assert_eq!(long_ago["total_clicks"], 14);
    let path = format!("GET /api/v1/stats?from={from}");
    let theirs = web.as_owner(&path, OTHER.0, Value::Null).await.json();
    assert_eq!(top(&theirs), []);
}

#[tokio::test]
async fn statistics_of_a_tag_are_those_of_its_links() {
    let web = Web::new();
    let links = with_links(&web).await;
    for (n, link) in links.iter().enumerate() {
        add(&web, link, 1, n + 1, 1);
        add(&web, link, 60, 10, 0);
    }
    let stats = get(&web, "stats?tag=spring").await;
    assert_eq!((&stats["total_clicks"], &stats["human_clicks"]), (&json!(9), &json!(6)));
    assert_eq!(top(&stats), want(&[("three", 4), ("two", 3), ("one", 2)]));
    let series = stats["series"].as_array().unwrap().iter();
    assert_eq!(series.map(|point| point["clicks"].as_u64().unwrap()).sum::<u64>(), 9);
    let from = day(&web, 90);
    let all = get(&web, &format!("stats?tag=spring&from={from}&bots=exclude")).await;
    assert_eq!(all["total_clicks"], 36);
    assert_eq!(get(&web, "stats?tag=unknown").await["total_clicks"], 0);
    // Links of others with the same tag are not counted.
    let theirs = web.as_owner("GET /api/v1/stats?tag=spring", OTHER.0, Value::Null).await.json();
    assert_eq!(theirs["total_clicks"], 0);
    // An admin reads them by their owner.
    assert_eq!(
        web.api("GET /api/v1/stats?tag=spring", Value::Null).await.json()["total_clicks"],
        0
    );
    for owner in [OWNER.1.0.to_string(), "all".to_owned()] {
        let path = format!("GET /api/v1/stats?tag=spring&owner={owner}");
        assert_eq!(web.api(&path, Value::Null).await.json()["total_clicks"], 9);
    }
    let refused = web.as_owner("GET /api/v1/stats?tag=", OWNER.0, Value::Null).await;
    refused.is_problem(400, "invalid_request", "tag");
}

#[tokio::test]
async fn a_list_by_clicks_has_every_link_once() {
    let web = Web::new();
    let links = with_links(&web).await;
    add(&web, &links[1], 1, 2, 0);
    add(&web, &links[3], 90, 1, 4);
    add(&web, &links[2], 1, 2, 0);
    // A link that is gone keeps its clicks for a while.
    let key = LinkKey { domain: Domain::primary(), code: Code::parse("gone").unwrap() };
    add(&web, &LinkId { key, created_at: links[0].created_at }, 1, 50, 0);
    let codes = async |query: &str| {
        let (mut codes, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = get(&web, &format!("urls?{query}{cursor}")).await;
            let links = page["links"].as_array().unwrap().iter();
            codes.extend(links.map(|link| link["short_code"].as_str().unwrap().to_owned()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return codes.join(" "),
            }
        }
    };
    for limit in [1, 2, 3, 50] {
        for sort in ["clicks", "-clicks"] {
            let found = codes(&format!("sort={sort}&limit={limit}")).await;
            assert_eq!(found, "four three two five one", "{sort} {limit}");
        }
    }
    assert_eq!(codes("sort=-clicks&limit=1&tag=spring").await, "three two one");
    assert_eq!(codes("sort=-clicks&q=FO").await, "four");
    // A cursor belongs to its order.
    let page = get(&web, "urls?sort=-clicks&limit=1").await;
    let cursor = page["next_cursor"].as_str().unwrap();
    let path = format!("GET /api/v1/urls?limit=1&cursor={cursor}");
    let refused = web.as_owner(&path, OWNER.0, Value::Null).await;
    refused.is_problem(400, "invalid_request", "cursor");
}

/// A store stops a long search early. The page must not continue it: each part takes a while.
#[tokio::test]
async fn a_list_by_clicks_reads_one_part_of_a_long_search_at_a_time() {
    let web = Web::new();
    let links = with_links(&web).await;
    add(&web, &links[0], 1, 3, 0);
    web.store.examined.store(1, std::sync::atomic::Ordering::Relaxed);
    let lists = || web.store.lists.swap(0, std::sync::atomic::Ordering::Relaxed);
    lists();
    let mut path = "urls?sort=clicks&status=expired".to_owned();
    for part in 0..links.len() {
        let page = get(&web, &path).await;
        assert_eq!((&page["links"], lists()), (&json!([]), 1), "{part}");
        let Some(next) = page["next_cursor"].as_str() else {
            assert_eq!(part, links.len() - 1);
            return;
        };
        path = format!("urls?sort=clicks&status=expired&cursor={next}");
    }
    panic!("the list has no end");
}

/// Each ranking reads the clicks of all links, however few of them are asked for.
#[tokio::test]
async fn a_page_of_a_filtered_list_by_clicks_reads_the_ranking_twice() {
    let web = Web::new();
    let links = with_links(&web).await;
    for (clicks, link) in (1..).zip(links.iter().rev()) {
        add(&web, link, 1, clicks, 0);
    }
    let page = get(&web, "urls?sort=-clicks&limit=1&tag=unknown").await;
    assert_eq!(page["links"], json!([]));
    assert_eq!(web.clicks.rankings.load(std::sync::atomic::Ordering::Relaxed), 2);
}
