//! The services check who may do what, whichever adapter calls them.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::accounts::{AccountError, AccountPolicy, Accounts, KeyUse, RefreshHook};
use terse_core::limits::{Limit, LimitSettings, RateLimits};
use terse_core::moderation::{Moderation, ModerationError, ReportDecision};
use terse_core::registry::{Account, AuditQuery, KeyId, ReportState, Role, Scope};
use terse_core::*;
use terse_testkit::{FixedLimiter, MemoryRegistry, MemoryStore, alias};

use crate::accounts::Plain;
use crate::erasing::links_on;

const VISITOR: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

struct Nothing;

#[async_trait]
impl RefreshHook for Nothing {
    async fn refresh(&self) {}
}

impl KeyUse for Nothing {
    fn note(&self, _: KeyId, _: Timestamp) {}
}

struct Services {
    store: Arc<MemoryStore>,
    links: Arc<Links>,
    accounts: Arc<Accounts>,
    moderation: Moderation,
    removals: Removals,
    public: PublicLinks,
}

impl Services {
    fn new() -> Self {
        let (store, registry) = (Arc::new(MemoryStore::new()), Arc::new(MemoryRegistry::new()));
        let links = Arc::new(links_on(store.clone()));
        let settings = LimitSettings {
            guesses_per_address: Limit::per_minute(3),
            passwords_per_address: Limit::per_hour(2),
            ..LimitSettings::OFF
        };
        let limits = RateLimits::new(Arc::new(FixedLimiter::default()), settings);
        let nothing = Arc::new(Nothing);
        let policy = AccountPolicy { open: false, session_ttl: Duration::from_secs(3600) };
        let accounts = Arc::new(Accounts::new(
            registry.clone(),
            Arc::new(Plain),
            limits.clone(),
            policy,
            terse_core::accounts::TwoFactorKey::new([7; 32]),
            nothing.clone(),
            nothing.clone(),
            Clock::default(),
            links.rules().hosts.clone(),
        ));
        let moderation = Moderation::new(
            links.clone(),
            accounts.clone(),
            registry.clone(),
            limits.clone(),
            nothing,
            [7; 32],
        );
        let removals = Removals::new(registry, Clock::default());
        let public = PublicLinks::new(links.clone(), limits);
        Self { store, links, accounts, moderation, removals, public }
    }

    async fn account(&self, name: &str, role: Role) -> (Account, Principal) {
        let draft = terse_core::accounts::AccountDraft {
            name: name.to_owned(),
            role: Some(role.as_str().to_owned()),
            password: None,
        };
        let account = self.accounts.create(&Principal::OPERATOR, draft).await.unwrap();
        let principal = Principal::of_account(&account, Scope::Full, Credential::Nothing);
        (account, principal)
    }
}

/// Whether an account service let the caller through.
fn let_in<T>(result: Result<T, AccountError>) -> bool {
    !matches!(result, Err(AccountError::Access(_)))
}

/// Whether a service of moderation let the caller through.
fn let_in_too<T>(result: Result<T, ModerationError>) -> bool {
    !matches!(result, Err(ModerationError::Access(_)))
}

