//! Permissions: `authorisation.txt` has a row for every method of every route, and the test tries
//! each cell.
//!
//! The routes come from the router itself, so none can be forgotten. Each cell is one request with
//! a valid body; only the caller differs. A refused request must change nothing, and another
//! owner's data must look as if it did not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::HeaderMap;
use serde_json::{Value, json};
use terse_core::clicks::{Click, ClickTarget, LinkId};
use terse_core::registry::prelude::*;
use terse_core::registry::{
    AccountChange, Actor, Attribution, ConditionalAccountChange, Invitation, KeyId, PasswordReset,
    Registry, Role, Scope, SecretHash, Suspension,
};
use terse_core::{Code, Domain, LinkKey, LinkReader, OwnerId, Timestamp};
use terse_server::AdminKeys;
use terse_testkit::registry::everything;

use crate::web::{Answer, KEY, OTHER, OWNER, Web};

const TABLE: &str = include_str!("../authorisation.txt");
/// The callers, in the order of the columns.
const CALLERS: [TestCaller; 14] = [
    TestCaller { name: "anonymous", account: None, credential: TestCredential::Nothing },
    TestCaller { name: "wrong", account: None, credential: TestCredential::Key("terse_nobodys") },
    TestCaller {
        name: "revoked",
        account: Some("terse-owner"),
        credential: TestCredential::Key("terse_revoked"),
    },
    TestCaller {
        name: "expired",
        account: Some("terse-owner"),
        credential: TestCredential::Key("terse_expired"),
    },
    TestCaller {
        name: "create",
        account: Some("terse-owner"),
        credential: TestCredential::Key("terse_create"),
    },
    TestCaller {
        name: "read",
        account: Some("terse-owner"),
        credential: TestCredential::Key("terse_read"),
    },
    TestCaller {
        name: "other",
        account: Some("terse-other"),
        credential: TestCredential::Key(OTHER.0),
    },
    TestCaller {
        name: "owner",
        account: Some("terse-owner"),
        credential: TestCredential::Key(OWNER.0),
    },
    TestCaller {
        name: "session",
        account: Some("terse-owner"),
        credential: TestCredential::Cookie("same-origin"),
    },
    TestCaller {
        name: "forged",
        account: Some("terse-owner"),
        credential: TestCredential::Cookie("cross-site"),
    },
    TestCaller {
        name: "suspended",
        account: Some("suspended"),
        credential: TestCredential::Key("suspended"),
    },
    TestCaller {
        name: "moderator",
        account: Some("moderator"),
        credential: TestCredential::Key("moderator"),
    },
    TestCaller { name: "admin", account: Some("admin"), credential: TestCredential::Key("admin") },
    TestCaller { name: "operator", account: None, credential: TestCredential::Key(KEY) },
];

/// The callers that may read the target of the owner's link from the API.
const MAY_READ_TARGET: [&str; 6] = ["owner", "session", "forged", "read", "admin", "operator"];

#[derive(Clone, Copy)]
struct TestCaller {
    name: &'static str,
    /// The caller's account; `$me` in a body is its name.
    account: Option<&'static str>,
    credential: TestCredential,
}

