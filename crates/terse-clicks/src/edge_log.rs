//! Counts the visits that a CDN answered by itself, from its log.
//!
//! A log is a journal whose identity is its first line: the store remembers how far it was counted,
//! so a log that is read again, under any name, or that has grown since, counts each line once.

mod format;

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::sync::Arc;
use std::time::Duration;

use terse_core::clicks::{
    Added, ClickIngest, JournalId, JournalRecord, JournalSpan, RequestFlags, address_octets,
    campaign, names_a_bot, referrer_host, visitor_hash,
};
use terse_core::registry::{RegistryError, Salts};
use terse_core::{Answered, Clock, Code, Hosts, Link, LinkKey, LinkReader, StoreError, Timestamp};

pub use format::EdgeLogFormat;
use format::{EdgeVisit, LineParser, ParsedLine};

use crate::enrich::Enricher;
use crate::growing_batch::GrowingBatch;

/// The longest line.
const MAX_LINE: usize = 64 * 1024;
/// How many lines one batch covers.
const BATCH_LINES: usize = 5_000;
/// A log is one segment.
const SEGMENT: u64 = 1;
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
    /// A batch that was begun and must be repeated as it was ends here.
    must_end_at: Option<u64>,
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
            let parsed = parser.parse(line.trim_ascii());
            if matches!(parsed, ParsedLine::Comment) {
                continue;
            }
            let at = match &mut progress {
                Some(progress) => progress,
                None => progress.insert(self.open(&line).await?),
            };
            if offset <= at.counted_to {
                counts.already += 1;
                readable = true;
                continue;
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
                self.store(at, offset, std::mem::take(&mut visits), &mut counts).await?;
                lines = 0;
            }
        }
        match &mut progress {
            Some(_) if !readable => Err(EdgeLogError::WrongFormat),
            Some(at) if lines > 0 => {
                // Comments at the end are covered, too.
                self.store(at, offset, visits, &mut counts).await?;
                Ok(counts)
            }
            _ => Ok(counts),
        }
    }

    async fn open(&self, first_line: &[u8]) -> Result<Progress, StoreError> {
        let journal = JournalId::of_log(first_line);
        let opened = self.store.open(journal).await?;
        let position = opened.positions.iter().find(|position| position.segment == SEGMENT);
        let begun = opened.unfinished.first().and_then(|batch| batch.spans.first());
        Ok(Progress {
            journal,
            epoch: opened.epoch,
            counted_to: position.map_or(0, |position| position.to),
            must_end_at: begun.map(|span| span.to),
        })
    }

    /// Counts the visits between the last position and `to`.
    async fn store(
        &mut self,
        at: &mut Progress,
        to: u64,
        visits: Vec<EdgeVisit>,
        counts: &mut EdgeLogCounts,
    ) -> Result<(), EdgeLogError> {
        let (journal, epoch) = (at.journal, at.epoch);
        let span = JournalSpan { journal, epoch, segment: SEGMENT, from: at.counted_to, to };
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
        (at.counted_to, at.must_end_at) = (to, None);
        Ok(())
    }

    /// The link that a visit asks for.
    fn key(&self, visit: &EdgeVisit) -> Option<LinkKey> {
        let host = visit.host.rsplit_once(':').map_or(&*visit.host, |(host, port)| {
            if port.bytes().all(|b| b.is_ascii_digit()) { host } else { &visit.host }
        });
        let code = visit.path.strip_prefix('/').and_then(Code::parse)?;
        Some(LinkKey { domain: self.hosts.domain_of(host)?, code })
    }

    async fn links(&self, visits: &[EdgeVisit]) -> Result<HashMap<LinkKey, Link>, StoreError> {
        let mut keys: Vec<LinkKey> = visits.iter().filter_map(|visit| self.key(visit)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut links = HashMap::new();
        for some in keys.chunks(500) {
            for (key, link) in some.iter().zip(self.links.get_many(some).await) {
                if let Some(link) = link? {
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

#[cfg(test)]
mod tests;
