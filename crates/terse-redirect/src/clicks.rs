//! From an answered visit to a record in the journal.

use std::cell::{Cell, RefCell};
use std::hash::Hasher as _;
use std::net::IpAddr;
use std::sync::Arc;

use siphasher::sip::SipHasher13;
use terse_core::clicks::{ClickOutcome, Record, RequestFlags, Salt};
use terse_core::{Domain, Proxies};

use crate::client_addr::ClientAddr;
use crate::counts::Counts;
use crate::journal::{AddressDetail, Journal, Sampler, Writer};
use crate::visitor_headers::{VisitorHeaders, campaign};

/// As much of `User-Agent` as a record keeps; the rest does not tell visitors apart either.
const MAX_AGENT_LEN: usize = 512;
const MAX_CAMPAIGN_LEN: usize = 512;

/// An answered visit.
pub(crate) struct Visited<'a> {
    pub(crate) outcome: ClickOutcome,
    /// Of the link; 0 without one.
    pub(crate) owner: u64,
    pub(crate) born_ms: i64,
    pub(crate) domain: &'a Domain,
    pub(crate) code: &'a [u8],
    pub(crate) query: Option<&'a str>,
    pub(crate) seen: &'a VisitorHeaders<'a>,
    pub(crate) client_addr: &'a ClientAddr,
    pub(crate) proxies: &'a Proxies,
    /// When it was answered, and when it had arrived, in microseconds.
    pub(crate) now_micros: i64,
    pub(crate) arrived_micros: i64,
}

/// A serving thread's way to the journal.
pub(crate) struct Clicks {
    journal: Arc<Journal>,
    counts: Arc<Counts>,
    /// A copy of the journal's, renewed by the sweep: reading it takes no lock.
    salt: Cell<Option<Salt>>,
    pen: RefCell<ClickWriter>,
}

struct ClickWriter {
    writer: Writer,
    orphans: Sampler,
    campaign: [u8; MAX_CAMPAIGN_LEN],
}

impl Clicks {
    pub(crate) fn new(journal: Arc<Journal>, writer: Writer, counts: Arc<Counts>) -> Self {
        let salt = Cell::new(journal.salt());
        let pen = RefCell::new(ClickWriter {
            writer,
            orphans: Sampler::default(),
            campaign: [0; MAX_CAMPAIGN_LEN],
        });
        Self { journal, counts, salt, pen }
    }

    /// Takes over the salt of the day.
    pub(crate) fn renew_salt(&self) {
        self.salt.set(self.journal.salt());
    }

    /// Writes a visit down. To be called before its answer leaves.
    pub(crate) fn write(&self, visited: &Visited<'_>) {
        let ClickWriter { writer, orphans, campaign: buffer } = &mut *self.pen.borrow_mut();
        let at_ms = visited.now_micros / 1000;
        let weight = match visited.outcome {
            ClickOutcome::Redirected => 1,
            _ => match orphans.weight(at_ms) {
                Some(weight) => weight,
                None => return self.counts.orphans_skipped.add(1),
            },
        };
        let settings = self.journal.settings();
        let seen = visited.seen;
        let took_micros =
            u32::try_from((visited.now_micros - visited.arrived_micros).max(0)).unwrap_or(u32::MAX);
        let quiet = seen.quiet && settings.honour_dnt;
        let mut record = Record {
            at_ms,
            took_micros,
            outcome: visited.outcome,
            marks: seen.marks.with(RequestFlags::QUIET, quiet),
            weight,
            owner: visited.owner,
            born_ms: visited.born_ms,
            domain: visited.domain.as_str().as_bytes(),
            code: visited.code,
            ..Record::default()
        };
        let (octets, kept);
        if !quiet {
            let address = visited.client_addr.client(visited.proxies, seen);
            (octets, kept) = octets_of(address, settings.address);
            record.visitor = self.salt.get().map_or(0, |salt| visitor(&salt, address, seen.agent));
            record.address = &octets[..kept];
            record.referrer = seen.referrer_host();
            record.language = seen.language();
            record.agent = seen.agent;
            record.campaign = visited.query.map_or(b"", |query| campaign(query.as_bytes(), buffer));
        }
        if writer.write(&record) {
            self.counts.clicks_journaled.add(1);
        } else {
            self.counts.clicks_lost.add(1);
        }
    }
}

/// The octets of an address, and how many of them are written down.
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
            // 6to4: the network of IPv6 is a whole address of IPv4.
            if octets.starts_with(&[0x20, 0x02]) && all == 16 {
                octets[5] = 0;
            }
            (octets, network)
        }
    }
}

/// Tells visitors of one day apart and nobody who they are. Never 0.
fn visitor(salt: &Salt, address: IpAddr, agent: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_key(salt);
    // Of one length, so that the address cannot be continued by the text.
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
        // 203.0.113.77 by 6to4, and an address of IPv4 that begins the same.
        assert_eq!(cut("2002:cb00:714d::1", AddressDetail::Cut), [0x20, 2, 203, 0, 113, 0]);
        assert_eq!(cut("2002:cb00:714d::1", AddressDetail::Full)[..6], [0x20, 2, 203, 0, 113, 77]);
        assert_eq!(cut("32.2.113.77", AddressDetail::Cut), [32, 2, 113]);
    }

    #[test]
    fn visitors_differ_by_day_address_and_agent() {
        let (one, other): (IpAddr, IpAddr) =
            ("203.0.113.7".parse().unwrap(), "203.0.113.8".parse().unwrap());
        let first = visitor(&[1; 16], one, b"x");
        assert_eq!(first, visitor(&[1; 16], one, b"x"));
        for another in [
            visitor(&[2; 16], one, b"x"),
            visitor(&[1; 16], other, b"x"),
            visitor(&[1; 16], one, b"y"),
        ] {
            assert_ne!(first, another);
        }
    }
}
