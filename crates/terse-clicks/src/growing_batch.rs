//! The growing batch: the shipper adds the clicks that it reads from the journal.

use std::hash::BuildHasher as _;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;
use terse_core::Answered;
use terse_core::clicks::{
    AgentTraits, Batch, ClickColumns, ClickKind, ClickNetwork, ClickRow, ClickTarget, GeoLocation,
    Interned, JournalRecord, JournalSpan, LinkId, SumIndex, SumRow, Sums, ValueNumbers,
};

use crate::enrich::{ByHash, Enricher};
use crate::sum_adder::{ReadyRow, ReadyRows, SumAdder};

/// What a row and a target take in memory, about: the lists grow by doubling.
const ROW_BYTES: usize = 96;
const TARGET_BYTES: usize = 160;
/// What a text takes beside its bytes: it is in a list and in a map.
const TEXT_BYTES: usize = 96;

/// An odd number with bits all over.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Tells batches of this process apart, so that numbers of one are never taken for another's.
/// Later ones have higher numbers.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Columns and sums of a batch, and the numbers that texts have in them.
#[derive(Debug)]
pub struct GrowingBatch {
    number: u64,
    columns: ClickColumns,
    /// The sums. Its detector of repeats is that of the enricher while it adds.
    adder: SumAdder,
    /// Rows that were read and not added to the columns yet.
    rows: Vec<ClickRow>,
    /// Used while rows are added.
    buffer: Vec<ReadyRow>,
    unreadable: u64,
    /// When the earliest click was.
    first_ms: i64,
    /// What the texts take in memory.
    text_bytes: usize,
    targets: ByHash<u32>,
    links: LinkHashes,
    agents: ValueNumbers<AgentTraits>,
    networks: ValueNumbers<ClickNetwork>,
    places: ValueNumbers<GeoLocation>,
    referrers: ValueNumbers<Option<Interned>>,
    languages: ValueNumbers<Option<Interned>>,
    campaigns: ValueNumbers<[Option<Interned>; 5]>,
}

/// Finds the targets that are links of a key.
#[derive(Debug, Default)]
pub(crate) struct LinkHashes {
    /// For each target, the hash of domain and code if the target is a link.
    hashes: Vec<Option<u64>>,
    /// The hasher of these; `None` if there is no target yet.
    hash: Option<RandomState>,
}

impl LinkHashes {
    /// Targets that may be one of these links, each with the place of the link. Compares all hashes
    /// once: keeping an index would cost more for every click on a link that is new to the batch.
    pub(crate) fn find<'l>(
        &self,
        links: impl Iterator<Item = &'l LinkId>,
    ) -> impl Iterator<Item = (u32, usize)> {
        let mut wanted: ByHash<Vec<usize>> = ByHash::default();
        if let Some(hash) = &self.hash {
            for (at, LinkId { key, .. }) in links.enumerate() {
                let key = (key.domain.as_str().as_bytes(), key.code.as_str().as_bytes());
                wanted.entry(hash.hash_one(key)).or_default().push(at);
            }
        }
        let hashes = if wanted.is_empty() { &[] } else { &self.hashes[..] };
        hashes.iter().zip(0..).flat_map(move |(hash, target)| {
            let places = hash.and_then(|hash| wanted.get(&hash)).cloned().unwrap_or_default();
            places.into_iter().map(move |at| (target, at))
        })
    }
}

impl Default for GrowingBatch {
    fn default() -> Self {
        Self {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            columns: ClickColumns::default(),
            adder: SumAdder::default(),
            rows: Vec::new(),
            buffer: Vec::new(),
            unreadable: 0,
            first_ms: i64::MAX,
            text_bytes: 0,
            targets: ByHash::default(),
            links: LinkHashes::default(),
            agents: ValueNumbers::default(),
            networks: ValueNumbers::default(),
            places: ValueNumbers::default(),
            referrers: ValueNumbers::default(),
            languages: ValueNumbers::default(),
            campaigns: ValueNumbers::default(),
        }
    }
}

impl GrowingBatch {
    /// Reads a record. The click is added by [`GrowingBatch::add_in_order`].
    pub fn read(&mut self, record: &JournalRecord<'_>, enricher: &mut Enricher) {
        match enricher.enrich(record, self) {
            Some(row) => self.rows.push(row),
            None => self.unreadable += 1,
        }
    }

    /// Counts a record that could not be read.
    pub(crate) fn add_unreadable(&mut self) {
        self.unreadable += 1;
    }

    /// Takes back records that could not be read.
    pub(crate) fn forget_unreadable(&mut self, count: u64) {
        self.unreadable -= count;
    }

