//! The list of an account's links.

use serde_json::json;
use terse_core::LinkStore as _;
use terse_core::registry::Role;

use crate::web::{Answer, OWNER, Web};

/// A server on which an account has signed in; returns its session cookie.
async fn signed_in() -> (Web, String) {
    let web = Web::new();
    let cookie = web.sign_in(OWNER.1, "terse_a-browser").await;
    (web, cookie)
}

async fn open(web: &Web, cookie: &str, path: &str) -> Answer {
    let headers = [("accept", "text/html"), ("host", "go.example"), ("cookie", cookie)];
    web.call(&format!("GET {path}"), &headers, "").await
}

async fn make(web: &Web, key: &str, body: serde_json::Value) {
    let made = web.as_owner("POST /api/v1/urls", key, body).await;
    assert_eq!(made.status, 201, "{}", made.text());
}

/// The links of a list in their order: what follows `/links/` in the paths of their pages.
fn rows(text: &str) -> Vec<&str> {
    let rows = text.split("class=\"copy-source\" href=\"/links/").skip(1);
    rows.filter_map(|rest| rest.split('"').next()).collect()
}

#[tokio::test]
async fn an_account_sees_its_own_links_with_their_state() {
    let (web, cookie) = signed_in().await;
    let empty = open(&web, &cookie, "/links").await.text();
    assert!(empty.contains("You have no links yet."), "{empty}");
    let nasty = "\"><script>alert(1)</script>";
    make(
        &web,
        OWNER.0,
        json!({"long_url": "https://example.com/mine?x=<b>", "alias": "mine", "title": nasty,
            "tags": ["news", nasty], "password": "sesame!"}),
    )
    .await;
    make(&web, OWNER.0, json!({"long_url": "https://example.com/2", "alias": "gone", "ttl": 60}))
        .await;
    make(
        &web,
        crate::web::OTHER.0,
        json!({"long_url": "https://example.com/3", "alias": "theirs"}),
    )
    .await;
    web.clock.advance(std::time::Duration::from_secs(61));
    let answer = open(&web, &cookie, "/links").await;
    assert_eq!((answer.status.as_u16(), answer.header("cache-control")), (200, "no-store"));
    let text = answer.text();
    for shown in [
        "go.example/mine",
        "data-copy=\"https://go.example/mine\"",
        "&#60;script&#62;",
        "<span class=\"pill attention\">password</span>",
        "<span class=\"pill over\">expired</span>",
        "<b>0</b> clicks",
        "<a href=\"/links?tag=news\">news</a>",
        "<a href=\"/links\" aria-current=\"page\">",
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    assert!(!text.contains("theirs") && !text.contains("<script>"), "{text}");
}

#[tokio::test]
async fn links_are_searched_and_filtered() {
    let (web, cookie) = signed_in().await;
    for (alias, more) in [
        ("plain", json!({})),
        ("tagged", json!({"tags": ["a b"]})),
        ("stored", json!({})),
        ("later", json!({"valid_from": "2999-01-01"})),
        ("removed", json!({})),
        ("spent", json!({"max_clicks": 1})),
        ("doubtful", json!({"long_url": "https://odd.example/"})),
        ("banned", json!({})),
    ] {
        let mut body =
            json!({"long_url": format!("https://example.com/{alias}-x"), "alias": alias});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        make(&web, OWNER.0, body).await;
    }
    let archive = json!({"archived": true});
    assert_eq!(web.as_owner("PATCH /api/v1/urls/stored", OWNER.0, archive).await.status, 200);
    web.as_owner("DELETE /api/v1/urls/removed", OWNER.0, serde_json::Value::Null).await;
    let why = json!({"why": "phishing"});
    assert_eq!(web.api("POST /api/v1/admin/links/banned/confirm", why).await.status, 200);
    let spent = web.store.everything().into_iter().find(|link| link.key.code.as_str() == "spent");
    let spent = terse_core::Link { spent_clicks: 1, ..spent.unwrap() };
    web.store.update(&spent, spent.revision, &[]).await.unwrap();
    let unarchived = ["banned", "doubtful", "later", "plain", "spent", "tagged"];
    for (query, codes) in [
        ("", &unarchived[..]),
        ("?q=plain-x", &["plain"]),
        ("?q=nothing", &[]),
        ("?tag=a+b", &["tagged"]),
        ("?show=scheduled", &["later"]),
        ("?show=archived", &["stored"]),
        ("?show=deleted", &["removed"]),
        ("?show=used_up", &["spent"]),
        ("?show=suspicious", &["doubtful"]),
        ("?show=blocked", &["banned"]),
        ("?show=nonsense", &unarchived),
        ("?show=active&q=example", &["plain", "tagged"]),
    ] {
        let text = open(&web, &cookie, &format!("/links{query}")).await.text();
        let mut shown = rows(&text);
        shown.sort_unstable();
        assert_eq!(shown, codes, "{query}");
        assert_eq!(text.contains("No links match."), codes.is_empty(), "{query}");
    }
}

#[tokio::test]
async fn a_long_list_is_read_page_by_page() {
    let (web, cookie) = signed_in().await;
    for number in 0..30 {
        let target = format!(
            "https://www.example.com/blog/2026/11/a-usual-slug-of-a-post-{number}\
             ?utm_source=newsletter&utm_medium=email&utm_campaign=november-{number}"
        );
        let body = json!({"long_url": target, "alias": format!("link-{number}"),
            "title": format!("A title as people write it, with some words: part {number}"),
            "tags": ["newsletter", "november", "blog"]});
        make(&web, OWNER.0, body).await;
    }
    for link in web.store.everything() {
        use terse_core::clicks::{Click, ClickTarget, LinkId};
        let now = web.clock.now().as_ms();
        let target = ClickTarget::Link(LinkId::of(&link), OWNER.1);
        let click = |day: i64| {
            let at = terse_core::Timestamp::from_ms(now - day * 86_400_000);
            Click::bare(at, target.clone())
        };
        web.clicks.add((0..14).flat_map(|day| vec![click(day); 1 + day as usize * 7 % 5]));
    }
    let count = |text: &str| text.matches("class=\"link-row\"").count();
    let first = open(&web, &cookie, "/links?q=example").await.text();
    let next = first.split("next\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let next = next.replace("&#38;", "&");
    let second = open(&web, &cookie, &next).await.text();
    assert_eq!((count(&first), count(&second)), (20, 10));
    assert!(first.len() < 50_000, "{} bytes", first.len());
    assert!(second.contains(">First page</a>") && !second.contains(">Next</a>"));
    // A cursor belongs to its own list.
    let other = next.replace("q=example", "q=other");
    assert_eq!(open(&web, &cookie, &other).await.status, 404);
}

#[tokio::test]
async fn signing_in_leads_back_to_the_list() {
    let web = Web::new();
    let answer = open(&web, "x=1", "/links").await;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (303, "/login?next=/links"));
    // An admin's own list is not that of everybody.
    let admin = web.person("admin", Role::Admin).await;
    make(&web, OWNER.0, json!({"long_url": "https://example.com/3", "alias": "theirs"})).await;
    let cookie = web.sign_in(admin, "terse_admin-browser").await;
    assert!(open(&web, &cookie, "/links").await.text().contains("You have no links yet."));
}

#[tokio::test]
async fn every_page_of_the_dashboard_has_the_frame() {
    let (web, cookie) = signed_in().await;
    for (path, current) in [("/links?q=%22%3E%3Cb%3E", "/links"), ("/account", "/account")] {
        let answer = open(&web, &cookie, path).await;
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self'"));
        assert!(policy.contains("connect-src 'self'") && !policy.contains("unsafe"), "{policy}");
        let text = answer.text();
        for shown in [
            "<nav class=\"side\" aria-label=\"Main\">",
            "<form class=\"find\" method=\"get\" action=\"/links\" role=\"search\">",
            "aria-keyshortcuts=\"n\"",
            "class=\"me\" href=\"/account\"",
            "<b>terse-owner</b><span>go.example</span>",
            "<meta name=\"robots\" content=\"noindex\">",
        ] {
            assert!(text.contains(shown), "{path}: {shown} in {text}");
        }
        assert_eq!(text.matches("aria-current=\"page\"").count(), 1, "{path}");
        assert!(text.contains(&format!("href=\"{current}\" aria-current=\"page\"")), "{path}");
        assert!(!text.contains("<b>\"") && !text.contains(" style=") && !text.contains("<script>"));
        assert!(text.len() < 50_000, "{path}: {} bytes", text.len());
    }
    let text = open(&web, &cookie, "/links?q=%22%3E%3Cb%3E").await.text();
    assert!(text.contains("value=\"&#34;&#62;&#60;b&#62;\""), "the search is kept: {text}");
}

#[tokio::test]
async fn the_tags_are_counted_only_when_the_field_asks_for_them() {
    let (web, cookie) = signed_in().await;
    for alias in ["one", "two"] {
        let tags = json!({"long_url": "https://example.com/", "alias": alias, "tags": ["<b>news"]});
        make(&web, OWNER.0, tags).await;
    }
    assert!(!open(&web, &cookie, "/links").await.text().contains("<option value=\"&#60;b"));
    let tags = open(&web, &cookie, "/links?part=tags").await.text();
    assert_eq!(tags, "<option value=\"&#60;b&#62;news\">2</option>");
}

#[tokio::test]
async fn times_are_in_the_zone_of_the_browser() {
    let (web, cookie) = signed_in().await;
    make(
        &web,
        OWNER.0,
        json!({"long_url": "https://example.com/1", "alias": "mine",
        "valid_from": "2999-07-01T20:00:00Z"}),
    )
    .await;
    for (zone, shown) in [
        ("", "starts 1 Jul 2999<"),
        ("; terse_zone=Asia/Tokyo", "starts 2 Jul 2999<"),
        ("; terse_zone=%3Cb%3E", "starts 1 Jul 2999<"),
    ] {
        let text = open(&web, &format!("{cookie}{zone}"), "/links").await.text();
        assert!(text.contains(shown), "{zone}: {text}");
    }
}

async fn send(web: &Web, cookie: &str, body: &str) -> Answer {
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("host", "go.example"),
        ("sec-fetch-site", "same-origin"),
        ("cookie", cookie),
    ];
    web.call("POST /links", &headers, body.to_owned()).await
}

