//! The pages of moderators and admins.

use serde_json::json;
use terse_core::SettingInForce;
use terse_core::registry::Role;

use crate::web::{Answer, MODERATOR, OTHER, OWNER, Web};

const NASTY: &str = "\"><script>alert(1)</script>";

/// A server with a link `bad` that was reported, and the cookies of an admin, a moderator and a
/// user.
async fn world() -> (Web, [String; 3]) {
    world_of(Web::new()).await
}

async fn world_of(web: Web) -> (Web, [String; 3]) {
    let admin = web.person("ada", Role::Admin).await;
    let admin = web.sign_in(admin, "terse_admin-browser").await;
    let moderator = web.sign_in(MODERATOR.1, "terse_moderator-browser").await;
    let user = web.sign_in(OWNER.1, "terse_user-browser").await;
    let body = json!({"long_url": "https://example.com/bad", "alias": "bad"});
    assert_eq!(web.as_owner("POST /api/v1/urls", OWNER.0, body).await.status, 201);
    let report = json!({"reason": "phishing", "text": NASTY});
    assert_eq!(web.from("192.0.2.7", "POST /api/v1/urls/bad/report", report).await.status, 202);
    (web, [admin, moderator, user])
}

async fn open(web: &Web, cookie: &str, path: &str) -> Answer {
    let headers = [("accept", "text/html"), ("host", "go.example"), ("cookie", cookie)];
    web.call(&format!("GET {path}"), &headers, "").await
}

async fn send(web: &Web, cookie: &str, path: &str, body: &str) -> Answer {
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("host", "go.example"),
        ("sec-fetch-site", "same-origin"),
        ("cookie", cookie),
    ];
    web.call(&format!("POST {path}"), &headers, body.to_owned()).await
}

#[tokio::test]
async fn each_page_is_there_for_those_who_may_see_it() {
    let (web, [admin, moderator, user]) = world().await;
    for (path, seen) in [
        ("/moderation", [200, 200, 404]),
        ("/accounts", [200, 404, 404]),
        ("/system", [200, 404, 404]),
    ] {
        for (cookie, status) in [&admin, &moderator, &user].into_iter().zip(seen) {
            let answer = open(&web, cookie, path).await;
            assert_eq!(answer.status, status, "{path}");
            let text = answer.text();
            assert!(!text.contains("<script>") && text.len() < 50_000, "{path}: {text}");
        }
    }
    let shown = |text: &str, path: &str| text.contains(&format!("<a href=\"{path}\""));
    let text = open(&web, &moderator, "/links").await.text();
    assert!(shown(&text, "/moderation") && !shown(&text, "/system"));
    let text = open(&web, &user, "/links").await.text();
    assert!(!shown(&text, "/moderation") && !shown(&text, "/accounts"));
}

