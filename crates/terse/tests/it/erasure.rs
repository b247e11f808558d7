//! Account erasure with real stores and `kill -9`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::crash::Killable;
use crate::harness::{HOST, KEY, TestTerse};

/// The host of a server without a base URL.
const PLAIN: &str = "127.0.0.1";

/// The address and host of a server.
type ApiClient = (SocketAddr, &'static str);

/// One request on its own connection; `None` if the server is gone. Raw, because some client
/// libraries send no body with `DELETE`.
fn call((address, host): ApiClient, line: &str, key: &str, body: &Value) -> Option<(u16, Value)> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let head = format!(
        "{line} HTTP/1.1\r\nhost: {host}\r\nauthorization: {key}\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.get(9..12)?.parse().ok()?;
    let body = text
        .split_once("\r\n\r\n")
        .map(|(_, body)| serde_json::from_str(body).unwrap_or(Value::Null));
    Some((status, body.unwrap_or_default()))
}

/// An account with a full-access key.
fn enrol(server: ApiClient, name: &str, role: &str) -> (u64, String) {
    let (status, user) =
        call(server, "POST /api/v1/admin/users", KEY, &json!({ "name": name, "role": role }))
            .unwrap();
    assert_eq!(status, 201, "{user}");
    let id = user["id"].as_u64().unwrap();
    let body = json!({ "name": "all", "scope": "full" });
    let (status, key) =
        call(server, &format!("POST /api/v1/admin/users/{id}/keys"), KEY, &body).unwrap();
    assert_eq!(status, 201, "{key}");
    (id, key["key"].as_str().unwrap().to_owned())
}

#[test]
fn an_erased_accounts_links_lead_nowhere_and_others_go_on() {
    let terse = TestTerse::start();
    let server = (terse.address, HOST);
    let ((_, ann), (_, bob)) = (enrol(server, "ann", "user"), enrol(server, "bob", "user"));
    for (key, alias) in [(&ann, "anns"), (&ann, "anns-deleted"), (&bob, "bobs")] {
        let body = json!({ "long_url": format!("https://example.com/{alias}"), "alias": alias });
        assert_eq!(call(server, "POST /api/v1/urls", key, &body).unwrap().0, 201);
        assert_eq!(terse.get(&format!("/{alias}")).status, 302);
    }
    assert_eq!(
        call(server, "DELETE /api/v1/urls/anns-deleted", &ann, &Value::Null).unwrap().0,
        204
    );
    let (status, body) =
        call(server, "DELETE /api/v1/account", &ann, &json!({ "confirm": "ann" })).unwrap();
    assert_eq!(status, 204, "{body}");
    assert_eq!(terse.get("/anns").status, 404);
    assert_eq!(terse.get("/bobs").status, 302);
    for code in ["anns", "anns-deleted"] {
        assert_eq!(terse.api("GET", &format!("/urls/{code}"), None).status, 404);
        assert_eq!(
            terse.api("POST", &format!("/urls/{code}/restore"), None).status,
            404,
            "gone for good"
        );
    }
    assert_eq!(call(server, "GET /api/v1/account", &ann, &Value::Null).unwrap().0, 401);
    assert_eq!(call(server, "GET /api/v1/account", &bob, &Value::Null).unwrap().0, 200);
}

#[test]
fn an_erasure_that_is_killed_is_finished_by_the_next_start() {
    for pause in [0, 3, 10, 30, 100] {
        let folder = tempfile::TempDir::new().unwrap();
        let data = folder.path().join("data");
        let terse = Killable::start(&data);
        enrol((terse.address, PLAIN), "stays", "admin");
        // An admin key, because other keys have create limits.
        let (id, key) = enrol((terse.address, PLAIN), "leaves", "admin");
        for batch in 0..2 {
            let links: Vec<_> = (0..1000)
                .map(|n| json!({ "long_url": format!("https://example.com/{batch}/{n}") }))
                .collect();
            assert_eq!(
                call((terse.address, PLAIN), "POST /api/v1/urls/bulk", &key, &json!(links))
                    .unwrap()
                    .0,
                207
            );
        }
        let address = terse.address;
        let asking = std::thread::spawn(move || {
            call((address, PLAIN), "DELETE /api/v1/account", &key, &json!({ "confirm": "leaves" }))
        });
        std::thread::sleep(Duration::from_millis(pause));
        terse.kill();
        let answered = asking.join().unwrap();

        let terse = Killable::start(&data);
        let user = format!("GET /api/v1/admin/users/{id}");
        // The kill may come before the erasure began; then nothing changed and no success was
        // reported.
        let (status, shown) = call((terse.address, PLAIN), &user, KEY, &Value::Null).unwrap();
        if status == 200 && shown["suspended"].is_null() {
            assert_eq!(answered, None, "{pause}");
            continue;
        }
        let began = Instant::now();
        while call((terse.address, PLAIN), &user, KEY, &Value::Null).unwrap().0 != 404 {
            assert!(began.elapsed() < Duration::from_secs(60), "{pause}: it is never finished");
            std::thread::sleep(Duration::from_millis(20));
        }
        for list in ["GET /api/v1/urls", "GET /api/v1/urls?status=deleted"] {
            let (status, page) = call((terse.address, PLAIN), list, KEY, &Value::Null).unwrap();
            assert_eq!(
                (status, page["links"].as_array().map(Vec::len)),
                (200, Some(0)),
                "{pause}: {page}"
            );
        }
    }
}

/// How often each file of the data folder contains the word, if it does.
fn files_with(terse: &TestTerse, word: &str) -> BTreeMap<String, usize> {
    let (mut found, data) = (BTreeMap::new(), terse.folder().join("data"));
    let mut folders = vec![data.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // Segments of the journal come and go; sockets cannot be read.
            let Ok(bytes) = std::fs::read(&path) else { continue };
            let is_word = |window: &&[u8]| window.eq_ignore_ascii_case(word.as_bytes());
            let count = bytes.windows(word.len()).filter(is_word).count();
            if count > 0 {
                let name = path.strip_prefix(&data).unwrap();
                found.insert(name.to_string_lossy().into_owned(), count);
            }
        }
    }
    found
}

