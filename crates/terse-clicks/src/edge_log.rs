//! Counts the visits that a CDN answered by itself, from its log.
//!
//! A log is a journal whose identity is its first line: the store remembers how far it was counted,
//! so a log that is read again, under any name, or that has grown since, counts each line once. The
//! segment of a position is a checksum of everything before it: another log that begins with the
//! same line is noticed and refused.

mod format;

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::sync::Arc;
use std::time::Duration;

use terse_core::clicks::{
    Added, ClickIngest, Forgotten, JournalId, JournalRecord, JournalSpan, RequestFlags,
    address_octets, campaign, names_a_bot, referrer_host, visitor_hash,
};
use terse_core::registry::{RegistryError, Salts};
use terse_core::{Answered, Clock, Code, Hosts, Link, LinkKey, LinkReader, StoreError, Timestamp};

use xxhash_rust::xxh3::Xxh3;

pub use format::EdgeLogFormat;
use format::{EdgeVisit, LineParser, ParsedLine};

use crate::enrich::Enricher;
use crate::growing_batch::GrowingBatch;

/// The longest line.
const MAX_LINE: usize = 64 * 1024;
/// How many lines one batch covers.
const BATCH_LINES: usize = 5_000;
/// How often a batch is sent again.
const ATTEMPTS: u32 = 5;
/// Clocks of the CDN and of the database may differ by this much.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);
const DAY_MS: i64 = 86_400_000;

/// Why a log could not be counted.
#[derive(Debug, thiserror::Error)]
pub enum EdgeLogError {
    /// The log cannot be read.
    #[error("the log cannot be read")]
    Read(#[from] io::Error),
    /// A line is too long for a log.
    #[error("line {0} has more than 64 KiB; is this a log of the given format?")]
    LongLine(u64),
    /// Nothing in it has the right format.
    #[error("no line can be read as one of the given format")]
    WrongFormat,
    /// The store does not answer.
    #[error("the store does not answer; run the command again to continue")]
    Store(#[from] StoreError),
    /// Another log with the same first line was counted.
    #[error(
        "a log with the same first line was counted up to octet {0}, and this one differs from it \
         or is shorter: nothing more was counted. Import whole logs, neither sorted nor joined"
    )]
    AnotherLog(u64),
    /// None of its lines is of a host of this server.
    #[error(
        "no line is of a host of short links (the first one is of {0:?}): nothing was counted. \
         Check `base_url` and the short domains"
    )]
    OtherHosts(String),
    /// Another process counts the same log.
    #[error("another process counts the same log")]
    TakenOver,
}

/// What was done with the lines of a log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EdgeLogCounts {
    /// Visits that were counted.
    pub counted: u64,
    /// Lines that were counted or left out by an earlier import.
    pub already: u64,
    /// Visits that a node answered, or that were no redirects: nodes count theirs.
    pub not_at_edge: u64,
    /// Visits of links that do not exist any more, or of other hosts.
    pub no_link: u64,
    /// Lines that could not be read.
    pub unreadable: u64,
}

/// What an import needs.
pub struct EdgeLogImport {
    /// Where clicks are counted.
    pub store: Arc<dyn ClickIngest>,
    /// Finds links.
    pub links: Arc<dyn LinkReader>,
    /// The salts of visitor hashes.
    pub salts: Arc<dyn Salts>,
    /// The hosts of short links.
    pub hosts: Hosts,
    /// Finds countries, devices and bots.
    pub enricher: Enricher,
    /// Whether whole addresses are recorded.
    pub whole_addresses: bool,
    /// Whether aliases are found in other spellings (`codes.loose`).
    pub loose: bool,
    /// Whether visitors may ask not to be tracked.
    pub honour_dnt: bool,
    /// The time.
    pub clock: Clock,
}

/// A log that is being counted.
struct Progress {
    journal: JournalId,
    epoch: u32,
    /// Everything before this octet is counted.
    counted_to: u64,
    /// The checksum of what is counted.
    checksum: Option<u64>,
    /// Positions that later ones replace.
    outdated: Vec<u64>,
    /// A batch that was begun and must be repeated as it was ends here.
    must_end_at: Option<u64>,
    /// Whether this log is the one that was counted, as far as it was.
    is_compared: bool,
    /// Whether a visit was of a host of short links.
    has_our_host: bool,
}

