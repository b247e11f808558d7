//! The pages of one link.

use serde_json::json;
use terse_core::clicks::*;
use terse_core::registry::Role;
use terse_core::*;

use crate::web::{Answer, OTHER, OWNER, Web};

const NASTY: &str = "\"><script>alert(1)</script>";
const HOUR: i64 = 3_600_000;

struct Page {
    web: Web,
    cookie: String,
}

impl Page {
    /// A server with a signed-in account and its link `abc`.
    async fn new() -> Self {
        let web = Web::new();
        let cookie = web.sign_in(OWNER.1, "terse_a-browser").await;
        let body = json!({"long_url": "https://example.com/first", "alias": "abc",
            "title": NASTY, "tags": ["news", NASTY], "notes": NASTY});
        let made = web.as_owner("POST /api/v1/urls", OWNER.0, body).await;
        assert_eq!(made.status, 201, "{}", made.text());
        Self { web, cookie }
    }

    async fn open(&self, path: &str) -> Answer {
        let headers = [("accept", "text/html"), ("host", "go.example"), ("cookie", &*self.cookie)];
        self.web.call(&format!("GET {path}"), &headers, "").await
    }

    async fn text(&self, path: &str) -> String {
        let answer = self.open(path).await;
        let text = answer.text();
        assert_eq!(answer.status, 200, "{path}: {text}");
        assert!(!text.contains("<script>") && !text.contains(" style="), "{path}: {text}");
        assert!(text.len() < 50_000, "{path}: {} bytes", text.len());
        text
    }

    async fn send(&self, path: &str, body: &str, site: &str) -> Answer {
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("host", "go.example"),
            ("sec-fetch-site", site),
            ("cookie", &*self.cookie),
        ];
        self.web.call(&format!("POST {path}"), &headers, body.to_owned()).await
    }

    /// Sends a form of ours; returns where it leads.
    async fn done(&self, path: &str, body: &str) -> String {
        let answer = self.send(path, body, "same-origin").await;
        assert_eq!(answer.status, 303, "{path}: {}", answer.text());
        answer.header("location").to_owned()
    }

    fn link(&self) -> LinkId {
        let links = self.web.store.everything();
        LinkId::of(links.iter().find(|link| link.key.code.as_str() == "abc").unwrap())
    }

    fn click(&self, hours_ago: i64) -> Click {
        let at = Timestamp::from_ms(self.web.clock.now().as_ms() - hours_ago * HOUR);
        Click::bare(at, ClickTarget::Link(self.link(), OWNER.1))
    }
}

/// The click pipeline stores no such texts. The pages must not depend on that.
#[tokio::test]
async fn hostile_texts_of_clicks_stay_text_on_every_page_that_shows_them() {
    let page = Page::new().await;
    page.web.clock.advance(std::time::Duration::from_secs(86_400));
    let text = || Some(Interned::from(NASTY));
    let hostile = Click {
        referrer: text(),
        country: text(),
        city: text(),
        device: text(),
        browser: text(),
        system: text(),
        language: text(),
        utm: std::array::from_fn(|_| text()),
        ..page.click(1)
    };
    page.web.clicks.add([hostile]);
    let lists = ["referrers", "countries", "cities", "devices", "browsers", "systems", "languages"];
    let campaigns = ["campaigns", "sources", "mediums", "terms", "contents"];
    let lists = lists.into_iter().chain(campaigns);
    let mut paths: Vec<String> = lists.map(|list| format!("/links/abc/values?of={list}")).collect();
    paths.extend(["/links/abc", "/links/abc/live", "/dashboard"].map(str::to_owned));
    for path in paths {
        // This also checks that there is no <script>.
        let shown = page.text(&path).await;
        let head = shown.find("nav class=\"tabs\"").or_else(|| shown.find("<main")).unwrap();
        assert!(shown[head..].contains("&#60;script&#62;"), "{path} does not show it: {shown}");
    }
}

