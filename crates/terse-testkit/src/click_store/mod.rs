//! What every store of clicks must do: one function per promise of `ClickIngest`, `ClickReports`
//! and `ClickRetention`.
//!
//! [`crate::click_store!`] turns the lists below into one test per promise. The functions panic
//! where a promise is broken, as tests do.
#![allow(clippy::unwrap_used, reason = "a suite of tests")]
#![allow(missing_docs, reason = "each function's name is the promise")]

mod add;
mod concurrency;
mod epochs;
mod erase;
mod export;
mod periods;
mod prune;
mod raw;
mod snapshots;
mod sums;
mod tops;
mod values;

use std::sync::Arc;

use terse_core::clicks::{
    Added, Batch, Click, ClickIngest, ClickReport, ClickStore, ClickSubject, ClickTarget, Count,
    JournalId, JournalSpan, LinkId, Opened, Period, Unit,
};
use terse_core::{Answered, OwnerId, Timestamp};

pub use add::*;
pub use concurrency::*;
pub use epochs::*;
pub use erase::*;
pub use export::*;
pub use periods::*;
pub use prune::*;
pub use raw::*;
pub use snapshots::*;
pub use sums::*;
pub use tops::*;
pub use values::*;

use crate::{key, timestamp};

/// A handle on the store that a promise is about.
pub type ClickStoreHandle = Arc<dyn ClickStore>;

/// Expands into one test per promise, in a module `click_store`.
///
/// `fresh` is an `async fn() -> Option<[ClickStoreHandle; 2]>` that returns two handles on one
/// empty store that keeps raw clicks, as two nodes have them; with `None` a test is skipped, and
/// says so. Only two handles can break the promises of the second list.
#[macro_export]
macro_rules! click_store {
    ($fresh:path) => {
        mod click_store {
            #[allow(unused_imports)]
            use super::*;
            $crate::click_store! { @tests $fresh =>
                |handles| (handles[0].clone()):
                a_counted_batch_is_in_every_report
                a_batch_is_counted_once_however_often_it_is_tried
                a_batch_of_which_one_position_has_moved_is_refused_whole
                of_racing_equal_batches_one_is_counted
                positions_are_kept_until_they_are_forgotten
                a_batch_without_clicks_moves_positions
                a_journal_that_was_not_opened_is_fenced
                the_clicks_and_the_sums_of_a_batch_are_the_same
                every_subject_gets_its_sum
                links_that_had_a_code_one_after_the_other_are_apart
                links_on_two_domains_are_apart
                counts_are_in_order_and_zero_for_the_unknown
                the_unknown_has_an_empty_report
                a_click_may_stand_for_many
                the_mean_is_the_plain_mean
                the_last_click_is_the_latest_one
                every_link_is_walked_once_in_an_order_that_stays
                a_period_counts_every_hour_it_touches
                recent_is_the_present_hour_and_the_23_before
                clicks_of_any_year_land_in_their_own_hour
                years_and_days_end_where_they_should
                humans_and_bots_are_apart_everywhere
                a_repeated_click_is_a_humans_and_named
                a_view_of_a_warning_page_is_no_click
                every_dimension_is_reported
                past_the_cap_values_are_other_and_nothing_is_lost
                what_is_frequent_keeps_its_name
                visitors_are_counted_once_a_day
                raw_clicks_come_back_as_they_were
                raw_clicks_are_paged_exactly_once_in_order
                raw_clicks_are_cut_to_the_period
                late_raw_clicks_are_in_order
                the_clicks_of_a_period_are_read_once_in_order
                the_clicks_of_erased_links_are_not_read
                erasures_are_listed_until_their_tombstone_is_deleted
                links_are_erased_up_to_a_creation_time
                an_owner_is_erased_with_all_links
                a_link_made_again_after_its_erasure_is_counted
                a_pruned_tombstone_no_longer_holds
                late_clicks_of_an_erased_link_that_is_clicked_again_are_not_counted
                raw_clicks_are_deleted_by_the_hour
                raw_clicks_beyond_their_size_are_deleted
                hours_become_days_and_no_sum_changes
                what_comes_after_the_pruning_is_added
                links_are_ranked_by_their_clicks_in_a_period
                a_ranking_is_of_an_owner_and_of_humans_or_bots
                a_ranking_is_paged_exactly_once_in_order
                a_ranking_is_the_same_after_hours_became_days
                other_links_are_counted_beside_a_ranking
                an_erased_link_has_no_place_in_a_ranking
                a_huge_batch_is_counted
                a_reader_never_sees_half_a_batch
                a_healthy_store_counts
            }
            $crate::click_store! { @tests $fresh =>
                |handles| (handles):
                opening_a_journal_fences_the_other_handle
                a_batch_of_a_fenced_journal_is_refused_whole
                a_batch_repeated_through_the_other_handle_is_already_counted
                a_gap_says_where_the_store_is
                a_fenced_epoch_forgets_nothing
                journals_do_not_share_positions
                generations_only_rise
                imported_logs_are_forgotten_after_their_time
                of_racing_handles_that_open_a_journal_one_can_add
                a_finished_batch_is_not_repeated_by_the_next_opener
                an_answer_says_how_far_the_journal_is_in_it
                an_answer_and_its_positions_are_of_one_snapshot
                what_is_in_memory_is_added_until_it_is_stored
                a_ranking_includes_what_is_in_memory
                a_late_click_of_an_erased_link_is_not_counted_for_it
                a_late_click_of_an_erased_owner_is_counted_for_everything_alone
            }
        }
    };
    (@tests $fresh:path => |$handles:ident| ($argument:expr): $($promise:ident)*) => {
        $(
            #[test]
            fn $promise() {
                $crate::suite::prove(
                    stringify!($promise),
                    || $fresh(),
                    |$handles: [$crate::click_store::ClickStoreHandle; 2]| {
                        $crate::click_store::$promise($argument)
                    },
                );
            }
        )*
    };
}