impl EdgeLogImport {
    /// Counts the lines that are not counted yet. A line without its end is left to the next
    /// import: the CDN may still write it.
    pub async fn run(
        &mut self,
        mut log: impl BufRead,
        format: EdgeLogFormat,
    ) -> Result<EdgeLogCounts, EdgeLogError> {
        let mut parser = LineParser::new(format);
        let (mut counts, mut visits) = (EdgeLogCounts::default(), Vec::new());
        let (mut progress, mut offset, mut number, mut lines) = (None::<Progress>, 0_u64, 0, 0);
        let (mut line, mut readable) = (Vec::new(), false);
        let mut content = Xxh3::new();
        loop {
            line.clear();
            number += 1;
            let mut bounded = io::Read::take(&mut log, MAX_LINE as u64 + 1);
            bounded.read_until(b'\n', &mut line)?;
            if line.len() > MAX_LINE {
                return Err(EdgeLogError::LongLine(number));
            }
            if line.last() != Some(&b'\n') {
                break;
            }
            offset += line.len() as u64;
            content.update(&line);
            let parsed = parser.parse(line.trim_ascii());
            if matches!(parsed, ParsedLine::Comment) {
                if let Some(at) = &mut progress {
                    at.compare(offset, &content)?;
                }
                continue;
            }
            let at = match &mut progress {
                Some(progress) => progress,
                None => progress.insert(self.open(&line).await?),
            };
            if let ParsedLine::Visit(visit) = &parsed {
                at.has_our_host = at.has_our_host || self.is_ours(visit);
            }
            if offset <= at.counted_to {
                counts.already += 1;
                readable = true;
                at.compare(offset, &content)?;
                continue;
            }
            if at.counted_to > 0 && !at.is_compared {
                return Err(EdgeLogError::AnotherLog(at.counted_to));
            }
            lines += 1;
            match parsed {
                ParsedLine::Visit(visit) => visits.push(visit),
                ParsedLine::NotAtEdge => counts.not_at_edge += 1,
                ParsedLine::Comment => {}
                ParsedLine::Unreadable => counts.unreadable += 1,
            }
            readable |= !visits.is_empty() || counts.not_at_edge > 0;
            let is_full = match at.must_end_at {
                Some(end) => offset >= end,
                None => lines >= BATCH_LINES,
            };
            if is_full && readable {
                let end = (offset, checksum(&content));
                self.store(at, end, std::mem::take(&mut visits), &mut counts).await?;
                lines = 0;
            }
        }
        match &mut progress {
            Some(_) if !readable => Err(EdgeLogError::WrongFormat),
            Some(at) if at.counted_to > 0 && !at.is_compared => {
                Err(EdgeLogError::AnotherLog(at.counted_to))
            }
            Some(at) => {
                if lines > 0 {
                    // Comments at the end are covered, too.
                    self.store(at, (offset, checksum(&content)), visits, &mut counts).await?;
                }
                self.forget_outdated(at).await?;
                Ok(counts)
            }
            None => Ok(counts),
        }
    }

    async fn open(&self, first_line: &[u8]) -> Result<Progress, StoreError> {
        let journal = JournalId::of_log(first_line);
        let opened = self.store.open(journal).await?;
        let last = opened.positions.iter().max_by_key(|position| position.to);
        let begun = opened.unfinished.first().and_then(|batch| batch.spans.first());
        let segment = last.map(|position| position.segment);
        let outdated = opened.positions.iter().map(|position| position.segment);
        Ok(Progress {
            journal,
            epoch: opened.epoch,
            counted_to: last.map_or(0, |position| position.to),
            checksum: segment,
            outdated: outdated.filter(|outdated| Some(*outdated) != segment).collect(),
            is_compared: false,
            has_our_host: false,
            must_end_at: begun.map(|span| span.to),
        })
    }

    /// The last position is enough. Notes the day, so that the store can forget the log some time
    /// after the last import.
    async fn forget_outdated(&self, at: &mut Progress) -> Result<(), EdgeLogError> {
        let outdated = std::mem::take(&mut at.outdated);
        let generation = JournalId::log_generation(self.clock.now());
        match self.store.forget(at.journal, at.epoch, generation, &outdated).await? {
            Forgotten::Done => Ok(()),
            Forgotten::Fenced => Err(EdgeLogError::TakenOver),
        }
    }

    /// Visits are not counted while those before, and they, are all of hosts that this server does
    /// not know: `base_url` is probably wrong, and the next import would find them counted.
    fn check_hosts(at: &Progress, visits: &[EdgeVisit]) -> Result<(), EdgeLogError> {
        match visits.first() {
            Some(first) if !at.has_our_host => Err(EdgeLogError::OtherHosts(first.host.clone())),
            _ => Ok(()),
        }
    }

    /// Counts the visits between the last position and `to`.
    async fn store(
        &mut self,
        at: &mut Progress,
        (to, segment): (u64, u64),
        visits: Vec<EdgeVisit>,
        counts: &mut EdgeLogCounts,
    ) -> Result<(), EdgeLogError> {
        Self::check_hosts(at, &visits)?;
        let (journal, epoch) = (at.journal, at.epoch);
        let span = JournalSpan { journal, epoch, segment, from: 0, to };
        let found = self.links(&visits).await?;
        let salts = self.salts(&visits).await;
        let mut batch = GrowingBatch::default();
        for visit in &visits {
            let link = self.key(visit).and_then(|key| found.get(&key));
            let existed = |link: &&Link| {
                link.created_at.saturating_sub(CLOCK_DIFFERENCE).as_ms() <= visit.at_ms
            };
            match link.filter(existed) {
                Some(link) => {
                    counts.counted += 1;
                    self.add(visit, link, &salts, &mut batch);
                }
                None => counts.no_link += 1,
            }
        }
        batch.add_in_order(&mut self.enricher);
        let batch = Arc::new(batch.finish(vec![span]));
        let mut wait = Duration::from_millis(200);
        for attempt in 1.. {
            match self.store.add(&batch).await {
                Ok(Added::Done | Added::Already) => break,
                Ok(Added::Gap(_) | Added::Fenced) => return Err(EdgeLogError::TakenOver),
                Err(error) if attempt >= ATTEMPTS => return Err(error.into()),
                Err(_) => {
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                }
            }
        }
        at.outdated.extend(at.checksum.replace(segment));
        (at.counted_to, at.must_end_at, at.is_compared) = (to, None, true);
        Ok(())
    }

