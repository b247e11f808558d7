//! Pictures of the main pages, for the manual: a server with the data of two months.
//!
//! `TERSE_TEST_SCREENSHOTS=docs cargo test -p terse --test e2e showcase` writes them to
//! `docs/images`; any other value writes them below `target/`. Without it the test does nothing,
//! because moving the clock through two months takes more than a minute.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::browser::run_mapped_scenario;
use crate::process::{Served, command, folder};

const DAY: u64 = 86_400;
/// How many days ago the clicks begin: a month, and the one before for comparison.
const DAYS: u64 = 60;
/// A serving thread reads the wall clock once a second.
const CLOCK_TICK: Duration = Duration::from_millis(1100);
const HOST: &str = "http://go.example";

/// Alias, title, target, tags, clicks per day, and how many days ago it was created.
type ShownLink = (&'static str, &'static str, &'static str, &'static [&'static str], usize, u64);

const LINKS: [ShownLink; 9] = [
    ("uptime", "Status page", "https://health.example.com/", &["team"], 2, 70),
    (
        "ebook",
        "Measuring campaigns (e-book)",
        "https://library.example/downloads/measuring-campaigns-second-edition.epub",
        &["content"],
        9,
        64,
    ),
    (
        "menu",
        "Winter menu (table QR)",
        "https://restaurant.example/menus/winter-2026.pdf",
        &["print"],
        14,
        61,
    ),
    (
        "podcast",
        "Podcast 41: short links",
        "https://podcast.example/episodes/41-short-links-and-long-stories",
        &["content"],
        7,
        44,
    ),
    ("beta", "Private beta", "https://app.example.com/invite/early", &["team"], 3, 35),
    (
        "launch",
        "Launch post",
        "https://blog.example.com/2026/11/introducing-the-new-dashboard?utm_source=newsletter",
        &["newsletter", "q4"],
        26,
        62,
    ),
    (
        "careers",
        "Open positions",
        "https://jobs.example.com/openings/engineering/senior-backend-engineer",
        &["team", "hiring"],
        4,
        20,
    ),
    (
        "talk",
        "Slides: Rust at the edge",
        "https://conf.example/slides/rust-at-the-edge",
        &["talks"],
        11,
        9,
    ),
    (
        "autumn",
        "Autumn collection",
        "https://shop.example/collections/autumn-2026?utm_source=instagram&utm_medium=social",
        &["shop"],
        17,
        55,
    ),
];
/// Networks of providers in different countries, the more frequent ones first.
const NETWORKS: [&str; 28] = [
    "91.10", "73.10", "85.240", "106.200", "90.10", "81.130", "177.20", "126.10", "80.30",
    "99.230", "79.10", "84.26", "62.46", "83.10", "78.70", "85.2", "1.124", "187.130", "181.10",
    "105.112", "41.34", "175.200", "36.70", "78.170", "84.210", "90.180", "41.80", "122.56",
];
const AGENTS: [&str; 8] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0",
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
];
const REFERRERS: [&str; 6] = [
    "https://newsletter.example/",
    "",
    "https://news.ycombinator.com/",
    "https://www.linkedin.com/",
    "",
    "https://lobste.rs/",
];

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// Below the bound, small ones more often.
    fn small(&mut self, bound: usize) -> usize {
        let first = self.below(bound);
        first.min(self.below(bound)).min(self.below(bound))
    }
}

/// The clock of the server, by libfaketime.
struct MovedClock(PathBuf);

impl MovedClock {
    fn library() -> Option<PathBuf> {
        let folders = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
        folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|file| file.exists())
    }

    /// Sets the clock this many seconds back; it goes on from there.
    fn set_back(&self, seconds: u64) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, format!("-{seconds}")).unwrap();
        std::fs::rename(new, &self.0).unwrap();
    }
}

/// The server, and a key of its account `anna`.
struct Showcase {
    terse: Served,
    key: String,
    agent: ureq::Agent,
}

