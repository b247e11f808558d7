//! Enriches clicks: country and city, device, browser and system, bots, referrer, campaign.

mod addresses;
mod bots;
mod cache;
mod classifier;
mod devices;
mod geo;
mod intern;
#[cfg(test)]
mod mmdb;
mod repeats;
#[cfg(test)]
pub(crate) mod samples;
mod text;
mod user_agents;

use std::io;
use std::path::PathBuf;

use foldhash::quality::RandomState;
use terse_core::clicks::{
    AgentTraits, BotKind, ClickKind, ClickNetwork, ClickRow, ClickTarget, GeoLocation, Interned,
    JournalRecord, LinkId, RequestFlags, WarningVisit,
};
use terse_core::{Answered, Code, Domain, LinkKey, OwnerId, Timestamp};

pub use addresses::AddressPrecision;
pub use classifier::UserAgentClassifier;

pub(crate) use intern::ByHash;
pub(crate) use repeats::RepeatDetector;

use addresses::Address;
use cache::BoundedCache;
use geo::GeoDatabase;
use intern::Interner;
use user_agents::{UserAgent, UserAgentParser};

use crate::growing_batch::GrowingBatch;

/// Entries of one cache generation; each takes one or two hundred bytes.
const ADDRESSES: usize = 32_768;
const AGENTS: usize = 4096;
const REFERRERS: usize = 4096;
const LANGUAGES: usize = 512;
const CAMPAIGNS: usize = 2048;
const DOMAINS: usize = 512;

/// Turns journal records into rows of a batch. It caches what it derives from each text, within
/// bounds: a text that it knows costs a lookup and allocates nothing.
pub struct Enricher {
    precision: AddressPrecision,
    geo: GeoDatabase,
    /// Made for the first user agent. It takes about ten megabytes and 50 milliseconds; a server
    /// without visitors stays small.
    parser: Option<UserAgentParser>,
    repeats: RepeatDetector,
    agents: Interner<UserAgent>,
    addresses: Interner<Location>,
    referrers: Interner<Option<Interned>>,
    languages: Interner<Option<Interned>>,
    campaigns: Interner<[Option<Interned>; 5]>,
    domains: BoundedCache<Box<[u8]>, Option<Domain>>,
    hash: RandomState,
}

