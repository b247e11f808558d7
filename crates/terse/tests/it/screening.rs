//! Blocklists and flags: refused creates, blocked links, warnings and unblocking.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use terse::config::Lists;
use terse_safety::ListSource;
use terse_testkit::wait_until;

use crate::bans::wait;
use crate::harness::TestTerse;

fn lists(sources: &[&str]) -> Lists {
    Lists(sources.iter().map(|source| ListSource::parse(source).unwrap()).collect())
}

/// One value from the metrics.
pub(crate) fn metric(terse: &TestTerse, name: &str) -> u64 {
    let text = terse.get("/metrics").text();
    let line =
        text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {text}"))
}

struct ListFile(PathBuf, #[allow(dead_code, reason = "dropped with it")] tempfile::TempDir);

impl ListFile {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = Self(folder.path().join("bad.txt"), folder);
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    fn source(&self) -> String {
        format!("ours={}", self.0.display())
    }
}

#[test]
fn a_listed_host_is_refused_and_links_to_it_are_taken_down_until_it_is_dropped() {
    let file = ListFile::new("0.0.0.0 old.example.net\n");
    let terse = TestTerse::with(|config| config.safety.lists = lists(&[&file.source()]));
    for body in [
        json!({"long_url": "https://old.example.net/"}),
        json!({"long_url": "https://a.b.OLD.example.net./x"}),
    ] {
        let refused = terse.anonymous("POST", "/urls", Some(body.clone()));
        assert_eq!((refused.status, &refused.json()["code"]), (422, &json!("blocked_destination")));
        assert!(!refused.text().contains("ours"), "the response does not name the list");
        assert!(terse.api("POST", "/urls", Some(body)).text().contains("by ours"));
    }
    terse.alias("hot1", "https://sub.bad.example.net/x");
    terse.alias("other1", "https://notbad.example.net/");
    terse.alias("byhand1", "https://sub.bad.example.net/y");
    terse.api("PUT", "/admin/links/byhand1/standing", Some(json!({"standing": "clear"})));
    for _ in 0..10 {
        assert_eq!(terse.get("/hot1").status, 302);
    }
    file.write("0.0.0.0 old.example.net\n0.0.0.0 bad.example.net\n");
    // Visited continuously, so it stays in the cache.
    let took = wait_until("the link is taken down", || terse.get("/hot1").status == 451);
    println!("taken down after {took:?}");
    assert_eq!(terse.get("/hot1").location(), None);
    // Redirects change first; the store follows when the scan is finished.
    wait_until("the store knows", || {
        terse.api("GET", "/urls/hot1", None).json()["status"] == "blocked"
    });
    assert_eq!(
        terse.api("POST", "/urls", Some(json!({"long_url": "https://bad.example.net/"}))).status,
        422
    );
    assert_eq!(
        (terse.get("/other1").status, terse.get("/byhand1").status),
        (302, 302),
        "a moderator cleared it"
    );
    let patched =
        terse.api("PATCH", "/urls/other1", Some(json!({"long_url": "https://bad.example.net/"})));
    assert_eq!(
        (patched.status, terse.get("/other1").location()),
        (422, Some("https://notbad.example.net/"))
    );
    terse.api("PUT", "/admin/links/other1/standing", Some(json!({"standing": "blocked"})));

    file.write("# nothing\n");
    wait_until("the link works again", || terse.get("/hot1").status == 302);
    assert_eq!(terse.get("/other1").status, 451, "no list took it down, so none gives it back");
    assert_eq!(metric(&terse, "terse_rescanned_total{what=\"blocked\"}"), 1);
}

#[test]
fn a_warn_list_puts_a_warning_before_links_until_the_target_leaves_it() {
    let file = ListFile::new("new.example.net\n");
    let terse = TestTerse::with(|config| {
        config.safety.warn_lists = lists(&[&file.source()]);
        config.safety.warn_on = vec![];
    });
    let create = |target: &str| {
        let made = terse.anonymous("POST", "/urls", Some(json!({"long_url": target})));
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()["short_code"].as_str().unwrap().to_owned()
    };
    let flags =
        |code: &str| terse.api("GET", &format!("/urls/{code}"), None).json()["flags"].clone();
    let warned = |code: &str| terse.get(&format!("/{code}")).status == 200;
    let (listed, later) =
        (create("https://a.new.example.net/"), create("https://next.example.net/"));
    let cleared_by_moderator = create("https://next.example.net/by-hand");
    assert!(warned(&listed), "from the start");
    let page = terse.browse(&format!("/{listed}")).text();
    assert!(page.contains("on a list of sites that need care"), "{page}");
    assert!(!page.contains("ours"), "the page does not name the list");
    assert_eq!((flags(&listed), flags(&later)), (json!(["on_warn_list"]), json!([])));
    assert_eq!(terse.get(&format!("/{later}")).status, 302);
    let clear = Some(json!({"standing": "clear"}));
    terse.api("PUT", &format!("/admin/links/{cleared_by_moderator}/standing"), clear);

    file.write("next.example.net\n");
    wait_until("the re-scan warns", || warned(&later));
    wait_until("the other link is cleared", || terse.get(&format!("/{listed}")).status == 302);
    assert_eq!((flags(&listed), flags(&later)), (json!([]), json!(["on_warn_list"])));
    assert_eq!(
        terse.get(&format!("/{cleared_by_moderator}")).status,
        302,
        "a moderator cleared it"
    );
    let suspicious = Some(json!({"standing": "suspicious"}));
    terse.api("PUT", &format!("/admin/links/{later}/standing"), suspicious);
    assert_eq!(metric(&terse, "terse_warn_list_entries"), 1);
    assert_eq!(metric(&terse, "terse_blocklist_entries"), 1, "the host of the test settings");

    // The round of the last change must be over: the next one is then that of this change.
    wait_until("the round is over", || metric(&terse, "terse_rescans_total") >= 2);
    let rounds = metric(&terse, "terse_rescans_total");
    file.write("# nothing\n");
    wait_until("all links are scanned", || metric(&terse, "terse_rescans_total") > rounds);
    assert!(warned(&later), "a moderator decided");
}

#[test]
fn moderators_see_which_list_blocked_or_warned_and_owners_do_not() {
    let (bad, new) = (ListFile::new("old.example.net\n"), ListFile::new("new.example.net\n"));
    let terse = TestTerse::with(|config| {
        config.safety.lists = lists(&[&bad.source().replace("ours", "bad")]);
        config.safety.warn_lists = lists(&[&new.source().replace("ours", "fresh")]);
    });
    let made =
        terse.anonymous("POST", "/urls", Some(json!({"long_url": "https://new.example.net/"})));
    let code = made.json()["short_code"].as_str().unwrap().to_owned();
    assert!(!made.text().contains("fresh"), "{}", made.text());
    for path in [format!("/api/v1/urls/{code}"), format!("/{code}"), format!("/{code}+")] {
        let key = format!("Bearer {}", crate::harness::KEY);
        let fields = [("authorization", key.as_str()), ("accept", "text/html")];
        let seen = terse.send("GET", &path, &fields, None);
        assert!(seen.status == 200 && !seen.text().contains("fresh"), "{path}: {}", seen.text());
    }
    let seen = |code: &str| {
        let found = terse.api("GET", "/admin/links", None).json();
        let links = found["links"].as_array().unwrap().clone();
        links.into_iter().find(|link| link["short_code"] == code).unwrap()["list_match"].clone()
    };
    let log = |code: &str| {
        let path = format!("/admin/audit?act=link_screened&subject=link:/{code}");
        terse.api("GET", &path, None).json()["entries"].clone()
    };
    assert_eq!(seen(&code), json!({"list": "fresh", "entry": "host"}));
    let entry = &log(&code)[0];
    assert_eq!((&entry["actor"], &entry["before"]), (&json!(null), &json!(null)));
    assert_eq!(
        (&entry["after"]["list"], &entry["after"]["entry"]),
        (&json!("fresh"), &json!("host"))
    );

    bad.write("old.example.net\nhttps://new.example.net/\n");
    wait_until("the link is taken down", || {
        terse.api("GET", &format!("/urls/{code}"), None).json()["status"] == "blocked"
    });
    assert_eq!(seen(&code), json!({"list": "bad", "entry": "url"}));
    let entry = &log(&code)[0];
    assert_eq!(entry["before"]["standing"], "suspicious");
    assert_eq!((&entry["after"]["list"], &entry["after"]["entry"]), (&json!("bad"), &json!("url")));
    assert_eq!(entry["why"], "the target is on the list bad, by its url");
    assert_eq!(log(&code).as_array().unwrap().len(), 2);
}

#[test]
fn a_block_takes_effect_before_the_links_are_scanned_again() {
    let file = ListFile::new("");
    // Without a worker there is no re-scan: the slowest case.
    let mut terse = TestTerse::with(|config| {
        config.safety.lists = lists(&[&file.source()]);
        config.roles.worker = false;
    });
    for code in ["hot1", "cold1", "byhand1"] {
        terse.alias(code, &format!("https://bad.example.net/{code}"));
    }
    terse.api("PUT", "/admin/links/byhand1/standing", Some(json!({"standing": "clear"})));
    // Only visited links are in the cache now.
    terse.restart();
    assert_eq!((terse.get("/hot1").status, terse.get("/byhand1").status), (302, 302));
    file.write("bad.example.net\n");
    let took =
        wait_until("the remembered link is not followed", || terse.get("/hot1").status == 451);
    println!("in effect after {took:?}");
    assert_eq!(terse.get("/cold1").status, 451, "and it was never in memory");
    assert_eq!(terse.get("/byhand1").status, 302, "a moderator cleared it");
    assert_eq!(
        terse.api("GET", "/urls/hot1", None).json()["status"],
        "active",
        "no re-scan has come by"
    );
    assert_eq!(metric(&terse, "terse_recalled_total"), 1);
    file.write("");
    wait_until("both work again", || {
        (terse.get("/hot1").status, terse.get("/cold1").status) == (302, 302)
    });
}

#[test]
fn a_list_that_changed_while_the_server_was_down_is_noticed_at_start() {
    let file = ListFile::new("");
    let mut terse = TestTerse::with(|config| config.safety.lists = lists(&[&file.source()]));
    terse.alias("link1", "https://bad.example.net/");
    assert_eq!(terse.get("/link1").status, 302);
    file.write("bad.example.net");
    terse.restart();
    wait_until("the link is taken down", || terse.get("/link1").status == 451);
    // Already scanned with the same lists, so there is nothing to do.
    wait_until("the registry keeps the scan", || {
        wait(terse.registry().job_progress("rescan")).unwrap().is_some()
    });
    terse.restart();
    assert_eq!(terse.get("/link1").status, 451);
    // A host blocked in the settings works like a list.
    file.write("");
    terse.config.safety.blocked_hosts.push("also.example.net".into());
    terse.alias("link2", "https://also.example.net/");
    terse.restart();
    wait_until("both are scanned", || {
        (terse.get("/link1").status, terse.get("/link2").status) == (302, 451)
    });
}

#[test]
fn a_file_that_cannot_be_read_stops_the_start_and_later_only_warns() {
    let file = ListFile::new("bad.example.net");
    let terse = TestTerse::with(|config| config.safety.lists = lists(&[&file.source()]));
    std::fs::remove_file(&file.0).unwrap();
    wait_until("the loss is noticed", || {
        metric(&terse, "terse_blocklist_looks_total{outcome=\"failed\"}") == 1
    });
    assert_eq!(
        terse.api("POST", "/urls", Some(json!({"long_url": "https://bad.example.net/"}))).status,
        422
    );
    let mut config = terse.config.clone();
    drop(terse);
    let folder = tempfile::tempdir().unwrap();
    config.data_dir = folder.path().join("data");
    let error = terse::serve::Server::start(&config, terse_core::Clock::default())
        .err()
        .map(|error| format!("{error:#}"));
    assert!(error.as_ref().is_some_and(|error| error.contains("bad.txt")), "{error:?}");
}

#[test]
fn an_odd_target_gets_a_warning_page_and_never_a_location() {
    let terse = TestTerse::start();
    for (code, target, flag, words) in [
        ("odd1", "https://paypa1.com/login", "look_alike", "looks like that of a well-known site"),
        ("odd2", "https://pаypal.com/", "mixed_script", "different alphabets"),
        ("odd3", "https://paypal.com@evil.example.net/", "userinfo", "user name before the site"),
        ("odd4", "https://bit.ly/abc", "shortener", "another short link"),
        ("odd5", "https://somebody.github.io/", "free_hosting", "anyone can publish pages"),
    ] {
        let made =
            terse.anonymous("POST", "/urls", Some(json!({"long_url": target, "alias": code})));
        assert_eq!((made.status, &made.json()["status"]), (201, &json!("suspicious")), "{target}");
        assert!(
            made.json()["flags"].as_array().unwrap().contains(&json!(flag)),
            "{target}: {}",
            made.text()
        );
        // Twice: from the store and from the cache.
        for _ in 0..2 {
            let page = terse.browse(&format!("/{code}"));
            assert_eq!(
                (page.status, page.location(), page.header("refresh")),
                (200, None, None),
                "{target}"
            );
            assert!(page.text().contains(words), "{target}: {}", page.text());
            let host = url::Url::parse(target).unwrap().host_str().unwrap().to_owned();
            assert!(page.text().contains(&format!("<p class=\"host\">{host}</p>")), "{target}");
        }
    }
    assert!(terse.browse("/odd2").text().contains("<b>pаypal.com</b>"), "in its own script too");
    // A moderator's decision overrides the scan.
    terse.api("PUT", "/admin/links/odd1/standing", Some(json!({"standing": "clear"})));
    assert_eq!(terse.get("/odd1").location(), Some("https://paypa1.com/login"));
    // The operator's own links are flagged without a warning page.
    terse.alias("mine1", "https://bit.ly/abc");
    assert_eq!(terse.get("/mine1").status, 302);
    assert_eq!(terse.api("GET", "/urls/mine1", None).json()["flags"], json!(["shortener"]));
}

#[test]
fn the_operator_says_what_is_worth_a_warning() {
    let mut terse = TestTerse::with(|config| config.safety.warn_on = vec![]);
    let body = json!({"long_url": "https://bit.ly/abc", "alias": "short1", "ttl": 600});
    assert_eq!(terse.anonymous("POST", "/urls", Some(body)).json()["flags"], json!(["shortener"]));
    assert_eq!(terse.get("/short1").status, 302);
    terse.config.safety.warn_on = vec!["shortener".into()];
    terse.restart();
    wait_until("it is scanned with the new settings", || terse.get("/short1").status == 200);
}

/// A blocklist server: each request gets the next response; the last one repeats.
struct FeedServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    answers: Arc<Mutex<VecDeque<Vec<u8>>>>,
    stopping: Arc<AtomicBool>,
}