#[derive(Clone, Copy)]
enum TestCredential {
    Nothing,
    Key(&'static str),
    /// A session cookie, in a request from a page of this site.
    Cookie(&'static str),
}

/// A row: `METHOD path status… | body`. A status may be `?` while a row is being written.
struct Row {
    method: String,
    path: String,
    /// By column.
    expected: Vec<Option<u16>>,
    body: String,
}

impl Row {
    fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    fn cell(&self, caller: &str) -> u16 {
        let column = CALLERS.iter().position(|one| one.name == caller).unwrap();
        self.expected[column].unwrap_or(0)
    }

    /// The row as it should be in the table.
    fn written(&self, statuses: &[u16]) -> String {
        let statuses: String = statuses
            .iter()
            .zip(CALLERS)
            .map(|(status, caller)| format!(" {status:>0$}", caller.name.len()))
            .collect();
        let body = if self.body.is_empty() { String::new() } else { format!(" | {}", self.body) };
        format!("{:<6} {:<40}{statuses}{body}", self.method, self.path)
    }
}

fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let rows = lines.map(|line| {
        let (head, body) = line.split_once('|').unwrap_or((line, ""));
        let mut words = head.split_whitespace().map(str::to_owned);
        let (method, path) = (words.next().unwrap(), words.next().unwrap_or_default());
        let expected: Vec<_> =
            words.map(|word| (word != "?").then(|| word.parse().expect("a status or ?"))).collect();
        assert_eq!(
            expected.len(),
            CALLERS.len(),
            "authorisation.txt: a row has {} statuses: {line}",
            CALLERS.len()
        );
        Row { method, path, expected, body: body.trim().to_owned() }
    });
    rows.collect()
}

/// A server with data of every kind, and an account in every role.
struct World {
    web: Web,
    cookie: String,
    spare_key: KeyId,
    victim: OwnerId,
    victims_key: KeyId,
    spare_session: String,
    invitation: String,
    webhook: String,
    asset: String,
}

impl World {
    async fn new() -> Self {
        let web = Web::with_webhooks();
        let by = || Attribution { actor: Actor::Terse, at: Timestamp::from_ms(1), why: None };
        for (name, role) in [
            ("moderator", Role::Moderator),
            ("admin", Role::Admin),
            ("admin-2", Role::Admin),
            ("suspended", Role::User),
        ] {
            web.person(name, role).await;
        }
        let victim = web.person("victim", Role::User).await;
        let victims_key = web.give_key(victim, "terse_victims", |_| ()).await;
        let revoked = web.give_key(OWNER.1, "terse_revoked", |_| ()).await;
        web.registry.revoke_key(OWNER.1, revoked, by()).await.unwrap();
        web.give_key(OWNER.1, "terse_expired", |key| key.expires_at = Some(Timestamp::from_ms(2)))
            .await;
        web.give_key(OWNER.1, "terse_create", |key| key.scope = Scope::Create).await;
        web.give_key(OWNER.1, "terse_read", |key| key.scope = Scope::Read).await;
        let spare_key = web.give_key(OWNER.1, "terse_spare", |_| ()).await;
        let suspended = account(&web, "suspended").await;
        let suspension = Some(Some(Suspension { at: Timestamp::from_ms(2), why: "spam".into() }));
        let change = AccountChange { suspended: suspension, ..AccountChange::default() };
        web.registry
            .change_account(
                ConditionalAccountChange { id: suspended, change, expected: None },
                by(),
            )
            .await
            .unwrap();
        let token = SecretHash(AdminKeys::hash("terse_reset"));
        let reset = Some(Some(PasswordReset { token, expires_at: Timestamp::MAX }));
        let change = AccountChange { reset, ..AccountChange::default() };
        web.registry
            .change_account(ConditionalAccountChange { id: victim, change, expected: None }, by())
            .await
            .unwrap();
        let cookie = web.sign_in(OWNER.1, "cookie").await;
        web.sign_in(OWNER.1, "spare").await;
        let spare_session = handle("spare");
        let writer = account(&web, "moderator").await;
        let token = SecretHash(AdminKeys::hash("invitation"));
        let invitation =
            Invitation { token, role: Role::User, by: writer, expires_at: Timestamp::MAX };
        web.registry.invite(invitation, by()).await.unwrap();
        let draft = json!({
            "long_url": "https://example.com/owned", "alias": "owned", "tags": ["spring"]
        });
        assert_eq!(web.as_owner("POST /api/v1/urls", OWNER.0, draft).await.status, 201);
        let key = LinkKey { domain: Domain::primary(), code: Code::parse("owned").unwrap() };
        let created_at = web.store.get(&key).await.unwrap().unwrap().created_at;
        web.clicks.add([Click::bare(
            web.clock.now(),
            ClickTarget::Link(LinkId { key, created_at }, OWNER.1),
        )]);
        let hook = web
            .as_owner("POST /api/v1/webhooks", OWNER.0, json!({ "url": "https://hooks.example/" }))
            .await;
        let webhook = hook.json()["id"].as_str().unwrap().to_owned();
        let change = json!({ "title": "Changed" });
        assert_eq!(web.as_owner("PATCH /api/v1/urls/owned", OWNER.0, change).await.status, 200);
        let blocked = json!({ "host": "blocked.example", "why": "phishing" });
        assert_eq!(web.api("POST /api/v1/admin/blocklist", blocked).await.status, 201);
        assert_eq!(web.api("PUT /api/v1/domains/added.example", json!({})).await.status, 200);
        let home = web.page("/").await.text();
        let asset = home
            .split("/assets/")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .unwrap()
            .to_owned();
        Self {
            web,
            cookie,
            spare_key,
            victim,
            victims_key,
            spare_session,
            invitation: handle("invitation"),
            webhook,
            asset,
        }
    }

