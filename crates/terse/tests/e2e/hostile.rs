//! A crawl over all pages of a server whose data is hostile: titles, notes, tags, URLs, social
//! previews, referrers, user agents, campaigns, reports, reasons, domains, branding, an imported
//! file, and what is typed into forms. No page may take any of it for markup.

use std::collections::{BTreeSet, VecDeque};

use serde_json::{Value, json};

use crate::browser::{Browser, run_scenario};
use crate::dashboard::World;

/// Ends attributes, elements, comments and scripts, and adds an element and a handler that the
/// crawl looks for.
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

/// Query parameters that show the same data in another way: every page of statistics links to all
/// their combinations.
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
            "preview": {"title": payload, "description": payload,
                "image_url": format!("https://example.com/{payload}.png")},
        });
        world.api("POST", "/urls", &body);
        let changed = json!({"title": format!("{payload} again"),
            "rules": [{"query": {"name": "a", "value": payload}, "to": format!("https://example.com/?r={payload}")}]});
        world.api("PATCH", &format!("/urls/{alias}"), &changed);
        let campaign: String = url::form_urlencoded::byte_serialize(payload.as_bytes()).collect();
        let query = ["campaign", "source", "medium", "term", "content"]
            .map(|name| format!("utm_{name}={campaign}"))
            .join("&");
        for referrer in [format!("https://{payload}"), format!("https://from-{place}.example/")] {
            let answer = World::agent()
                .get(format!("{}/{alias}?{query}", world.terse.url))
                // The name of such an app is a part of its user agent, whatever it contains.
                .header("user-agent", format!("{payload}/1.0 CFNetwork/1408 Darwin/22.5.0"))
                .header("referer", referrer)
                .header("accept-language", *payload)
                .call();
            assert_eq!(answer.unwrap().status().as_u16(), 302);
        }
        let report = json!({"reason": "phishing", "text": payload});
        world.api("POST", &format!("/urls/{alias}/report"), &report);
        let block = json!({"host": format!("evil-{place}.example"), "why": payload});
        world.api("POST", "/admin/blocklist", &block);
        let hook = json!({"url": format!("http://127.0.0.1:8/{place}?{campaign}")});
        world.api("POST", "/webhooks", &hook);
        world.api("POST", &format!("/webhooks/{}/test", place + 1), &Value::Null);
        world.api("POST", "/keys", &json!({"name": payload, "scope": "read"}));
        let fallback = |of: &str| format!("https://example.com/{of}/{payload}?{payload}#{payload}");
        let fallbacks = json!({"root": fallback("root"), "not_found": fallback("not-found"),
            "expired": fallback("expired")});
        world.api("PUT", &format!("/domains/hostile-{place}.example"), &fallbacks);
    }
    for place in 0..PAYLOADS.len() {
        world.wait_for_clicks(&format!("hostile-{place}"), 2);
    }
}

fn cut(text: &str, to: usize) -> String {
    text.chars().take(to).collect()
}

/// Saves a hostile branding: its name, links and contact are on every page.
async fn brand(browser: &Browser, url: &str) {
    browser.open(&format!("{url}/branding")).await;
    browser.fill("#name", &cut(PAYLOADS[0], 64)).await;
    browser.fill("#abuse_contact", &format!("https://example.com/?{}", PAYLOADS[1])).await;
    for (place, payload) in PAYLOADS.iter().enumerate() {
        browser.fill(&format!("#label{place}"), &cut(payload, 40)).await;
        browser.fill(&format!("#url{place}"), &format!("https://example.com/?{payload}")).await;
    }
    browser.press(".brand button[type=submit]").await;
    browser.wait(".toast").await;
}

/// Uploads a file with hostile columns, codes, targets and titles, of which some rows are refused.
async fn upload(browser: &Browser, world: &World) {
    let cell = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut rows = format!("short_code,long_url,title,{}\n", cell(PAYLOADS[0]));
    for payload in PAYLOADS {
        for (code, scheme) in [("", "https"), (payload, "ftp")] {
            let target = format!("{scheme}://example.com/{payload}");
            let cells = [code, &target, payload, payload].map(cell);
            rows.push_str(&format!("{}\n", cells.join(",")));
        }
    }
    browser.open(&format!("{}/import", world.terse.url)).await;
    browser.choose("#file", &world.file("hostile.csv", &rows)).await;
    browser.press("main form button[type=submit]").await;
    browser.wait_for_text("#state", "This would happen").await;
}

