//! Clicks: what is written down when a visitor comes by, what is made of it, and what a store of
//! clicks must promise.

mod click;
mod journal;
mod live;
mod mean;
mod report;
mod series;
mod sketch;
mod store;
mod tally;

pub use click::{BotKind, Click, ClickTarget, Dimension, Interned, LinkId};
pub(crate) use journal::MAX_AGENT_LEN;
pub use journal::{
    ClickOutcome, Frame, HEADER, Journaled, MAX_FRAME_SIZE, Record, RequestFlags, SegmentHeader,
    finish, read_frame,
};
pub use live::{Busy, Live, Watch};
pub use mean::Mean;
pub use report::{Bots, Bucket, ClickReport, Unit};
pub use series::{Interval, Point, SeriesError, series};
pub use sketch::Sketch;
pub use store::{
    Batch, ClickCursor, ClickPage, ClickStore, ClickSubject, Period, Position, Pruned, RawQuery,
    Recorded, Retention, Salt,
};
pub use tally::{Count, MAX_VALUES_PER_DAY, MAX_VALUES_PER_HOUR, MAX_VALUES_TOTAL, Tally, Values};