    /// Fills the variable parts of a path, by the part before them, with an existing or a missing
    /// name.
    fn fill(&self, path: &str, missing: bool) -> String {
        let mut filled = String::new();
        for part in path.split('/').skip(1) {
            let here =
                |there: String, nowhere: &str| if missing { nowhere.to_owned() } else { there };
            let value = match (filled.as_str(), part) {
                (_, plain) if !plain.starts_with('{') => plain.to_owned(),
                // A plus sign after the code opens the page about a link.
                ("", "{code}") if path == "/{code}" => here("owned+".into(), "missing+"),
                ("" | "/r", "{code}") => here("owned".into(), "missing"),
                ("/api/v1/urls" | "/api/v1/admin/links" | "/links", "{code}") => {
                    here("owned".into(), "missing")
                }
                ("/api/v1/keys", "{id}") => here(self.spare_key.0.to_string(), "999999"),
                ("/api/v1/admin/users", "{id}") => here(self.victim.0.to_string(), "999999"),
                (before, "{key}") if before.ends_with("/keys") => {
                    here(self.victims_key.0.to_string(), "999999")
                }
                ("/api/v1/account/sessions", "{id}") => {
                    here(self.spare_session.clone(), "0000000000000000")
                }
                ("/api/v1/invitations", "{id}") => {
                    here(self.invitation.clone(), "0000000000000000")
                }
                ("/api/v1/webhooks" | "/webhooks", "{id}") => here(self.webhook.clone(), "999999"),
                ("/api/v1/tags", "{tag}") => here("spring".into(), "autumn"),
                ("/api/v1/domains", "{domain}") => here("added.example".into(), "missing.example"),
                ("/api/v1/admin/blocklist", "{host}") => {
                    here("blocked.example".into(), "missing.example")
                }
                // No removal waits.
                ("/api/v1/admin/removals", "{round}") => "1".to_owned(),
                ("/assets", "{name}") => here(self.asset.clone(), "missing.css"),
                (before, part) => {
                    panic!(
                        "authorisation.rs: World::fill does not know what {part} is behind \
                         {before}: add a line"
                    )
                }
            };
            filled = format!("{filled}/{value}");
        }
        filled
    }

    /// Tries one cell.
    async fn ask(&self, row: &Row, caller: TestCaller, missing: bool) -> Answer {
        let body = row.body.replace("$me", caller.account.unwrap_or("nobody"));
        let mut headers = vec![("host", "go.example")];
        let site = match caller.credential {
            TestCredential::Nothing => "same-origin",
            TestCredential::Key(key) => {
                headers.push(("authorization", key));
                "same-origin"
            }
            TestCredential::Cookie(site) => {
                headers.push(("cookie", &self.cookie));
                site
            }
        };
        headers.push(("sec-fetch-site", site));
        let (kind, body) = match body.strip_prefix("form:") {
            Some(form) => ("application/x-www-form-urlencoded", form.to_owned()),
            None => ("application/json", body),
        };
        if !body.is_empty() {
            headers.push(("content-type", kind));
        }
        self.web
            .begin(&format!("{} {}", row.method, self.fill(&row.path, missing)), &headers, body)
            .await
    }

