//! What every store of clicks must do: one function per promise of `ClickStore`.
//!
//! [`crate::click_store!`] turns the list below into one test per promise. The functions panic
//! where a promise is broken, as tests do.
#![allow(clippy::unwrap_used, reason = "a suite of tests")]
#![allow(missing_docs, reason = "each function's name is the promise")]

mod crowd;
mod forget;
mod periods;
mod prune;
mod raw;
mod record;
mod salts;
mod sums;
mod values;

use std::sync::Arc;

use terse_core::clicks::{
    Batch, Click, ClickOutcome, ClickReport, ClickStore, ClickSubject, ClickTarget, Count, LinkId,
    Period, Position, Recorded, Unit,
};
use terse_core::{OwnerId, Timestamp};

pub use crowd::*;
pub use forget::*;
pub use periods::*;
pub use prune::*;
pub use raw::*;
pub use record::*;
pub use salts::*;
pub use sums::*;
pub use values::*;

use crate::{key, moment};

/// What every promise is about.
pub type Store = Arc<dyn ClickStore>;

/// Expands into one test per promise of `ClickStore`, in a module `click_store`.
///
/// `fresh` is an `async fn() -> Option<impl ClickStore>` giving an empty store that keeps raw
/// clicks; `None` skips, aloud.
#[macro_export]
macro_rules! click_store {
    ($fresh:path) => {
        $crate::promises! { click_store, $fresh =>
            a_recorded_batch_is_seen_by_all
            a_batch_is_counted_once_however_often_it_is_tried
            a_batch_of_which_one_position_has_moved_is_refused_whole
            of_racing_equal_batches_one_is_counted
            positions_are_kept_until_they_are_forgotten
            a_batch_without_clicks_moves_positions
            every_subject_gets_its_sum
            links_that_had_a_code_one_after_the_other_are_apart
            links_on_two_domains_are_apart
            counts_are_in_order_and_zero_for_the_unknown
            the_unknown_has_an_empty_report
            a_click_may_stand_for_many
            the_mean_is_the_plain_mean
            the_last_click_is_the_latest_one
            links_are_walked_in_order
            a_period_counts_every_hour_it_touches
            recent_is_the_present_hour_and_the_23_before
            clicks_of_any_year_land_in_their_own_hour
            years_and_days_end_where_they_should
            people_and_machines_are_apart_everywhere
            every_dimension_is_told
            past_the_cap_values_are_other_and_nothing_is_lost
            what_is_frequent_keeps_its_name
            visitors_are_counted_once_a_day
            raw_clicks_come_back_as_they_were
            raw_clicks_are_paged_exactly_once_in_order
            raw_clicks_are_cut_to_the_period
            raw_clicks_of_late_comers_stand_in_order
            links_are_forgotten_up_to_a_birth
            an_owner_is_forgotten_with_all_links
            what_was_forgotten_can_be_counted_anew
            raw_clicks_are_deleted_by_the_hour
            hours_become_days_and_no_sum_changes
            what_comes_after_the_tidying_is_added
            salts_are_the_same_for_everyone
            salts_are_forgotten
            a_huge_batch_is_counted
            a_reader_never_sees_half_a_batch
            a_healthy_store_counts
        }
    };
}

const HOUR: i64 = Unit::Hour.ms();
const DAY: i64 = Unit::Day.ms();
const OWNER: OwnerId = OwnerId(7);
const ALWAYS: Period = Period { from: None, to: None };

/// A link that was born before all clicks.
fn link(code: &str) -> LinkId {
    LinkId { key: key(code), born: moment(-DAY) }
}

/// A click of which only the essential is known, `ms` after the beginning of a year.
fn click(link: &LinkId, ms: i64) -> Click {
    Click::bare(moment(ms), ClickTarget::Link(link.clone(), OWNER))
}

fn orphan(code: &str, ms: i64, outcome: ClickOutcome) -> Click {
    Click::bare(moment(ms), ClickTarget::Nowhere(key(code), outcome))
}

fn humans(humans: u64) -> Count {
    Count { humans, bots: 0 }
}

fn since(from: i64, to: i64) -> Period {
    Period { from: Some(moment(from)), to: Some(moment(to)) }
}

/// Records clicks that come from nowhere in particular.
async fn put(store: &Store, clicks: Vec<Click>) {
    assert_eq!(store.record(&Batch { clicks, moves: vec![] }).await.unwrap(), Recorded::Done);
}

fn moved(segment: u64, from: u64, to: u64) -> Position {
    Position { segment, from, to }
}

async fn report(store: &Store, subject: &ClickSubject, period: Period) -> ClickReport {
    store.report(subject, period, moment(0)).await.unwrap()
}

async fn of_link(store: &Store, link: &LinkId, period: Period) -> ClickReport {
    report(store, &ClickSubject::Link(link.clone()), period).await
}

/// The whole sum must be found in the buckets too.
fn in_buckets(report: &ClickReport) -> Count {
    let mut sum = Count::default();
    report.buckets.iter().for_each(|bucket| sum.add(bucket.clicks));
    sum
}

fn starts(report: &ClickReport) -> Vec<(Timestamp, Count)> {
    report.buckets.iter().map(|bucket| (bucket.start, bucket.clicks)).collect()
}

pub async fn a_healthy_store_counts(store: Store) {
    store.check().await.unwrap();
}
