//! A whole server in memory, and ways to call it.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use futures_util::FutureExt as _;
use serde_json::Value;
use terse_core::accounts::{ErasureError, Erasures, NoKeyUse, RefreshHook};
use terse_core::clicks::LiveFeed;
use terse_core::limits::LimitSettings;
use terse_core::metrics::Metrics;
use terse_core::registry::prelude::*;
use terse_core::registry::{
    AccountName, Actor, Attribution, FIRST_ACCOUNT, KeyId, NewAccount, NewKey, Role, Scope,
    SecretHash, Session, WebhookKey,
};
use terse_core::webhooks::WebhookState;
use terse_core::*;
use terse_server::{
    AccountSettings, AdminKeys, ApiStats, AppState, HttpSettings, Passwords, Peer, RateLimits,
    router,
};
use terse_testkit::{FixedLimiter, MemoryRegistry};
use tokio::sync::watch;
use tower::ServiceExt;

use crate::fake::Fake;
use crate::fake_clicks::FakeClicks;

pub(crate) const KEY: &str = "terse_test-key";
/// The keys and ids of an owner and of another one.
pub(crate) const OWNER: (&str, OwnerId) = ("terse_owner", FIRST_ACCOUNT);
pub(crate) const OTHER: (&str, OwnerId) = ("terse_other", OwnerId(FIRST_ACCOUNT.0 + 1));
/// The key and id of a moderator.
pub(crate) const MODERATOR: (&str, OwnerId) = ("terse_moderator", OwnerId(FIRST_ACCOUNT.0 + 2));

/// Blocks one host and flags another as odd.
struct Watchful;

impl Screening for Watchful {
    fn screen(&self, target: &Target, _input: ScreenInput<'_>) -> ScreenResult {
        match target.host().as_deref() {
            Some("listed.example") => ScreenResult::Blocked { source: "our list".into() },
            Some("odd.example" | "xn--dd-eka.example") => {
                ScreenResult::Suspicious(LinkFlags::new(["odd", "unheard_of"]))
            }
            _ => ScreenResult::Clear(LinkFlags::default()),
        }
    }

    fn list_match(&self, target: &Target, _: ModerationStatus) -> Option<ListMatch> {
        let (list, kind) = match target.host().as_deref()? {
            "listed.example" => ("our list", EntryKind::Host),
            "odd.example" => ("odd list", EntryKind::Url),
            _ => return None,
        };
        Some(ListMatch { list: list.into(), kind })
    }

    fn lists(&self) -> Vec<ListStatus> {
        let (name, entries) = ("our list".to_owned(), Some(1200));
        vec![ListStatus { name, blocks: true, entries, hits: 34_567 }]
    }

    fn sentence(&self, flag: &str) -> Option<&'static str> {
        (flag == "odd").then_some("It is <odd>.")
    }
}

/// Applies the branding, as the registry watcher of a server does.
struct ApplyBranding {
    registry: Arc<MemoryRegistry>,
    operator: Arc<EffectiveOperator>,
}

#[async_trait::async_trait]
impl RefreshHook for ApplyBranding {
    async fn refresh(&self) {
        self.operator.apply(&self.registry.branding().await.unwrap());
    }
}

/// Creates the account with this id, which must be the next one, and a key with all permissions.
fn enrol(registry: &MemoryRegistry, key: &str, owner: OwnerId, role: Role) {
    let (at, by) = (Timestamp::from_ms(1), || Attribution {
        actor: Actor::Terse,
        at: Timestamp::from_ms(1),
        why: None,
    });
    let name = AccountName::parse(&key.replace('_', "-")).unwrap();
    let user = NewAccount { name, role, password: None, identity: None, created_at: at };
    let user = registry.add_account(user, by()).now_or_never().unwrap().unwrap();
    assert_eq!(user.id, owner);
    let token = SecretHash(AdminKeys::hash(key));
    let (name, prefix, scope) = ("a key".to_owned(), key[..6].to_owned(), Scope::Full);
    let key =
        NewKey { owner, name, prefix, token, scope, created_at: at, expires_at: None, plan: None };
    registry.add_key(key, by()).now_or_never().unwrap().unwrap();
}

