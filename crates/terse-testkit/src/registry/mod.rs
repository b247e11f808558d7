//! The contract of `Registry`: one function per promise.
//!
//! [`crate::registry!`] turns the list below into one test per promise. The functions panic where a
//! promise is broken, as tests do.
#![allow(clippy::unwrap_used, reason = "a suite of tests")]
#![allow(missing_docs, reason = "each function's name is the promise")]

mod accounts;
mod acme;
mod audit;
mod change;
mod domains;
mod durable;
mod erase;
mod handles;
mod invitations;
mod jobs;
mod keys;
mod node_versions;
mod prune;
mod reports;
mod resets;
mod salts;
mod sessions;
mod setup;
mod two_factor;
mod versions;
mod webhooks;

use std::future::Future;
use std::sync::Arc;

use terse_core::OwnerId;
use terse_core::registry::{
    Account, AccountChange, AccountName, Actor, ApiKey, Attribution, AuditAction, AuditEntry,
    AuditQuery, ConditionalAccountChange, NewAccount, NewKey, Registry, RegistryError, Role, Scope,
    SecretHash, Session, Suspension,
};

pub use accounts::*;
pub use acme::*;
pub use audit::*;
pub use change::*;
pub use domains::*;
pub use durable::{everything, fill};
pub use erase::*;
pub use handles::*;
pub use invitations::*;
pub use jobs::*;
pub use keys::*;
pub use node_versions::*;
pub use prune::*;
pub use reports::*;
pub use resets::*;
pub use salts::*;
pub use sessions::*;
pub use setup::*;
pub use two_factor::*;
pub use versions::*;
pub use webhooks::*;

use crate::timestamp;

/// A handle on the registry under test.
pub type RegistryHandle = Arc<dyn Registry>;