const HOUR: i64 = Unit::Hour.ms();
const DAY: i64 = Unit::Day.ms();
const OWNER: OwnerId = OwnerId(7);
const ALWAYS: Period = Period { from: None, to: None };

/// A link that was created before all clicks.
fn link(code: &str) -> LinkId {
    LinkId { key: key(code), created_at: timestamp(-DAY) }
}

/// A click with only the required fields, `ms` after the beginning of a year.
fn click(link: &LinkId, ms: i64) -> Click {
    Click::bare(timestamp(ms), ClickTarget::Link(link.clone(), OWNER))
}

fn orphan(code: &str, ms: i64, outcome: Answered) -> Click {
    Click::bare(timestamp(ms), ClickTarget::Orphan(key(code), outcome))
}

fn humans(humans: u64) -> Count {
    Count { humans, bots: 0 }
}

fn since(from: i64, to: i64) -> Period {
    Period { from: Some(timestamp(from)), to: Some(timestamp(to)) }
}

/// A journal of a test, opened through one handle.
struct OpenJournal {
    journal: JournalId,
    epoch: u32,
}

impl OpenJournal {
    async fn open(store: &ClickStoreHandle, journal: JournalId) -> Self {
        let Opened { epoch, .. } = store.open(journal).await.unwrap();
        Self { journal, epoch }
    }

    fn span(&self, segment: u64, from: u64, to: u64) -> JournalSpan {
        JournalSpan { journal: self.journal, epoch: self.epoch, segment, from, to }
    }
}

const JOURNAL: JournalId = JournalId(*b"a journal's name");

/// Counts clicks from a journal of their own.
pub async fn add_clicks(store: &(impl ClickIngest + ?Sized), clicks: Vec<Click>) {
    let journal = JournalId::generate().unwrap();
    let Opened { epoch, .. } = store.open(journal).await.unwrap();
    let spans = vec![JournalSpan { journal, epoch, segment: 1, from: 0, to: 1 }];
    assert_eq!(store.add(&Arc::new(Batch::of(spans, clicks))).await.unwrap(), Added::Done);
}

async fn put(store: &ClickStoreHandle, clicks: Vec<Click>) {
    add_clicks(&**store, clicks).await;
}

/// Every position of a journal, in order. Fences its earlier holder.
async fn positions(store: &ClickStoreHandle, journal: JournalId) -> Vec<(u64, u64)> {
    let opened = store.open(journal).await.unwrap();
    let mut positions: Vec<_> =
        opened.positions.iter().map(|position| (position.segment, position.to)).collect();
    positions.sort_unstable();
    positions
}

async fn report(store: &ClickStoreHandle, subject: &ClickSubject, period: Period) -> ClickReport {
    store.report(subject, period, timestamp(0)).await.unwrap()
}

async fn of_link(store: &ClickStoreHandle, link: &LinkId, period: Period) -> ClickReport {
    report(store, &ClickSubject::Link(link.clone()), period).await
}

/// The clicks of all buckets, which must equal the whole sum.
fn in_buckets(report: &ClickReport) -> Count {
    let mut sum = Count::default();
    report.buckets.iter().for_each(|bucket| sum.add(bucket.clicks));
    sum
}

fn starts(report: &ClickReport) -> Vec<(Timestamp, Count)> {
    report.buckets.iter().map(|bucket| (bucket.start, bucket.clicks)).collect()
}

pub async fn a_healthy_store_counts(store: ClickStoreHandle) {
    store.check().await.unwrap();
}