/// What the process knows of itself: nothing, until a test sets it.
#[derive(Default)]
pub(crate) struct FakeSystem {
    pub(crate) metrics: Mutex<Metrics>,
    pub(crate) sizes: Mutex<Vec<StoredSize>>,
    pub(crate) settings: Mutex<Vec<SettingInForce>>,
}

impl SystemInfo for FakeSystem {
    fn metrics(&self) -> Metrics {
        let mut copy = Metrics::default();
        for family in self.metrics.lock().unwrap().families().iter().cloned() {
            copy.add(family.name, family.help, family.values);
        }
        copy
    }

    fn sizes(&self) -> Vec<StoredSize> {
        self.sizes.lock().unwrap().clone()
    }

    fn settings(&self) -> Vec<SettingInForce> {
        self.settings.lock().unwrap().clone()
    }
}

pub(crate) struct Web {
    router: Router,
    pub(crate) registry: Arc<MemoryRegistry>,
    pub(crate) store: Arc<Fake>,
    pub(crate) clock: Clock,
    pub(crate) stats: Arc<ApiStats>,
    pub(crate) clicks: Arc<FakeClicks>,
    pub(crate) live: Arc<LiveFeed>,
    pub(crate) erasures: Erasures,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) jobs: Arc<JobBoard>,
    pub(crate) system: Arc<FakeSystem>,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Status, code and field of a problem, after checking its form.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, String, Option<String>) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text());
        let body = self.json();
        assert_eq!(body["status"], self.status.as_u16());
        assert!(body["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        assert_eq!(text("type").unwrap(), format!("/api/docs#{}", text("code").unwrap()));
        assert!(body.as_object().unwrap().contains_key("field"));
        (self.status.as_u16(), text("code").unwrap(), text("field"))
    }

    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str, field: &str) {
        let field = Some(field.to_owned()).filter(|field| !field.is_empty());
        assert_eq!(self.problem(), (status, code.to_owned(), field), "{}", self.text());
    }
}

/// Fails if a call returns a problem that the OpenAPI document does not list for it.
fn check_described(method: &str, path: &str, answer: &Answer) {
    static DOCUMENT: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(terse_server::OPENAPI).unwrap());
    if answer.header("content-type") != "application/problem+json" {
        return;
    }
    let path = path.split('?').next().unwrap_or_default();
    let fits = |template: &str| {
        let parts = || template.split('/').zip(path.split('/'));
        template.split('/').count() == path.split('/').count()
            && parts().all(|(is, got)| is == got || is.starts_with('{'))
    };
    let paths = DOCUMENT["paths"].as_object().unwrap();
    // `/urls/bulk` comes before `/urls/{code}`.
    let item = paths
        .get(path)
        .or_else(|| paths.iter().find(|(template, _)| fits(template)).map(|(_, item)| item));
    let Some(operation) = item.and_then(|item| item.get(method.to_lowercase())) else { return };
    let (status, code) = (answer.status.as_str(), answer.json()["code"].clone());
    let kinds = &operation["responses"][status]["content"]["application/problem+json"]["examples"];
    assert!(
        kinds.get(code.as_str().unwrap()).is_some(),
        "{method} {path} returned {code}, which is not described: {}",
        answer.text()
    );
}

/// Uses the user agent as the name of the device, and locates every address in Austria.
struct Watching;

impl terse_core::rules::VisitorClassifier for Watching {
    fn classify(
        &self,
        agent: Option<&[u8]>,
        address: Option<std::net::IpAddr>,
    ) -> terse_core::rules::VisitorTraits {
        let device = agent.map(|agent| String::from_utf8_lossy(agent).as_ref().into());
        terse_core::rules::VisitorTraits {
            device,
            system: None,
            country: address.map(|_| "AT".into()),
            browser: None,
        }
    }
}