/// Expands into one test per promise of `Registry`, in a module `registry`.
///
/// `fresh` is an `async fn() -> Option<(R, R)>` that returns two handles on the same empty
/// registry, as two nodes have them; with `None` a test is skipped, and says so. Tests of a durable
/// registry also call `registry::fill` and compare `registry::everything` before and after a
/// restart.
#[macro_export]
macro_rules! registry {
    ($fresh:path) => {
        $crate::shared_promises! { registry, $fresh =>
            the_set_up_link_makes_the_first_admin_once
            of_two_who_take_the_set_up_link_one_becomes_admin
            a_new_set_up_link_replaces_the_earlier_one
            a_set_up_link_survives_a_name_that_is_taken
            there_is_no_set_up_once_there_was_an_admin
            an_invited_admin_ends_the_set_up
            a_user_raised_to_admin_ends_the_set_up
            an_account_is_found_by_all_its_names
            ids_begin_where_accounts_begin
            names_that_differ_by_case_are_the_same
            an_identity_belongs_to_one_account
            of_two_equal_names_one_is_taken
            accounts_are_walked_in_order
            a_change_gives_back_what_is_now
            a_change_waits_for_its_revision
            a_change_of_nobody_is_missing
            of_racing_changes_at_one_revision_one_is_made
            a_name_may_change_but_not_to_anothers
            what_is_so_already_leaves_no_trace
            the_last_admin_stays
            of_two_admins_who_demote_each_other_one_stays
            a_new_password_ends_all_sessions
            a_lesser_role_ends_all_sessions
            a_suspension_ends_all_sessions_and_is_undone
            other_changes_leave_sessions_alone
            a_suspension_reaches_keys_and_the_version
            a_reset_link_is_found_until_it_is_used
            a_new_reset_link_replaces_the_earlier_one
            what_ends_sessions_ends_the_reset_link
            two_factor_sign_in_is_kept_with_the_account
            an_accepted_code_is_no_line_of_the_log
            an_erased_account_leaves_nothing_but_its_id
            an_erased_name_is_free_and_its_id_is_not
            an_erased_name_is_taken_out_of_the_log
            erasing_a_suspended_account_changes_the_version
            a_key_is_found_by_its_token
            a_key_needs_an_owner_and_a_token_of_its_own
            an_expired_key_is_returned
            keys_are_listed_by_owner_the_oldest_first
            there_are_at_most_a_hundred_keys_each
            of_racing_keys_no_more_than_allowed_are_made
            only_its_owner_can_revoke_a_key
            requests_of_a_key_add_up_and_its_last_use_never_goes_back
            a_session_is_found_until_it_ends
            ending_sessions_is_fine_again_and_again
            all_sessions_but_one_can_be_ended
            sessions_are_listed_until_they_end
            the_oldest_of_too_many_sessions_makes_room
            a_sign_in_does_not_outlive_a_change
            nobody_and_the_suspended_cannot_sign_in
            an_invitation_makes_one_account
            of_two_who_accept_one_comes_in
            an_invitation_over_or_unknown_is_missing
            an_invitation_survives_a_name_that_is_taken
            an_invitation_is_worth_what_its_writer_is
            the_operator_and_nobody_else_invites_without_an_account
            invitations_are_listed_until_they_are_over
            a_revoked_invitation_opens_no_account
            a_domain_is_added_changed_and_removed
            an_unchanged_domain_writes_no_audit_record
            a_host_is_blocked_once_and_unblocked
            the_branding_is_put_replaced_and_taken_back
            the_version_changes_for_what_visitors_meet_alone
            one_reporter_counts_once_while_open
            reporters_are_counted_per_link
            racing_reports_are_counted_exactly
            settled_reports_are_over_and_new_ones_count_anew
            reports_are_walked_by_state
            a_webhook_is_made_changed_and_removed
            an_event_from_before_a_webhook_was_enabled_is_not_enqueued
            a_clock_that_was_wrong_holds_no_delivery_back
            webhooks_belong_to_their_owner
            there_are_at_most_so_many_webhooks_each
            the_deliveries_that_wait_are_counted
            an_event_is_enqueued_once_per_webhook
            those_with_a_webhook_that_is_on_are_known
            an_event_waits_for_those_it_concerns
            a_due_delivery_is_claimed_by_one_node
            an_attempt_that_failed_is_made_again_later
            every_webhook_has_its_turn
            what_is_off_or_suspended_is_not_due
            a_receiver_that_is_gone_is_switched_off
            of_too_many_that_wait_the_oldest_go
            few_of_the_settled_are_kept
            settled_deliveries_are_kept_for_a_month
            a_delivery_is_sent_again_when_its_owner_asks
            with_a_webhook_goes_all_that_waits
            reports_are_told_link_by_link
            every_write_has_an_audit_record
            a_refused_change_has_no_audit_record
            no_secret_is_in_the_log
            the_log_is_walked_backwards
            a_note_is_kept_as_it_is
            expired_rows_are_pruned
            pruning_stops_at_its_limit
            a_pruned_log_keeps_its_numbering
            a_healthy_registry_counts
            a_node_takes_its_own_lease_again
            a_lease_that_is_given_back_is_free
            every_name_is_a_lease_of_its_own
            progress_is_kept_per_job
            an_alarm_is_confirmed_by_its_number
            a_snapshot_has_all_of_its_version
            every_day_has_a_salt_of_its_own
            acme_records_are_replaced_and_removed
            ;
            two handles:
            one_node_at_a_time_holds_a_lease
            of_racing_nodes_one_gets_the_lease
            a_lease_that_is_over_is_taken_with_a_higher_token
            a_write_with_an_old_token_is_fenced
            a_reader_of_versions_misses_no_change
            a_change_through_one_handle_is_a_version_of_the_other
            the_salt_of_a_day_is_the_same_through_both_handles
            the_lease_holder_deletes_old_salts
            of_two_admin_keys_the_first_is_kept
            an_invitation_accepted_through_two_handles_makes_one_account
            two_admins_deposed_through_two_handles_leave_one
            a_name_taken_through_two_handles_is_taken_once
            a_session_ended_through_one_handle_is_ended_for_the_other
            a_reset_link_is_used_once_through_two_handles
            a_code_is_accepted_once_through_two_handles
            a_set_up_link_is_taken_once_through_two_handles
            acme_records_reach_the_other_handle
            the_lowest_version_of_the_nodes_that_run_is_known
        }
    };
}

