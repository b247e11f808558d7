//! Reset links of accounts whose password is forgotten.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::net::IpAddr;

use terse_core::accounts::{AccountError, BearerSecret};
use terse_core::registry::prelude::*;
use terse_core::registry::{
    AccountChange, AuditAction, AuditQuery, ConditionalAccountChange, PasswordReset, Role,
};
use terse_core::{Principal, Timestamp};

use crate::accounts::{Bench, principal};

const HERE: [u8; 4] = [192, 0, 2, 1];

fn over<T: std::fmt::Debug>(outcome: Result<T, AccountError>) {
    assert!(matches!(outcome, Err(AccountError::LinkOver)), "{outcome:?}");
}

#[tokio::test]
async fn a_reset_link_sets_a_password_once_and_ends_all_sessions() {
    let bench = Bench::new();
    let here = IpAddr::from(HERE);
    let ann = bench.account("ann", Role::User).await;
    let session = bench.accounts.begin_session(&ann, None, None).await.unwrap().secret;
    let (token, _) = bench.accounts.make_reset(&Principal::OPERATOR, ann.id).await.unwrap();
    let shown = bench.accounts.reset_account(here, &token).await.unwrap();
    assert_eq!(shown.name, ann.name);
    assert!(bench.accounts.session(&session).await.unwrap().is_some(), "nothing ended yet");
    for password in ["short", "ANN"] {
        let refused = bench.accounts.reset_password(here, &token, password.to_owned()).await;
        assert!(matches!(refused, Err(AccountError::Invalid(_))), "{refused:?}");
    }
    let new = || "battery staple".to_owned();
    bench.accounts.reset_password(here, &token, new()).await.unwrap();
    assert!(bench.accounts.session(&session).await.unwrap().is_none());
    let there = IpAddr::from([192, 0, 2, 2]);
    assert!(bench.accounts.check_password(there, "ann", "correct horse".into()).await.is_err());
    bench.accounts.check_password(there, "ann", new()).await.unwrap();
    over(bench.accounts.reset_account(there, &token).await);
    let again = IpAddr::from([192, 0, 2, 3]);
    over(bench.accounts.reset_password(again, &token, "another one".into()).await);
    let lines = bench.registry.audit(&AuditQuery { limit: 2, ..AuditQuery::default() }).await;
    let acts: Vec<_> = lines.unwrap().iter().map(|line| line.act).collect();
    assert_eq!(acts, [AuditAction::ResetLinkUsed, AuditAction::ResetLinkMade]);
}

#[tokio::test]
async fn a_reset_link_ends_by_time_by_a_newer_one_and_by_another_password() {
    let bench = Bench::new();
    let here = IpAddr::from(HERE);
    let ann = bench.account("ann", Role::User).await;
    let make = async || bench.accounts.make_reset(&Principal::OPERATOR, ann.id).await.unwrap().0;
    let first = make().await;
    let second = make().await;
    over(bench.accounts.reset_account(here, &first).await);
    let now = bench.accounts.reset_account(here, &second).await.unwrap();
    bench
        .accounts
        .change_password(&now, "correct horse".into(), "battery staple".into())
        .await
        .unwrap();
    over(bench.accounts.reset_account(here, &second).await);
    // A link that has expired.
    let token = BearerSecret::key().unwrap();
    let reset = PasswordReset { token: token.token(), expires_at: Timestamp::from_ms(1) };
    let change = AccountChange { reset: Some(Some(reset)), ..AccountChange::default() };
    let change = ConditionalAccountChange { id: ann.id, change, expected: None };
    let by = terse_core::registry::Attribution {
        actor: terse_core::registry::Actor::Terse,
        at: Timestamp::from_ms(0),
        why: None,
    };
    bench.registry.change_account(change, by).await.unwrap();
    let there = IpAddr::from([192, 0, 2, 2]);
    over(bench.accounts.reset_password(there, &token.reveal(), "battery staple".into()).await);
}

#[tokio::test]
async fn only_admins_make_reset_links_and_not_for_suspended_accounts() {
    let bench = Bench::new();
    let moderator = bench.account("mod", Role::Moderator).await;
    let admin = bench.account("admin", Role::Admin).await;
    let ann = bench.account("ann", Role::User).await;
    for by in [&ann, &moderator] {
        let refused = bench.accounts.make_reset(&principal(by), ann.id).await;
        assert!(matches!(refused, Err(AccountError::Access(_))), "{refused:?}");
    }
    let (token, _) = bench.accounts.make_reset(&principal(&admin), ann.id).await.unwrap();
    bench.accounts.suspend(&principal(&admin), ann.id, "spam".into()).await.unwrap();
    over(bench.accounts.reset_account(IpAddr::from(HERE), &token).await);
    let refused = bench.accounts.make_reset(&principal(&admin), ann.id).await;
    assert!(matches!(refused, Err(AccountError::Forbidden { .. })), "{refused:?}");
    let missing = bench.accounts.make_reset(&principal(&admin), terse_core::OwnerId(5)).await;
    assert!(matches!(missing, Err(AccountError::NotFound(_))), "{missing:?}");
}

#[tokio::test]
async fn guessed_reset_links_count_by_address_and_right_ones_do_not() {
    let bench = Bench::new();
    let here = IpAddr::from(HERE);
    let ann = bench.account("ann", Role::User).await;
    let (token, _) = bench.accounts.make_reset(&Principal::OPERATOR, ann.id).await.unwrap();
    for _ in 0..5 {
        bench.accounts.reset_account(here, &token).await.unwrap();
    }
    for guess in ["terse_guess", "", &"x".repeat(513)] {
        over(bench.accounts.reset_account(here, guess).await);
    }
    let limited = bench.accounts.reset_account(here, &token).await;
    assert!(matches!(limited, Err(AccountError::Limited(_))), "{limited:?}");
    let limited = bench.accounts.reset_password(here, &token, "battery staple".into()).await;
    assert!(matches!(limited, Err(AccountError::Limited(_))), "{limited:?}");
    assert!(bench.accounts.check_password(here, "ann", "correct horse".into()).await.is_err());
}
