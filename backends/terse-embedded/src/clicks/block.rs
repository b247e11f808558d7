//! Single clicks in compressed columns: a block of a few to some ten thousand clicks.
//!
//! | column of the table | content |
//! |---|---|
//! | `subjects` | the subjects of the clicks, ascending, each once: postcard, as differences |
//! | `data` | octet 0: the version, 1; octets 1 to 8: the checksum of the rest and of `subjects`; then the columns by postcard, compressed by zstd |
//!
//! Clicks are in the order of (time, number). Numbers and times are stored as differences, texts
//! once per block.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use terse_core::clicks::{
    AgentTraits, ClickColumns, ClickKind, ClickNetwork, GeoLocation, Interned, WarningVisit,
};
use xxhash_rust::xxh3::Xxh3;

const VERSION: u8 = 1;
/// Version and checksum.
const HEAD: usize = 9;
/// A block is written once when clicks are counted and once more when it is merged with others.
/// Higher levels save a tenth and take several times as long.
const LEVEL: i32 = 1;
/// No block is longer than this before compression. A stored length above it means damage.
const MAX_LEN: usize = 256 << 20;

/// Clicks of a block. The `target` of a row is meaningless here.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// The link of each click.
    pub(crate) subjects: Vec<i64>,
    /// Distinguishes clicks of one millisecond.
    pub(crate) numbers: Vec<u64>,
    pub(crate) columns: ClickColumns,
}