macro_rules! refused {
    ($outcome:expr, $why:ident) => {
        let outcome = $outcome;
        assert!(
            matches!(outcome, Err(RegistryError::$why)),
            "{:?} instead of {}",
            outcome.map(|_| ()),
            stringify!($why)
        );
    };
}
use refused;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
const HASH: &str = "$argon2id$v=19$m=1,t=1,p=1$c2FsdA$c2VjcmV0";

/// The operator, an hour after the beginning of a year.
fn by() -> Attribution {
    Attribution {
        actor: Actor::Owner(OwnerId::ADMIN),
        at: timestamp(HOUR),
        why: Some("because".into()),
    }
}

fn name(text: &str) -> AccountName {
    AccountName::parse(text).unwrap()
}

fn new(text: &str) -> NewAccount {
    NewAccount {
        name: name(text),
        role: Role::User,
        password: Some(HASH.into()),
        identity: None,
        created_at: timestamp(0),
    }
}

fn token(n: u16) -> SecretHash {
    let mut bytes = [0x5a; 32];
    bytes[..2].copy_from_slice(&n.to_be_bytes());
    SecretHash(bytes)
}

async fn add(store: &RegistryHandle, text: &str) -> Account {
    store.add_account(new(text), by()).await.unwrap()
}

async fn add_as(store: &RegistryHandle, text: &str, role: Role) -> Account {
    store.add_account(NewAccount { role, ..new(text) }, by()).await.unwrap()
}

async fn change(
    store: &RegistryHandle,
    id: OwnerId,
    change: AccountChange,
) -> Result<Account, RegistryError> {
    store.change_account(ConditionalAccountChange { id, change, expected: None }, by()).await
}

fn role(role: Role) -> AccountChange {
    AccountChange { role: Some(role), ..AccountChange::default() }
}

fn suspend() -> AccountChange {
    AccountChange {
        suspended: Some(Some(Suspension { at: timestamp(5), why: "spam".into() })),
        ..AccountChange::default()
    }
}

fn reinstate() -> AccountChange {
    AccountChange { suspended: Some(None), ..AccountChange::default() }
}

fn new_key(owner: OwnerId, n: u16) -> NewKey {
    NewKey {
        owner,
        name: format!("key {n}"),
        prefix: format!("tk_{n}"),
        token: token(n),
        scope: Scope::Full,
        created_at: timestamp(0),
        expires_at: None,
        plan: None,
    }
}

async fn add_key(store: &RegistryHandle, owner: OwnerId, n: u16) -> ApiKey {
    store.add_key(new_key(owner, n), by()).await.unwrap()
}

fn session(owner: OwnerId, n: u16) -> Session {
    Session {
        token: token(n),
        owner,
        created_at: timestamp(i64::from(n)),
        expires_at: timestamp(DAY),
        browser: (n % 2 == 1).then(|| format!("Browser {n} on Linux")),
    }
}

/// Signs in at the account's current revision.
async fn sign_in(store: &RegistryHandle, owner: OwnerId, n: u16) {
    let seen = store.account(owner).await.unwrap().unwrap().revision;
    store.add_session(session(owner, n), seen).await.unwrap();
}

async fn is_signed_in(store: &RegistryHandle, n: u16) -> bool {
    store.session(&token(n), timestamp(1)).await.unwrap().is_some()
}

async fn log(store: &RegistryHandle) -> Vec<AuditEntry> {
    store.audit(&AuditQuery { limit: 10_000, ..AuditQuery::default() }).await.unwrap()
}

/// The recorded actions, the oldest first.
async fn acts(store: &RegistryHandle) -> Vec<AuditAction> {
    log(store).await.iter().rev().map(|line| line.act).collect()
}

/// Runs all futures concurrently and returns their results.
async fn race<T, F>(racing: impl IntoIterator<Item = F>) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let tasks: Vec<_> = racing.into_iter().map(tokio::spawn).collect();
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await.unwrap());
    }
    done
}

pub async fn a_healthy_registry_counts(store: RegistryHandle) {
    store.check().await.unwrap();
}