fn is_of_journal(name: &str) -> bool {
    name.starts_with("journal/")
}

#[test]
fn nothing_of_an_erased_account_is_left_in_the_files() {
    const CANARY: &str = "qzcanaryqz";
    let terse = TestTerse::start();
    let server = (terse.address, HOST);
    // Admins, because other keys have create limits.
    let (_, bob) = enrol(server, "bob", "admin");
    let (_, ann) = enrol(server, &format!("ann-{CANARY}"), "admin");
    let others = json!({ "long_url": "https://example.com/of-bob", "alias": "bobs" });
    assert_eq!(call(server, "POST /api/v1/urls", &bob, &others).unwrap().0, 201);
    for n in 0..300 {
        let body = json!({
            "long_url": format!("https://{CANARY}.example.com/{n}/{}", "x".repeat(n * 20)),
            "alias": format!("anns-{n}"),
            "title": format!("{CANARY} title"),
            "notes": format!("{CANARY} notes"),
            "tags": [CANARY],
        });
        let (status, answer) = call(server, "POST /api/v1/urls", &ann, &body).unwrap();
        assert_eq!(status, 201, "{answer}");
        let change = json!({ "title": format!("{CANARY} {n}"), "long_url":
            format!("https://{CANARY}.example.com/changed/{n}") });
        let patch = format!("PATCH /api/v1/urls/anns-{n}");
        assert_eq!(call(server, &patch, &ann, &change).unwrap().0, 200);
        if n % 10 == 0 {
            let referrer = format!("https://{CANARY}.example.net/");
            let fields = [("referer", referrer.as_str())];
            assert_eq!(terse.send("GET", &format!("/anns-{n}"), &fields, None).status, 302);
        }
    }
    for _ in 0..1000 {
        let stats = terse.api("GET", "/urls/anns-290/stats", None).json();
        if stats["total_clicks"] == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // Single clicks are read from the store, so they are in its files now.
    assert_eq!(terse.api("GET", "/urls/anns-290/clicks", None).status, 200);
    let before = files_with(&terse, CANARY);
    for file in ["clicks.db", "registry.db", "terse.db"] {
        assert!(before.keys().any(|name| name.starts_with(file)), "{file} in {before:?}");
    }
    // Its clicks are stored, but the thread still writes to the segment that holds them.
    assert!(before.keys().any(|name| is_of_journal(name)), "{before:?}");
    let confirm = json!({ "confirm": format!("ann-{CANARY}") });
    let (status, body) = call(server, "DELETE /api/v1/account", &ann, &confirm).unwrap();
    assert!(status == 204 || status == 202, "{status} {body}");
    // The sum of everything counts the referrer, in its total and in its hour, without the account:
    // its clicks stay in it. In the worst case the test ran across the end of an hour.
    let is_clean = |found: &BTreeMap<String, usize>| {
        found.iter().all(|(name, count)| name == "clicks.db" && *count <= 3)
    };
    // 204: the erasure is complete. 202: the job completes it.
    if status == 204 {
        let mut left = files_with(&terse, CANARY);
        // The thread finishes the segment at its next sweep, and the reader deletes it then.
        left.retain(|name, _| !is_of_journal(name));
        assert!(is_clean(&left), "{left:?}, before {before:?}");
    }
    let began = Instant::now();
    while !is_clean(&files_with(&terse, CANARY)) {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", files_with(&terse, CANARY));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(terse.get("/bobs").status, 302);
}