    /// Everything that a request could have changed.
    async fn state(&self) -> String {
        let registry: Arc<dyn Registry> = Arc::clone(&self.web.registry) as _;
        format!("{:#?}\n{}", self.web.store.everything(), everything(&registry).await)
    }
}

async fn account(web: &Web, name: &str) -> OwnerId {
    web.registry
        .account_by_name(&terse_core::registry::AccountName::parse(name).unwrap())
        .await
        .unwrap()
        .unwrap()
        .id
}

/// The id by which the API names a secret's session or invitation.
fn handle(secret: &str) -> String {
    AdminKeys::hash(secret)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every method of every route, as `GET /path`, found by asking the router.
async fn routes(web: &Web) -> BTreeSet<String> {
    let mut routes = BTreeSet::new();
    for path in web.paths() {
        let spelled: Vec<_> =
            path.split('/').map(|part| if part.starts_with('{') { "abc" } else { part }).collect();
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            if web.begin(&format!("{method} {}", spelled.join("/")), &[], "").await.status != 405 {
                routes.insert(format!("{method} {path}"));
            }
        }
    }
    routes
}

/// A start for a new row: an example of the body, from the OpenAPI document.
fn sketch(document: &Value, route: &str) -> String {
    let (method, path) = route.split_once(' ').unwrap();
    let operation = &document["paths"][path][method.to_lowercase()];
    let content = &operation["requestBody"]["content"]["application/json"];
    let schema = content["schema"]["$ref"]
        .as_str()
        .and_then(|path| document.pointer(path.strip_prefix('#')?));
    let example = [&content["example"], schema.map_or(&Value::Null, |schema| &schema["example"])]
        .into_iter()
        .find(|one| !one.is_null());
    let body = example.map(|example| format!(" | {example}")).unwrap_or_default();
    format!("{method:<6} {path:<40}{}{body}", " ?".repeat(CALLERS.len()))
}

#[tokio::test]
async fn every_route_has_a_row_and_every_row_a_route() {
    let document: serde_json::Value = serde_json::from_str(terse_server::OPENAPI).unwrap();
    let mut routes = routes(&Web::new()).await;
    for known in ["GET /openapi.json", "POST /", "DELETE /api/v1/keys/{id}"] {
        assert!(routes.contains(known), "the router no longer tells its routes: {routes:?}");
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        routes.extend(
            item.as_object()
                .unwrap()
                .keys()
                .map(|method| format!("{} {path}", method.to_uppercase())),
        );
    }
    let rows: BTreeSet<String> = rows().iter().map(Row::line).collect();
    let missing: Vec<_> = routes.difference(&rows).map(|route| sketch(&document, route)).collect();
    let over: Vec<_> = rows.difference(&routes).collect();
    assert!(
        missing.is_empty(),
        "these routes have no row in crates/terse-server/tests/authorisation.txt. Add these \
         lines, with a body that is valid \
         for everyone; the test then tells what is answered, and you decide whether that is \
         right:\n{}",
        missing.join("\n")
    );
    assert!(
        over.is_empty(),
        "these rows of authorisation.txt are no routes: remove them\n{over:#?}"
    );
}

#[tokio::test]
async fn everyone_may_do_what_the_table_says_and_nothing_else() {
    let mut world = World::new().await;
    let mut state = world.state().await;
    let mut wrong = Vec::new();
    for row in rows() {
        let mut statuses = Vec::new();
        for caller in CALLERS {
            let answer = world.ask(&row, caller, false).await;
            let (status, after) = (answer.status.as_u16(), world.state().await);
            statuses.push(status);
            // Moderators see everyone's links in the admin API, and nowhere else.
            let moderates = caller.name == "moderator" && row.path.starts_with("/api/v1/admin/");
            if row.path.starts_with("/api/v1/")
                && !MAY_READ_TARGET.contains(&caller.name)
                && !moderates
            {
                assert!(
                    !answer.text().contains("example.com/owned"),
                    "{} tells {} where another's link leads",
                    row.line(),
                    caller.name
                );
            }
            if after != state {
                let what = format!("{} by {}: answered {status}", row.line(), caller.name);
                let done = (200..300).contains(&status)
                    || (status == 303 && !row.path.starts_with("/api/"));
                assert!(done, "{what}, but something changed: {}", difference(&state, &after));
                assert_ne!(
                    row.method,
                    "GET",
                    "{what}, and looking changed something: {}",
                    difference(&state, &after)
                );
                world = World::new().await;
                state = world.state().await;
            }
        }
        let expected: Vec<_> = row.expected.iter().map(|status| status.unwrap_or(0)).collect();
        if statuses != expected {
            wrong.push(format!(
                "should be {}\nis        {}",
                row.written(&expected),
                row.written(&statuses)
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "authorisation.txt, columns {:?}\n{}",
        CALLERS.map(|caller| caller.name),
        wrong.join("\n\n")
    );
}

#[tokio::test]
async fn data_of_others_looks_as_if_it_did_not_exist() {
    let world = World::new().await;
    let mut compared = 0;
    for row in rows() {
        for caller in CALLERS.into_iter().filter(|caller| row.cell(caller.name) == 404) {
            let anothers = world.ask(&row, caller, false).await;
            let missing = world.ask(&row, caller, true).await;
            let what = format!("{} by {}", row.line(), caller.name);
            assert_eq!(
                (anothers.status, anothers.text()),
                (missing.status, missing.text()),
                "{what}"
            );
            assert_eq!(header_map(&anothers.headers), header_map(&missing.headers), "{what}");
            compared += 1;
        }
    }
    assert!(compared >= 10, "only {compared} answers were compared");
}

/// Checks the table itself by rules that hold for all routes, whatever the handlers answer.
#[test]
fn the_table_keeps_to_the_rules() {
    for row in rows() {
        let (line, cell) = (row.line(), |caller| row.cell(caller));
        assert!(!row.expected.contains(&None), "{line}: a row with ? is not done");
        if cell("anonymous") == 401 {
            for caller in ["wrong", "revoked", "expired"] {
                assert_eq!(cell(caller), 401, "{line}: {caller} is as good as nothing");
            }
            assert_eq!(cell("suspended"), 403, "{line}: the suspended do nothing");
            assert_eq!(cell("create"), 403, "{line}: a key for making links does nothing else");
            // A dry run only reads, although it is a POST.
            if row.method != "GET" && !row.path.ends_with("/try") {
                assert_eq!(cell("read"), 403, "{line}: a key for looking changes nothing");
                assert_eq!(
                    cell("forged"),
                    403,
                    "{line}: another site does nothing in anybody's name"
                );
            }
        } else {
            assert!(!row.path.starts_with("/api/v1/admin"), "{line}: not for everyone");
            if row.path.starts_with("/api/") && row.method != "GET" {
                // Every caller may report, whatever the permissions of its key.
                let looks = if row.path.ends_with("/report") { cell("anonymous") } else { 403 };
                let shown =
                    ["wrong", "revoked", "expired", "suspended", "read", "forged"].map(cell);
                assert_eq!(
                    shown,
                    [401, 401, 401, 403, looks, 403],
                    "{line}: what is shown must be good, even where nothing is needed"
                );
            }
        }
        if row.method != "GET" && !row.path.starts_with("/api/") {
            let forged = cell("forged");
            let refused = matches!(forged, 403 | 404);
            assert!(refused, "{line}: no page elsewhere sends a form in anybody's name");
        }
        if row.path.starts_with("/api/v1/admin") {
            for caller in ["other", "owner", "session"] {
                assert_eq!(cell(caller), 403, "{line}: not for {caller}");
            }
        } else if row.path.starts_with("/api/v1/urls/{code}") && cell("anonymous") == 401 {
            assert_eq!(
                (cell("other"), cell("moderator")),
                (404, 404),
                "{line}: another's link is not there"
            );
            assert!(
                (200..300).contains(&cell("owner")) && cell("owner") == cell("session"),
                "{line}: the owner may"
            );
        }
    }
}

/// All headers, sorted by name.
fn header_map(headers: &HeaderMap) -> BTreeMap<String, String> {
    headers
        .iter()
        .map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect()
}

/// The lines that only one of the texts has.
fn difference(before: &str, after: &str) -> String {
    let known: BTreeSet<_> = before.lines().collect();
    after.lines().filter(|line| !known.contains(line)).collect::<Vec<_>>().join("\n")
}
