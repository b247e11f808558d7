//! The rules of the accounts service, whichever adapter calls it.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::accounts::{
    AccountDraft, AccountError, AccountPolicy, Accounts, InvitationDraft, KeyDraft, KeyUse,
    MAX_KEY_NAME, RefreshHook, SignInStep, SignUp,
};
use terse_core::limits::{Limit, LimitSettings, Limiter, RateLimits};
use terse_core::registry::prelude::*;
use terse_core::registry::{Account, KeyId, Role, Scope};
use terse_core::{
    Clock, Credential, Hosts, OwnerId, PasswordError, PasswordHasher, Principal, Timestamp,
};
use terse_testkit::{FixedLimiter, MemoryRegistry};

/// A hasher whose hash is the password with a prefix.
pub(crate) struct Plain;

#[async_trait]
impl PasswordHasher for Plain {
    async fn hash(&self, password: String) -> Result<String, PasswordError> {
        Ok(format!("hash of {password}"))
    }

    async fn hash_with_salt(&self, password: String, _: [u8; 16]) -> Result<String, PasswordError> {
        self.hash(password).await
    }

    async fn verify(&self, password: String, kept: Option<String>) -> Result<bool, PasswordError> {
        Ok(kept == Some(format!("hash of {password}")))
    }
}

#[derive(Default)]
struct Calls {
    refreshed: AtomicUsize,
    used: AtomicUsize,
}

#[async_trait]
impl RefreshHook for Calls {
    async fn refresh(&self) {
        self.refreshed.fetch_add(1, Ordering::Relaxed);
    }
}

impl KeyUse for Calls {
    fn note(&self, _: KeyId, _: Timestamp) {
        self.used.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) struct Bench {
    pub(crate) accounts: Accounts,
    pub(crate) registry: Arc<MemoryRegistry>,
    pub(crate) clock: Clock,
    calls: Arc<Calls>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::limited_by(Arc::new(FixedLimiter::default()))
    }

    pub(crate) fn limited_by(limiter: Arc<dyn Limiter>) -> Self {
        let (registry, calls) = (Arc::new(MemoryRegistry::new()), Arc::new(Calls::default()));
        let settings = LimitSettings {
            sign_in: Limit::per_hour(3),
            create_per_key: Limit::per_hour(100),
            ..LimitSettings::OFF
        };
        let limits = RateLimits::new(limiter, settings);
        let clock = Clock::default();
        let policy = AccountPolicy { open: true, session_ttl: Duration::from_secs(3600) };
        let accounts = Accounts::new(
            registry.clone(),
            Arc::new(Plain),
            limits,
            policy,
            terse_core::accounts::TwoFactorKey::new([7; 32]),
            calls.clone(),
            calls.clone(),
            clock.clone(),
            Hosts::new(&"https://go.example/".parse().unwrap(), &[], vec![]).unwrap(),
        );
        Self { accounts, registry, clock, calls }
    }

    pub(crate) async fn account(&self, name: &str, role: Role) -> Account {
        let draft = AccountDraft {
            name: name.to_owned(),
            role: Some(role.as_str().to_owned()),
            password: Some("correct horse".to_owned()),
        };
        self.accounts.create(&Principal::OPERATOR, draft).await.unwrap()
    }
}

pub(crate) fn principal(account: &Account) -> Principal {
    Principal::of_account(account, Scope::Full, Credential::Nothing)
}

#[tokio::test]
async fn suspensions_follow_one_rule() {
    let bench = Bench::new();
    let mut accounts = Vec::new();
    for (name, role) in [
        ("user-1", Role::User),
        ("user-2", Role::User),
        ("moderator-1", Role::Moderator),
        ("moderator-2", Role::Moderator),
        ("admin-1", Role::Admin),
        ("admin-2", Role::Admin),
    ] {
        accounts.push(bench.account(name, role).await);
    }
    for by in accounts.iter().filter(|by| by.role > Role::User) {
        for account in &accounts {
            let expected =
                by.id != account.id && (by.role == Role::Admin || account.role == Role::User);
            let may = Accounts::may_suspend(&principal(by), account).is_ok();
            assert_eq!(may, expected, "{} suspends {}", by.name, account.name);
            if may {
                let (principal, why) = (principal(by), "spam".to_owned());
                let suspended = bench.accounts.suspend(&principal, account.id, why).await.unwrap();
                assert!(suspended.suspended.is_some());
                bench.accounts.reinstate(&principal, account.id, None).await.unwrap();
            }
        }
    }
    // Two moderators suspend two users each, two admins five accounts each; each is undone.
    assert_eq!(bench.calls.refreshed.load(Ordering::Relaxed), 2 * (2 * 2 + 2 * 5));
}