impl Showcase {
    fn start(data: &Path, clock: &MovedClock, library: &Path) -> Self {
        clock.set_back(72 * DAY);
        let mut serve = command(data);
        serve.args(["serve", "--listen", "127.0.0.1:0"]);
        for setting in [
            &*format!("base_url={HOST}"),
            "trusted_proxies=127.0.0.1",
            "safety.allow_private_targets=true",
            "outgoing.webhooks=true",
        ] {
            serve.args(["--set", setting]);
        }
        serve
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", &clock.0)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped());
        let terse = Served::spawn(data, &mut serve);
        let secret = data.with_file_name("password");
        std::fs::write(&secret, "correct horse battery\n").unwrap();
        let run = |arguments: &[&str], file: Option<&Path>| {
            let output = command(data).args(arguments).args(file).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        run(&["user", "add", "anna", "--role", "admin", "--password-file"], Some(&secret));
        for name in ["bela", "chidi"] {
            run(&["user", "add", name, "--password-file"], Some(&secret));
        }
        let key = run(&["key", "add", "laptop", "--user", "anna"], None);
        let agent =
            ureq::Agent::config_builder().max_redirects(0).http_status_as_error(false).build();
        Self { terse, key, agent: agent.into() }
    }

    /// The address that the server listens on; `url` is the `base_url` of its settings.
    fn api(&self, port: u16, method: &str, path: &str, body: &Value) {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("http://127.0.0.1:{port}/api/v1{path}"))
            .header("host", "go.example")
            .header("authorization", format!("Bearer {}", self.key))
            .header("content-type", "application/json")
            .body(body.to_string())
            .unwrap();
        let mut answer = self.agent.run(request).unwrap();
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        assert!(answer.status().is_success(), "{method} {path}: {text}");
    }

    fn visit(&self, port: u16, alias: &str, numbers: &mut Numbers) {
        let network = NETWORKS[numbers.small(NETWORKS.len())];
        let query = match numbers.below(4) {
            0 => "?utm_campaign=launch&utm_source=newsletter&utm_medium=email",
            1 => "?utm_campaign=autumn&utm_source=instagram&utm_medium=social",
            _ => "",
        };
        let (third, fourth) = (numbers.below(250), numbers.below(250) + 1);
        let mut request = self
            .agent
            .get(format!("http://127.0.0.1:{port}/{alias}{query}"))
            .header("host", "go.example")
            .header("x-forwarded-for", format!("{network}.{third}.{fourth}"))
            .header("user-agent", AGENTS[numbers.small(AGENTS.len())])
            .header(
                "accept-language",
                ["en", "de-DE,de", "pt-PT,pt", "fr-FR,fr"][numbers.small(4)],
            );
        let referrer = REFERRERS[numbers.small(REFERRERS.len())];
        if !referrer.is_empty() {
            request = request.header("referer", referrer);
        }
        request.call().unwrap();
    }

    fn fill(&self, port: u16, clock: &MovedClock) {
        let mut numbers = Numbers(41);
        let mut by_age = LINKS.to_vec();
        by_age.sort_by_key(|link| std::cmp::Reverse(link.5));
        for (alias, title, target, tags, _, age) in &by_age {
            clock.set_back(age * DAY);
            let body = json!({"alias": alias, "title": title, "long_url": target, "tags": tags});
            self.api(port, "POST", "/urls", &body);
        }
        for day in (0..=DAYS).rev() {
            // An hour before this time of day, so that the earlier period has its last day.
            clock.set_back(if day == 0 { 240 } else { day * DAY + 3600 });
            std::thread::sleep(CLOCK_TICK);
            for (alias, _, _, _, per_day, age) in LINKS {
                if day >= age {
                    continue;
                }
                let peak = if alias == "launch" && (10..=13).contains(&day) { 5 } else { 2 };
                let quiet = if day % 7 < 2 { 3 } else { 1 };
                let clicks = per_day * peak / 2 / quiet + numbers.below(1 + per_day / 2);
                (0..clicks).for_each(|_| self.visit(port, alias, &mut numbers));
            }
        }
        clock.set_back(1);
        std::thread::sleep(CLOCK_TICK);
        let patch =
            |alias: &str, body: Value| self.api(port, "PATCH", &format!("/urls/{alias}"), &body);
        patch("beta", json!({"password": "sesame!"}));
        patch("talk", json!({"expires_at": in_days(3)}));
        patch("launch", json!({"title": "Launch post: the new dashboard"}));
        let sale = json!({"alias": "sale", "title": "Black Friday", "long_url": "https://shop.example/black-friday",
            "tags": ["q4", "shop"], "valid_from": in_days(9)});
        self.api(port, "POST", "/urls", &sale);
        for (alias, reason, text) in [
            ("menu", "phishing", "This page asks for the password of my bank."),
            ("autumn", "spam", "I got this link twenty times today."),
        ] {
            let report = json!({"reason": reason, "text": text});
            self.api(port, "POST", &format!("/urls/{alias}/report"), &report);
        }
        // The clicks of the last moment are counted.
        std::thread::sleep(Duration::from_secs(3));
    }
}

