//! Two-factor sign-in: the rules of the accounts service.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::accounts::{AccountError, RECOVERY_CODES, SignInStep};
use terse_core::limits::{LimitDecision, Limiter, TokenRequest};
use terse_core::registry::prelude::*;
use terse_core::registry::{Account, AuditAction, AuditQuery, KeyId, Role, Scope, SecretHash};
use terse_core::{Credential, OwnerId, Principal};
use terse_testkit::FixedLimiter;
use totp_rs::{Builder, Secret};

use crate::accounts::{Bench, principal};

const PASSWORD: &str = "correct horse";

/// Addresses that were not counted yet.
fn from(n: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, n])
}

/// An account with two-factor sign-in, its app's secret and its recovery codes.
struct TwoFactorAccount {
    bench: Bench,
    id: OwnerId,
    secret: String,
    codes: Vec<String>,
}

impl TwoFactorAccount {
    async fn new() -> Self {
        Self::on(Bench::new()).await
    }

    async fn on(bench: Bench) -> Self {
        let ann = bench.account("ann", Role::User).await;
        let offer = bench.accounts.offer_two_factor(&ann, "Go", None).unwrap();
        let code = code(&bench, &offer.secret);
        let turned_on =
            bench.accounts.turn_on_two_factor(&ann, &offer.seed, PASSWORD.into(), &code).await;
        let (_, codes) = turned_on.unwrap();
        // The code that confirmed the secret was used.
        bench.clock.advance(Duration::from_secs(30));
        Self { bench, id: ann.id, secret: offer.secret, codes }
    }

    fn code(&self) -> String {
        code(&self.bench, &self.secret)
    }

    async fn account(&self) -> Account {
        self.bench.registry.account(self.id).await.unwrap().unwrap()
    }

    /// The ticket after the password.
    async fn ticket(&self, n: u8) -> String {
        match self.bench.accounts.check_password(from(n), "ann", PASSWORD.into()).await.unwrap() {
            SignInStep::Code { ticket } => ticket,
            SignInStep::Done(_) => panic!("signed in without a code"),
        }
    }

    async fn sign_in(&self, n: u8, code: &str) -> Result<Account, AccountError> {
        let ticket = self.ticket(n).await;
        self.bench.accounts.check_code(from(n), &ticket, code).await
    }
}

fn code(bench: &Bench, secret: &str) -> String {
    let secret = Secret::try_from_base32(secret).unwrap();
    let seconds = (bench.clock.now().as_ms() / 1000).cast_unsigned();
    Builder::new().with_secret(secret).build().unwrap().generate(seconds).to_string()
}

fn wrong<T: std::fmt::Debug>(outcome: Result<T, AccountError>) {
    assert!(matches!(outcome, Err(AccountError::WrongCode { .. })), "{outcome:?}");
}

fn over<T: std::fmt::Debug>(outcome: Result<T, AccountError>) {
    assert!(matches!(outcome, Err(AccountError::SignInOver)), "{outcome:?}");
}

#[tokio::test]
async fn a_code_signs_in_once() {
    let ann = TwoFactorAccount::new().await;
    let code = ann.code();
    let ticket = ann.ticket(1).await;
    let spaced = format!(" {} {} ", &code[..3], &code[3..]);
    let account = ann.bench.accounts.check_code(from(1), &ticket, &spaced).await.unwrap();
    ann.bench.accounts.begin_session(&account, None, None).await.unwrap();
    over(ann.bench.accounts.check_code(from(1), &ticket, &code).await);
    wrong(ann.sign_in(2, &code).await);
    ann.bench.clock.advance(Duration::from_secs(30));
    wrong(ann.sign_in(3, &code).await);
    ann.sign_in(4, &ann.code()).await.unwrap();
    // A code before it is refused too, although it was not used and its time is not over.
    ann.bench.clock.advance(Duration::from_secs(30));
    let earlier = ann.code();
    ann.bench.clock.advance(Duration::from_secs(30));
    ann.sign_in(5, &ann.code()).await.unwrap();
    wrong(ann.sign_in(6, &earlier).await);
}