    /// Adds the rows that were read since the last call, the earliest first. Each serving thread
    /// has its own segments, and of two clicks the later one is the repeat, whichever was read
    /// first.
    pub fn add_in_order(&mut self, enricher: &mut Enricher) {
        let mut adder = self.take_adder(enricher);
        let buffer = mem::take(&mut self.buffer);
        let mut rows = self.ready_rows(buffer);
        adder.add(&mut rows);
        self.buffer = rows.rows;
        self.return_adder(adder, enricher);
    }

    /// Takes what adds rows to the sums. Until it is returned, there are no sums here.
    pub(crate) fn take_adder(&mut self, enricher: &mut Enricher) -> SumAdder {
        let mut adder = mem::take(&mut self.adder);
        mem::swap(&mut adder.repeats, enricher.repeats());
        adder
    }

    /// Returns it after it has added all rows that are in the columns.
    pub(crate) fn return_adder(&mut self, mut adder: SumAdder, enricher: &mut Enricher) {
        mem::swap(&mut adder.repeats, enricher.repeats());
        for at in adder.found_repeats.drain(..) {
            self.columns.kind[at] = ClickKind::REPEAT;
        }
        self.adder = adder;
    }

    /// Moves the rows that were read since the last call into the columns, the earliest first, and
    /// returns them, for [`SumAdder::add`]. `buffer` is used for them.
    pub(crate) fn ready_rows(&mut self, mut buffer: Vec<ReadyRow>) -> ReadyRows {
        self.rows.sort_by_key(|row| row.at_ms);
        if let Some(row) = self.rows.first() {
            self.first_ms = self.first_ms.min(row.at_ms);
        }
        let first = self.columns.len();
        self.columns.extend(&self.rows);
        buffer.clear();
        buffer.extend(self.rows.drain(..).map(|row| ReadyRow {
            sum: SumRow::new(&self.columns, row),
            link: self.links.hashes.get(row.target as usize).copied().flatten(),
        }));
        ReadyRows { rows: buffer, first }
    }

    /// How many records it holds, readable or not.
    pub fn len(&self) -> usize {
        self.columns.len() + self.rows.len() + self.unreadable as usize
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records that cannot belong to a link, or that could not be read.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Rows that were read and not added yet.
    pub(crate) fn waiting(&mut self) -> &mut Vec<ClickRow> {
        &mut self.rows
    }

    /// The batch of these spans, and an empty gathering for the next one.
    pub fn finish(&mut self, spans: Vec<JournalSpan>) -> Batch {
        self.finish_with_index(spans).0
    }

    /// The same, with what finds clicks in the batch.
    pub(crate) fn finish_with_index(
        &mut self,
        spans: Vec<JournalSpan>,
    ) -> (Batch, (SumIndex, LinkHashes)) {
        let Self { columns, adder, links, .. } = mem::take(self);
        let (deltas, index) = adder.sums.finish(&columns);
        (Batch::new(spans, columns, deltas), (index, links))
    }

    /// How much memory it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        (self.columns.len() + self.rows.len()) * ROW_BYTES
            + self.adder.sums.memory()
            + self.columns.targets.len() * TARGET_BYTES
            + self.text_bytes
    }

