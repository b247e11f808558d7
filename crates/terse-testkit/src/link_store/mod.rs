//! The contract of `LinkStore`: one function per promise.
//!
//! [`crate::link_store!`] turns the list below into one test per promise, so a new promise reaches
//! every backend automatically. The functions panic where a promise is broken, as tests do.
#![allow(clippy::unwrap_used, reason = "a suite of tests")]
#![allow(missing_docs, reason = "each function's name is the promise")]
#![allow(clippy::cloned_ref_to_slice_refs, reason = "an expected list reads best as a list")]

mod aliases;
mod codes;
mod history;
mod insert_many;
mod list;
mod list_filters;
mod maintenance;
mod numbers;
mod requests;
mod reuse;
mod shared;
mod tags;
mod update;

use std::sync::Arc;

use terse_core::{Insert, Inserted, Link, LinkStore, Numbering, StoreError};

pub use aliases::*;
pub use codes::*;
pub use history::*;
pub use insert_many::*;
pub use list::*;
pub use list_filters::*;
pub use maintenance::*;
pub use numbers::*;
pub use requests::*;
pub use reuse::*;
pub use shared::*;
pub use tags::*;
pub use update::*;

/// A handle on the store under test.
pub type LinkStoreHandle = Arc<dyn LinkStore>;

/// Two handles on one store, as two nodes have them.
pub struct LinkStorePair {
    pub a: LinkStoreHandle,
    pub b: LinkStoreHandle,
}

impl LinkStorePair {
    /// For a store that only one process can open: both handles are the same object, because that
    /// is what two callers of such a store have. Two threads of the process share the `Arc`, and a
    /// second process cannot open the files.
    pub fn one(store: impl LinkStore) -> Self {
        let store: LinkStoreHandle = Arc::new(store);
        Self { a: Arc::clone(&store), b: store }
    }

    /// Two connections to one store.
    pub fn two(a: impl LinkStore, b: impl LinkStore) -> Self {
        Self { a: Arc::new(a), b: Arc::new(b) }
    }
}

/// Expands into one test per promise of `LinkStore`, in a module `link_store`.
///
/// `fresh` is an `async fn() -> Option<LinkStorePair>` that returns two handles on an empty store;
/// with `None` a test is skipped, and says so.
#[macro_export]
macro_rules! link_store {
    ($fresh:path) => {
        $crate::promises! { link_store, $fresh, |shared: $crate::link_store::LinkStorePair| shared =>
            what_one_handle_writes_the_other_reads_at_once
            a_handle_learns_of_leases_from_the_links_that_it_reads
            an_alias_raced_through_two_handles_has_one_owner
            leases_of_two_handles_never_overlap
            a_change_by_one_handle_is_a_conflict_for_the_other
            a_request_is_replayed_through_the_other_handle
            clicks_are_spent_exactly_through_two_handles
            changes_through_one_handle_are_read_through_the_other
            a_follower_on_one_handle_forgets_what_the_other_changes
            what_is_announced_through_one_handle_is_forgotten_through_the_other
            a_store_never_continues_below_a_mark_that_a_node_knows
            an_incarnation_is_raised_once_for_all_who_notice
            events_are_written_with_their_link_or_not_at_all
            ; |shared: $crate::link_store::LinkStorePair| shared.a =>
            a_link_comes_back_byte_for_byte
            many_are_found_as_one_by_one
            a_code_is_given_once
            of_two_hundred_racing_inserts_one_wins
            what_was_acknowledged_is_found_at_once_by_everyone
            many_are_inserted_as_one_after_the_other
            an_alias_and_a_generated_code_exclude_each_other
            generated_codes_that_were_never_leased_are_links_too
            domains_are_separate_name_spaces
            an_alias_may_not_look_like_anothers
            an_alias_may_look_like_ones_own
            racing_aliases_that_look_alike_have_one_owner
            an_alias_without_look_alikes_is_found_in_any_case
            the_same_request_gives_the_same_link
            another_owner_domain_or_target_gives_another_link
            racing_equal_requests_give_one_link
            what_is_no_longer_reusable_is_not_given_back
            the_same_options_give_the_same_link_and_others_do_not
            a_repeated_alias_gives_its_own_link_back
            a_lifetime_is_the_same_while_most_of_it_is_left
            a_repeated_request_gets_the_first_answer
            a_request_id_used_for_something_else_is_a_mismatch
            a_request_whose_link_is_gone_is_answered_with_nothing
            racing_equal_requests_make_one_link
            a_request_answered_with_an_existing_link_is_remembered
            a_refused_insert_leaves_no_request_behind
            old_requests_are_forgotten
            an_update_needs_the_latest_revision
            a_moderation_status_keeps_its_source
            an_update_of_nothing_says_so
            what_identifies_a_link_never_changes
            a_deleted_link_holds_its_code_and_can_be_restored
            of_racing_updates_one_wins
            every_change_keeps_what_the_link_was
            what_no_owner_sees_is_not_kept
            of_many_changes_the_last_are_kept
            a_history_goes_with_its_link
            a_history_is_forgotten_on_demand
            clicks_are_spent_exactly
            a_change_does_not_undo_what_is_spent_meanwhile
            spending_without_a_limit_counts_nothing
            lists_are_in_order
            a_walk_sees_every_link_once_while_others_write
            links_of_one_moment_are_walked_without_loss
            a_foreign_cursor_is_an_error
            lists_are_filtered_by_owner_domain_and_tag
            archived_links_are_listed_as_asked_for
            text_is_searched_literally
            a_search_finds_the_targets_of_redirect_rules
            tags_are_counted_by_owner
            the_tags_of_most_links_come_first
            a_status_is_decided_at_the_given_time
            leases_never_overlap
            leases_end_at_the_capacity
            numbers_are_never_handed_out_again
            a_lease_begins_at_the_distance_that_is_asked_for
            a_raised_incarnation_skips_a_random_distance
            no_existing_link_is_surely_absent
            the_codes_of_a_lease_are_not_called_absent
            expired_links_are_marked_once
            a_link_is_purged_after_its_mark_and_its_expiry
            purged_links_are_gone_and_their_aliases_free
            expired_links_of_owners_are_kept_longer
            purging_has_a_limit_and_keeps_the_rest
            freed_aliases_are_held_for_their_owners
            held_aliases_are_free_once_released
            a_healthy_store_says_so
        }
    };
}

fn numbering(store: &LinkStoreHandle) -> Numbering {
    Numbering::new(store.identity())
}

/// Inserts a link and expects it to be new.
async fn put(store: &LinkStoreHandle, link: &Link) {
    let insert = Insert::new(link.clone(), None);
    assert_eq!(store.preview_insert(&insert).await.unwrap(), Inserted::Created, "{:?}", link.key);
    let outcome = store.insert(insert).await.unwrap();
    assert_eq!(outcome, Inserted::Created, "{:?}", link.key);
}

/// Inserts a link and expects its code to be taken.
async fn put_in_vain(store: &LinkStoreHandle, link: &Link) {
    let insert = Insert::new(link.clone(), None);
    for outcome in [store.preview_insert(&insert).await, store.insert(insert).await] {
        assert!(matches!(outcome, Err(StoreError::CodeTaken)), "{:?}: {outcome:?}", link.key);
    }
}

/// A generated code whose number was leased.
async fn leased_code(store: &LinkStoreHandle) -> String {
    let numbering = numbering(store);
    let range = store.lease(7, 1, numbering.capacity(7), 0).await.unwrap();
    numbering.code(7, range.start).to_string()
}

pub async fn a_healthy_store_says_so(store: LinkStoreHandle) {
    store.check().await.unwrap();
}