impl Web {
    /// Finishes the erasures that were begun, as the erasure job does, and returns their number.
    pub(crate) async fn finish_erasures(&self) -> Result<usize, ErasureError> {
        let unfinished = self.erasures.unfinished().await?;
        let count = unfinished.len();
        for mut erasure in unfinished {
            while erasure.next_batch().await? {}
        }
        Ok(count)
    }

    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    pub(crate) fn with(change: impl FnOnce(&mut LinkPolicy)) -> Self {
        Self::build(change, RateLimits::off(), false, Operator::default(), HttpSettings::default())
    }

    pub(crate) fn limited(settings: LimitSettings) -> Self {
        let limits = RateLimits::new(Arc::new(FixedLimiter::default()), settings);
        Self::build(|_| (), limits, false, Operator::default(), HttpSettings::default())
    }

    pub(crate) fn with_webhooks() -> Self {
        Self::build(|_| (), RateLimits::off(), true, Operator::default(), HttpSettings::default())
    }

    pub(crate) fn run_by(operator: Operator) -> Self {
        Self::build(|_| (), RateLimits::off(), false, operator, HttpSettings::default())
    }

    pub(crate) fn answering(http: HttpSettings) -> Self {
        Self::build(|_| (), RateLimits::off(), false, Operator::default(), http)
    }

    fn build(
        change: impl FnOnce(&mut LinkPolicy),
        limits: RateLimits,
        webhooks: bool,
        operator: Operator,
        http: HttpSettings,
    ) -> Self {
        let operator = Arc::new(EffectiveOperator::new(operator));
        let jobs = Arc::<JobBoard>::default();
        let system = Arc::<FakeSystem>::default();
        let base = url::Url::parse("https://go.example/").unwrap();
        let hosts =
            Hosts::new(&base, &["localhost"], vec![Domain::parse("b.example").unwrap()]).unwrap();
        let blocked = BlockedHosts::parse(&["evil.example"]).unwrap();
        let mut rules = LinkPolicy {
            targets: TargetRules { hosts: Some(hosts.clone()), allow_private: false, blocked },
            hosts,
            anonymous_create: true,
            anonymous_ttl: Duration::from_secs(8 * 3600),
            grace: Duration::from_secs(7 * 86_400),
            keep_expired: Duration::from_secs(7 * 86_400),
            quarantine: Duration::ZERO,
            unwanted_aliases: Default::default(),
        };
        change(&mut rules);
        let (store, clock, stats) = (Fake::new(), Clock::default(), Arc::new(ApiStats::default()));
        let codes = Arc::new(RandomCodes::new(Alphabet::Base62, 7));
        let passwords = Passwords::new(1);
        let links = Links::new(
            store.clone(),
            codes,
            Arc::new(NoRouteCache),
            Arc::new(Watchful),
            rules,
            clock.clone(),
        );
        let links = Arc::new(links.with_passwords(Arc::new(passwords.clone())));
        let keys = AdminKeys::new(vec![AdminKeys::hash(KEY)]);
        let registry = Arc::new(MemoryRegistry::new());
        for ((key, owner), role) in
            [(OWNER, Role::User), (OTHER, Role::User), (MODERATOR, Role::Moderator)]
        {
            enrol(&registry, key, owner, role);
        }
        let (clicks, live, (stop, stopped)) =
            (FakeClicks::new(), Arc::new(LiveFeed::default()), watch::channel(false));
        let erasures = Erasures::new(links.clone(), clicks.clone(), registry.clone());
        let router = router(AppState {
            links,
            keys,
            registry: registry.clone(),
            registry_refresh: Arc::new(ApplyBranding {
                registry: registry.clone(),
                operator: operator.clone(),
            }),
            passwords,
            operator: Arc::clone(&operator),
            accounts: AccountSettings::closed(),
            used_keys: Arc::new(NoKeyUse),
            classifier: Arc::new(Watching),
            cursor_key: [9; 32],
            pass_key: [8; 32],
            two_factor_key: terse_core::accounts::TwoFactorKey::new([7; 32]),
            reporter_key: [8; 32],
            limits,
            stats: stats.clone(),
            clicks: clicks.clone(),
            live: live.clone(),
            webhooks: webhooks.then(|| WebhookState {
                key: WebhookKey::new([3; 32]),
                rules: TargetRules::default(),
                owners: Arc::default(),
                wake: Arc::default(),
            }),
            mail: Some(Arc::default()),
            jobs: jobs.clone(),
            self_check: Arc::new(NoSelfCheck),
            system_info: system.clone(),
            lookup: Arc::new(Records),
            certificates: Arc::new(Records),
            http,
            stop: stopped,
        });
        Self { router, registry, store, clock, stats, clicks, live, erasures, stop, jobs, system }
    }