/// The time in some days.
fn in_days(days: u64) -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seconds = i64::try_from(since.as_secs() + days * DAY).unwrap();
    terse_core::Timestamp::from_ms(seconds * 1000).to_string()
}

/// The pictures: name, path, width, height, and whether in the dark theme.
const PICTURES: [(&str, &str, u32, u32, bool); 12] = [
    ("links", "/links", 1280, 780, false),
    ("link", "/links/launch", 1280, 900, false),
    ("link-dark", "/links/launch", 1280, 900, true),
    ("countries", "/links/launch/values?of=countries", 1280, 900, false),
    ("form", "/links/launch/edit", 1280, 900, false),
    ("live", "/links/launch/live", 1280, 780, false),
    ("overview", "/dashboard", 1280, 900, false),
    ("account", "/account", 1280, 900, false),
    ("moderation", "/moderation", 1280, 780, false),
    ("system", "/system", 1280, 780, false),
    ("links-phone", "/links", 390, 844, false),
    ("link-phone", "/links/launch", 390, 844, true),
];
const MAX_BYTES: usize = 1_500_000;

#[test]
fn showcase_pictures_are_taken() {
    let Some(wanted) = std::env::var_os("TERSE_TEST_SCREENSHOTS") else {
        println!("skipped: TERSE_TEST_SCREENSHOTS is not set");
        return;
    };
    let Some(library) = MovedClock::library() else { panic!("libfaketime is needed") };
    let images = match wanted.to_str() {
        Some("docs") => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images"),
        _ => Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots/docs"),
    };
    std::fs::create_dir_all(&images).unwrap();
    let (_temp, data) = folder();
    let clock = MovedClock(data.with_file_name("clock"));
    let showcase = Showcase::start(&data, &clock, &library);
    let note = std::fs::read_to_string(data.join("run.json")).unwrap();
    let note: Value = serde_json::from_str(&note).unwrap();
    let url = note["url"].as_str().unwrap_or(&showcase.terse.url).to_owned();
    let port: u16 = url.rsplit(':').next().unwrap().trim_matches('/').parse().unwrap();
    showcase.fill(port, &clock);
    let map = format!("MAP go.example 127.0.0.1:{port}");
    let mut sum = 0;
    run_mapped_scenario(&map, true, &[HOST], async |browser| {
        browser.devtools("Emulation.setScrollbarsHidden", json!({ "hidden": true })).await;
        browser.open(&format!("{HOST}/login")).await;
        browser.fill("#name", "anna").await;
        browser.fill("#password", "correct horse battery").await;
        browser.press("form button[type=submit]").await;
        browser.wait("nav.side").await;
        for (name, path, width, height, dark) in PICTURES {
            browser.screen(width, height, dark).await;
            browser.open(&format!("{HOST}{path}")).await;
            browser.check_page().await;
            let picture = browser.client.screenshot().await.unwrap();
            sum += picture.len();
            std::fs::write(images.join(format!("{name}.png")), picture).unwrap();
        }
    });
    assert!(sum < MAX_BYTES, "the pictures have {sum} bytes together");
}