#[tokio::test]
async fn the_page_of_a_link_says_what_it_is_and_how_it_is_doing() {
    let page = Page::new().await;
    page.web.clock.advance(std::time::Duration::from_secs(90 * 86_400));
    let human = |hours, visitor| Click {
        visitor: Some(visitor),
        country: Some("DE".into()),
        city: Some("Berlin, DE".into()),
        browser: Some("Firefox".into()),
        system: Some("Linux".into()),
        language: Some("de".into()),
        device: Some("desktop".into()),
        referrer: Some(NASTY.into()),
        ..page.click(hours)
    };
    let bot = Click { bot: Some(BotKind::Preview), ..page.click(3) };
    let mut clicks: Vec<Click> = (0..12).map(|n| human(5 + n, 1)).collect();
    clicks.extend([human(31 * 24, 2), human(32 * 24, 2), human(33 * 24, 2), bot]);
    page.web.clicks.add(clicks);
    let text = page.text("/links/abc").await;
    for shown in [
        "go.example/abc</a></h1>",
        "data-copy=\"https://go.example/abc\"",
        "https://example.com/first",
        "<span class=\"pill good\">active</span>",
        "never expires",
        "<dt>Clicks</dt><dd>12</dd><dd class=\"change good\">▲ 300 %</dd>",
        "<dt>Visitors</dt><dd>1</dd>",
        "<dt>Bots, not counted above</dt><dd>1</dd><dd class=\"change\">previews 1</dd>",
        "<span>Germany</span></span><b>12</b><small>100 %</small>",
        "<span>German</span>",
        "<span>Desktop</span>",
        "<path class=\"earlier\"",
        "<th scope=\"row\">",
        "&#60;script&#62;",
        "href=\"/links/abc?period=7d\"",
        "href=\"/links/abc?period=30d&#38;bots=only\"",
        "<a href=\"/links/abc\" aria-current=\"page\">Statistics</a>",
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    assert_eq!(text.matches("<tr data-y").count(), 30, "a row per day");
    let day = page.text("/links/abc?period=24h&bots=include").await;
    assert!(day.contains("<dt>Clicks</dt><dd>13</dd>") && day.matches("<tr data-y").count() == 24);
    assert!(page.text("/links/abc?bots=only").await.contains("<dt>Clicks</dt><dd>1</dd>"));
    page.text("/links/abc?period=12m&tz=Asia/Tokyo").await;
}

#[tokio::test]
async fn a_wrong_period_is_reported_beside_its_field() {
    let page = Page::new().await;
    for query in ["period=custom&from=2026-02-01&to=2026-01-01", "tz=Mars/Olympus"] {
        let answer = page.open(&format!("/links/abc?{query}")).await;
        assert_eq!(answer.status, 400);
        let text = answer.text();
        assert!(text.contains("aria-invalid=\"true\" aria-describedby=\"problem\""), "{text}");
        assert!(text.contains("role=\"alert\""), "{text}");
    }
    page.text("/links/abc?period=custom&from=2016-01-01&to=2026-01-01").await;
}

#[tokio::test]
async fn a_click_counts_on_its_day_in_the_time_zone_of_the_page() {
    let page = Page::new().await;
    let at = Timestamp::parse("2020-03-04T23:30:00Z").unwrap();
    page.web.clicks.add([Click { at, ..page.click(0) }]);
    let days = "period=custom&from=2020-03-01&to=2020-03-10";
    let shows = |text: &str, day: &str| {
        assert_eq!(text.matches("</th><td>1</td>").count(), 1, "{day} in {text}");
        assert!(text.contains(&format!("<th scope=\"row\">{day}</th><td>1</td>")), "{day}: {text}");
    };
    for (zone, day) in [
        ("", "Wed 4 Mar 2020"),
        ("&tz=UTC", "Wed 4 Mar 2020"),
        ("&tz=America/New_York", "Wed 4 Mar 2020"),
        ("&tz=Asia/Tokyo", "Thu 5 Mar 2020"),
    ] {
        shows(&page.text(&format!("/links/abc?{days}{zone}")).await, day);
    }
    // The zone of the browser, without one in the address.
    let page = Page { cookie: format!("{}; terse_zone=Asia/Tokyo", page.cookie), ..page };
    shows(&page.text(&format!("/links/abc?{days}")).await, "Thu 5 Mar 2020");
    shows(&page.text(&format!("/links/abc?{days}&tz=UTC")).await, "Wed 4 Mar 2020");
}

#[tokio::test]
async fn all_values_are_a_table_and_a_file() {
    let page = Page::new().await;
    let referrers = ["=1+1", "a.example", "b.example"];
    page.web.clicks.add((0..60).map(|n| Click {
        referrer: Some(
            referrers.get(n).map_or_else(|| format!("r{n}.example"), |r| (*r).into()).into(),
        ),
        ..page.click(1)
    }));
    let card = page.text("/links/abc").await;
    assert!(card.contains("<span class=\"rest\">Others</span>") && !card.contains("r50.example"));
    let table = page.text("/links/abc/values?of=referrers").await;
    assert!(table.contains("r50.example") && table.contains("=1+1"), "{table}");
    let file = page.open("/links/abc/values?of=referrers&format=csv").await;
    assert_eq!(file.header("content-type"), "text/csv; charset=utf-8; header=present");
    assert_eq!(file.header("content-disposition"), "attachment; filename=\"abc-referrers.csv\"");
    let text = file.text();
    assert!(text.starts_with("value,name,clicks,share\r\n") && text.contains("'=1+1,"), "{text}");
    assert_eq!(page.open("/links/abc/values?of=nonsense").await.status, 404);
    // The chart, and the single clicks of the same period.
    let file = page.open("/links/abc/values?of=time&format=csv&period=7d").await;
    assert_eq!(file.header("content-disposition"), "attachment; filename=\"abc-time.csv\"");
    let text = file.text();
    assert!(text.starts_with("from,clicks\r\n") && text.lines().count() == 8, "{text}");
    let shown = page.text("/links/abc?period=7d&bots=only").await;
    assert!(shown.contains("clicks?format=csv&#38;bots=only&#38;from="), "{shown}");
}

#[tokio::test]
async fn what_does_not_exist_keeps_the_frame_of_the_dashboard() {
    let page = Page::new().await;
    let answer = page.open("/links/none").await;
    assert_eq!(answer.status, 404);
    assert!(answer.header("content-security-policy").contains("manifest-src 'self'"));
    let text = answer.text();
    assert!(text.contains("<nav class=\"side\"") && text.contains("Status 404"), "{text}");
    let text = page.open("/none+").await.text();
    assert!(!text.contains("<nav class=\"side\""), "{text}");
}

#[tokio::test]
async fn a_change_is_in_the_history_and_is_undone_with_one_click() {
    let page = Page::new().await;
    assert!(page.text("/links/abc/history").await.contains("Nothing was changed"));
    let change = json!({"long_url": "https://example.com/second", "password": "sesame!",
        "rules": [{"country": "AT", "to": "https://example.com/at"}]});
    page.web.as_owner("PATCH /api/v1/urls/abc", OWNER.0, change).await;
    let text = page.text("/links/abc/history").await;
    for shown in [
        "<del>https://example.com/first</del> → <ins>https://example.com/second</ins>",
        "<dt>Password</dt><dd><del>none</del> → <ins>set</ins></dd>",
        "<i>empty</i> → <ins>Country: Austria → https://example.com/at</ins>",
        "name=\"revision\" value=\"1\"",
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    assert!(!text.contains("sesame"));
    // A form that was made before another change undoes nothing.
    let stale = page.done("/links/abc/undo", "revision=1&expected=1").await;
    assert_eq!(stale, "/links/abc/history?done=conflict");
    let undone = page.done("/links/abc/undo", "revision=1&expected=2").await;
    assert_eq!(undone, "/links/abc/history?done=undone");
    let text = page.text(&undone).await;
    assert!(text.contains("The change is undone.") && text.contains("https://example.com/first"));
}

#[tokio::test]
async fn a_link_is_archived_deleted_and_restored() {
    let page = Page::new().await;
    assert_eq!(page.done("/links/abc/archive", "archived=true").await, "/links/abc?done=archived");
    let text = page.text("/links/abc?done=archived").await;
    assert!(text.contains(">Unarchive</button>") && text.contains(">Undo</button>"), "{text}");
    page.done("/links/abc/archive", "archived=false").await;
    let list = page.done("/links/abc/delete", "").await;
    assert_eq!(list, "/links?deleted=abc");
    let text = page.text(&list).await;
    assert!(text.contains("name=\"pick.abc\" value=\"\"") && text.contains("Undo"), "{text}");
    let gone = page.text("/links/abc").await;
    assert!(gone.contains("This link is deleted.") && gone.contains(">Restore</button>"), "{gone}");
    assert_eq!(page.open("/links/abc/history").await.status, 404);
    assert_eq!(page.done("/links/abc/restore", "").await, "/links/abc?done=restored");
    assert!(page.text("/links/abc").await.contains("<span class=\"pill good\">active</span>"));
    assert_eq!(page.send("/links/abc/archive", "archived=2", "same-origin").await.status, 400);
    for action in ["archive", "delete", "restore", "undo"] {
        let path = format!("/links/abc/{action}");
        assert_eq!(page.send(&path, "archived=true", "cross-site").await.status, 403, "{action}");
    }
}

#[tokio::test]
async fn rules_are_shown_and_tried() {
    let page = Page::new().await;
    assert!(page.text("/links/abc/rules").await.contains("This link has no rules"));
    let rules = json!({"rules": [
        {"country": ["AT", "CH"], "to": "https://example.com/alps"},
        {"to": [{"url": "https://example.com/a", "weight": 1},
            {"url": "https://example.com/b", "weight": 3}]}]});
    page.web.as_owner("PATCH /api/v1/urls/abc", OWNER.0, rules).await;
    let text = page.text("/links/abc/rules").await;
    let split = "https://example.com/b <span class=\"pill over\">3 of 4</span>";
    assert!(text.contains("Country: Austria or Switzerland") && text.contains(split), "{text}");
    let tried = page.text("/links/abc/rules?try=1&country=at").await;
    assert!(tried.contains("Goes to <b>https://example.com/alps</b>"), "{tried}");
    let wrong = page.open("/links/abc/rules?try=1&country=X").await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("id=\"country\"") && wrong.text().contains("aria-invalid"));
}

#[tokio::test]
async fn the_latest_clicks_are_listed_without_a_script() {
    let page = Page::new().await;
    assert!(page.text("/links/abc/live").await.contains("No clicks in the last 30 days."));
    let (human, bot) = (page.click(2), Click { bot: Some(BotKind::Ai), ..page.click(1) });
    page.web.clicks.add([human, bot]);
    let text = page.text("/links/abc/live").await;
    assert!(text.contains("data-live=\"/api/v1/urls/abc/live\" data-zone=\"UTC\""), "{text}");
    // The script writes countries as the server does.
    assert!(text.contains("|AT Austria|") && text.contains("|ZW Zimbabwe\""), "{text}");
    let (first, second) = (text.find("bot: AI crawlers"), text.find(">human<"));
    assert!(first.is_some() && first < second, "the latest first: {text}");
}

#[tokio::test]
async fn links_of_others_are_hidden_and_admins_see_their_owners() {
    let page = Page::new().await;
    let theirs = json!({"long_url": "https://example.com/", "alias": "theirs"});
    page.web.as_owner("POST /api/v1/urls", OTHER.0, theirs).await;
    for path in
        ["/links/theirs", "/links/none", "/links/theirs/history", "/links/abc?domain=no.example"]
    {
        assert_eq!(page.open(path).await.status, 404, "{path}");
    }
    assert_eq!(page.send("/links/theirs/delete", "", "same-origin").await.status, 404);
    let admin = page.web.person("admin", Role::Admin).await;
    let cookie = page.web.sign_in(admin, "terse_admin-browser").await;
    let page = Page { cookie, ..page };
    assert!(page.text("/links/theirs").await.contains("owned by terse-other"));
    let answer = Page { cookie: "x=1".to_owned(), ..page }.open("/links/abc?period=7d").await;
    assert_eq!(answer.header("location"), "/login?next=/links/abc%3Fperiod%3D7d");
}

#[tokio::test]
async fn the_latest_clicks_are_found_among_many_old_ones() {
    let page = Page::new().await;
    page.web.clock.advance(std::time::Duration::from_secs(20 * 86_400));
    let start = page.web.clock.now().as_ms() - 6 * 24 * HOUR;
    let click = |n: i64| {
        Click::bare(Timestamp::from_ms(start + n * 1000), ClickTarget::Link(page.link(), OWNER.1))
    };
    page.web.clicks.add(
        (0..1100)
            .map(click)
            .chain([Click { referrer: Some("latest.example".into()), ..click(1100) }]),
    );
    let text = page.text("/links/abc/live").await;
    assert!(text.contains("latest.example"), "{text}");
    assert_eq!(text.matches("<tr><td><time").count(), 50);
}

#[tokio::test]
async fn the_qr_code_is_shown_as_it_will_be_downloaded() {
    let page = Page::new().await;
    let text = page.text("/links/abc/qr").await;
    assert!(text.contains("aria-current=\"page\">QR code</a>"), "{text}");
    let query = "size=1024&#38;margin=4&#38;level=M&#38;fg=000000&#38;bg=ffffff";
    assert!(text.contains(&format!("/abc/qr?format=svg&amp;{query}")), "{text}");
    assert!(!text.contains("name=\"logo\""), "this server has no logo");
    let path = "/links/abc/qr?fg=%230a5c8f&bg=fff8e7&size=512&margin=&level=Q";
    let text = page.text(path).await;
    let query = "size=512&#38;margin=4&#38;level=Q&#38;fg=0a5c8f&#38;bg=fff8e7";
    for words in [
        &*format!("/abc/qr?format=png&amp;{query}\" download=\"abc.png\""),
        "<path fill=\"#0a5c8f\"",
        "<path fill=\"#fff8e7\"",
        "<option selected>512</option>",
        "value=\"Q\" selected",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    for (query, words) in [
        ("fg=ffffff", "Darker than bg, or scanners cannot read the code."),
        ("fg=999999&bg=bbbbbb", "More different from bg"),
        ("margin=17", "A whole number from 0 to 16."),
        ("bg=%22%3E%3Cscript%3E", "A colour as six hexadecimal digits"),
    ] {
        let answer = page.open(&format!("/links/abc/qr?{query}")).await;
        let text = answer.text();
        assert_eq!(answer.status, 400, "{query}");
        assert!(text.contains(words) && text.contains("aria-invalid=\"true\""), "{text}");
        assert!(!text.contains("<script>"));
    }
    assert_eq!(page.open("/links/none/qr").await.status, 404);
}

#[tokio::test]
async fn a_link_can_be_managed_while_its_clicks_cannot_be_read() {
    let page = Page::new().await;
    page.web.clicks.away.store(true, std::sync::atomic::Ordering::Relaxed);
    for path in ["/links/abc", "/links/abc/live"] {
        let answer = page.open(path).await;
        let text = answer.text();
        assert_eq!(answer.status, 503, "{path}: {text}");
        for part in ["The clicks cannot be read", "data-copy=", "/links/abc/edit", "/abc/delete"] {
            assert!(text.contains(part), "{path} lacks {part}: {text}");
        }
    }
}