#[tokio::test]
async fn each_recovery_code_signs_in_once() {
    let ann = TwoFactorAccount::new().await;
    assert_eq!(ann.codes.len(), RECOVERY_CODES);
    for (n, code) in (1..).zip(&ann.codes) {
        let typed = if n % 2 == 0 { code.to_uppercase() } else { code.replace('-', " ") };
        let account = ann.sign_in(n, &typed).await.unwrap();
        let left = account.two_factor.unwrap().recovery.len();
        assert_eq!(left, RECOVERY_CODES - usize::from(n));
    }
    wrong(ann.sign_in(50, &ann.codes[0]).await);
    let query =
        AuditQuery { action: Some(AuditAction::RecoveryCodeUsed), limit: 99, ..Default::default() };
    assert_eq!(ann.bench.registry.audit(&query).await.unwrap().len(), RECOVERY_CODES);
}

#[tokio::test]
async fn a_ticket_ends_by_time_and_with_a_new_password() {
    let ann = TwoFactorAccount::new().await;
    let ticket = ann.ticket(1).await;
    ann.bench.clock.advance(Duration::from_secs(599));
    wrong(ann.bench.accounts.check_code(from(1), &ticket, "000000").await);
    ann.bench.clock.advance(Duration::from_secs(1));
    over(ann.bench.accounts.check_code(from(1), &ticket, &ann.code()).await);
    let ticket = ann.ticket(2).await;
    let now = ann.account().await;
    ann.bench
        .accounts
        .change_password(&now, PASSWORD.into(), "battery staple".into())
        .await
        .unwrap();
    over(ann.bench.accounts.check_code(from(2), &ticket, &ann.code()).await);
    for forged in ["", "x", &ticket[1..]] {
        over(ann.bench.accounts.check_code(from(3), forged, &ann.code()).await);
    }
}

#[tokio::test]
async fn wrong_codes_count_and_right_ones_do_not() {
    let ann = TwoFactorAccount::new().await;
    for n in 0..5 {
        ann.sign_in(1, &ann.code()).await.unwrap_or_else(|error| panic!("{n}: {error}"));
        ann.bench.clock.advance(Duration::from_secs(30));
    }
    let ticket = ann.ticket(1).await;
    for n in 10..13 {
        wrong(ann.bench.accounts.check_code(from(n), &ticket, "000000").await);
    }
    // From any address: the name is counted too.
    let limited = ann.bench.accounts.check_code(from(20), &ticket, &ann.code()).await;
    assert!(matches!(limited, Err(AccountError::Limited(_))), "{limited:?}");
}

#[tokio::test]
async fn it_is_turned_on_with_the_password_and_a_code() {
    let bench = Bench::new();
    let ann = bench.account("ann", Role::User).await;
    let offer = bench.accounts.offer_two_factor(&ann, "Go links", None).unwrap();
    let same = bench.accounts.offer_two_factor(&ann, "Go links", Some(&offer.seed)).unwrap();
    assert_eq!((&offer.secret, &offer.url), (&same.secret, &same.url));
    assert!(offer.url.starts_with("otpauth://totp/Go%20links:ann?secret="), "{}", offer.url);
    assert_ne!(bench.accounts.offer_two_factor(&ann, "Go", None).unwrap().secret, offer.secret);
    let code = code(&bench, &offer.secret);
    let turn_on = async |seed: &str, password: &str, code: &str| {
        bench.accounts.turn_on_two_factor(&ann, seed, password.into(), code).await
    };
    let refused = turn_on(&offer.seed, "wrong password", &code).await;
    assert!(matches!(refused, Err(AccountError::WrongPassword { .. })), "{refused:?}");
    wrong(turn_on(&offer.seed, PASSWORD, "000000").await);
    wrong(turn_on("nonsense", PASSWORD, &code).await);
    let step = bench.accounts.check_password(from(1), "ann", PASSWORD.into()).await.unwrap();
    assert!(matches!(step, SignInStep::Done(_)), "it is still off");
    let (changed, _) = turn_on(&offer.seed, PASSWORD, &code).await.unwrap();
    assert!(changed.two_factor.is_some() && ann.two_factor.is_none());
    let again =
        bench.accounts.turn_on_two_factor(&changed, &offer.seed, PASSWORD.into(), &code).await;
    assert!(matches!(again, Err(AccountError::Forbidden { .. })), "{again:?}");
}

