//! Finds out what there is to know about a click.

mod addresses;
mod bots;
mod cache;
mod classifier;
mod devices;
mod geo;
#[cfg(test)]
mod mmdb;
mod repeats;
#[cfg(test)]
pub(crate) mod samples;
mod text;
mod user_agents;

use std::io;
use std::path::PathBuf;

use terse_core::clicks::{
    BotKind, Click, ClickOutcome, ClickTarget, Interned, LinkId, Record, RequestFlags,
};
use terse_core::{Code, Domain, LinkKey, OwnerId, Timestamp};

pub use addresses::AddressPrecision;
pub use classifier::UserAgentClassifier;

use addresses::Address;
use cache::BoundedCache;
use geo::GeoDatabase;
use repeats::RepeatDetector;
use user_agents::{UserAgent, UserAgents};

/// Generations of what is remembered; each entry is one or two hundred octets.
const ADDRESSES: usize = 16_384;
const REFERRERS: usize = 4096;
const LANGUAGES: usize = 512;
const CAMPAIGNS: usize = 2048;
const DOMAINS: usize = 512;

/// Makes clicks of records. What was found out about a text once is remembered, within bounds, so
/// that most clicks cost a few look-ups.
pub struct Enricher {
    keep: AddressPrecision,
    geo: GeoDatabase,
    user_agents: UserAgents,
    repeats: RepeatDetector,
    addresses: BoundedCache<Address, Location>,
    referrers: BoundedCache<Box<[u8]>, Option<Interned>>,
    languages: BoundedCache<Box<[u8]>, Option<Interned>>,
    campaigns: BoundedCache<Box<[u8]>, [Option<Interned>; 5]>,
    domains: BoundedCache<Box<[u8]>, Option<Domain>>,
}

#[derive(Clone, Debug, Default)]
struct Location {
    text: Option<Interned>,
    country: Option<Interned>,
    city: Option<Interned>,
}

impl std::fmt::Debug for Enricher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enricher").field("keep", &self.keep).finish_non_exhaustive()
    }
}

impl Enricher {
    /// Places come from the file, which must be readable, or without one from the countries that
    /// are shipped.
    pub fn new(
        places: Option<PathBuf>,
        keep: AddressPrecision,
        now: Timestamp,
    ) -> io::Result<Self> {
        Ok(Self {
            keep,
            geo: GeoDatabase::open(places, now)?,
            user_agents: UserAgents::new(),
            repeats: RepeatDetector::new(),
            addresses: BoundedCache::new(ADDRESSES),
            referrers: BoundedCache::new(REFERRERS),
            languages: BoundedCache::new(LANGUAGES),
            campaigns: BoundedCache::new(CAMPAIGNS),
            domains: BoundedCache::new(DOMAINS),
        })
    }

    /// To be called now and then: reads the file of places again if it has changed.
    pub fn refresh(&mut self, now: Timestamp) {
        if self.geo.refresh(now) {
            self.addresses.clear();
        }
    }

    /// Forgets who clicked lately. Records that are read once more must not be taken for repeats of
    /// themselves.
    pub fn forget_visitors(&mut self) {
        self.repeats.clear();
    }

    /// The click that a record stands for; `None` if no link can have its name.
    pub fn enrich(&mut self, record: &Record<'_>) -> Option<Click> {
        #[cfg(test)]
        assert_ne!(record.agent, samples::PANICS, "as a test has asked for");
        let code = std::str::from_utf8(record.code).ok().and_then(Code::parse)?;
        let key = LinkKey { domain: self.domain(record.domain)?, code };
        let at = Timestamp::from_ms(record.at_ms);
        let place = match record.outcome {
            ClickOutcome::Redirected => ClickTarget::Link(
                LinkId { key, born: Timestamp::from_ms(record.born_ms) },
                OwnerId(record.owner),
            ),
            outcome => ClickTarget::Nowhere(key, outcome),
        };
        let mut click = Click::bare(at, place);
        click.weight = u32::from(record.weight.max(1));
        click.took_micros = record.took_micros;
        let mut named = None;
        if !record.marks.has(RequestFlags::QUIET) {
            named = self.tell(&mut click, record);
        }
        click.machine = if record.marks.has(RequestFlags::HEAD) {
            Some(BotKind::Head)
        } else if record.marks.has(RequestFlags::PREFETCH) {
            Some(BotKind::Prefetch)
        } else {
            named.or_else(|| self.repeat(&click))
        };
        Some(click)
    }

    /// Fills in what the texts of a record tell, and what kind of machine its user agent is.
    fn tell(&mut self, click: &mut Click, record: &Record<'_>) -> Option<BotKind> {
        let UserAgent { device, browser, system, machine } = self.user_agents.read(record.agent);
        (click.device, click.browser, click.system) = (device, browser, system);
        click.visitor = (record.visitor != 0).then_some(record.visitor);
        if let Some(address) = Address::read(record.address) {
            let Location { text, country, city } = self.locate(address);
            (click.address, click.country, click.city) = (text, country, city);
        }
        if !record.referrer.is_empty() {
            click.referrer = self.referrers.get_or(record.referrer, text::referrer);
        }
        if !record.language.is_empty() {
            click.language = self.languages.get_or(record.language, text::language);
        }
        if !record.campaign.is_empty() {
            click.utm = self.campaigns.get_or(record.campaign, text::campaign);
        }
        machine
    }

    fn repeat(&mut self, click: &Click) -> Option<BotKind> {
        let (Some(visitor), ClickTarget::Link(link, _)) = (click.visitor, &click.place) else {
            return None;
        };
        let visit = (visitor, &link.key.domain, &link.key.code);
        self.repeats.is_repeat(visit, click.at.as_ms()).then_some(BotKind::Repeat)
    }

    fn locate(&mut self, address: Address) -> Location {
        if let Some(known) = self.addresses.get(&address) {
            return known;
        }
        let (country, city) = self.geo.find(address.ip());
        let found = Location { text: address.text(self.keep), country, city };
        self.addresses.put(address, found.clone());
        found
    }

    fn domain(&mut self, name: &[u8]) -> Option<Domain> {
        self.domains.get_or(name, |name| std::str::from_utf8(name).ok().map(Domain::from_stored))
    }
}

#[cfg(test)]
mod tests;
