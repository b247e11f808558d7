//! What people tell us about links that should not be.

use crate::link::{LinkKey, OwnerId};
use crate::time::Timestamp;

/// So many independent reporters put a warning page before a link.
pub const REPORTERS_TO_WARN: u64 = 3;
/// How many of the texts about one link are shown together.
pub const TEXTS_SHOWN: usize = 10;

/// Names a report.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ReportId(pub u64);

/// What became of a report.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ReportState {
    /// Nobody has looked yet.
    #[default]
    Open,
    /// The link was taken down.
    Confirmed,
    /// Nothing is wrong with the link.
    Cleared,
}

impl ReportState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Open, Self::Confirmed, Self::Cleared];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Confirmed => "confirmed",
            Self::Cleared => "cleared",
        }
    }

    /// From the word on the wire.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// A report to be kept.
#[derive(Clone, Debug)]
pub struct NewReport {
    /// The link.
    pub link: LinkKey,
    /// When that link was made, to tell it from others of its name.
    pub born: Timestamp,
    /// Tells reporters apart: an account, or a keyed hash of an address's prefix. Two reports of
    /// one reporter count as one.
    pub reporter: [u8; 16],
    /// The account, if it was one.
    pub account: Option<OwnerId>,
    /// In a word: `phishing`, `malware`, `spam`, `illegal`, `other`.
    pub reason: String,
    /// What else they said.
    pub text: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// A report as it is kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AbuseReport {
    /// Its name.
    pub id: ReportId,
    /// The link.
    pub link: LinkKey,
    /// When that link was made.
    pub born: Timestamp,
    /// The account that wrote it, if it was one.
    pub account: Option<OwnerId>,
    /// In a word.
    pub reason: String,
    /// What else they said.
    pub text: Option<String>,
    /// When.
    pub at: Timestamp,
    /// What became of it.
    pub state: ReportState,
}

/// What keeping a report has come to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reported {
    /// Its name; that of the earlier one if the same reporter had reported the same link before and
    /// it is still open.
    pub id: ReportId,
    /// How many independent reporters have an open report about the link now.
    pub reporters: u64,
}

/// A link with its reports in one state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReportedLink {
    /// The link.
    pub link: LinkKey,
    /// When that link was made.
    pub born: Timestamp,
    /// The first of the reports.
    pub first: ReportId,
    /// How many there are.
    pub count: u64,
    /// How often each reason was given, in the order of their names.
    pub reasons: Vec<(String, u64)>,
    /// When the first was written.
    pub since: Timestamp,
    /// When the last was written.
    pub last: Timestamp,
    /// What else was said, the latest first; at most [`TEXTS_SHOWN`].
    pub texts: Vec<String>,
}