/// Types a text into all fields of one of the forms of a page, and sends it without the checks of
/// the browser; `false` if there is no such form.
const SEND: &str = "const [at, text] = arguments;
    const typed = 'input:not([type=hidden], [type=checkbox], [type=radio], [type=file]), textarea';
    const form = [...document.querySelectorAll('form[method=post]')]
      .filter((one) => one.querySelector(typed))[at];
    if (!form) return false;
    for (const field of form.querySelectorAll(typed)) field.value = text;
    [form.noValidate, document.documentElement.dataset.sent] = [true, ''];
    // Some forms do nothing without the button that says what to do.
    form.requestSubmit(form.querySelector('[name=action]:is([value=save], [value=suspend])'));
    return true";

/// Sends every form of a page with hostile texts: the answer shows them again.
async fn send_forms(browser: &Browser, url: &str) -> usize {
    for at in 0.. {
        browser.open(url).await;
        let payload = PAYLOADS[at % PAYLOADS.len()];
        let sent = browser.client.execute(SEND, vec![json!(at), json!(payload)]).await.unwrap();
        if sent == json!(false) {
            return at;
        }
        browser.wait("html:not([data-sent]) body").await;
        let found = browser.client.execute(INJECTED, vec![]).await.unwrap();
        assert_eq!(found, json!(""), "form {at} of {url}");
    }
    unreachable!("a page has an end")
}

/// Checks that a tab of a link shows the payload: the data really got there.
async fn shows(browser: &Browser, url: &str, payload: &str) {
    browser.open(url).await;
    // What is above the tabs has hostile texts of its own.
    let without =
        "document.querySelectorAll('.link-head, .tabs, .crumbs').forEach((one) => one.remove())";
    browser.client.execute(without, vec![]).await.unwrap();
    let shown = browser.text("main").await;
    // The longest name of a browser has 60 characters, and the middle of long texts is cut.
    let begin: String = payload.chars().take(20).collect();
    assert!(shown.contains(&begin), "{url} does not show {begin}: {shown}");
}

#[test]
fn hostile_data_stays_text_on_every_page() {
    let world = World::with(&["accounts.sign_up=open"]);
    world.key_of_new_account("bob");
    fill(&world);
    run_scenario(true, &[&world.terse.url], async |browser| {
        world.sign_in(browser, "/dashboard").await;
        brand(browser, &world.terse.url).await;
        upload(browser, &world).await;
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
            "/tags",
            "/domains",
            "/branding",
            "/import",
        ] {
            assert!(seen.contains(page), "{page} was not found: {seen:?}");
        }
        for (place, payload) in PAYLOADS.iter().enumerate() {
            for (part, payload) in [
                // Some of these user agents count as bots.
                ("?bots=include", *payload),
                ("/values?of=browsers&bots=include", payload),
                ("/values?of=campaigns&bots=include", payload),
                ("/values?of=referrers&bots=include", &*format!("from-{place}.example")),
                ("/live", payload),
                ("/history", payload),
                ("/rules", "%3C"),
            ] {
                let url = format!("{}/links/hostile-{place}{part}", world.terse.url);
                shows(browser, &url, payload).await;
            }
        }
        for payload in PAYLOADS {
            shows(browser, &format!("{}/import", world.terse.url), payload).await;
        }
        assert!(browser.text("nav.side .logo").await.contains("<xss-probe"), "the branding is set");
        let manifest: Value =
            serde_json::from_str(&world.terse.get("/manifest.webmanifest").2).unwrap();
        assert_eq!(manifest["name"], json!(cut(PAYLOADS[0], 64)));
        let mut forms = 0;
        for page in [
            "/",
            "/hostile-0?report",
            "/links/new",
            "/links/hostile-0/edit",
            "/tags",
            "/webhooks",
            "/webhooks/1",
            "/domains",
            "/moderation",
            "/branding",
            "/account",
            "/account/two-factor",
            "/signup",
            "/accounts",
            // The form of `/import` has a file alone, which `upload` has sent.
        ] {
            let sent = send_forms(browser, &format!("{}{page}", world.terse.url)).await;
            assert!(sent > 0, "{page} has no form");
            forms += sent;
        }
        // The reason of the suspension is shown.
        shows(browser, &format!("{}/accounts", world.terse.url), PAYLOADS[0]).await;
        // What chats and social networks get.
        let robot = json!({"userAgent": "facebookexternalhit/1.1"});
        browser.devtools("Network.setUserAgentOverride", robot).await;
        for (place, payload) in PAYLOADS.iter().enumerate() {
            browser.open(&format!("{}/hostile-{place}", world.terse.url)).await;
            assert_eq!(browser.client.title().await.unwrap(), *payload);
            let found = browser.client.execute(INJECTED, vec![]).await.unwrap();
            assert_eq!(found, json!(""), "the preview of hostile-{place}");
        }
        println!("{} pages, {forms} forms", seen.len());
    });
}