/// The stored form of a block and of the list of its subjects.
#[derive(Debug)]
pub(crate) struct StoredBlock {
    pub(crate) first_ms: i64,
    pub(crate) last_ms: i64,
    pub(crate) clicks: i64,
    pub(crate) subjects: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

type Text<'a> = Option<&'a str>;

/// The texts of a block.
#[derive(Deserialize, Serialize)]
struct StoredLists<'a> {
    #[serde(borrow)]
    agents: Vec<[Text<'a>; 3]>,
    #[serde(borrow)]
    places: Vec<[Text<'a>; 2]>,
    #[serde(borrow)]
    networks: Vec<(Text<'a>, u32)>,
    #[serde(borrow)]
    referrers: Vec<Text<'a>>,
    #[serde(borrow)]
    languages: Vec<Text<'a>>,
    #[serde(borrow)]
    campaigns: Vec<[Text<'a>; 5]>,
}

/// The columns behind the texts. [`PlainColumns`] writes them.
#[derive(Deserialize)]
struct StoredColumns<'a> {
    #[serde(borrow)]
    lists: StoredLists<'a>,
    at: Vec<i64>,
    number: Vec<i64>,
    subject: Vec<u32>,
    took: Vec<u64>,
    #[serde(borrow)]
    visitor: &'a [u8],
    #[serde(borrow)]
    kind: &'a [u8],
    agent: Vec<u32>,
    network: Vec<u32>,
    referrer: Vec<u32>,
    language: Vec<u32>,
    campaign: Vec<u32>,
}

/// About how many octets a click takes before compression.
const PLAIN_CLICK: usize = 32;

/// Columns as postcard writes them. A block has a million numbers, and serde takes several times as
/// long for each.
struct PlainColumns(Vec<u8>);

impl PlainColumns {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn numbers(&mut self, numbers: impl ExactSizeIterator<Item = u64>) {
        self.number(numbers.len() as u64);
        numbers.for_each(|number| self.number(number));
    }

    /// The differences of numbers.
    fn differences(&mut self, values: impl ExactSizeIterator<Item = i64>) {
        let mut last = 0_i64;
        self.numbers(values.map(|value| {
            let difference = value.wrapping_sub(last);
            last = value;
            // The sign is the lowest bit.
            (difference << 1 ^ difference >> 63).cast_unsigned()
        }));
    }
}

fn sums(differences: Vec<i64>) -> impl Iterator<Item = i64> {
    differences.into_iter().scan(0_i64, |last, difference| {
        *last = last.wrapping_add(difference);
        Some(*last)
    })
}

fn checksum(id: i64, subjects: &[u8], data: &[u8]) -> [u8; 8] {
    let mut hasher = Xxh3::with_seed(id.cast_unsigned());
    hasher.update(&(subjects.len() as u64).to_le_bytes());
    hasher.update(subjects);
    hasher.update(data);
    hasher.digest().to_le_bytes()
}

impl Block {
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The stored form under this id; `None` if it cannot be compressed.
    pub(crate) fn encode(&self, id: i64) -> Option<StoredBlock> {
        let columns = &self.columns;
        let mut distinct = self.subjects.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let places: HashMap<i64, u32, RandomState> =
            distinct.iter().zip(0..).map(|(subject, at)| (*subject, at)).collect();
        let lists = StoredLists {
            agents: columns
                .agents
                .iter()
                .map(|AgentTraits { device, browser, system }| {
                    [device.as_deref(), browser.as_deref(), system.as_deref()]
                })
                .collect(),
            places: columns
                .places
                .iter()
                .map(|GeoLocation { country, city }| [country.as_deref(), city.as_deref()])
                .collect(),
            networks: columns
                .networks
                .iter()
                .map(|ClickNetwork { address, place }| (address.as_deref(), *place))
                .collect(),
            referrers: columns.referrers.iter().map(Option::as_deref).collect(),
            languages: columns.languages.iter().map(Option::as_deref).collect(),
            campaigns: columns
                .campaigns
                .iter()
                .map(|campaign| campaign.each_ref().map(Option::as_deref))
                .collect(),
        };
        let mut plain = PlainColumns(postcard::to_allocvec(&lists).ok()?);
        plain.0.reserve(self.len() * PLAIN_CLICK);
        plain.differences(columns.at_ms.iter().copied());
        plain.differences(self.numbers.iter().map(|number| number.cast_signed()));
        plain.numbers(self.subjects.iter().map(|subject| u64::from(places[subject])));
        plain.numbers(columns.took_nanos.iter().copied());
        plain.number((columns.visitor.len() * 8) as u64);
        plain.0.extend(columns.visitor.iter().flat_map(|visitor| visitor.to_le_bytes()));
        plain.number(columns.kind.len() as u64);
        plain.0.extend(columns.kind.iter().map(|kind| kind.octet()));
        for column in [
            &columns.agent,
            &columns.network,
            &columns.referrer,
            &columns.language,
            &columns.campaign,
        ] {
            plain.numbers(column.iter().map(|number| u64::from(*number)));
        }
        let plain = plain.0;
        let mut subjects = PlainColumns(Vec::new());
        subjects.differences(distinct.into_iter());
        let subjects = subjects.0;
        let mut data = vec![VERSION; HEAD];
        data.extend(zstd::bulk::compress(&plain, LEVEL).ok()?);
        let sum = checksum(id, &subjects, &data[HEAD..]);
        data[1..HEAD].copy_from_slice(&sum);
        Some(StoredBlock {
            first_ms: columns.at_ms.first().copied()?,
            last_ms: columns.at_ms.last().copied()?,
            clicks: self.len() as i64,
            subjects,
            data,
        })
    }

    /// From the stored form; `None` if it is not what was written under this id.
    pub(crate) fn decode(id: i64, subjects: &[u8], data: &[u8]) -> Option<Self> {
        let (head, data) = data.split_at_checked(HEAD)?;
        if head[0] != VERSION || head[1..] != checksum(id, subjects, data) {
            return None;
        }
        let distinct = read_subjects(subjects)?;
        let length = zstd::zstd_safe::get_frame_content_size(data).ok()??;
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_LEN)?;
        let plain = zstd::bulk::decompress(data, length).ok()?;
        let stored: StoredColumns<'_> = postcard::from_bytes(&plain).ok()?;
        let lists = stored.lists;
        let text = |text: Text<'_>| text.map(Interned::from);
        let count = stored.at.len();
        let visitor = stored
            .visitor
            .chunks_exact(8)
            .filter_map(|octets| octets.first_chunk().map(|octets| u64::from_le_bytes(*octets)));
        let kind: Option<Vec<ClickKind>> =
            stored.kind.iter().map(|octet| ClickKind::from_octet(*octet)).collect();
        let subjects: Option<Vec<i64>> =
            stored.subject.iter().map(|at| distinct.get(*at as usize).copied()).collect();
        let columns = ClickColumns {
            targets: Vec::new(),
            agents: lists
                .agents
                .into_iter()
                .map(|[device, browser, system]| AgentTraits {
                    device: text(device),
                    browser: text(browser),
                    system: text(system),
                })
                .collect(),
            places: lists
                .places
                .into_iter()
                .map(|[country, city]| GeoLocation { country: text(country), city: text(city) })
                .collect(),
            networks: lists
                .networks
                .into_iter()
                .map(|(address, place)| ClickNetwork { address: text(address), place })
                .collect(),
            referrers: lists.referrers.into_iter().map(text).collect(),
            languages: lists.languages.into_iter().map(text).collect(),
            campaigns: lists.campaigns.into_iter().map(|campaign| campaign.map(text)).collect(),
            at_ms: sums(stored.at).collect(),
            visitor: visitor.collect(),
            took_nanos: stored.took,
            target: vec![0; count],
            weight: vec![1; count],
            agent: stored.agent,
            network: stored.network,
            referrer: stored.referrer,
            language: stored.language,
            campaign: stored.campaign,
            kind: kind?,
            // Views of warning pages are not stored, and only the sums say which clicks came after
            // one.
            warning: vec![WarningVisit::None; count],
        };
        let numbers: Vec<u64> = sums(stored.number).map(i64::cast_unsigned).collect();
        let block = Self { subjects: subjects?, numbers, columns };
        block.is_whole().then_some(block)
    }

    /// Whether every number is in its list. A wrong one would cause a panic later.
    fn is_whole(&self) -> bool {
        let columns = &self.columns;
        let fits = |numbers: &[u32], list: usize| {
            numbers.len() == self.len() && numbers.iter().all(|number| (*number as usize) < list)
        };
        let places = columns.places.len();
        fits(&columns.agent, columns.agents.len())
            && fits(&columns.network, columns.networks.len())
            && fits(&columns.referrer, columns.referrers.len())
            && fits(&columns.language, columns.languages.len())
            && fits(&columns.campaign, columns.campaigns.len())
            && columns.networks.iter().all(|network| (network.place as usize) < places)
            && [
                self.subjects.len(),
                columns.at_ms.len(),
                columns.visitor.len(),
                columns.took_nanos.len(),
                columns.kind.len(),
            ]
            .iter()
            .all(|length| *length == self.len())
    }
}

/// The subjects of a block, ascending.
pub(crate) fn read_subjects(subjects: &[u8]) -> Option<Vec<i64>> {
    Some(sums(postcard::from_bytes(subjects).ok()?).collect())
}

#[cfg(test)]
mod tests {
    use terse_core::clicks::{Batch, BotKind, Click, ClickTarget, LinkId};
    use terse_core::{OwnerId, Timestamp};
    use terse_testkit::key;

    use super::*;
    use crate::clicks::block_builder::{BlockBuilder, Source};

    fn clicks(count: u64) -> Vec<Click> {
        let link = LinkId { key: key("abc"), created_at: Timestamp::from_ms(5) };
        let target = ClickTarget::Link(link, OwnerId(1));
        let word = |name: &str, n: u64| Some(Interned::from(format!("{name}-{n}")));
        let click = |n: u64| Click {
            visitor: (!n.is_multiple_of(3)).then_some(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            took_nanos: n * 7 % 900,
            bot: n.is_multiple_of(10).then_some(BotKind::Preview),
            repeat: n % 10 == 3,
            referrer: word("referrer", n % 7),
            country: word("country", n % 5),
            city: word("city", n % 11).filter(|_| n.is_multiple_of(2)),
            address: word("address", n % 40),
            device: word("device", n % 3),
            browser: word("browser", n % 4),
            language: word("language", n % 6).filter(|_| !n.is_multiple_of(4)),
            utm: [None, word("medium", n % 2), None, None, word("content", n % 3)],
            ..Click::bare(Timestamp::from_ms(1_780_000_000_000 + n as i64 / 3), target.clone())
        };
        (0..count).map(click).collect()
    }

    fn block(clicks: &[Click]) -> Block {
        let columns = Batch::of(vec![], clicks.iter().cloned()).clicks;
        let (mut source, mut builder) = (Source::new(&columns), BlockBuilder::of_one(0));
        for (row, n) in columns.rows().zip(0..) {
            builder.push(&mut source, 7 + i64::from(n % 4) * 1000, n as u64 + 50, row);
        }
        builder.finish()
    }

    #[test]
    fn clicks_are_read_as_they_were_written() {
        let clicks = clicks(500);
        let mut block = block(&clicks);
        let stored = block.encode(9).unwrap();
        assert_eq!(read_subjects(&stored.subjects).unwrap(), [7, 1007, 2007, 3007]);
        assert_eq!(stored.clicks, 500);
        assert_eq!((stored.first_ms, stored.last_ms), (1_780_000_000_000, 1_780_000_000_166));
        let mut read = Block::decode(9, &stored.subjects, &stored.data).unwrap();
        assert_eq!((&read.subjects, &read.numbers), (&block.subjects, &block.numbers));
        for block in [&mut block, &mut read] {
            block.columns.targets = vec![clicks[0].target.clone()];
            assert_eq!(block.columns.iter().collect::<Vec<_>>(), clicks);
        }
    }

    #[test]
    fn no_octet_can_change_and_no_block_can_pass_for_another() {
        let stored = block(&clicks(50)).encode(9).unwrap();
        assert!(Block::decode(8, &stored.subjects, &stored.data).is_none());
        for at in 0..stored.data.len() {
            let mut data = stored.data.clone();
            data[at] ^= 0x10;
            assert!(Block::decode(9, &stored.subjects, &data).is_none(), "octet {at}");
            assert!(Block::decode(9, &stored.subjects, &data[..at]).is_none(), "cut at {at}");
        }
        let mut subjects = stored.subjects.clone();
        subjects[1] ^= 2;
        assert!(Block::decode(9, &subjects, &stored.data).is_none());
    }

    #[test]
    fn a_block_keeps_only_texts_of_its_clicks() {
        let clicks = clicks(100);
        let columns = Batch::of(vec![], clicks.iter().cloned()).clicks;
        let (mut source, mut builder) = (Source::new(&columns), BlockBuilder::of_one(0));
        builder.push(&mut source, 1, 1, columns.row(0));
        let block = builder.finish();
        assert_eq!((block.columns.referrers.len(), block.columns.networks.len()), (2, 2));
        assert!(block.encode(1).unwrap().data.len() < 200);
    }

    #[test]
    fn a_click_takes_few_octets() {
        let stored = block(&clicks(50_000)).encode(1).unwrap();
        let each = (stored.data.len() + stored.subjects.len()) as f64 / 50_000.0;
        assert!(each <= 24.0, "{each}");
    }

    /// Files hold these octets for months: a change of the form needs another version.
    #[test]
    fn the_stored_form_is_frozen() {
        let stored = block(&clicks(3)).encode(5).unwrap();
        let plain = zstd::bulk::decompress(&stored.data[HEAD..], 1 << 20).unwrap();
        let hash = xxhash_rust::xxh3::xxh3_64(&plain);
        assert_eq!(
            (stored.subjects, plain.len(), hash),
            (vec![3, 14, 208, 15, 208, 15], 374, 18_155_809_863_861_548_489)
        );
    }
}