    /// Creates an account with a key of this name that has all permissions.
    pub(crate) async fn person(&self, name: &str, role: Role) -> OwnerId {
        let by = || Attribution { actor: Actor::Terse, at: Timestamp::from_ms(1), why: None };
        let user_name = AccountName::parse(name).unwrap();
        let user = NewAccount {
            name: user_name,
            role,
            password: None,
            identity: None,
            created_at: Timestamp::from_ms(1),
        };
        let owner = self.registry.add_account(user, by()).await.unwrap().id;
        self.give_key(owner, name, |_| ()).await;
        owner
    }

    /// Adds a key to an account, after `change` has edited it.
    pub(crate) async fn give_key(
        &self,
        owner: OwnerId,
        key: &str,
        change: impl FnOnce(&mut NewKey),
    ) -> KeyId {
        let (token, at) = (SecretHash(AdminKeys::hash(key)), Timestamp::from_ms(1));
        let (name, prefix) = ("a key".to_owned(), "terse_".to_owned());
        let mut key = NewKey {
            owner,
            name,
            prefix,
            token,
            scope: Scope::Full,
            created_at: at,
            expires_at: None,
            plan: None,
        };
        change(&mut key);
        self.registry
            .add_key(key, Attribution { actor: Actor::Terse, at, why: None })
            .await
            .unwrap()
            .id
    }

    /// Signs an account in and returns its cookie.
    pub(crate) async fn sign_in(&self, owner: OwnerId, secret: &str) -> String {
        self.sign_in_with(owner, secret, None).await
    }

    /// The same, with a browser of this name.
    pub(crate) async fn sign_in_with(
        &self,
        owner: OwnerId,
        secret: &str,
        browser: Option<&str>,
    ) -> String {
        let seen = self.registry.account(owner).await.unwrap().unwrap().revision;
        let token = SecretHash(AdminKeys::hash(secret));
        let (created_at, expires_at) = (self.clock.now(), Timestamp::MAX);
        let browser = browser.map(str::to_owned);
        let session = Session { token, owner, created_at, expires_at, browser };
        self.registry.add_session(session, seen).await.unwrap();
        format!("__Host-terse_session={secret}")
    }

    /// Calls as a signed-in browser, from a page of this site.
    pub(crate) async fn signed_in(&self, line: &str, cookie: &str, body: Value) -> Answer {
        let headers = [
            ("cookie", cookie),
            ("sec-fetch-site", "same-origin"),
            ("content-type", "application/json"),
        ];
        self.call(line, &headers, body.to_string()).await
    }