#[tokio::test]
async fn a_report_is_decided_with_one_click() {
    let (web, [_, moderator, user]) = world().await;
    let text = open(&web, &moderator, "/moderation").await.text();
    for shown in
        ["go.example/bad", "<p>phishing · first", "owned by terse-owner", "&#60;script&#62;"]
    {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    let created = web.store.everything()[0].created_at.as_ms();
    let stale = format!("code=bad&decision=block&created={}", created - 1);
    let refused = send(&web, &moderator, "/moderation/decide", &stale).await;
    assert_eq!(refused.header("location"), "/moderation?done=refused", "a link that came later");
    let body = &*format!("code=bad&domain=&decision=block&why=imitates+a+bank&created={created}");
    assert_eq!(send(&web, &user, "/moderation/decide", body).await.status, 404);
    let decided = send(&web, &moderator, "/moderation/decide", body).await;
    let blocked = format!("/moderation?done=blocked&code=bad&domain=&created={created}&undo=clear");
    assert_eq!(decided.header("location"), blocked);
    let text = open(&web, &moderator, &blocked).await.text();
    for shown in [
        "No reports wait",
        "go.example/bad is blocked.",
        "aria-label=\"Undo: go.example/bad\"",
        "imitates a bank",
        "terse-moderator",
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    let link = web.as_owner("GET /api/v1/urls/bad", OWNER.0, serde_json::Value::Null).await;
    assert_eq!(link.json()["status"], "blocked");
    for (body, done) in [
        ("code=bad&decision=clear", "cleared&code=bad&domain=&created=?&undo=block"),
        ("code=missing&decision=clear", "refused"),
        ("code=bad&decision=ban", "banned&code=bad&domain=&created=?&undo=reinstate"),
        ("code=bad&decision=reinstate", "reinstated&code=bad&domain=&created=?&undo=ban"),
        // The page of reports, the row and the search stay.
        (
            "code=bad&decision=warn&after=3&at=1&search=a.example",
            "warned&code=bad&domain=&created=?&undo=clear&after=3&search=a.example&at=1",
        ),
    ] {
        let decided =
            send(&web, &moderator, "/moderation/decide", &format!("{body}&created={created}"))
                .await;
        let location = format!("/moderation?done={}", done.replace('?', &created.to_string()));
        assert_eq!(decided.header("location"), location, "{}", decided.text());
    }
    assert_eq!(
        send(&web, &moderator, "/moderation/decide", &format!("code=bad&created={created}"))
            .await
            .status,
        400
    );
    // An address that says what is not so gets no message and no button.
    let text = open(&web, &moderator, &blocked).await.text();
    assert!(!text.contains("class=\"toast\""), "{text}");
}

#[tokio::test]
async fn the_links_to_a_host_are_found_and_lists_have_their_hits() {
    let (web, [_, moderator, user]) = world().await;
    for (target, alias) in [
        ("https://deep.example.com/a", "below"),
        ("https://notexample.com/", "other-host"),
        ("https://else.example/?from=example.com", "other-part"),
    ] {
        let body = json!({"long_url": target, "alias": alias});
        assert_eq!(web.as_owner("POST /api/v1/urls", OWNER.0, body).await.status, 201);
    }
    let ruled = json!({"long_url": "https://else.example/", "alias": "ruled",
        "rules": [{"device": "mobile", "to": "https://m.example.com/app"}]});
    assert_eq!(web.as_owner("POST /api/v1/urls", OWNER.0, ruled).await.status, 201);
    let typed = "search=https%3A%2F%2FExample.com%2Fx";
    assert_eq!(open(&web, &user, &format!("/moderation?{typed}")).await.status, 404);
    let text = open(&web, &moderator, &format!("/moderation?{typed}")).await.text();
    for shown in [
        "/bad+\"",
        "/below+\"",
        "/ruled+\"",
        ">by a redirect rule: https://m.example.com/app<",
        "on no list",
        "Block this host",
        "34,567",
        "aria-label=\"Block: go.example/below\"",
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    assert!(!text.contains("/other-host+") && !text.contains("/other-part+"));
    let text = open(&web, &moderator, "/moderation?search=listed.example").await.text();
    assert!(text.contains("Blocked by the list our list") && text.contains("No link leads there"));
    assert!(!text.contains("Block this host"));
    let wrong = open(&web, &moderator, "/moderation?search=not+a+host").await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("value=\"not a host\""));
}

#[tokio::test]
async fn the_audit_log_is_in_words_with_the_stored_names_beside_them() {
    let (web, [_, moderator, _]) = world().await;
    send(&web, &moderator, "/moderation/hosts", "host=evil.example&why=spam").await;
    let text = open(&web, &moderator, "/moderation").await.text();
    let words = "<b title=\"host_blocked\">Host blocked</b>: \
        <span title=\"host:evil.example\">evil.example</span>";
    assert!(text.contains(words), "{text}");
}

#[tokio::test]
async fn hosts_are_blocked_and_unblocked() {
    let (web, [_, moderator, _]) = world().await;
    let wrong = send(&web, &moderator, "/moderation/hosts", "host=not+a+host&why=").await;
    assert_eq!(wrong.status, 400);
    let text = wrong.text();
    assert!(text.contains("aria-invalid=\"true\"") && text.contains("value=\"not a host\""));
    let blocked = send(&web, &moderator, "/moderation/hosts", "host=evil.example&why=spam").await;
    assert_eq!(blocked.header("location"), "/moderation?done=host-blocked");
    assert!(open(&web, &moderator, "/moderation").await.text().contains("Unblock evil.example"));
    for _ in 0..2 {
        let done = send(&web, &moderator, "/moderation/hosts/unblock", "host=evil.example").await;
        assert_eq!(done.header("location"), "/moderation?done=host-unblocked");
    }
}

#[tokio::test]
async fn an_admin_invites_promotes_suspends_and_reinstates() {
    let (web, [admin, moderator, _]) = world().await;
    assert_eq!(send(&web, &moderator, "/accounts/invite", "role=user").await.status, 404);
    let made = send(&web, &admin, "/accounts/invite", "role=moderator").await;
    assert_eq!(made.status, 201);
    let text = made.text();
    assert!(text.contains("https://go.example/join?token=terse_"), "{text}");
    let text = open(&web, &admin, "/accounts").await.text();
    assert!(!text.contains("token="), "shown once");
    assert!(text.contains("<h2 id=\"invitations\">Open invitations</h2>"), "{text}");
    let revoke = text.split("action=\"/accounts/invitations/revoke\"").nth(1).unwrap();
    let id = revoke.split("value=\"").nth(1).unwrap().split('"').next().unwrap();
    for _ in 0..2 {
        let gone = send(&web, &admin, "/accounts/invitations/revoke", &format!("id={id}")).await;
        assert_eq!(gone.header("location"), "/accounts?done=revoked");
    }
    let text = open(&web, &admin, "/accounts?done=revoked").await.text();
    assert!(text.contains("The invitation is revoked.") && !text.contains("id=\"invitations\""));
    let id = OWNER.1.0;
    for (body, location) in [
        ("action=role&role=moderator", "/accounts?done=role"),
        ("action=suspend&why=spam", "/accounts?done=suspended"),
        ("action=reinstate", "/accounts?done=reinstated"),
    ] {
        let done = send(&web, &admin, "/accounts/change", &format!("id={id}&{body}")).await;
        assert_eq!(done.header("location"), location, "{}", done.text());
    }
    for (body, status) in [
        ("id=x&action=role", 400),
        ("id=1000&action=explode", 400),
        ("id=1000&action=role&role=king", 400),
        ("id=1000&action=suspend&why=", 400),
        ("id=999999&action=reinstate", 404),
    ] {
        let refused = send(&web, &admin, "/accounts/change", body).await;
        assert_eq!(refused.status, status, "{body}: {}", refused.text());
    }
    assert_eq!(send(&web, &admin, "/accounts/invite", "role=king").await.status, 400);
    let refused = send(&web, &admin, "/accounts/invite", "role=moderator&email=ann%40").await;
    let text = refused.text();
    let form = text.split("action=\"/accounts/invite\"").nth(1).unwrap();
    let form = form.split("</form>").next().unwrap();
    assert_eq!(refused.status, 400);
    for shown in [
        "value=\"ann@\" aria-invalid=\"true\" aria-describedby=\"problem\"",
        "id=\"problem\" role=\"alert\">This is not an email address",
        "<option value=\"moderator\" selected>Moderator</option>",
    ] {
        assert!(form.contains(shown), "{shown} in {form}");
    }
    assert_eq!(text.matches("role=\"alert\"").count(), 1, "{text}");
}

#[tokio::test]
async fn the_system_page_tells_what_the_checks_find() {
    let (web, [admin, ..]) = world().await;
    let text = open(&web, &admin, "/system").await.text();
    assert!(text.contains("Everything is as it should be") && text.contains("terse doctor"));
    let done = send(&web, &admin, "/system/removal", "round=7").await;
    assert_eq!(done.header("location"), "/system?done=removal");
    assert_eq!(send(&web, &admin, "/system/removal", "round=x").await.status, 400);
}

/// The figures of the System page: their names and values.
fn figures(text: &str) -> Vec<(String, String)> {
    let list = text.split("id=\"figures\"").nth(1).unwrap().split("</dl>").next().unwrap();
    let rows = list.split("<dt>").skip(1).map(|row| {
        let (name, value) = row.split_once("</dt><dd>").unwrap();
        (name.to_owned(), value.split("</dd>").next().unwrap().to_owned())
    });
    rows.collect()
}

#[tokio::test]
async fn the_system_page_counts_the_webhook_deliveries_that_wait() {
    let (web, [admin, ..]) = world_of(Web::with_webhooks()).await;
    let waiting = async || {
        let figures = figures(&open(&web, &admin, "/system").await.text());
        let mut found = figures.into_iter().filter(|(name, _)| name.contains("Webhook"));
        let (name, value) = found.next().unwrap();
        assert_eq!((&*name, found.next()), ("Waiting: Webhook deliveries", None));
        value
    };
    assert_eq!(waiting().await, "0");
    // The deliveries of all accounts count.
    for (key, count) in [(OWNER.0, "1"), (OTHER.0, "2")] {
        let hook = json!({"url": "https://hooks.example/terse"});
        let made = web.as_owner("POST /api/v1/webhooks", key, hook).await.json();
        let line = format!("POST /api/v1/webhooks/{}/test", made["id"].as_str().unwrap());
        assert_eq!(web.as_owner(&line, key, json!({})).await.status, 202);
        assert_eq!(waiting().await, count);
    }
}

#[tokio::test]
async fn the_system_page_has_the_figures_and_settings_of_the_server() {
    let (web, [admin, moderator, _]) = world().await;
    // A server that knows nothing yet.
    let text = open(&web, &admin, "/system").await.text();
    assert_eq!(figures(&text), [("Last backup".to_owned(), "never".to_owned())]);
    assert!(text.contains("All settings have their defaults."), "{text}");
    // The good checks are folded, and commands are not between backticks.
    assert!(!text.contains('`'), "{text}");
    {
        let mut metrics = web.system.metrics.lock().unwrap();
        let lookups = [("hit", 9954), ("miss", 40), ("never_issued", 5000), ("stale", 6)];
        metrics.counters("terse_cache", "", "result", lookups);
        metrics.gauge("terse_cache_routes", "", 12_345.0);
        metrics.gauge("terse_journal_waiting_bytes", "", 1536.0);
        metrics.gauge("terse_store_queue", "", 3.0);
        metrics.gauge("terse_mails_waiting", "", 1002.0);
        let backup = web.clock.now().as_ms() as f64 / 1000.0 - 7300.0;
        metrics.gauge("terse_last_backup_timestamp_seconds", "", backup);
        metrics.gauge("terse_disk_free_bytes", "", 5.0 * 1024.0 * 1024.0 * 1024.0);
        metrics.gauge("terse_disk_size_bytes", "", 2.5 * 1024.0 * 1024.0 * 1024.0 * 1024.0);
        *web.system.sizes.lock().unwrap() =
            vec![("terse.db".to_owned(), 20 << 20), ("journal".to_owned(), 900)];
        let settings = [
            ("listen", "0.0.0.0:8080", true),
            ("admin_key", "[hidden]", true),
            ("operator.name", NASTY, true),
            ("clicks.flush", "5s", false),
            ("log.file", "", false),
        ];
        *web.system.settings.lock().unwrap() = settings
            .map(|(name, value, is_changed)| SettingInForce {
                name: name.to_owned(),
                value: value.to_owned(),
                is_changed,
            })
            .to_vec();
    }
    let text = open(&web, &admin, "/system").await.text();
    let want = [
        ("Cache hits", "99.5 %"),
        ("Links in memory", "12,345"),
        ("Clicks not counted yet", "1.5 KiB"),
        ("Waiting: Writes of links", "3"),
        ("Waiting: Mails", "1,002"),
        ("Last backup", "2 hours ago"),
        ("Free disk space", "5.0 GiB of 2.5 TiB"),
        ("terse.db", "20.0 MiB"),
        ("journal", "900 bytes"),
    ];
    assert_eq!(figures(&text), want.map(|(name, value)| (name.to_owned(), value.to_owned())));
    for setting in [
        "<dt><code>listen</code></dt><dd>0.0.0.0:8080</dd>",
        "<dt><code>admin_key</code></dt><dd>[hidden]</dd>",
        "<dt><code>operator.name</code></dt><dd>&#34;&#62;&#60;script&#62;",
        "<summary>2 settings with their defaults</summary>",
        "<dt><code>clicks.flush</code></dt><dd>5s</dd>",
        "<dt><code>log.file</code></dt><dd>not set</dd>",
    ] {
        assert!(text.contains(setting), "{setting} in {text}");
    }
    assert!(!text.contains("All settings have their defaults.") && text.len() < 50_000);
    assert_eq!(open(&web, &moderator, "/system").await.status, 404);
}

#[tokio::test]
async fn the_audit_log_is_paged() {
    let (web, [admin, moderator, _]) = world().await;
    for n in 0..30 {
        let body = format!("host=evil-{n}.example&why=reason-{n}.");
        assert_eq!(send(&web, &moderator, "/moderation/hosts", &body).await.status, 303);
    }
    let text = open(&web, &admin, "/moderation").await.text();
    let log = text.split("id=\"audit\"").nth(1).unwrap();
    assert!(log.contains("reason-29.") && log.contains("reason-10."), "{log}");
    assert!(!log.contains("reason-9.") && !log.contains(">Latest<"), "{log}");
    let older = log.split("class=\"quiet button next\" href=\"").nth(1).unwrap();
    let older = older.split('"').next().unwrap().replace("#audit", "");
    let text = open(&web, &admin, &older).await.text();
    let log = text.split("id=\"audit\"").nth(1).unwrap();
    assert!(log.contains("reason-9.") && log.contains("reason-0."), "{log}");
    assert!(!log.contains("reason-10.") && log.contains(">Latest<") && !log.contains(">Older<"));
}

#[tokio::test]
async fn open_reports_are_counted_and_paged() {
    let (web, [_, moderator, user]) = world().await;
    let counted = |text: &str| {
        let count = text.split("<b class=\"waiting\">").nth(1);
        count.map(|rest| rest.split('<').next().unwrap_or_default().to_owned())
    };
    assert_eq!(counted(&open(&web, &moderator, "/links").await.text()).as_deref(), Some("1"));
    assert_eq!(counted(&open(&web, &user, "/links").await.text()), None);
    for n in 0..14 {
        let alias = format!("worse-{n}");
        let body = json!({"long_url": "https://example.com/bad", "alias": alias, "reuse": false});
        assert_eq!(web.as_owner("POST /api/v1/urls", OWNER.0, body).await.status, 201);
        let line = format!("POST /api/v1/urls/{alias}/report");
        let report = json!({"reason": "phishing"});
        assert_eq!(web.from("192.0.2.7", &line, report).await.status, 202);
    }
    let text = open(&web, &moderator, "/moderation").await.text();
    assert_eq!(counted(&text).as_deref(), Some("15"));
    assert!(!text.contains("worse-13") && text.len() < 50_000, "{}", text.len());
    let next = text.split("class=\"quiet button next\" href=\"").nth(1).unwrap();
    let next = next.split('"').next().unwrap().to_owned();
    let text = open(&web, &moderator, &next).await.text();
    assert!(text.contains("worse-13") && text.contains("First page"), "{text}");
    assert!(!text.contains("worse-8<"), "each is on one page");
}

#[tokio::test]
async fn the_longest_lists_keep_each_page_below_50_kb() {
    let (web, [admin, moderator, user]) = world().await;
    let (long, why) = ("long ".repeat(20), "because ".repeat(120));
    for n in 0..12 {
        let alias = format!("worse-{n}");
        let target = format!("https://example.com/{}", "bad/".repeat(100));
        let body = json!({"long_url": target, "alias": alias, "reuse": false, "title": long});
        assert_eq!(web.as_owner("POST /api/v1/urls", OWNER.0, body).await.status, 201);
        let line = format!("POST /api/v1/urls/{alias}/report");
        for reporter in 1..=5 {
            let report = json!({"reason": "phishing", "text": "much too long ".repeat(140)});
            let address = format!("192.0.2.{reporter}");
            assert_eq!(web.from(&address, &line, report).await.status, 202);
        }
    }
    for n in 0..60 {
        let body = format!("host={}{n}.example&why={why}", "a-long-host.".repeat(15));
        assert_eq!(send(&web, &moderator, "/moderation/hosts", &body).await.status, 303);
    }
    // With the key that the account has, as many as there may be.
    for n in 1..terse_core::registry::MAX_KEYS_PER_OWNER {
        web.person(&format!("account-{n}-{}", "x".repeat(50)), Role::User).await;
        let body = format!("key={n:0>100}&scope=full&days=0");
        let made = send(&web, &user, "/account/keys", &body).await;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    for n in 0..30 {
        web.sign_in(OWNER.1, &format!("terse_another-browser-{n}")).await;
        let invited = send(&web, &admin, "/accounts/invite", "role=user").await;
        assert_eq!(invited.status, 201);
    }
    for (cookie, path) in
        [(&moderator, "/moderation"), (&user, "/account"), (&user, "/account?keys=80")]
    {
        let text = open(&web, cookie, path).await.text();
        assert!((20_000..50_000).contains(&text.len()), "{path}: {} octets", text.len());
    }
    let text = open(&web, &admin, "/accounts").await.text();
    assert!((20_000..50_000).contains(&text.len()), "/accounts: {} octets", text.len());
    assert!(text.contains("and 10 that end earlier, in the API"), "{text}");
    let text = open(&web, &user, "/account?keys=80").await.text();
    assert!(text.contains(&format!("{:0>100}", 99)) && !text.contains(&format!("{:0>100}", 79)));
    assert!(text.contains("First keys") && !text.contains("More keys"), "{text}");
}

#[tokio::test]
async fn a_browser_can_install_the_dashboard() {
    let (web, [_, _, user]) = world().await;
    let page = open(&web, &user, "/links").await;
    assert!(page.text().contains("rel=\"manifest\" href=\"/manifest.webmanifest\""));
    assert!(page.header("content-security-policy").contains("manifest-src 'self'"));
    let manifest = web.call("GET /manifest.webmanifest", &[("host", "go.example")], "").await;
    assert_eq!(manifest.header("content-type"), "application/manifest+json");
    let manifest = manifest.json();
    assert_eq!(manifest["start_url"], "/dashboard");
    assert_eq!(manifest["share_target"]["params"]["url"], "url");
    let icons = manifest["icons"].as_array().unwrap();
    for size in ["180x180", "192x192", "512x512"] {
        let icon = icons.iter().find(|icon| icon["sizes"] == size).unwrap();
        let file = web.call(&format!("GET {}", icon["src"].as_str().unwrap()), &[], "").await;
        assert_eq!(file.header("content-type"), "image/png");
        assert!(file.bytes.len() < 4_000, "{}", file.bytes.len());
        let picture = png::Decoder::new(std::io::Cursor::new(&file.bytes)).read_info().unwrap();
        let info = picture.info();
        assert_eq!(format!("{}x{}", info.width, info.height), size);
    }
    assert!(page.text().contains("rel=\"apple-touch-icon\" href=\"/assets/icon-180-"));
}

#[tokio::test]
async fn an_admin_sees_the_jobs_and_runs_one_now() {
    let (web, [admin, moderator, _]) = world().await;
    let text = open(&web, &admin, "/system").await.text();
    assert!(text.contains("This node runs no jobs."), "{text}");
    let wanted = web.jobs.add("sweep", std::time::Duration::from_secs(3600), false);
    web.jobs.add("fleet job", std::time::Duration::from_secs(60), true);
    let now = web.clock.now();
    web.jobs.begin("sweep", now);
    web.jobs.end("sweep", now, Some(Err(NASTY.to_owned())));
    let text = open(&web, &admin, "/system").await.text();
    for words in ["1 hour", "just now, took 0 ms", "failed", "not on this node", "&#60;script&#62;"]
    {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(!text.contains("<script>"));
    let told = wanted.notified();
    tokio::pin!(told);
    told.as_mut().enable();
    assert_eq!(send(&web, &moderator, "/system/jobs", "job=sweep").await.status, 404);
    assert_eq!(send(&web, &admin, "/system/jobs", "job=none").await.status, 400);
    let ran = send(&web, &admin, "/system/jobs", "job=sweep").await;
    assert_eq!(ran.header("location"), "/system?done=job#jobs");
    tokio::time::timeout(std::time::Duration::from_secs(10), told).await.unwrap();
    let text = open(&web, &admin, "/system?done=job").await.text();
    assert!(text.contains("The job starts now."));
}

#[tokio::test]
async fn an_admin_sees_the_links_of_all_accounts_with_their_owners() {
    let (web, [admin, moderator, user]) = world().await;
    let text = open(&web, &admin, "/links").await.text();
    assert!(!text.contains("go.example/bad") && text.contains("All accounts"), "{text}");
    for path in ["/links?owner=all", "/links?owner=all&sort=clicks"] {
        let text = open(&web, &admin, path).await.text();
        assert!(text.contains("go.example/bad"), "{text}");
        assert!(text.contains("<span class=\"link-owner\">terse-owner</span>"), "{text}");
    }
    let text = open(&web, &admin, "/links/bad").await.text();
    assert!(text.contains("owned by terse-owner"), "{text}");
    // A search from the bar at the top keeps the filters.
    let text = open(&web, &admin, "/links?owner=all&show=active&q=bad").await.text();
    let form = text.split("role=\"search\"").nth(1).unwrap().split("</form>").next().unwrap();
    for field in ["name=\"owner\" value=\"all\"", "name=\"show\" value=\"active\""] {
        assert!(form.contains(field), "{field} in {form}");
    }
    assert!(!form.contains("name=\"tag\""), "{form}");
    // Others see their own links only.
    let text = open(&web, &moderator, "/links?owner=all").await.text();
    assert!(!text.contains("go.example/bad") && !text.contains("All accounts"), "{text}");
    let text = open(&web, &user, "/links?owner=all").await.text();
    assert!(text.contains("go.example/bad") && !text.contains("link-owner"), "{text}");
}

#[tokio::test]
async fn an_api_key_is_revoked_in_two_steps() {
    let (web, [_, _, user]) = world().await;
    let text = open(&web, &user, "/account").await.text();
    let revoke = text.split("aria-label=\"Revoke the key a key\"").nth(1).unwrap();
    let revoke = revoke.split("</details>").next().unwrap();
    assert!(revoke.contains("cannot be undone"), "{revoke}");
    let id = revoke.split("name=\"id\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let revoked = send(&web, &user, "/account/keys/revoke", &format!("id={id}")).await;
    assert_eq!(revoked.header("location"), "/account?done=revoked");
    let answer = web.as_owner("GET /api/v1/urls", OWNER.0, serde_json::Value::Null).await;
    assert_eq!(answer.status, 401);
}
