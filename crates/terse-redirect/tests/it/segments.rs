//! Reads the segments of a journal, as the click pipeline does.
#![allow(clippy::disallowed_methods, reason = "tests may read files")]

use std::path::{Path, PathBuf};

use terse_core::Answered;
use terse_core::clicks::{Frame, HEADER, JournalRecord, RequestFlags, SegmentHeader, read_frame};

/// A record without its times, which differ between runs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct JournaledVisit {
    pub(crate) outcome: Answered,
    pub(crate) marks: RequestFlags,
    pub(crate) weight: u16,
    pub(crate) visitor: u64,
    pub(crate) owner: u64,
    pub(crate) created_ms: i64,
    pub(crate) domain: String,
    pub(crate) code: String,
    pub(crate) address: Vec<u8>,
    pub(crate) referrer: String,
    pub(crate) language: String,
    pub(crate) agent: String,
    pub(crate) campaign: String,
}

impl JournaledVisit {
    pub(crate) fn new(record: &JournalRecord<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            outcome: record.outcome,
            marks: record.marks,
            weight: record.weight,
            visitor: record.visitor,
            owner: record.owner,
            created_ms: record.created_ms,
            domain: text(record.domain),
            code: text(record.code),
            address: record.address.to_vec(),
            referrer: text(record.referrer),
            language: text(record.language),
            agent: text(record.agent),
            campaign: text(record.campaign),
        }
    }
}

/// One segment's file.
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    pub(crate) visits: Vec<JournaledVisit>,
    /// Whether it has an end mark.
    pub(crate) ended: bool,
    /// Where the last frame ends.
    pub(crate) end: usize,
}

impl Segment {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let header = SegmentHeader::decode(bytes).expect("a segment's header");
        let (mut visits, mut at) = (Vec::new(), HEADER);
        let ended = loop {
            match read_frame(&bytes[at..], header.id, at) {
                Frame::Record(record, next) => {
                    visits.push(JournaledVisit::new(&record));
                    at = next;
                }
                Frame::End => break true,
                Frame::Nothing => break false,
            }
        };
        Self { header, visits, ended, end: at }
    }
}

/// The files, in the order in which they were made.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "clicks"));
    files.sort();
    files
}

pub(crate) fn read(folder: &Path) -> Vec<Segment> {
    files(folder).iter().map(|path| Segment::parse(&std::fs::read(path).expect("a file"))).collect()
}

/// Every record of every segment.
pub(crate) fn read_all(folder: &Path) -> Vec<JournaledVisit> {
    read(folder).into_iter().flat_map(|segment| segment.visits).collect()
}