#[tokio::test]
async fn it_is_turned_off_with_the_password_or_a_code() {
    for proof in ["password", "code", "recovery"] {
        let ann = TwoFactorAccount::new().await;
        let account = ann.account().await;
        let off =
            async |proof: String| ann.bench.accounts.turn_off_two_factor(&account, proof).await;
        for wrong in ["wrong password", "000000", ""] {
            let refused = off(wrong.into()).await;
            assert!(refused.is_err(), "{wrong}");
        }
        let given = match proof {
            "password" => PASSWORD.to_owned(),
            "code" => ann.code(),
            _ => ann.codes[3].clone(),
        };
        assert!(off(given).await.unwrap().two_factor.is_none(), "{proof}");
        let step = ann.bench.accounts.check_password(from(1), "ann", PASSWORD.into()).await;
        assert!(matches!(step, Ok(SignInStep::Done(_))), "{step:?}");
    }
}

/// Forgets what counts by the minute, as for an attacker who is patient.
#[derive(Default)]
struct HourlyLimiter(FixedLimiter);

#[async_trait]
impl Limiter for HourlyLimiter {
    async fn take(&self, takes: &[TokenRequest]) -> LimitDecision {
        let hourly = |take: &&TokenRequest| take.limit.interval() >= Duration::from_secs(60);
        self.0.take(&takes.iter().filter(hourly).copied().collect::<Vec<_>>()).await
    }

    async fn give_back(&self, takes: &[TokenRequest]) {
        self.0.give_back(takes).await;
    }
}

#[tokio::test]
async fn codes_that_turn_it_off_count_as_at_sign_in() {
    let ann = TwoFactorAccount::on(Bench::limited_by(Arc::new(HourlyLimiter::default()))).await;
    let account = ann.account().await;
    let off = async |proof: &str| {
        ann.bench.accounts.turn_off_two_factor(&account, proof.to_owned()).await
    };
    for n in 0..20 {
        let refused = off(["000000", "00 00-00"][n % 2]).await;
        assert!(matches!(refused, Err(AccountError::Forbidden { .. })), "{n}: {refused:?}");
    }
    for proof in ["000000", "000 000", &ann.code()] {
        let limited = off(proof).await;
        assert!(matches!(limited, Err(AccountError::Limited(_))), "{proof}: {limited:?}");
    }
    off(PASSWORD).await.unwrap();
}

#[tokio::test]
async fn a_session_left_open_does_not_take_an_admin_account_over() {
    let bench = Bench::new();
    let admin = bench.account("admin", Role::Admin).await;
    let ann = bench.account("ann", Role::User).await;
    let session = Credential::Session(SecretHash([7; 32]));
    let session = Principal::of_account(&admin, Scope::Full, session);
    let key = Credential::Key { id: KeyId(1), plan: None };
    let key = Principal::of_account(&admin, Scope::Full, key);
    let refused = bench.accounts.make_reset(&session, admin.id).await.map(|_| ());
    assert!(matches!(refused, Err(AccountError::Forbidden { .. })), "{refused:?}");
    let refused = bench.accounts.remove_two_factor(&session, admin.id).await;
    assert!(matches!(refused, Err(AccountError::Forbidden { .. })), "{refused:?}");
    for (by, id) in [(&session, ann.id), (&key, admin.id), (&Principal::OPERATOR, admin.id)] {
        assert!(bench.accounts.make_reset(by, id).await.is_ok());
        assert!(bench.accounts.remove_two_factor(by, id).await.is_ok());
    }
}

#[tokio::test]
async fn only_an_admin_removes_it_from_another_account() {
    let ann = TwoFactorAccount::new().await;
    let moderator = ann.bench.account("mod", Role::Moderator).await;
    let refused = ann.bench.accounts.remove_two_factor(&principal(&moderator), ann.id).await;
    assert!(matches!(refused, Err(AccountError::Access(_))), "{refused:?}");
    for _ in 0..2 {
        let changed = ann.bench.accounts.remove_two_factor(&Principal::OPERATOR, ann.id).await;
        assert!(changed.unwrap().two_factor.is_none());
    }
    let query =
        AuditQuery { action: Some(AuditAction::TwoFactorOff), limit: 9, ..Default::default() };
    assert_eq!(ann.bench.registry.audit(&query).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_reset_link_does_not_replace_the_code() {
    let ann = TwoFactorAccount::new().await;
    let (token, _) = ann.bench.accounts.make_reset(&Principal::OPERATOR, ann.id).await.unwrap();
    let new = || "battery staple".to_owned();
    ann.bench.accounts.reset_password(from(1), &token, new()).await.unwrap();
    let step = ann.bench.accounts.check_password(from(1), "ann", new()).await.unwrap();
    assert!(matches!(step, SignInStep::Code { .. }), "{step:?}");
}
