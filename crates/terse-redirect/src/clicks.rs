//! Turns an answered visit into a journal record.

use std::cell::{Cell, RefCell};
use std::hash::Hasher as _;
use std::net::IpAddr;
use std::sync::Arc;

use siphasher::sip::SipHasher13;
use terse_core::clicks::{Record, RequestFlags, Salt, names_a_bot};
use terse_core::{Answered, Domain};

use crate::client_addr::ClientAddr;
use crate::counts::{Counter as _, Counts};
use crate::journal::{AddressDetail, FailureSampler, Journal, Writer};
use crate::redirector::Redirector;
use crate::visitor_headers::{VisitorHeaders, campaign};

/// A record keeps this much of `User-Agent`, and the visitor hash uses no more.
const MAX_AGENT_LEN: usize = 512;
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
            Answered::Redirected | Answered::Warned => 1,
            _ => match orphans.weight(now_nanos / 1_000_000) {
                Some(weight) => weight,
                None => return self.counts.orphans_skipped.add(1),
            },
        };
        let settings = self.journal.settings();
        let headers = visit.headers;
        let took_nanos = (now_nanos - visit.arrived_nanos).max(0).cast_unsigned();
        let opted_out = headers.opted_out && settings.honour_dnt;
        let mut record = Record {
            at_ms,
            took_nanos,
            outcome: visit.answered,
            marks: headers.flags.with(RequestFlags::DO_NOT_TRACK, opted_out),
            weight,
            owner: visit.owner,
            created_ms: visit.created_ms,
            domain: visit.domain.as_str().as_bytes(),
            code: visit.code,
            ..Record::default()
        };
        let (octets, kept);
        if opted_out {
            // The user agent of a bot says nothing about a person.
            let nameless = headers.agent.trim_ascii().is_empty();
            record.marks = record.marks.with(RequestFlags::NO_USER_AGENT, nameless);
            record.agent = if names_a_bot(headers.agent) { headers.agent } else { b"" };
        } else {
            let address = visit.client_addr.client(&visit.redirector.settings.proxies, headers);
            (octets, kept) = octets_of(address, settings.address);
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

/// The octets of an address, and how many of them the journal records.
fn octets_of(address: IpAddr, detail: AddressDetail) -> ([u8; 16], usize) {
    let mut octets = [0; 16];
    let (all, network) = match address {
        IpAddr::V4(address) => {
            octets[..4].copy_from_slice(&address.octets());
            (4, 3)
        }
        IpAddr::V6(address) => {
            octets = address.octets();
            (16, 6)
        }
    };
    match detail {
        AddressDetail::Full => (octets, all),
        AddressDetail::Cut | AddressDetail::Drop => {
            // The /48 of a 6to4 address contains a whole IPv4 address.
            if octets.starts_with(&[0x20, 0x02]) && all == 16 {
                octets[5] = 0;
            }
            (octets, network)
        }
    }
}

/// The hash of a visitor under the salt of the day. It distinguishes visitors and does not identify
/// them. Never 0.
fn visitor_hash(salt: &Salt, address: IpAddr, agent: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_key(salt);
    // All addresses have one length, so that no address and user agent together equal another pair.
    let octets = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    hasher.write(&octets);
    hasher.write(&agent[..agent.len().min(MAX_AGENT_LEN)]);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_cut_to_its_network() {
        let cut = |text: &str, detail| {
            let (octets, kept) = octets_of(text.parse::<IpAddr>().unwrap().to_canonical(), detail);
            octets[..kept].to_vec()
        };
        assert_eq!(cut("203.0.113.77", AddressDetail::Cut), [203, 0, 113]);
        assert_eq!(cut("203.0.113.77", AddressDetail::Drop), [203, 0, 113]);
        assert_eq!(cut("::ffff:203.0.113.77", AddressDetail::Full), [203, 0, 113, 77]);
        assert_eq!(
            cut("2001:db8:aaaa:bbbb::1", AddressDetail::Cut),
            [0x20, 1, 0x0d, 0xb8, 0xaa, 0xaa]
        );
        assert_eq!(cut("2001:db8::1", AddressDetail::Full).len(), 16);
        // 203.0.113.77 as 6to4, and an IPv4 address that begins with the same octets.
        assert_eq!(cut("2002:cb00:714d::1", AddressDetail::Cut), [0x20, 2, 203, 0, 113, 0]);
        assert_eq!(cut("2002:cb00:714d::1", AddressDetail::Full)[..6], [0x20, 2, 203, 0, 113, 77]);
        assert_eq!(cut("32.2.113.77", AddressDetail::Cut), [32, 2, 113]);
    }

    #[test]
    fn visitors_differ_by_day_address_and_agent() {
        let (one, other): (IpAddr, IpAddr) =
            ("203.0.113.7".parse().unwrap(), "203.0.113.8".parse().unwrap());
        let first = visitor_hash(&[1; 16], one, b"x");
        assert_eq!(first, visitor_hash(&[1; 16], one, b"x"));
        for another in [
            visitor_hash(&[2; 16], one, b"x"),
            visitor_hash(&[1; 16], other, b"x"),
            visitor_hash(&[1; 16], one, b"y"),
        ] {
            assert_ne!(first, another);
        }
    }
}
