//! Clicks: what is written down when a visitor comes by, what is made of it, and what a store of clicks must promise.

mod click;
mod journal;
mod live;
mod mean;
mod report;
mod series;
mod sketch;
mod store;
mod tally;

pub use click::{Click, Dimension, LinkId, Machine, Place, Word};
pub(crate) use journal::LONGEST_AGENT;
pub use journal::{Frame, HEADER, Journaled, LARGEST_FRAME, Marks, Outcome, Record, SegmentHeader, finish, read_frame};
pub use live::{Busy, Live, Watch};
pub use mean::Mean;
pub use report::{Bots, Bucket, Report, Unit};
pub use series::{Interval, Point, SeriesError, series};
pub use sketch::Sketch;
pub use store::{
    Batch, ClickCursor, ClickPage, ClickStore, Period, Position, RawQuery, Recorded, Retention, Salt, Subject, Tidied,
};
pub use tally::{Count, NAMED_A_DAY, NAMED_AN_HOUR, NAMED_EVER, Tally, Values};
