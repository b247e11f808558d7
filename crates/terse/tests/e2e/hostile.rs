//! A crawl over all pages of a server whose data is hostile: titles, notes, tags, URLs, referrers, user
//! agents, campaigns, reports and reasons. No page may take any of it for markup.

use std::collections::{BTreeSet, VecDeque};

use serde_json::{Value, json};

use crate::browser::run_scenario;
use crate::dashboard::World;

/// Ends attributes, elements, comments and scripts, and adds an element and a handler that the crawl
/// looks for.
const PAYLOADS: [&str; 4] = [
    "\"><xss-probe onclick=x></xss-probe><script>window.probed=1</script>",
    "'--></title></script></textarea></style><xss-probe>",
    "<img src=x onerror=window.probed=1>",
    "{{7*7}}${7*7}<svg/onload=window.probed=1>",
];
/// Every page is looked at; this is an end for a crawl that finds ever new ones.
const MAX_PAGES: usize = 250;

/// What the data of the server must never become.
const INJECTED: &str =
    "const found = [...document.querySelectorAll('xss-probe, script:not([src]), \
    [onclick], [onerror], [onload], [srcdoc], iframe, object, embed, base, style')]
    .map((one) => one.outerHTML);
    for (const one of document.querySelectorAll('[href], [src], [action], [formaction]')) {
      for (const name of ['href', 'src', 'action', 'formaction']) {
        const value = (one.getAttribute(name) || '').trim().toLowerCase();
        // The bookmarklet is made of the settings alone.
        if (/^(javascript|data|vbscript):/.test(value) && !one.matches('.bookmarklet')) found.push(one.outerHTML);
      }
    }
    if (window.probed) found.push('a script ran');
    return found.join('\\n');";
const LINKS: &str = "return [...document.querySelectorAll('a[href]:not([download])')]
    .filter((one) => one.origin === location.origin).map((one) => one.pathname + one.search)";

/// Query parameters that show the same data in another way: every page of statistics links to all their
/// combinations.
const VIEWS: [&str; 2] = ["period", "bots"];

fn without_views(path: &str) -> String {
    let Some((bare, query)) = path.split_once('?') else { return path.to_owned() };
    let is_view = |pair: &&str| VIEWS.iter().any(|name| pair.split('=').next() == Some(name));
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_view(pair)).collect();
    if kept.is_empty() { bare.to_owned() } else { format!("{bare}?{}", kept.join("&")) }
}

fn fill(world: &World) {
    for (place, payload) in PAYLOADS.iter().enumerate() {
        let alias = format!("hostile-{place}");
        let tag: String = payload.chars().take(50).collect();
        let body = json!({
            "alias": alias,
            "long_url": format!("https://example.com/{payload}?q={payload}#{payload}"),
            "title": payload, "notes": payload, "tags": [tag],
        });
        world.api("POST", "/urls", &body);
        let changed = json!({"title": format!("{payload} again"),
            "rules": [{"query": {"name": "a", "value": payload}, "to": format!("https://example.com/?r={payload}")}]});
        world.api("PATCH", &format!("/urls/{alias}"), &changed);
        let campaign: String = url::form_urlencoded::byte_serialize(payload.as_bytes()).collect();
        let query = ["campaign", "source", "medium", "term", "content"]
            .map(|name| format!("utm_{name}={campaign}"))
            .join("&");
        let answer = World::agent()
            .get(format!("{}/{alias}?{query}", world.terse.url))
            .header("user-agent", format!("Mozilla/5.0 {payload}"))
            .header("referer", format!("https://{place}.example/{payload}"))
            .header("accept-language", *payload)
            .call();
        assert!(answer.is_ok());
        let report = json!({"reason": "phishing", "text": payload});
        world.api("POST", &format!("/urls/{alias}/report"), &report);
        let block = json!({"host": format!("evil-{place}.example"), "why": payload});
        world.api("POST", "/admin/blocklist", &block);
        let hook = json!({"url": format!("http://127.0.0.1:8/{place}?{campaign}")});
        world.api("POST", "/webhooks", &hook);
        world.api("POST", &format!("/webhooks/{}/test", place + 1), &Value::Null);
        world.api("POST", "/keys", &json!({"name": payload, "scope": "read"}));
    }
}

#[test]
fn hostile_data_stays_text_on_every_page() {
    let world = World::new();
    fill(&world);
    run_scenario(true, &[&world.terse.url], async |browser| {
        world.sign_in(browser, "/dashboard").await;
        let mut seen = BTreeSet::new();
        let mut waiting: VecDeque<String> = VecDeque::new();
        let visible = [
            "/dashboard",
            "/links?q=%22%3E%3Cxss-probe%3E",
            "/links?show=nonsense%3Cxss-probe%3E",
            "/links?tag=%3Cxss-probe%3E",
            "/login?next=%22%3E%3Cxss-probe%3E",
            "/?url=%22%3E%3Cxss-probe%3E",
            "/links/new?url=%22%3E%3Cxss-probe%3E&title=%22%3E%3Cxss-probe%3E",
            "/%3Cxss-probe%3E",
        ];
        waiting.extend(visible.map(str::to_owned));
        for place in 0..PAYLOADS.len() {
            // The pages of visitors.
            waiting.extend(["+", "?report"].map(|part| format!("/hostile-{place}{part}")));
        }
        while let Some(path) = waiting.pop_front() {
            let path = without_views(&path);
            // A link itself leads elsewhere, and calls of the API are no pages.
            let bare = path.split('?').next().unwrap_or_default();
            let is_link =
                bare.starts_with("/hostile-") && !bare.ends_with('+') && !path.ends_with("?report");
            if is_link
                || path.starts_with("/api/v1/")
                || path.contains("format=csv")
                || !seen.insert(path.clone())
            {
                continue;
            }
            assert!(seen.len() <= MAX_PAGES, "the crawl does not end: {path}");
            browser.open(&format!("{}{path}", world.terse.url)).await;
            let found = browser.client.execute(INJECTED, vec![]).await.unwrap();
            assert_eq!(found, json!(""), "{path}");
            let links = browser.client.execute(LINKS, vec![]).await.unwrap();
            waiting.extend(
                links.as_array().unwrap().iter().filter_map(|one| one.as_str().map(str::to_owned)),
            );
        }
        for page in [
            "/links/hostile-0",
            "/links/hostile-0/history",
            "/links/hostile-0/live",
            "/moderation",
            "/webhooks/1",
            "/account",
            "/system",
            "/accounts",
        ] {
            assert!(seen.contains(page), "{page} was not found: {seen:?}");
        }
        println!("{} pages", seen.len());
    });
}
