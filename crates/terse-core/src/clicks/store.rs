//! A store of clicks as a whole.

use super::ingest::ClickIngest;
use super::report::ClickReports;
use super::retention::ClickRetention;

/// A secret that makes the visitor hashes of one day. Once it is deleted, the hashes can no longer
/// be traced to visitors.
pub type Salt = [u8; 16];

/// All traits of a click store, for wiring. Code that needs less takes a smaller trait.
pub trait ClickStore: ClickIngest + ClickReports + ClickRetention {}

impl<S: ClickIngest + ClickReports + ClickRetention + ?Sized> ClickStore for S {}
