//! Suspended owners: their links and credentials stop working and are restored afterwards.

use std::time::Duration;

use serde_json::json;
use terse_core::Timestamp;
use terse_core::registry::{
    Account, AccountChange, AccountName, Actor, Attribution, ConditionalAccountChange, NewAccount,
    NewKey, Role, Scope, SecretHash, Session, Suspension,
};
use terse_server::AdminKeys;
use terse_testkit::wait_until;

use crate::harness::{Answer, TestTerse};

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

pub(crate) fn by() -> Attribution {
    Attribution { actor: Actor::Terse, at: Timestamp::from_ms(1), why: None }
}

/// An account with a key and a session.
pub(crate) struct TestAccount {
    pub(crate) user: Account,
    pub(crate) key: String,
    cookie: String,
}

impl TestAccount {
    pub(crate) fn new(terse: &TestTerse, name: &str, role: Role) -> Self {
        let (registry, now) = (terse.registry(), terse.clock().now());
        let name = AccountName::parse(name).unwrap();
        let new = NewAccount { name, role, password: None, identity: None, created_at: now };
        let user = wait(registry.add_account(new, by())).unwrap();
        let (key, hash) = AdminKeys::generate().unwrap();
        let new = NewKey {
            owner: user.id,
            name: "a key".into(),
            scope: Scope::Full,
            token: SecretHash(hash),
            prefix: key[..10].to_owned(),
            created_at: now,
            expires_at: None,
            plan: None,
        };
        wait(registry.add_key(new, by())).unwrap();
        let (cookie, hash) = AdminKeys::generate().unwrap();
        let expires_at = now.checked_add(Duration::from_hours(1)).unwrap();
        let session = Session {
            token: SecretHash(hash),
            owner: user.id,
            created_at: now,
            expires_at,
            browser: None,
        };
        wait(registry.add_session(session, user.revision)).unwrap();
        Self { user, key, cookie }
    }

    pub(crate) fn api(
        &self,
        terse: &TestTerse,
        method: &str,
        path: &str,
        body: Option<serde_json::Value>,
    ) -> Answer {
        let bytes = body.map(|body| body.to_string().into_bytes());
        terse.send(
            method,
            &format!("/api/v1{path}"),
            &[("authorization", &format!("Bearer {}", self.key))],
            bytes.as_deref(),
        )
    }

    fn status_with_cookie(&self, terse: &TestTerse) -> u16 {
        terse
            .send(
                "GET",
                "/api/v1/urls",
                &[("cookie", &format!("terse_session={}", self.cookie))],
                None,
            )
            .status
    }

    pub(crate) fn suspend(&self, terse: &TestTerse, suspended: bool) {
        let suspension =
            suspended.then(|| Suspension { at: terse.clock().now(), why: "spam".into() });
        let change = AccountChange { suspended: Some(suspension), ..AccountChange::default() };
        wait(terse.registry().change_account(
            ConditionalAccountChange { id: self.user.id, change, expected: None },
            by(),
        ))
        .unwrap();
    }
}

#[test]
fn a_suspended_owners_links_keys_and_sessions_stop_working_and_come_back() {
    let mut terse = TestTerse::start();
    let (ann, bob) =
        (TestAccount::new(&terse, "ann", Role::User), TestAccount::new(&terse, "bob", Role::User));
    for (who, alias) in [(&ann, "ann-hot"), (&ann, "ann-cold"), (&bob, "bob-hot")] {
        let body =
            json!({"long_url": "https://example.com/x", "custom_alias": alias, "reuse": false});
        assert_eq!(who.api(&terse, "POST", "/urls", Some(body)).status, 201);
    }
    for _ in 0..10 {
        assert_eq!((terse.get("/ann-hot").status, terse.get("/bob-hot").status), (302, 302));
    }
    assert_eq!(ann.status_with_cookie(&terse), 200);
    ann.suspend(&terse, true);
    // Visited continuously, so it stays in the cache.
    wait_until("the link is taken down", || terse.get("/ann-hot").status == 451);
    for code in ["ann-hot", "ann-cold"] {
        let answer = terse.browse(&format!("/{code}"));
        assert_eq!((answer.status, answer.location()), (451, None));
        for page in [format!("/{code}+"), format!("/r/{code}")] {
            let answer = terse.browse(&page);
            assert_eq!(answer.status, 451, "{page}");
            assert!(!answer.text().contains("example.com"), "{page} says where it led");
        }
        assert_eq!(terse.get(&format!("/{code}/qr")).status, 404);
    }
    assert_eq!(terse.get("/bob-hot").status, 302);
    let refused =
        ann.api(&terse, "POST", "/urls", Some(json!({"long_url": "https://example.com/y"})));
    assert_eq!((refused.status, &refused.json()["code"]), (403, &json!("suspended")));
    assert_eq!(ann.status_with_cookie(&terse), 401, "the session has ended");
    // The suspension is loaded before the port opens again.
    terse.restart();
    assert_eq!((terse.get("/ann-hot").status, terse.get("/bob-hot").status), (451, 302));
    ann.suspend(&terse, false);
    wait_until("the link is back", || terse.get("/ann-hot").status == 302);
    assert_eq!((terse.get("/ann-cold").status, terse.browse("/ann-cold+").status), (302, 200));
    assert_eq!(ann.api(&terse, "GET", "/urls", None).status, 200);
    assert_eq!(ann.status_with_cookie(&terse), 401, "they sign in again");
}
