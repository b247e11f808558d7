//! Enriches clicks: country and city, device, browser and system, bots, referrer, campaign.

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

use terse_core::clicks::{BotKind, Click, ClickTarget, Interned, LinkId, Record, RequestFlags};
use terse_core::{Answered, Code, Domain, LinkKey, OwnerId, Timestamp};

pub use addresses::AddressPrecision;
pub use classifier::UserAgentClassifier;

use addresses::Address;
use cache::BoundedCache;
use geo::GeoDatabase;
use repeats::RepeatDetector;
use user_agents::{UserAgent, UserAgents};

/// Entries of one cache generation; each takes one or two hundred bytes.
const ADDRESSES: usize = 16_384;
const REFERRERS: usize = 4096;
const LANGUAGES: usize = 512;
const CAMPAIGNS: usize = 2048;
const DOMAINS: usize = 512;

/// Turns journal records into clicks. It caches what it derives from each text, within bounds, so
/// that most clicks cost a few look-ups.
pub struct Enricher {
    precision: AddressPrecision,
    geo: GeoDatabase,
    user_agents: UserAgents,
    repeats: RepeatDetector,
    addresses: BoundedCache<Address, Location>,
    referrers: BoundedCache<Box<[u8]>, Option<Interned>>,
    languages: BoundedCache<Box<[u8]>, Option<Interned>>,
    campaigns: BoundedCache<Box<[u8]>, [Option<Interned>; 5]>,
    domains: BoundedCache<Box<[u8]>, Option<Domain>>,
}

/// What a click keeps of an address.
#[derive(Clone, Debug, Default)]
struct Location {
    address: Option<Interned>,
    country: Option<Interned>,
    city: Option<Interned>,
}

impl std::fmt::Debug for Enricher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enricher").field("precision", &self.precision).finish_non_exhaustive()
    }
}

impl Enricher {
    /// Countries and cities come from the file, which must be readable. Without a file, countries
    /// come from the database that is shipped.
    pub fn new(
        geo_file: Option<PathBuf>,
        precision: AddressPrecision,
        now: Timestamp,
    ) -> io::Result<Self> {
        Ok(Self {
            precision,
            geo: GeoDatabase::open(geo_file, now)?,
            user_agents: UserAgents::new(),
            repeats: RepeatDetector::new(),
            addresses: BoundedCache::new(ADDRESSES),
            referrers: BoundedCache::new(REFERRERS),
            languages: BoundedCache::new(LANGUAGES),
            campaigns: BoundedCache::new(CAMPAIGNS),
            domains: BoundedCache::new(DOMAINS),
        })
    }

    /// Reads the geo file again if it has changed. Call it regularly.
    pub fn refresh(&mut self, now: Timestamp) {
        if self.geo.refresh(now) {
            self.addresses.clear();
        }
    }

    /// Clears the repeat detector. Call it before records are read a second time, which would
    /// otherwise count as repeats of themselves.
    pub fn forget_visitors(&mut self) {
        self.repeats.clear();
    }

    /// The click of a record; `None` if no link can have its code or domain.
    pub fn enrich(&mut self, record: &Record<'_>) -> Option<Click> {
        #[cfg(test)]
        assert_ne!(record.agent, samples::PANICS, "the test asks for a panic");
        let code = std::str::from_utf8(record.code).ok().and_then(Code::parse)?;
        let key = LinkKey { domain: self.domain(record.domain)?, code };
        let at = Timestamp::from_ms(record.at_ms);
        let target = match record.outcome {
            Answered::Redirected => ClickTarget::Link(
                LinkId { key, created_at: Timestamp::from_ms(record.created_ms) },
                OwnerId(record.owner),
            ),
            outcome => ClickTarget::Orphan(key, outcome),
        };
        let mut click = Click::bare(at, target);
        click.weight = u32::from(record.weight.max(1));
        click.took_micros = record.took_micros;
        let mut named_bot = None;
        if !record.marks.has(RequestFlags::QUIET) {
            named_bot = self.add_details(&mut click, record);
        }
        click.bot = if record.marks.has(RequestFlags::HEAD) {
            Some(BotKind::Head)
        } else if record.marks.has(RequestFlags::PREFETCH) {
            Some(BotKind::Prefetch)
        } else {
            named_bot.or_else(|| self.repeat(&click))
        };
        Some(click)
    }

    /// Fills in what the texts of a record say, and returns the kind of bot its user agent names.
    fn add_details(&mut self, click: &mut Click, record: &Record<'_>) -> Option<BotKind> {
        let UserAgent { device, browser, system, bot } = self.user_agents.get(record.agent);
        (click.device, click.browser, click.system) = (device, browser, system);
        click.visitor = (record.visitor != 0).then_some(record.visitor);
        if let Some(address) = Address::read(record.address) {
            let Location { address, country, city } = self.location(address);
            (click.address, click.country, click.city) = (address, country, city);
        }
        if !record.referrer.is_empty() {
            click.referrer = self.referrers.get_or_insert_with(record.referrer, text::referrer);
        }
        if !record.language.is_empty() {
            click.language = self.languages.get_or_insert_with(record.language, text::language);
        }
        if !record.campaign.is_empty() {
            click.utm = self.campaigns.get_or_insert_with(record.campaign, text::campaign);
        }
        bot
    }

    fn repeat(&mut self, click: &Click) -> Option<BotKind> {
        let (Some(visitor), ClickTarget::Link(link, _)) = (click.visitor, &click.target) else {
            return None;
        };
        let visit = (visitor, &link.key.domain, &link.key.code);
        self.repeats.is_repeat(visit, click.at.as_ms()).then_some(BotKind::Repeat)
    }

    fn location(&mut self, address: Address) -> Location {
        if let Some(location) = self.addresses.get(&address) {
            return location;
        }
        let (country, city) = self.geo.find(address.ip());
        let location = Location { address: address.text(self.precision), country, city };
        self.addresses.insert(address, location.clone());
        location
    }

    fn domain(&mut self, name: &[u8]) -> Option<Domain> {
        let parse = |name: &[u8]| std::str::from_utf8(name).ok().map(Domain::from_stored);
        self.domains.get_or_insert_with(name, parse)
    }
}

#[cfg(test)]
mod tests;