impl FeedServer {
    fn start(first: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            answers: Arc::new(Mutex::new([first].into())),
            stopping: Arc::default(),
        };
        let (requests, answers, stopping) =
            (server.requests.clone(), server.answers.clone(), server.stopping.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopping.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                let head: Vec<String> = BufReader::new(&stream)
                    .lines()
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                let answer = {
                    let mut answers = answers.lock().unwrap();
                    if answers.len() > 1 {
                        answers.pop_front().unwrap()
                    } else {
                        answers[0].clone()
                    }
                };
                requests.lock().unwrap().push(head.join("\n"));
                let _ = stream.write_all(&answer);
            }
        });
        server
    }

    fn source(&self) -> String {
        format!("feed=http://{}/list?key=hunter2", self.address)
    }

    fn requests(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

impl Drop for FeedServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn ok(tag: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nETag: \"{tag}\"\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

fn hosts(count: usize) -> String {
    (0..count).map(|n| format!("bad-{n}.example.net\n")).collect()
}

/// Whether a create is refused by a list.
fn is_listed(terse: &TestTerse, host: &str) -> bool {
    let body = json!({"long_url": format!("https://{host}/"), "reuse": false});
    terse.api("POST", "/urls", Some(body)).status == 422
}

#[test]
fn a_feed_is_fetched_kept_and_there_after_a_restart_without_a_network() {
    let feed = FeedServer::start(ok("one", &hosts(200)));
    let mut terse = TestTerse::with(|config| {
        config.safety.lists = lists(&[&feed.source()]);
        config.safety.allow_private_targets = true;
    });
    wait_until("the list is in force", || is_listed(&terse, "bad-199.example.net"));
    assert!(!feed.requests.lock().unwrap()[0].to_lowercase().contains("if-none-match"));
    let looks = |terse: &TestTerse, outcome: &str| {
        metric(terse, &format!("terse_blocklist_looks_total{{outcome=\"{outcome}\"}}"))
    };

    let html = "<html>maintenance</html>";
    let shrunk = hosts(19);
    let ours = format!("{}go.example\n", hosts(200));
    let huge = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_vec();
    let broken = b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".to_vec();
    for (answer, outcome) in [
        (b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec(), "unchanged"),
        (broken, "failed"),
        (huge, "failed"),
        (ok("two", ""), "refused"),
        (ok("three", html), "refused"),
        (ok("four", &shrunk), "refused"),
        (ok("five", &ours), "refused"),
    ] {
        *feed.answers.lock().unwrap() = [answer].into();
        let requests = feed.requests();
        // The server fetches the list at start.
        terse.restart();
        wait_until("the list is requested", || {
            feed.requests() > requests && looks(&terse, outcome) == 1
        });
        assert!(
            feed.requests.lock().unwrap()[requests]
                .to_lowercase()
                .contains("if-none-match: \"one\""),
            "{outcome}"
        );
        assert!(
            is_listed(&terse, "bad-199.example.net")
                && metric(&terse, "terse_blocklists_missing") == 0
        );
    }
    *feed.answers.lock().unwrap() = [ok("six", &hosts(150))].into();
    terse.restart();
    wait_until("the new version is in force", || !is_listed(&terse, "bad-199.example.net"));
    drop(feed);
    terse.restart();
    assert!(is_listed(&terse, "bad-149.example.net"), "the copy is used from the start");
    wait_until("the loss is noticed", || looks(&terse, "failed") == 1);
    assert!(is_listed(&terse, "bad-149.example.net"));
    // Without network and copy it starts and logs a warning.
    std::fs::remove_dir_all(terse.config.data_dir.join("lists")).unwrap();
    terse.restart();
    assert_eq!(metric(&terse, "terse_blocklists_missing"), 1);
    assert!(!is_listed(&terse, "bad-149.example.net"));
}

/// `RESCAN_LINKS=1000000 cargo test --release -p terse --test it -- --ignored --nocapture
/// a_million`: how long a re-scan of this many links takes when one in a hundred is blocked.
#[test]
#[ignore = "takes minutes"]
fn a_million_links_are_judged_again() {
    use terse_core::{Insert, LinkStore as _};
    let count: usize = std::env::var("RESCAN_LINKS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(1_000_000);
    let file = ListFile::new("");
    let mut terse = TestTerse::with(|config| config.safety.lists = lists(&[&file.source()]));
    terse.stop();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let begun = Instant::now();
    {
        let store = Arc::new(
            terse_embedded::EmbeddedLinks::open(terse_embedded::EmbeddedOptions::new(
                terse.config.store_file(),
            ))
            .unwrap(),
        );
        let target = |n: usize| match n % 100 {
            0 => format!("https://bad.example.net/{n}"),
            _ => format!("https://site-{}.example.org/some/path/{n}?a=1", n % 5000),
        };
        runtime.block_on(async {
            for callers in (0..count).collect::<Vec<_>>().chunks(2000) {
                let inserts = callers.iter().map(|&n| {
                    let (store, link) = (
                        Arc::clone(&store),
                        terse_testkit::alias(&format!("link-{n}"), &target(n)),
                    );
                    tokio::spawn(
                        async move { store.insert(Insert::new(link, None)).await.map(drop) },
                    )
                });
                for insert in inserts.collect::<Vec<_>>() {
                    insert.await.unwrap().unwrap();
                }
            }
        });
        store.close();
    }
    println!("{count} links made in {:?}", begun.elapsed());
    terse.restart();
    let rounds = || metric(&terse, "terse_rescans_total");
    let slow = |what: &str, is: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is() {
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("{what}: {:?}", begun.elapsed());
    };
    let before = rounds();
    file.write("bad.example.net\n");
    slow("scanned, one in a hundred blocked", &|| rounds() > before);
    assert_eq!(metric(&terse, "terse_rescanned_total{what=\"blocked\"}"), count as u64 / 100);
    let before = rounds();
    file.write("other.example.net\n");
    slow("scanned, all unblocked", &|| rounds() > before);
    let before = rounds();
    file.write("another.example.net\n");
    slow("scanned, nothing changed", &|| rounds() > before);
}