/// What a click keeps of an address.
#[derive(Clone, Debug, Default)]
struct Location {
    address: Option<Interned>,
    place: GeoLocation,
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
            parser: None,
            repeats: RepeatDetector::default(),
            agents: Interner::new(AGENTS),
            addresses: Interner::new(ADDRESSES),
            referrers: Interner::new(REFERRERS),
            languages: Interner::new(LANGUAGES),
            campaigns: Interner::new(CAMPAIGNS),
            domains: BoundedCache::new(DOMAINS),
            hash: RandomState::default(),
        })
    }

    /// Reads the geo file again if it has changed. Call it regularly.
    pub fn refresh(&mut self, now: Timestamp) {
        if self.geo.refresh(now) {
            self.addresses.clear();
        }
    }

    /// Whether the lists of user agents are compiled.
    pub(crate) fn is_ready(&self) -> bool {
        self.parser.is_some()
    }

    /// Clears the repeat detector. Call it before records are read a second time, which would
    /// otherwise count as repeats of themselves.
    pub fn forget_visitors(&mut self) {
        self.repeats.clear();
    }

    /// The row of a record in a batch; `None` if no link can have its code or domain. Whether it is
    /// a repeat is found out later, in the order of time, by [`RepeatDetector`].
    pub(crate) fn enrich(
        &mut self,
        record: &JournalRecord<'_>,
        batch: &mut GrowingBatch,
    ) -> Option<ClickRow> {
        #[cfg(test)]
        assert_ne!(record.agent, samples::PANICS, "the test asks for a panic");
        let domains = &mut self.domains;
        let target = batch.target(record, &self.hash, || {
            let code = std::str::from_utf8(record.code).ok().and_then(Code::parse)?;
            let parse = |name: &[u8]| std::str::from_utf8(name).ok().map(Domain::from_stored);
            let key = LinkKey { domain: domains.get_or_insert_with(record.domain, parse)?, code };
            Some(match record.outcome {
                Answered::Redirected | Answered::Warned => ClickTarget::Link(
                    LinkId { key, created_at: Timestamp::from_ms(record.created_ms) },
                    OwnerId(record.owner),
                ),
                outcome => ClickTarget::Orphan(key, outcome),
            })
        })?;
        let mut row = ClickRow {
            at_ms: Timestamp::from_ms(record.at_ms).as_ms(),
            took_nanos: record.took_nanos,
            target,
            weight: u32::from(record.weight.max(1)),
            ..ClickRow::default()
        };
        row.warning = match record.outcome {
            Answered::Warned => WarningVisit::Shown,
            _ if record.marks.has(RequestFlags::WENT_ON) => WarningVisit::Passed,
            _ => WarningVisit::None,
        };
        let quiet = record.marks.has(RequestFlags::DO_NOT_TRACK);
        let named_bot =
            if quiet { self.quiet_bot(record) } else { self.add_details(&mut row, record, batch) };
        let bot = if record.marks.has(RequestFlags::HEAD) {
            Some(BotKind::Head)
        } else if record.marks.has(RequestFlags::PREFETCH) {
            Some(BotKind::Prefetch)
        } else {
            named_bot
        };
        row.kind = bot.map_or(ClickKind::HUMAN, ClickKind::of_bot);
        Some(row)
    }

    /// Detects repeats, in the order of time.
    pub(crate) fn repeats(&mut self) -> &mut RepeatDetector {
        &mut self.repeats
    }

    /// The kind of bot that asks not to be tracked. Nothing else of its user agent is kept.
    fn quiet_bot(&mut self, record: &JournalRecord<'_>) -> Option<BotKind> {
        if record.marks.has(RequestFlags::NO_USER_AGENT) {
            return Some(BotKind::NoUserAgent);
        }
        if record.agent.is_empty() {
            return None;
        }
        self.parser.get_or_insert_with(UserAgentParser::shipped).parse(record.agent).bot
    }

    /// Fills in what the texts of a record say, and returns the kind of bot its user agent names.
    fn add_details(
        &mut self,
        row: &mut ClickRow,
        record: &JournalRecord<'_>,
        batch: &mut GrowingBatch,
    ) -> Option<BotKind> {
        let number = batch.number();
        let parser = &mut self.parser;
        let (agent, agent_number) = self.agents.number(
            record.agent,
            number,
            |agent| parser.get_or_insert_with(UserAgentParser::shipped).parse(agent),
            |agent| {
                let UserAgent { device, browser, system, bot: _ } = agent.clone();
                batch.agent(AgentTraits { device, browser, system })
            },
        );
        let bot = agent.bot;
        row.agent = agent_number;
        row.visitor = record.visitor;
        if let Some(address) = Address::read(record.address) {
            let (geo, precision) = (&mut self.geo, self.precision);
            (_, row.network) = self.addresses.number(
                record.address,
                number,
                |_| {
                    let (country, city) = geo.find(address.ip());
                    Location {
                        address: address.text(precision),
                        place: GeoLocation { country, city },
                    }
                },
                |location| {
                    let place = batch.place(location.place.clone());
                    batch.network(ClickNetwork { address: location.address.clone(), place })
                },
            );
        }
        if !record.referrer.is_empty() {
            (_, row.referrer) =
                self.referrers.number(record.referrer, number, text::referrer, |referrer| {
                    batch.referrer(referrer.clone())
                });
        }
        if !record.language.is_empty() {
            (_, row.language) =
                self.languages.number(record.language, number, text::language, |language| {
                    batch.language(language.clone())
                });
        }
        if !record.campaign.is_empty() {
            (_, row.campaign) =
                self.campaigns.number(record.campaign, number, text::campaign, |campaign| {
                    batch.campaign(campaign.clone())
                });
        }
        bot
    }
}

#[cfg(test)]
mod tests;