#[tokio::test]
async fn what_a_role_may_read_and_do_is_decided_by_the_services() {
    let services = Services::new();
    let Services { links, accounts, moderation, removals, store, .. } = &services;
    let (other, _) = services.account("other", Role::User).await;
    let reported = alias("reported", "https://example.com/");
    store.insert(Insert::new(reported.clone(), None)).await.unwrap();
    for (name, role) in
        [("user", Role::User), ("moderator", Role::Moderator), ("admin", Role::Admin)]
    {
        let (own, by) = services.account(name, role).await;
        let (moderates, administers) = (role >= Role::Moderator, role >= Role::Admin);
        let query = AuditQuery { limit: 1, ..AuditQuery::default() };
        let (key, block) = ((&reported.key, reported.created_at), ReportDecision::Block);
        let why = || "spam".to_owned();
        for (what, is_let_in, expected) in [
            ("read the audit log", let_in_too(moderation.audit(&by, &query).await), moderates),
            ("list blocked hosts", let_in_too(moderation.blocked_hosts(&by).await), moderates),
            (
                "list reports",
                let_in_too(moderation.reported(&by, ReportState::Open, None, 1).await),
                moderates,
            ),
            (
                "block a host",
                let_in_too(moderation.block_host(&by, "evil.example", why()).await),
                moderates,
            ),
            (
                "decide about a report",
                let_in_too(moderation.decide_report(&by, key, block, why()).await),
                moderates,
            ),
            ("read removals", let_in_too(removals.waiting(&by).await), administers),
            ("confirm a removal", let_in_too(removals.confirm(&by, 1).await), administers),
            ("list accounts", let_in(accounts.accounts(&by, None, 1).await), administers),
            ("read an account", let_in(accounts.account(&by, other.id).await), administers),
            ("find an account", let_in(accounts.named(&by, "other").await), administers),
            ("list its own keys", let_in(accounts.keys(&by, own.id).await), true),
            ("list another's keys", let_in(accounts.keys(&by, other.id).await), administers),
            (
                "revoke another's key",
                let_in(accounts.revoke_key(&by, other.id, KeyId(1)).await),
                administers,
            ),
            (
                "make nodes forget a link",
                !matches!(links.forget(&by, &reported.key).await, Err(LinkError::Access(_))),
                administers,
            ),
        ] {
            assert_eq!(is_let_in, expected, "a {name} may {what}");
        }
        assert_eq!(by.sees_notes_of(other.id), administers);
        assert!(by.sees_notes_of(own.id));
    }
}

#[tokio::test]
async fn a_decision_is_about_the_link_that_was_reported() {
    let services = Services::new();
    let (_, by) = services.account("moderator", Role::Moderator).await;
    let link = alias("reported", "https://example.com/");
    services.store.insert(Insert::new(link.clone(), None)).await.unwrap();
    let decide = async |created_at| {
        let decision = ReportDecision::Block;
        let why = "spam".to_owned();
        services.moderation.decide_report(&by, (&link.key, created_at), decision, why).await
    };
    let status = async || services.links.preview(&link.key).await.unwrap().unwrap().moderation;
    let earlier = Timestamp::from_ms(link.created_at.as_ms() - 1);
    assert!(matches!(decide(earlier).await, Err(ModerationError::Link(LinkError::NotFound))));
    assert_eq!(status().await, ModerationStatus::Clear);
    decide(link.created_at).await.unwrap();
    assert_eq!(status().await, ModerationStatus::Blocked);
}

#[tokio::test]
async fn a_decision_names_the_one_that_takes_it_back() {
    use ReportDecision::{Block, Clear, ReinstateOwner, SuspendOwner, Warn};
    let services = Services::new();
    let (_, by) = services.account("moderator", Role::Moderator).await;
    let (owner, _) = services.account("owner", Role::User).await;
    let link = Link { owner: owner.id, ..alias("reported", "https://example.com/") };
    services.store.insert(Insert::new(link.clone(), None)).await.unwrap();
    for (decision, undo) in [
        (Clear, None),
        (Block, Some(Clear)),
        (Block, None),
        (Warn, Some(Block)),
        (Clear, Some(Warn)),
        (SuspendOwner, Some(ReinstateOwner)),
        // A link of a suspended owner is shown as blocked, but is not.
        (Block, Some(Clear)),
        (SuspendOwner, None),
        (ReinstateOwner, Some(SuspendOwner)),
        (ReinstateOwner, None),
    ] {
        let (reported, why) = ((&link.key, link.created_at), "spam".to_owned());
        let decided = services.moderation.decide_report(&by, reported, decision, why).await;
        assert_eq!(decided.unwrap(), undo, "{decision:?}");
    }
}

