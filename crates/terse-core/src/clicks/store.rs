//! A store of clicks as a whole.

use super::export::ClickExport;
use super::ingest::ClickIngest;
use super::report::ClickReports;
use super::retention::ClickRetention;

/// A secret that makes the visitor hashes of one day. Once it is deleted, the hashes can no longer
/// be traced to visitors.
pub type Salt = [u8; 16];

/// All traits of a click store, for wiring. Code that needs less takes a smaller trait.
pub trait ClickStore: ClickIngest + ClickReports + ClickRetention + ClickExport {}

impl<S> ClickStore for S where S: ClickIngest + ClickReports + ClickRetention + ClickExport + ?Sized {}