#[tokio::test]
async fn selected_links_are_tagged_archived_deleted_restored_and_exported_together() {
    let (web, cookie) = signed_in().await;
    for alias in ["one", "two", "three"] {
        let body = json!({"long_url": format!("https://example.com/{alias}"), "alias": alias,
            "title": "=1+1"});
        make(&web, OWNER.0, body).await;
    }
    let theirs = json!({"long_url": "https://example.com/3", "alias": "theirs"});
    make(&web, crate::web::OTHER.0, theirs).await;
    let picks = "pick.one=&pick.two=&pick.theirs=&pick.nothing=";
    for (fields, location) in [
        ("action=tag&tag=q4", "/links?done=tagged&count=2&of=4"),
        ("action=untag&tag=q4", "/links?done=untagged&count=2&of=4"),
        ("action=tag&tag=+", "/links?done=tag&count=0"),
        ("action=archive", "/links?done=archived&count=2&of=4"),
        ("action=unarchive&back=%2Flinks%3Fq%3Dx", "/links?q=x&done=unarchived&count=2&of=4"),
        ("action=archive&back=%2F%2Fevil.example", "/links?done=archived&count=2&of=4"),
        ("action=unarchive", "/links?done=unarchived&count=2&of=4"),
        ("action=delete", "/links?deleted=one%2Ctwo"),
        ("action=", "/links?done=none&count=0"),
    ] {
        let answer = send(&web, &cookie, &format!("{fields}&{picks}")).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("location")),
            (303, location),
            "{fields}"
        );
    }
    let text = open(&web, &cookie, "/links?deleted=one%2Ctwo%2C%3Cb%3E").await.text();
    assert!(text.contains("2 links are deleted.") && text.contains("name=\"pick.two\""), "{text}");
    let answer = send(&web, &cookie, &format!("action=restore&{picks}")).await;
    assert_eq!(answer.header("location"), "/links?done=restored&count=2&of=4");
    let text = open(&web, &cookie, "/links?done=restored&count=2").await.text();
    assert!(text.contains("2 links are restored."), "{text}");
    let text = open(&web, &cookie, "/links?done=tagged&count=2&of=4").await.text();
    let words = "2 of 4 links are tagged. The others could not be changed.";
    assert!(text.contains(words) && text.contains("role=\"alert\""), "{text}");
    let text = open(&web, &cookie, "/links?deleted=one%2Ctwo").await.text();
    assert!(!text.contains("are deleted."), "restored links are not called deleted: {text}");
    let file = send(&web, &cookie, &format!("action=export&{picks}")).await;
    assert_eq!(file.header("content-disposition"), "attachment; filename=\"links.csv\"");
    let text = file.text();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("one,https://go.example/one,https://example.com/one,'=1+1,"), "{text}");
    // The export does not escape an alias, so that an import reads it back.
    make(&web, OWNER.0, json!({"long_url": "https://example.com/d", "alias": "-dash"})).await;
    let text = send(&web, &cookie, "action=export&pick.-dash=").await.text();
    assert!(text.contains("\n-dash,https://go.example/-dash,"), "{text}");
    assert_eq!(send(&web, &cookie, &format!("action=explode&{picks}")).await.status, 400);
    assert_eq!(send(&web, &cookie, "action=archive&pick.a%2Fb=").await.status, 400);
}

