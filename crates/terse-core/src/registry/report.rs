//! Abuse reports about links.

use crate::link::{LinkKey, OwnerId};
use crate::time::Timestamp;

/// How many independent reporters cause a warning page.
pub const REPORTERS_TO_WARN: u64 = 3;
/// The largest number of report texts shown for one link.
pub const TEXTS_SHOWN: usize = 10;

/// The id of a report.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ReportId(pub u64);

/// The state of a report.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ReportState {
    /// No moderator has decided yet.
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

    /// The stable name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Confirmed => "confirmed",
            Self::Cleared => "cleared",
        }
    }

    /// Parses the stable name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// A report to store.
#[derive(Clone, Debug)]
pub struct NewReport {
    /// The link.
    pub link: LinkKey,
    /// When that link was created, to distinguish it from other links with its code.
    pub created_at: Timestamp,
    /// Identifies the reporter: a keyed hash of an account or of an address's prefix. Two reports
    /// of one reporter count as one.
    pub reporter: [u8; 16],
    /// The reporter's account, if there is one.
    pub account: Option<OwnerId>,
    /// The reason: `phishing`, `malware`, `spam`, `illegal`, `other`.
    pub reason: String,
    /// Further text of the reporter.
    pub text: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// A stored report.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AbuseReport {
    /// Its id.
    pub id: ReportId,
    /// The link.
    pub link: LinkKey,
    /// When that link was created.
    pub created_at: Timestamp,
    /// The reporter's account, if there is one.
    pub account: Option<OwnerId>,
    /// The reason.
    pub reason: String,
    /// Further text of the reporter.
    pub text: Option<String>,
    /// When.
    pub at: Timestamp,
    /// Its state.
    pub state: ReportState,
}

/// The result of storing a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReportResult {
    /// Its id; that of the earlier report if the same reporter has an open report about the same
    /// link.
    pub id: ReportId,
    /// How many independent reporters have an open report about the link now.
    pub reporters: u64,
}

/// A link with its reports in one state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReportedLink {
    /// The link.
    pub link: LinkKey,
    /// When that link was created.
    pub created_at: Timestamp,
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
    /// The texts of the reports, the latest first; at most [`TEXTS_SHOWN`].
    pub texts: Vec<String>,
}