    /// When the earliest click was.
    pub(crate) fn first_ms(&self) -> i64 {
        self.first_ms
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The number of a record's target, which `make` makes if it is new. `hash` is the same for
    /// all batches.
    pub(crate) fn target(
        &mut self,
        record: &JournalRecord<'_>,
        hash: &RandomState,
        make: impl FnOnce() -> Option<ClickTarget>,
    ) -> Option<u32> {
        let link = hash.hash_one((record.domain, record.code));
        if self.links.hash.is_none() {
            self.links.hash = Some(hash.clone());
        }
        // A view of the warning page has the same target as a click.
        let outcome = match record.outcome {
            Answered::Warned => Answered::Redirected,
            outcome => outcome,
        };
        let outcome = outcome.journal_byte().unwrap_or(u8::MAX);
        // Nearly always the same for one link, whose hash is a good one.
        let rest = record.created_ms.cast_unsigned().rotate_left(32) ^ record.owner;
        let mut hash = link ^ (rest ^ u64::from(outcome) << 56).wrapping_mul(SPREAD);
        while let Some(&number) = self.targets.get(&hash) {
            if is_target(&self.columns.targets[number as usize], record) {
                return Some(number);
            }
            hash = hash.wrapping_add(1);
        }
        let target = make()?;
        let number = self.columns.targets.len() as u32;
        self.targets.insert(hash, number);
        self.links.hashes.push(matches!(target, ClickTarget::Link(..)).then_some(link));
        self.columns.targets.push(target);
        Some(number)
    }

    pub(crate) fn agent(&mut self, agent: AgentTraits) -> u32 {
        let AgentTraits { device, browser, system } = &agent;
        let bytes = text_bytes([device, browser, system]);
        number(&mut self.agents, &mut self.columns.agents, agent, bytes, &mut self.text_bytes)
    }

    pub(crate) fn network(&mut self, network: ClickNetwork) -> u32 {
        let bytes = text_bytes([&network.address]);
        number(&mut self.networks, &mut self.columns.networks, network, bytes, &mut self.text_bytes)
    }

    pub(crate) fn place(&mut self, place: GeoLocation) -> u32 {
        let bytes = text_bytes([&place.country, &place.city]);
        number(&mut self.places, &mut self.columns.places, place, bytes, &mut self.text_bytes)
    }

    pub(crate) fn referrer(&mut self, referrer: Option<Interned>) -> u32 {
        let (bytes, list) = (text_bytes([&referrer]), &mut self.columns.referrers);
        number(&mut self.referrers, list, referrer, bytes, &mut self.text_bytes)
    }

    pub(crate) fn language(&mut self, language: Option<Interned>) -> u32 {
        let (bytes, list) = (text_bytes([&language]), &mut self.columns.languages);
        number(&mut self.languages, list, language, bytes, &mut self.text_bytes)
    }

    pub(crate) fn campaign(&mut self, campaign: [Option<Interned>; 5]) -> u32 {
        let (bytes, list) = (text_bytes(&campaign), &mut self.columns.campaigns);
        number(&mut self.campaigns, list, campaign, bytes, &mut self.text_bytes)
    }

    pub(crate) fn columns(&self) -> &ClickColumns {
        &self.columns
    }

    /// Brings the sums of owners and of everything up to date.
    pub(crate) fn sum_owners(&mut self) {
        self.adder.sums.sum_owners(&self.columns);
    }

    pub(crate) fn sums(&self) -> &Sums {
        &self.adder.sums
    }

    pub(crate) fn links(&self) -> &LinkHashes {
        &self.links
    }
}

/// What texts take in memory, about.
fn text_bytes<'t>(texts: impl IntoIterator<Item = &'t Option<Interned>>) -> usize {
    TEXT_BYTES
        + texts
            .into_iter()
            .flatten()
            .map(|text| text.len() + 2 * size_of::<Interned>())
            .sum::<usize>()
}

/// The number of a value in a list. If it is new, `all` grows by `bytes`.
fn number<T: Clone + Eq + std::hash::Hash>(
    numbers: &mut ValueNumbers<T>,
    list: &mut Vec<T>,
    value: T,
    bytes: usize,
    all: &mut usize,
) -> u32 {
    let before = list.len();
    let number = numbers.of(list, value);
    *all += if list.len() > before { bytes } else { 0 };
    number
}

/// Whether a record led to this target.
fn is_target(target: &ClickTarget, record: &JournalRecord<'_>) -> bool {
    let (key, same) = match target {
        ClickTarget::Link(LinkId { key, created_at }, owner) => {
            let clamped = terse_core::Timestamp::from_ms(record.created_ms);
            let same = *created_at == clamped && owner.0 == record.owner;
            (key, same && matches!(record.outcome, Answered::Redirected | Answered::Warned))
        }
        ClickTarget::Orphan(key, outcome) => (key, *outcome == record.outcome),
    };
    same && key.code.as_str().as_bytes() == record.code
        && key.domain.as_str().as_bytes() == record.domain
}

#[cfg(test)]
mod tests {
    use terse_core::Timestamp;

    use super::*;
    use crate::AddressPrecision;

    #[test]
    fn a_flood_of_values_and_visitors_counts_as_memory() {
        const CLICKS: u64 = 2000;
        let precision = AddressPrecision::Network;
        let mut enricher = Enricher::new(None, precision, Timestamp::from_ms(0)).unwrap();
        let mut bytes = |flood: bool| {
            let mut gathering = GrowingBatch::default();
            for n in 0..CLICKS {
                let value = if flood { n } else { 0 };
                let referrer = format!("{value}.{}.example", "x".repeat(50));
                let record = JournalRecord {
                    at_ms: n as i64,
                    weight: 1,
                    visitor: value + 1,
                    code: b"abc",
                    referrer: referrer.as_bytes(),
                    ..JournalRecord::default()
                };
                gathering.read(&record, &mut enricher);
            }
            gathering.add_in_order(&mut enricher);
            assert_eq!((gathering.len(), gathering.unreadable()), (CLICKS as usize, 0));
            gathering.bytes()
        };
        let (same, flood) = (bytes(false), bytes(true));
        // A text, its entries in the lists of three sums, and three sketches.
        assert!(flood > same + CLICKS as usize * (60 + 3 * 12), "{same} {flood}");
    }
}