#[tokio::test]
async fn the_menu_of_a_row_leads_back_to_the_list() {
    let (web, cookie) = signed_in().await;
    make(&web, OWNER.0, json!({"long_url": "https://example.com/1", "alias": "one"})).await;
    let act = async |part: &str, body: &str| {
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("host", "go.example"),
            ("sec-fetch-site", "same-origin"),
            ("cookie", &*cookie),
        ];
        let answer = web.call(&format!("POST /links/one/{part}"), &headers, body.to_owned()).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        answer.header("location").to_owned()
    };
    let back = "back=%2Flinks%3Fq%3Done%26cursor%3Dx";
    let list = "/links?q=one&cursor=x";
    for (part, field, end) in [
        ("archive", "archived=true", "&done=archived&count=1"),
        ("archive", "archived=false", "&done=unarchived&count=1"),
        ("delete", "", "&deleted=one"),
        ("restore", "", "&done=restored&count=1"),
    ] {
        assert_eq!(act(part, &format!("{back}&{field}")).await, format!("{list}{end}"), "{part}");
    }
    // Another site, or another page, is no list.
    for back in ["https%3A%2F%2Fevil.example%2Flinks", "%2F%2Fevil.example", "%2Flinks%2Fone"] {
        let there = act("archive", &format!("archived=true&back={back}")).await;
        assert_eq!(there, "/links/one?done=archived");
    }
    assert_eq!(act("delete", "").await, "/links?deleted=one");
}