#[tokio::test]
async fn requests_for_links_that_visitors_do_not_see_count_as_guesses() {
    let services = Services::new();
    let link = alias("there", "https://example.com/");
    let deleted = Link { deleted_at: Some(link.created_at), ..alias("gone", "https://a.example/") };
    for link in [&link, &deleted] {
        services.store.insert(Insert::new(link.clone(), None)).await.unwrap();
    }
    let public = &services.public;
    for _ in 0..5 {
        assert_eq!(public.find(&link.key, VISITOR).await.unwrap().key, link.key);
    }
    assert!(matches!(public.find(&deleted.key, VISITOR).await, Err(LinkError::NotFound)));
    assert!(matches!(public.find_for_qr(None, VISITOR).await, Err(LinkError::NotFound)));
    // Links without a password are not found here.
    let protected = public.find_protected(Some(&link.key), VISITOR).await;
    assert!(matches!(protected, Err(LinkError::NotFound)));
    assert!(matches!(public.find(&deleted.key, VISITOR).await, Err(LinkError::Limited(_))));
    assert!(public.find(&link.key, VISITOR).await.is_ok(), "not a guess");
}

#[tokio::test]
async fn only_wrong_passwords_of_a_link_stay_counted() {
    let services = Services::new();
    let link = alias("there", "https://example.com/");
    let hash = PasswordHash::from_phc("hash of sesame");
    let attempt = async |typed: &str| -> Result<bool, LinkError> {
        let typed = async { Ok(typed.to_owned()) };
        services.public.try_password(&Plain, (&link.key, &hash), VISITOR, typed).await
    };
    for _ in 0..5 {
        assert!(attempt("sesame").await.unwrap());
    }
    for _ in 0..2 {
        assert!(!attempt("simsim").await.unwrap());
    }
    assert!(matches!(attempt("sesame").await, Err(LinkError::Limited(_))));
}

/// Counts the passwords that it hashes.
#[derive(Default)]
struct CountingHasher(AtomicUsize);

#[async_trait]
impl PasswordHasher for CountingHasher {
    async fn hash(&self, password: String) -> Result<String, PasswordError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match password.len() {
            1..=MAX_PASSWORD_LEN => Plain.hash(password).await,
            _ => Err(PasswordError::Length),
        }
    }

    async fn hash_with_salt(&self, text: String, _: [u8; 16]) -> Result<String, PasswordError> {
        self.hash(text).await
    }

    async fn verify(&self, _: String, _: Option<String>) -> Result<bool, PasswordError> {
        Ok(false)
    }
}

#[tokio::test]
async fn a_password_is_hashed_only_for_a_caller_who_may_change_the_link() {
    let (store, hasher) = (Arc::new(MemoryStore::new()), Arc::<CountingHasher>::default());
    let links = links_on(store.clone()).with_passwords(hasher.clone());
    let (owner, stranger) = (Caller::Owner(OwnerId(1000)), Caller::Owner(OwnerId(1001)));
    let link = Link { owner: OwnerId(1000), ..alias("mine", "https://example.com/") };
    store.insert(Insert::new(link.clone(), None)).await.unwrap();
    let patch = |password: &str| LinkPatch {
        password: PatchField::Set(Secret::new(password)),
        ..LinkPatch::default()
    };
    let change = async |caller, password: &str, expected| {
        links.patch(caller, &link.key, &patch(password), expected).await
    };
    let hashed = || hasher.0.load(Ordering::Relaxed);

    assert!(matches!(change(stranger, "sesame", None).await, Err(LinkError::NotFound)));
    assert!(matches!(change(Caller::Anonymous, "x", None).await, Err(LinkError::KeyNeeded)));
    let outdated = Some(Revision(99));
    assert!(matches!(change(owner, "sesame", outdated).await, Err(LinkError::Conflict)));
    assert_eq!(hashed(), 0);

    let changed = change(owner, "sesame", Some(link.revision)).await.unwrap();
    assert!(changed.password.is_some());
    assert_eq!(hashed(), 1);
    for bad in ["", &"x".repeat(MAX_PASSWORD_LEN + 1)] {
        let Err(LinkError::Refused(error)) = change(owner, bad, None).await else {
            panic!("{} bytes", bad.len());
        };
        assert_eq!(error.field, "password");
    }
}
