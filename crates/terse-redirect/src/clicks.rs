//! Turns an answered visit into a journal record.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

use terse_core::clicks::{
    JournalRecord, RequestFlags, Salt, address_octets, campaign, names_a_bot, visitor_hash,
};
use terse_core::{Answered, Domain};

use crate::client_addr::ClientAddr;
use crate::counts::{Counter as _, Counts};
use crate::journal::{AddressDetail, FailureSampler, Journal, Writer};
use crate::redirector::Redirector;
use crate::visitor_headers::VisitorHeaders;

const MAX_CAMPAIGN_LEN: usize = 512;

/// An answered visit.
pub(crate) struct Visit<'a> {
    pub(crate) answered: Answered,
    /// The owner and creation time of the followed link; 0 without one.
    pub(crate) owner: u64,
    pub(crate) created_ms: i64,
    pub(crate) domain: &'a Domain,
    pub(crate) code: &'a [u8],
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a VisitorHeaders<'a>,
    pub(crate) client_addr: &'a ClientAddr,
    pub(crate) redirector: &'a Redirector,
    /// When the request arrived, in nanoseconds of the steady clock.
    pub(crate) arrived_nanos: i64,
    /// How far the wall clock is ahead of the steady one, in microseconds.
    pub(crate) wall_offset_micros: i64,
}

/// Writes the visits of one serving thread to the journal.
pub(crate) struct ClickRecorder {
    journal: Arc<Journal>,
    counts: Arc<Counts>,
    /// A copy of the journal's salt, which the sweep renews: reading it takes no lock.
    salt: Cell<Option<Salt>>,
    writer: RefCell<ClickWriter>,
}

struct ClickWriter {
    writer: Writer,
    orphans: FailureSampler,
    campaign: [u8; MAX_CAMPAIGN_LEN],
}

impl ClickRecorder {
    pub(crate) fn new(journal: Arc<Journal>, writer: Writer, counts: Arc<Counts>) -> Self {
        let salt = Cell::new(journal.salt());
        let writer = RefCell::new(ClickWriter {
            writer,
            orphans: FailureSampler::default(),
            campaign: [0; MAX_CAMPAIGN_LEN],
        });
        Self { journal, counts, salt, writer }
    }

    /// Pauses the thread while counting is far behind and the click store accepts clicks: otherwise
    /// clicks would be lost once the journal is full.
    #[expect(clippy::disallowed_methods, reason = "only on overload; the alternative is a loss")]
    pub(crate) fn pause_if_behind(&self) {
        let pause = self.journal.pause();
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let paused = pause + self.writer.borrow_mut().writer.take_waited();
        if !paused.is_zero() {
            self.counts.paused_micros.add(u64::try_from(paused.as_micros()).unwrap_or(0));
        }
    }

    /// Finishes a segment that holds erased or old records.
    pub(crate) fn finish_if_old(&self) {
        self.writer.borrow_mut().writer.finish_if_old(Instant::now());
    }

    /// Copies the current salt of the journal.
    pub(crate) fn renew_salt(&self) {
        self.salt.set(self.journal.salt());
    }

    /// Writes a visit to the journal, if the journal records such visits. Call it before the answer
    /// is sent.
    pub(crate) fn write(&self, visit: &Visit<'_>) {
        if visit.answered.journal_byte().is_none() {
            return;
        }
        let ClickWriter { writer, orphans, campaign: buffer } = &mut *self.writer.borrow_mut();
        let now_nanos = visit.redirector.steady_nanos();
        let at_ms = (now_nanos / 1000 + visit.wall_offset_micros) / 1000;
        let weight = match visit.answered {
            Answered::Redirected | Answered::Previewed | Answered::Warned => 1,
            _ => match orphans.weight(now_nanos / 1_000_000) {
                Some(weight) => weight,
                None => return self.counts.orphans_skipped.add(1),
            },
        };
        let settings = self.journal.settings();
        let headers = visit.headers;
        let took_nanos = (now_nanos - visit.arrived_nanos).max(0).cast_unsigned();
        let opted_out = headers.opted_out && settings.honour_dnt;
        let mut record = JournalRecord {
            at_ms,
            took_nanos,
            outcome: visit.answered,
            marks: headers.flags.with(RequestFlags::DO_NOT_TRACK, opted_out),
            weight,
            owner: visit.owner,
            created_ms: visit.created_ms,
            domain: visit.domain.as_str().as_bytes(),
            code: visit.code,
            ..JournalRecord::default()
        };
        let (octets, kept);
        if opted_out {
            // The user agent of a bot says nothing about a person.
            let nameless = headers.agent.trim_ascii().is_empty();
            record.marks = record.marks.with(RequestFlags::NO_USER_AGENT, nameless);
            record.agent = if names_a_bot(headers.agent) { headers.agent } else { b"" };
        } else {
            let address = visit.client_addr.client(&visit.redirector.settings.proxies, headers);
            (octets, kept) = address_octets(address, settings.address == AddressDetail::Full);
            record.visitor =
                self.salt.get().map_or(0, |salt| visitor_hash(&salt, address, headers.agent));
            record.address = &octets[..kept];
            record.referrer = headers.referrer_host();
            record.language = headers.language();
            record.agent = headers.agent;
            record.campaign = visit.query.map_or(b"", |query| campaign(query.as_bytes(), buffer));
        }
        if writer.write(&record) {
            self.counts.clicks_journaled.add(1);
        } else {
            self.counts.clicks_lost.add(1);
        }
    }
}