#[tokio::test]
async fn the_rows_alone_are_a_small_fragment_and_show_clicks_by_humans() {
    use terse_core::clicks::{BotKind, Click, ClickTarget, LinkId};
    let (web, cookie) = signed_in().await;
    make(&web, OWNER.0, json!({"long_url": "https://example.com/1", "alias": "one"})).await;
    let link = LinkId::of(&web.store.everything()[0]);
    let click = || Click::bare(web.clock.now(), ClickTarget::Link(link.clone(), OWNER.1));
    web.clicks.add([click(), click(), Click { bot: Some(BotKind::Tool), ..click() }]);
    let text = open(&web, &cookie, "/links?q=example&part=rows").await.text();
    assert!(!text.contains("<html") && !text.contains("<nav"), "{text}");
    // A chart costs a report of its link, so the rows of a search have none.
    assert!(!text.contains("Clicks of 14 days"), "{text}");
    let chart = "<svg viewBox=\"0 0 96 24\" role=\"img\" aria-label=\"Clicks of 14 days\"><path \
        d=\"M0 22.5L";
    assert!(open(&web, &cookie, "/links?q=example").await.text().contains(chart));
    // The script asks for the charts after a pause.
    let with_charts = open(&web, &cookie, "/links?q=example&part=charts").await.text();
    assert!(with_charts.contains(chart) && !with_charts.contains("<html"), "{with_charts}");
    for shown in
        ["<b>2</b> clicks", "title=\"and 1 by bots\"", "aria-label=\"Select go.example/one\""]
    {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    web.clicks.away.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(open(&web, &cookie, "/links").await.text().contains("<b>–</b> clicks"));
}

#[tokio::test]
async fn links_are_filtered_by_their_domain() {
    let (web, cookie) = signed_in().await;
    for (alias, domain) in [("here", "go.example"), ("there", "b.example")] {
        let target = format!("https://example.com/{alias}");
        let body = json!({"long_url": target, "alias": alias, "domain": domain});
        make(&web, OWNER.0, body).await;
    }
    let (here, there) = ("here", "there?domain=b.example");
    for (query, shown) in [
        ("", &[there, here][..]),
        ("?domain=", &[there, here]),
        ("?domain=go.example", &[here]),
        ("?domain=b.example", &[there]),
        ("?domain=b.example&q=here", &[there]),
        ("?domain=go.example&q=there", &[]),
    ] {
        let text = open(&web, &cookie, &format!("/links{query}")).await.text();
        assert_eq!(rows(&text), shown, "{query}");
    }
    let text = open(&web, &cookie, "/links?domain=b.example").await.text();
    assert!(text.contains("<option selected>b.example</option>"), "{text}");
    // The other filters keep it.
    assert!(text.contains("href=\"/links?show=active&#38;domain=b.example\""), "{text}");
}

#[tokio::test]
async fn links_with_clicks_are_listed_by_their_number() {
    use terse_core::clicks::{BotKind, Click, ClickTarget, LinkId};
    let (web, cookie) = signed_in().await;
    let wanted = [("many", 12), ("some", 3), ("few", 2), ("none", 0)];
    // Neither the order of their ages nor that of their names.
    for alias in ["few", "none", "many", "some"] {
        let target = format!("https://example.com/{alias}");
        make(&web, OWNER.0, json!({"long_url": target, "alias": alias})).await;
        web.clock.advance(std::time::Duration::from_secs(1));
    }
    for link in web.store.everything() {
        let (_, count) = wanted.iter().find(|(code, _)| *code == link.key.code.as_str()).unwrap();
        let target = ClickTarget::Link(LinkId::of(&link), OWNER.1);
        let click = Click::bare(web.clock.now(), target);
        // The figure leaves out the click of a bot.
        let bot = (*count > 0).then(|| Click { bot: Some(BotKind::Tool), ..click.clone() });
        web.clicks.add(vec![click; *count]);
        web.clicks.add(bot);
    }
    let text = open(&web, &cookie, "/links?sort=clicks").await.text();
    assert_eq!(rows(&text), wanted.map(|(code, _)| code), "{text}");
    let figures = text.split("class=\"link-clicks\"").skip(1);
    let figures = figures.map(|rest| rest.split("<b>").nth(1).unwrap().split('<').next().unwrap());
    assert_eq!(figures.collect::<Vec<_>>(), ["12", "3", "2", "0"]);
}

#[tokio::test]
async fn links_are_listed_by_age() {
    let (web, cookie) = signed_in().await;
    for alias in ["first", "second"] {
        make(&web, OWNER.0, json!({"long_url": "https://example.com/1", "alias": alias})).await;
        web.clock.advance(std::time::Duration::from_secs(1));
    }
    for (query, first) in [("", "second"), ("?sort=oldest", "first"), ("?sort=x", "second")] {
        let text = open(&web, &cookie, &format!("/links{query}")).await.text();
        let row = text.split("class=\"copy-source\" href=\"/links/").nth(1).unwrap();
        assert!(row.starts_with(first), "{query}");
    }
    let text = open(&web, &cookie, "/links?sort=clicks").await.text();
    assert!(text.contains("value=\"clicks\" selected>Most clicks first"), "{text}");
    let row = text.split("class=\"copy-source\" href=\"/links/").nth(1).unwrap();
    assert!(row.starts_with("second"), "links without clicks are listed, the newest first");
}

#[tokio::test]
async fn recent_activity_has_the_changes_of_owners_and_not_those_of_scans() {
    let (web, cookie) = signed_in().await;
    for alias in ["edited", "scanned"] {
        let body = json!({"long_url": format!("https://example.com/{alias}"), "alias": alias});
        make(&web, OWNER.0, body).await;
    }
    web.clock.advance(std::time::Duration::from_secs(60));
    let title = json!({"title": "Another"});
    let changed = web.as_owner("PATCH /api/v1/urls/edited", OWNER.0, title).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    let suspicious = json!({"standing": "suspicious"});
    let flagged = web.api("PUT /api/v1/admin/links/scanned/standing", suspicious).await;
    assert_eq!(flagged.status, 200, "{}", flagged.text());
    let links = web.store.everything();
    assert!(links.iter().all(|link| link.updated_at > link.created_at), "both were updated");
    let text = open(&web, &cookie, "/dashboard").await.text();
    assert!(text.contains("<a href=\"/links/edited/history\">go.example/edited</a>"), "{text}");
    assert!(!text.contains("/links/scanned/history"), "{text}");
}

#[tokio::test]
async fn the_overview_sums_up_ones_own_links_and_helps_a_new_account() {
    use terse_core::clicks::{BotKind, Click, ClickTarget, LinkId};
    let (web, cookie) = signed_in().await;
    let text = open(&web, &cookie, "/dashboard").await.text();
    for shown in [
        "Create your first link",
        "action=\"/links/new\"",
        "curl https://go.example/api/v1/urls",
        "data-copy=\"import json, urllib.request",
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    make(
        &web,
        OWNER.0,
        json!({"long_url": "https://example.com/1", "alias": "one",
        "title": "<script>", "tags": ["q4"]}),
    )
    .await;
    let link = LinkId::of(&web.store.everything()[0]);
    let click = |owner| Click {
        country: Some("DE".into()),
        ..Click::bare(web.clock.now(), ClickTarget::Link(link.clone(), owner))
    };
    let bot = Click { bot: Some(BotKind::Tool), ..click(OWNER.1) };
    web.clicks.add([click(OWNER.1), click(OWNER.1), bot, click(crate::web::OTHER.1)]);
    let text = open(&web, &cookie, "/dashboard?period=7d").await.text();
    for shown in [
        "<dt>Clicks</dt><dd>2</dd>",
        "<dd>1</dd><dd class=\"change\">tools 1</dd>",
        "<a href=\"/links/one\">go.example/one</a><p>&#60;script&#62;</p>",
        "<span>Germany</span>",
        "<a href=\"/links?tag=q4\">q4</a></div><p><b>2</b> clicks in this period</p>",
        "Next steps",
        "<a href=\"/links/one\">go.example/one</a> created</div>",
        "href=\"/dashboard\" aria-current=\"page\"",
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    assert!(!text.contains("<script>") && text.len() < 50_000);
    assert_eq!(text.matches("<tr data-y").count(), 7);
    // An account whose links are all archived is not new, and keeps its statistics.
    let archived = json!({"archived": true});
    let archive = web.as_owner("PATCH /api/v1/urls/one", OWNER.0, archived).await;
    assert_eq!(archive.status, 200, "{}", archive.text());
    let text = open(&web, &cookie, "/dashboard?period=7d").await.text();
    assert!(text.contains("<h1>Overview</h1>") && text.contains("<dt>Clicks</dt><dd>2</dd>"));
    assert!(text.contains("All your links are archived or deleted."), "{text}");
    let restore = json!({"archived": false});
    web.as_owner("PATCH /api/v1/urls/one", OWNER.0, restore).await;
    // Any other period, and a wrong one.
    let today = web.clock.now().to_string()[..10].to_owned();
    let path = format!("/dashboard?period=custom&from=2020-01-01&to={today}&tz=UTC");
    let text = open(&web, &cookie, &path).await.text();
    assert!(text.contains(&format!("Top links of 2020-01-01 to {today}")), "{text}");
    assert!(text.contains("<dt>Clicks</dt><dd>2</dd>") && text.contains("value=\"2020-01-01\""));
    let text =
        open(&web, &cookie, "/dashboard?period=custom&from=2020-01-01&to=2020-01-31").await.text();
    assert!(text.contains("No clicks in this period."), "{text}");
    for (query, field, kept) in [
        ("tz=Mars", "tz", "Mars"),
        ("period=custom&from=2026-02-01&to=2026-01-01", "to", "2026-01-01"),
        ("period=custom&from=&to=2026-01-01", "from", ""),
    ] {
        let answer = open(&web, &cookie, &format!("/dashboard?{query}")).await;
        let text = answer.text();
        assert_eq!(answer.status, 400, "{query}");
        assert!(text.contains("<details class=\"menu\" data-menu open>"), "{query}: {text}");
        let beside = text.split(&format!("<label for=\"{field}\">")).nth(1).unwrap();
        let beside = beside.split("</div>").next().unwrap();
        for shown in ["role=\"alert\"", "aria-invalid=\"true\"", &format!("value=\"{kept}\"")] {
            assert!(beside.contains(shown), "{query}: {shown} in {beside}");
        }
    }
}