    /// The link that a visit asks for.
    fn key(&self, visit: &EdgeVisit) -> Option<LinkKey> {
        let code = visit.path.strip_prefix('/').and_then(Code::parse)?;
        Some(LinkKey { domain: self.hosts.domain_of(host(visit))?, code })
    }

    fn is_ours(&self, visit: &EdgeVisit) -> bool {
        self.hosts.domain_of(host(visit)).is_some()
    }

    async fn links(&self, visits: &[EdgeVisit]) -> Result<HashMap<LinkKey, Link>, StoreError> {
        let mut keys: Vec<LinkKey> = visits.iter().filter_map(|visit| self.key(visit)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut links = HashMap::new();
        for some in keys.chunks(500) {
            for (key, link) in some.iter().zip(self.links.get_many(some).await) {
                let found = match link? {
                    None if self.loose => self.links.get_folded(key).await?,
                    found => found,
                };
                if let Some(link) = found {
                    links.insert(key.clone(), link);
                }
            }
        }
        Ok(links)
    }

    /// The salts of yesterday and today. Those of earlier days are deleted, and none is made for
    /// them: such visits are counted without a visitor.
    async fn salts(&self, visits: &[EdgeVisit]) -> HashMap<i64, [u8; 16]> {
        let today = self.clock.now().as_ms().div_euclid(DAY_MS);
        let mut salts = HashMap::new();
        for day in [today - 1, today] {
            if visits.iter().any(|visit| visit.at_ms.div_euclid(DAY_MS) == day) {
                let salt: Result<_, RegistryError> = self.salts.salt(day).await;
                match salt {
                    Ok(salt) => drop(salts.insert(day, salt)),
                    Err(error) => tracing::warn!(%error, "visitors of a day are not told apart"),
                }
            }
        }
        salts
    }

    fn add(
        &mut self,
        visit: &EdgeVisit,
        link: &Link,
        salts: &HashMap<i64, [u8; 16]>,
        batch: &mut GrowingBatch,
    ) {
        let (agent, opted_out) = (visit.agent.as_bytes(), visit.opted_out && self.honour_dnt);
        let mut record = JournalRecord {
            at_ms: Timestamp::from_ms(visit.at_ms).as_ms(),
            outcome: Answered::Redirected,
            marks: RequestFlags::default()
                .with(RequestFlags::HEAD, visit.is_head)
                .with(RequestFlags::DO_NOT_TRACK, opted_out),
            weight: 1,
            owner: link.owner.0,
            created_ms: link.created_at.as_ms(),
            domain: link.key.domain.as_str().as_bytes(),
            code: link.key.code.as_str().as_bytes(),
            ..JournalRecord::default()
        };
        let (octets, kept);
        let mut buffer = [0; 512];
        if opted_out {
            record.marks = record.marks.with(RequestFlags::NO_USER_AGENT, agent.is_empty());
            record.agent = if names_a_bot(agent) { agent } else { b"" };
        } else {
            if let Some(address) = visit.client {
                (octets, kept) = address_octets(address, self.whole_addresses);
                record.address = &octets[..kept];
                let salt = salts.get(&visit.at_ms.div_euclid(DAY_MS));
                record.visitor = salt.map_or(0, |salt| visitor_hash(salt, address, agent));
            }
            record.referrer = referrer_host(visit.referrer.as_bytes());
            record.agent = agent;
            record.campaign = campaign(visit.query.as_bytes(), &mut buffer);
        }
        batch.read(&record, &mut self.enricher);
    }
}

impl Progress {
    /// Compares what was read with what was counted, where that ends.
    fn compare(&mut self, offset: u64, content: &Xxh3) -> Result<(), EdgeLogError> {
        if offset == self.counted_to {
            if self.checksum != Some(checksum(content)) {
                return Err(EdgeLogError::AnotherLog(self.counted_to));
            }
            self.is_compared = true;
        }
        Ok(())
    }
}

/// A checksum as the number of a segment. Some stores keep these with a sign.
fn checksum(content: &Xxh3) -> u64 {
    content.digest() >> 1
}

/// The host of a visit, without a port.
fn host(visit: &EdgeVisit) -> &str {
    match visit.host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => &visit.host,
    }
}

#[cfg(test)]
mod tests;
