//! Clicks: the journal's format, a click and its sums, and the contracts of a store of clicks.

mod click;
mod columns;
mod delta;
mod delta_chunk;
mod export;
mod ingest;
mod journal;
mod journal_signals;
mod ledger;
mod live;
mod live_follower;
mod mean;
mod own_visitor;
mod pending;
mod report;
mod retention;
mod series;
mod sketch;
mod store;
mod stored_sum;
mod sums;
mod tally;
mod top;
mod visitor;

pub use click::{BotKind, Click, ClickTarget, Dimension, Interned, LinkId};
pub use columns::{
    AgentTraits, ClickColumns, ClickKind, ClickNetwork, ClickRow, GeoLocation, ValueNumbers,
    WarningVisit,
};
pub use delta::{Delta, SumSubject};
pub use delta_chunk::{
    DeltaBodies, DeltaChunkWriter, DeltaHead, PlainChunk, Renumbering, SharedColumns, delta_heads,
};
pub use export::{ClickExport, ErasedLink, PeriodQuery};
pub use ingest::{
    Added, Batch, ClickIngest, Forgotten, JournalId, JournalSpan, LOG_GENERATIONS, Opened,
    Position, UnfinishedBatch,
};
pub(crate) use journal::MAX_AGENT_LEN;
pub use journal::{
    Frame, HEADER, JournalRecord, JournalWriteResult, MAX_FRAME_SIZE, RequestFlags, SegmentHeader,
    finish, names_a_bot, read_frame,
};
pub use journal_signals::JournalSignals;
pub use ledger::{
    BeginResult, ClickLedger, ErasedClicks, ErasedSubject, FinishResult, LedgerCleanup,
    LedgerErasure, LedgerMerge, LedgerSnapshot, Tombstones, spans_overlap,
};
pub use live::{BusyLink, LiveFeed, LiveSubscription};
pub use live_follower::LiveFollower;
pub use mean::Mean;
pub use own_visitor::OwnVisitor;
pub use pending::{
    BatchStart, PendingClicks, PendingCounts, PendingHour, PendingLinks, PendingSum, WithPending,
};
pub use report::{
    BotFilter, Bucket, ClickCursor, ClickPage, ClickReport, ClickReports, ClickSubject, Period,
    RawQuery, ReportSnapshot, Unit,
};
pub use retention::{ClickRetention, Pruned, Retention};
pub use series::{Interval, Point, SeriesError, series};
pub use sketch::Sketch;
pub use store::{ClickStore, Salt};
pub use stored_sum::StoredSum;
pub use sums::{ClickGatherer, SumIndex, SumRow, Sums};
pub use tally::{
    ClickSum, Count, DimensionCounts, MAX_VALUES_PER_DAY, MAX_VALUES_PER_HOUR, MAX_VALUES_TOTAL,
    REPEAT, WARNED, WENT_ON,
};
pub use top::{Rank, RankedLink, TopQuery};
pub use visitor::{address_octets, campaign, referrer_host, visitor_hash};
