//! What terse writes to disks and caches and reads again: links, and records of the journal.

use terse_clicks::{AddressPrecision, Enricher, GrowingBatch};
use terse_core::clicks::{
    Frame, JournalRecord, JournalWriteResult, RequestFlags, SegmentHeader, read_frame,
};
use terse_core::{Answered, Clock, link_codec};
use xxhash_rust::xxh3::xxh3_64;

use crate::input::fuzz;

#[test]
fn link_codec() {
    fuzz("link_codec", |bytes| {
        assert_eq!(link_codec::decode(&[bytes, &[0; 8]].concat()), None, "no checksum");
        // With the right checksum, so that the fields are reached.
        let sum = xxh3_64(bytes).to_le_bytes();
        let Some(link) = link_codec::decode(&[bytes, &sum].concat()) else { return false };
        let written = link_codec::encode(&link);
        assert_eq!(link_codec::decode(&written), Some(link));
        true
    });
}

/// Takes the fields of a record from the bytes.
fn record(mut bytes: &[u8]) -> JournalRecord<'_> {
    fn take<'a>(bytes: &mut &'a [u8], most: usize) -> &'a [u8] {
        let length = bytes.split_off_first().map_or(0, |length| usize::from(*length) * 8);
        bytes.split_off(..length.min(most).min(bytes.len())).unwrap_or_default()
    }
    let mut number = || {
        let eight = bytes.split_off(..bytes.len().min(8)).unwrap_or_default();
        eight.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte))
    };
    let (at_ms, took_nanos, visitor, owner) = (number(), number(), number(), number());
    let (created_ms, weight, outcome) = (number(), number(), number());
    JournalRecord {
        at_ms: at_ms.cast_signed(),
        took_nanos,
        visitor,
        owner,
        created_ms: created_ms.cast_signed(),
        weight: weight as u16,
        outcome: if outcome.is_multiple_of(2) { Answered::Redirected } else { Answered::NotFound },
        marks: RequestFlags::default(),
        domain: take(&mut bytes, 255),
        code: take(&mut bytes, 64),
        address: take(&mut bytes, 16),
        referrer: take(&mut bytes, 4096),
        language: take(&mut bytes, 4096),
        agent: take(&mut bytes, 4096),
        campaign: bytes,
    }
}

#[test]
fn journal() {
    let enricher = Enricher::new(None, AddressPrecision::Network, Clock::default().now()).unwrap();
    let enricher = std::sync::Mutex::new(enricher);
    fuzz("journal", |bytes| {
        if let Some(header) = SegmentHeader::decode(bytes) {
            assert_eq!(SegmentHeader::decode(&header.encode()).unwrap().encode(), header.encode());
        }
        // A damaged segment: every frame that is read lies within it, and reading ends.
        let mut at = 0;
        while let Frame::Record(_, next) = read_frame(&bytes[at..], 42, at) {
            assert!(next > at && next <= bytes.len());
            at = next;
        }
        // A record with any bytes: what is written is read, and counting it never panics.
        let mut segment = vec![0; 64 * 1024];
        let written = record(bytes).write(&mut segment, 42, 0);
        if let JournalWriteResult::Next(end) = written {
            let Frame::Record(read, next) = read_frame(&segment, 42, 0) else {
                panic!("the record is not read")
            };
            assert_eq!(next, end);
            let mut enricher = enricher.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let mut gathering = GrowingBatch::default();
            gathering.read(&read, &mut enricher);
            gathering.add_in_order(&mut enricher);
            assert_eq!(gathering.len(), 1);
            // One changed bit is found.
            let bit = xxh3_64(bytes) as usize % (end * 8);
            segment[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_frame(&segment, 42, 0), Frame::Nothing);
        }
        matches!(written, JournalWriteResult::Next(_))
    });
}
