//! Sign-in with a certified provider: the npm package `oidc-provider`.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::Answer;
use crate::oidc::{CookieJar, start};
use crate::oidc_provider::{CLIENT, SECRET};

/// The last version that supports the Node.js of Debian 12.
const VERSION: &str = "8.8.1";
const CALLBACK: &str = "http://go.example/auth/oidc/callback";

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The provider, installed on first use, and its issuer.
fn provider() -> (Running, String) {
    let target =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder").to_owned();
    let home = target.join("tools").join(format!("oidc-provider-{VERSION}"));
    if !home.join("node_modules/oidc-provider/package.json").exists() {
        std::fs::create_dir_all(&home).expect("a folder");
        let package = format!("oidc-provider@{VERSION}");
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
            .arg(&home)
            .arg(package);
        assert!(npm.status().expect("npm runs").success(), "{npm:?}");
    }
    let script = home.join("provider.mjs");
    std::fs::write(&script, include_str!("oidc_provider.mjs")).expect("a script");
    let mut node = Command::new("node");
    node.arg(&script)
        .args([CALLBACK, CLIENT, SECRET])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut running = Running(node.spawn().expect("node runs"));
    let mut lines = BufReader::new(running.0.stdout.take().expect("its output")).lines();
    let issuer = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("issuer ").map(str::to_owned));
    // Keep reading its output, or it blocks on a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    (running, issuer.expect("it tells where it is"))
}

/// Signs a user in at the provider and consents; returns the callback URL.
fn visit(cookies: &mut CookieJar, issuer: &str, address: &str, name: &str) -> String {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(10)))
        .build()
        .into();
    let mut take = |method: &str, url: &str, body: &str| {
        let mut request =
            http::Request::builder().method(method).uri(url).header("cookie", cookies.text());
        if !body.is_empty() {
            request = request.header("content-type", "application/x-www-form-urlencoded");
        }
        let sent = match body {
            "" => agent.run(request.body(()).expect("a request")),
            body => agent.run(request.body(body.to_owned()).expect("a request")),
        };
        let mut answer = sent.expect("an answer");
        let headers = answer.headers().iter();
        let headers = headers.map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let headers = headers.collect();
        let body = answer.body_mut().read_to_vec().expect("a body");
        let answer = Answer { status: answer.status().as_u16(), headers, body };
        cookies.keep(&answer);
        answer
    };
    let whole = |location: &str| match location.starts_with('/') {
        true => format!("{issuer}{location}"),
        false => location.to_owned(),
    };
    let mut answer = take("GET", address, "");
    for _ in 0..20 {
        if let Some(location) = answer.location().map(whole) {
            if let Some(back) = location.strip_prefix("http://go.example") {
                return back.to_owned();
            }
            answer = take("GET", &location, "");
            continue;
        }
        let text = answer.text();
        let after = |mark: &str| {
            text.split(mark).nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned)
        };
        let (action, prompt) = after("action=\"")
            .zip(after("name=\"prompt\" value=\""))
            .unwrap_or_else(|| panic!("{text}"));
        answer =
            take("POST", &whole(&action), &format!("prompt={prompt}&login={name}&password=any"));
    }
    panic!("it never ends");
}

#[test]
fn sign_in_with_a_certified_provider_works() {
    if std::env::var_os("TERSE_TEST_ALL").is_none() {
        println!("skipped: the provider runs with TERSE_TEST_ALL=1, as scripts/test does");
        return;
    }
    let (_running, issuer) = provider();
    let terse = start(&issuer, true);
    let mut there = CookieJar::default();
    let mut cookies = CookieJar::default();
    let away = cookies.open(&terse, "/auth/oidc?next=/api/docs");
    assert_eq!(away.status, 303, "{}", away.text());
    let back = visit(&mut there, &issuer, away.location().expect("an address"), "ann");
    assert!(back.contains("iss="), "it says who it is: {back}");
    let in_ = cookies.open(&terse, &back);
    assert_eq!((in_.status, in_.location()), (303, Some("/api/docs")), "{}", in_.text());
    assert!(cookies.open(&terse, "/account").text().contains("<h1>ann"));
    // The code is used up at the provider and at terse.
    let mut again = CookieJar::default();
    let away = again.open(&terse, "/auth/oidc");
    let second = visit(&mut there, &issuer, away.location().expect("an address"), "ann");
    let code = |back: &str| {
        back.split("code=")
            .nth(1)
            .and_then(|rest| rest.split('&').next())
            .expect("a code")
            .to_owned()
    };
    let replayed = second.replace(&code(&second), &code(&back));
    assert_eq!(again.open(&terse, &replayed).status, 403);
}
