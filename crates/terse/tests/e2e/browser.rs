//! Headless Chromium, chromedriver and a destination page.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

/// Only one browser runs at a time: two would compete for the CPU.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a scenario in a new browser, with or without scripts. No page may write an error to the
/// console, and no host but the given ones may be requested.
pub(crate) fn run_scenario(scripts: bool, hosts: &[&str], scenario: impl AsyncFnOnce(&Browser)) {
    // A name that is not this machine's: over plain http, browsers then restrict scripts.
    run_mapped_scenario("MAP plain.example 127.0.0.1", scripts, hosts, scenario);
}

/// The same, with a rule for names of hosts.
pub(crate) fn run_mapped_scenario(
    map: &str,
    scripts: bool,
    hosts: &[&str],
    scenario: impl AsyncFnOnce(&Browser),
) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((_driver, port)) = Driver::start() else {
        assert!(std::env::var_os("TERSE_TEST_ALL").is_none(), "chromedriver is needed");
        println!("skipped: there is no chromedriver");
        return;
    };
    let profile = tempfile::tempdir().expect("a profile");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let wanted = capabilities(map, scripts, profile.path());
        builder.capabilities(wanted.as_object().expect("an object").clone());
        let client = builder.connect(&format!("http://127.0.0.1:{port}")).await.expect("a browser");
        let browser = Browser { client, scripts };
        scenario(&browser).await;
        browser.check(hosts).await;
        let _ = browser.client.close().await;
    });
}

fn capabilities(map: &str, scripts: bool, profile: &std::path::Path) -> Value {
    let arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        &format!("--host-resolver-rules={map}"),
        "--window-size=1100,800",
        &format!("--user-data-dir={}", profile.display()),
    ];
    let javascript = if scripts { 1 } else { 2 };
    json!({
        "browserName": "chrome",
        "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        "goog:chromeOptions": {
            "args": arguments,
            "prefs": { "profile.managed_default_content_settings.javascript": javascript },
        },
    })
}

pub(crate) struct Browser {
    pub(crate) client: Client,
    pub(crate) scripts: bool,
}

impl Browser {
    /// Saves a screenshot below `target/`.
    pub(crate) async fn picture(&self, name: &str) {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
        std::fs::create_dir_all(&folder).expect("a folder");
        let picture = self.client.screenshot().await.expect("a picture");
        std::fs::write(folder.join(format!("{name}.png")), picture).expect("a file");
    }

    /// Runs a command of the DevTools protocol.
    pub(crate) async fn devtools(&self, command: &'static str, params: Value) {
        self.client.issue_cmd(DevTools(command, params)).await.expect("a command of DevTools");
    }

    /// Shows pages as on a screen of this size, in the light or the dark theme.
    pub(crate) async fn screen(&self, width: u32, height: u32, dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": width < 500 });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let theme = if dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        self.devtools("Emulation.setEmulatedMedia", media).await;
    }

    /// Asks for pages in this language from now on.
    pub(crate) async fn prefer_language(&self, tag: &str) {
        self.devtools("Network.enable", json!({})).await;
        let headers = json!({ "headers": { "Accept-Language": tag } });
        self.devtools("Network.setExtraHTTPHeaders", headers).await;
    }

    async fn log(&self, kind: &'static str) -> Vec<Value> {
        let entries = self.client.issue_cmd(Log(kind)).await.expect("a log");
        entries.as_array().cloned().unwrap_or_default()
    }

    async fn check(&self, hosts: &[&str]) {
        for entry in self.log("browser").await {
            let message = entry["message"].as_str().unwrap_or_default();
            // Chromium logs error statuses, which are expected here.
            let status = message.contains("the server responded with a status of");
            assert!(status || entry["level"] != "SEVERE", "{message}");
        }
        let mut requests = 0;
        for entry in self.log("performance").await {
            let event: Value = serde_json::from_str(entry["message"].as_str().unwrap_or_default())
                .unwrap_or_default();
            if event["message"]["method"] == "Network.requestWillBeSent" {
                let url = event["message"]["params"]["request"]["url"].as_str().unwrap_or_default();
                let ours = url.starts_with("data:")
                    || url.starts_with("chrome:")
                    || hosts.iter().any(|host| url.starts_with(&format!("{host}/")));
                assert!(ours, "a page requested {url}");
                requests += 1;
            }
        }
        assert!(requests > 0, "the browser logs its requests");
    }
}

/// A command of the DevTools protocol, through chromedriver.
#[derive(Debug)]
struct DevTools(&'static str, Value);

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        let body = json!({ "cmd": self.0, "params": self.1 });
        (http::Method::POST, Some(body.to_string()))
    }
}

/// Reads the browser log through chromedriver.
#[derive(Debug)]
struct Log(&'static str);

impl WebDriverCompatibleCommand for Log {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/se/log", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(json!({ "type": self.0 }).to_string()))
    }
}

struct Driver(Child);

impl Driver {
    /// Starts on a free port.
    fn start() -> Option<(Self, u16)> {
        let mut child = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut lines = BufReader::new(child.stdout.take()?).lines();
        let driver = Self(child);
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            line.split_once("started successfully on port ")?.1.trim_end_matches('.').parse().ok()
        });
        // Keep reading its output, or it blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Some((driver, port.expect("chromedriver tells its port")))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A destination page on another local host.
pub(crate) fn destination() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.2:0").expect("a second loopback address");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                let page = "<!doctype html><html lang=en><title>Landed</title><link rel=icon \
                    href=data:,><h1>Landed</h1>";
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n",
                    page.len()
                );
                let _ =
                    stream.write_all(format!("{head}Connection: close\r\n\r\n{page}").as_bytes());
            });
        }
    });
    address
}
