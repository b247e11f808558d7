//! Which generated codes were leased, as far as one node knows.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{MAX_CODE_LENGTH, Numbering};
use crate::link::Link;
use crate::link_reader::AbsenceCertainty;
use crate::store::StoreError;

/// The highest end of leased numbers of each length that this node knows of. Marks only rise.
///
/// A store that several nodes share learns them from the leases that it read when it was opened,
/// from its own leases, and from the links that it reads. Another node may have leased more, so
/// absence is `Likely` at best.
#[derive(Debug, Default)]
pub struct LeaseMarks([AtomicU64; MAX_CODE_LENGTH as usize + 1]);

impl LeaseMarks {
    /// Notes that all numbers of this length below `end` may be leased.
    pub fn raise(&self, length: u8, end: u64) {
        if let Some(mark) = self.0.get(usize::from(length)) {
            mark.fetch_max(end, Ordering::AcqRel);
        }
    }

    /// Notes that this link exists. The number of a generated link was leased, and so were those
    /// below it.
    pub fn note_link(&self, link: &Link, numbering: &Numbering) {
        if !link.generated {
            return;
        }
        if let Some((length, n)) = numbering.number(link.key.code.as_str().as_bytes()) {
            self.raise(length, n + 1);
        }
    }

    /// The same for the answer to a lookup.
    pub fn note_found(&self, found: &Result<Option<Link>, StoreError>, numbering: &Numbering) {
        if let Ok(Some(link)) = found {
            self.note_link(link, numbering);
        }
    }

    /// How many numbers of this length may be leased.
    pub fn mark(&self, length: u8) -> u64 {
        self.0.get(usize::from(length)).map_or(0, |mark| mark.load(Ordering::Acquire))
    }

    /// `Likely` for a code whose number is at or past the mark; `Unknown` for any other code.
    pub fn absence(&self, code: &str, numbering: &Numbering) -> AbsenceCertainty {
        match numbering.number(code.as_bytes()) {
            Some((length, n)) if n >= self.mark(length) => AbsenceCertainty::Likely,
            _ => AbsenceCertainty::Unknown,
        }
    }
}