    /// Calls with this key and returns the response before its body is read.
    pub(crate) async fn open(&self, path: &str, key: &str) -> Response<Body> {
        let request =
            Request::builder().uri(path).header("authorization", key).body(Body::empty()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Sends JSON from an address, without a key.
    pub(crate) async fn from(&self, address: &str, line: &str, body: Value) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let request =
            Request::builder().method(method).uri(path).extension(Peer(address.parse().unwrap()));
        self.send(
            request
                .header("content-type", "application/json")
                .body(body.to_string().into())
                .unwrap(),
        )
        .await
    }

    /// Calls with this key.
    pub(crate) async fn as_owner(&self, line: &str, key: &str, body: Value) -> Answer {
        self.call(
            line,
            &[("authorization", key), ("content-type", "application/json")],
            body.to_string(),
        )
        .await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap().to_vec();
        Answer { status: head.status, headers: head.headers, bytes }
    }

    /// The same, but does not read a body that never ends.
    pub(crate) async fn begin(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request =
            Request::builder().method(method).uri(path).header("x-request-id", "test");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response =
            self.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let endless =
            head.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
        let bytes =
            if endless { Vec::new() } else { to_bytes(body, usize::MAX).await.unwrap().to_vec() };
        Answer { status: head.status, headers: head.headers, bytes }
    }

    /// How long the server takes to answer a call with this key.
    pub(crate) async fn timed(&self, path: &str, key: &str) -> (StatusCode, Duration) {
        let request =
            Request::builder().uri(path).header("authorization", key).body(Body::empty()).unwrap();
        let router = self.router.clone();
        let began = std::time::Instant::now();
        let response = router.oneshot(request).await.unwrap();
        (response.status(), began.elapsed())
    }

    /// Every path of the router, as the router writes it.
    pub(crate) fn paths(&self) -> Vec<String> {
        // The router offers no other way to list them.
        let told = format!("{:?}", self.router);
        let mut paths: Vec<String> = told
            .split('"')
            .filter(|text| text.starts_with('/') && !text.starts_with("/{*"))
            .map(str::to_owned)
            .collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// Sends `METHOD /path` with these headers.
    pub(crate) async fn call(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        // A fixed id, so that answers can be compared.
        if !headers.iter().any(|(name, _)| *name == "x-request-id") {
            request = request.header("x-request-id", "test");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.send(request.body(body.into()).unwrap()).await;
        check_described(method, path, &answer);
        answer
    }

    /// Calls with the operator's key, with JSON if there is any.
    pub(crate) async fn api(&self, line: &str, body: Value) -> Answer {
        let headers =
            [("authorization", &*format!("Bearer {KEY}")), ("content-type", "application/json")];
        match body {
            Value::Null => self.call(line, &headers[..1], "").await,
            body => self.call(line, &headers, body.to_string()).await,
        }
    }

    /// Calls without a key.
    pub(crate) async fn anonymous(&self, line: &str, body: Value) -> Answer {
        self.call(line, &[("content-type", "application/json")], body.to_string()).await
    }

    /// Calls as a browser does.
    pub(crate) async fn page(&self, path: &str) -> Answer {
        self.call(&format!("GET {path}"), &[("accept", "text/html"), ("host", "go.example")], "")
            .await
    }
}

/// The DNS of the tests.
pub(crate) struct Records;

impl CertificateStatus for Records {
    fn certificate_state(&self, host: &str) -> Option<CertificateState> {
        let at = |day: &str| Timestamp::parse(&format!("{day}T00:00:00Z")).unwrap();
        match host {
            "good.example" => Some(CertificateState::Valid(at("2027-02-03"))),
            "b.example" => Some(CertificateState::Failing {
                valid_until: None,
                problem: "Port 80 is <closed>.".to_owned(),
                next_try: at("2027-01-01"),
            }),
            _ => None,
        }
    }
}

#[async_trait::async_trait]
impl NameLookup for Records {
    async fn addresses(&self, host: &str) -> Result<Vec<std::net::IpAddr>, LookupFailed> {
        Ok(match host {
            "go.example" | "good.example" => vec![[8, 8, 8, 8].into()],
            "b.example" => vec![[9, 9, 9, 9].into()],
            "slow.example" => return Err(LookupFailed),
            _ => vec![],
        })
    }
}