#[tokio::test]
async fn wrong_passwords_count_by_name_and_the_right_one_does_not() {
    let bench = Bench::new();
    bench.account("ann", Role::User).await;
    let mut from = (1..=u8::MAX).map(|n| IpAddr::from([192, 0, 2, n]));
    let mut check = async |name: &str, password: &str| {
        let from = from.next().unwrap();
        bench.accounts.check_password(from, name, password.to_owned()).await
    };
    for _ in 0..5 {
        let step = check("ann", "correct horse").await.unwrap();
        assert!(matches!(step, SignInStep::Done(account) if account.name.as_str() == "ann"));
    }
    for name in ["ann", "ANN", "ann"] {
        assert!(matches!(check(name, "wrong").await, Err(AccountError::WrongCredentials)));
    }
    assert!(matches!(check("Ann", "correct horse").await, Err(AccountError::Limited(_))));
    for name in ["nobody", "nobody", "nobody"] {
        assert!(matches!(check(name, "wrong").await, Err(AccountError::WrongCredentials)));
    }
    assert!(matches!(check("nobody", "wrong").await, Err(AccountError::Limited(_))));
}

#[tokio::test]
async fn a_key_permits_no_more_than_the_key_that_creates_it() {
    let bench = Bench::new();
    let ann = bench.account("ann", Role::User).await;
    let draft = |name: &str, plan: Option<&str>| KeyDraft {
        name: name.to_owned(),
        scope: "full".to_owned(),
        expires_at: None,
        plan: plan.map(str::to_owned),
    };
    let create =
        async |principal: &Principal, draft| bench.accounts.create_own_key(principal, draft).await;
    let session = principal(&ann);
    assert!(matches!(
        create(&session, draft("more", Some("101/h"))).await,
        Err(AccountError::Forbidden { field: Some("plan"), .. })
    ));
    let (key, made) = create(&session, draft("less", Some("10/h"))).await.unwrap();
    assert_eq!(made.plan.as_deref(), Some("10/h"));
    let by_key = bench.accounts.by_key(&key).await.unwrap();
    assert_eq!(bench.calls.used.load(Ordering::Relaxed), 1);
    let (_, made) = create(&by_key, draft("as much", None)).await.unwrap();
    assert_eq!(made.plan.as_deref(), Some("10/h"), "not the usual limit");
    assert!(create(&by_key, draft("usual", Some("100/h"))).await.is_err());
    for (name, fits) in [
        ("", false),
        ("x".repeat(MAX_KEY_NAME).as_str(), true),
        ("x".repeat(MAX_KEY_NAME + 1).as_str(), false),
        ("two\nlines", false),
    ] {
        assert_eq!(create(&session, draft(name, None)).await.is_ok(), fits, "{name:?}");
    }
}

#[tokio::test]
async fn a_suspended_account_opens_nothing_until_it_is_reinstated() {
    let bench = Bench::new();
    let ann = bench.account("ann", Role::User).await;
    let draft =
        KeyDraft { name: "a key".into(), scope: "full".into(), expires_at: None, plan: None };
    let (key, _) = bench.accounts.create_own_key(&principal(&ann), draft).await.unwrap();
    let begun = bench.accounts.begin_session(&ann, None, None).await.unwrap();
    assert!(bench.accounts.session(&begun.secret).await.unwrap().is_some());
    let why = "spam".to_owned();
    let suspended = bench.accounts.suspend(&Principal::OPERATOR, ann.id, why).await.unwrap();
    assert!(matches!(bench.accounts.by_key(&key).await, Err(AccountError::Suspended)));
    assert!(bench.accounts.session(&begun.secret).await.unwrap().is_none());
    let begun = bench.accounts.begin_session(&suspended, None, None).await;
    assert!(matches!(begun, Err(AccountError::Suspended)));
    bench.accounts.reinstate(&Principal::OPERATOR, ann.id, None).await.unwrap();
    assert!(bench.accounts.by_key(&key).await.is_ok());
    assert_eq!(bench.registry.suspended().await.unwrap(), Vec::<OwnerId>::new());
}

#[tokio::test]
async fn an_account_that_signs_up_cannot_choose_a_password_that_is_guessed_first() {
    let bench = Bench::new();
    let from = IpAddr::from([192, 0, 2, 1]);
    for (name, password, fits) in [
        ("ann", "short", false),
        ("ann-of-green", "Ann-of-Green", false),
        ("a", "correct horse", false),
        ("ann", "correct horse", true),
    ] {
        let way = SignUp::Open;
        let made = bench.accounts.sign_up(&way, from, name, password.to_owned()).await;
        assert_eq!(made.is_ok(), fits, "{name} {password}");
    }
    let way = SignUp::Invitation("unknown");
    let made = bench.accounts.sign_up(&way, from, "bob", "correct horse".to_owned()).await;
    assert!(matches!(made, Err(AccountError::LinkOver)));
}

#[tokio::test]
async fn a_server_without_mail_refuses_an_invitation_by_mail_and_creates_none() {
    let bench = Bench::new();
    let draft =
        |email: &str| InvitationDraft { role: Role::User, ttl: None, email: email.to_owned() };
    for email in ["not an address", "ann@example.com"] {
        let refused = bench.accounts.invite(&Principal::OPERATOR, draft(email)).await;
        assert!(matches!(refused, Err(AccountError::Invalid(_))), "{refused:?}");
    }
    assert!(bench.accounts.invitations(&Principal::OPERATOR).await.unwrap().is_empty());
    let made = bench.accounts.invite(&Principal::OPERATOR, draft(" ")).await.unwrap();
    assert!(made.url.starts_with("https://go.example/join?token=") && !made.mailed);
}
