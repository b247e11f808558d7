//! The stored form of deltas: many in a chunk, with the texts that they share.
//!
//! A chunk has two parts. A reader that needs only the numbers of clicks reads the first one.
//! Numbers are LEB128, `n…` is a number of items and the items.
//!
//! | part | content |
//! |---|---|
//! | heads, for each delta | id (difference to the one before); twice the humans, plus one if there are bots; bots, if there are any; length of its body |
//! | bodies | length of the dictionary; dictionary; the body of each delta |
//! | dictionary | n words (length, octets); n agents (device, browser, system); n places (country, city); n campaigns (five words). A word is its number from 1 on, or 0 for none |
//! | body | n answers; their nanoseconds; if there are several: the sum of the squares. Milliseconds from the last click to the end of the hour; 0 if there is none. Length of the sketch of the visitors; sketch. For each value: its number in the dictionary times 16, plus twice the property, plus one if it has all clicks of the delta; otherwise humans and bots |

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::click::Interned;
use super::columns::{AgentTraits, ClickColumns, GeoLocation, ValueNumbers};
use super::delta::{Delta, Property, SumSubject, Value};
use super::mean::ExactMean;
use super::report::Unit;
use super::sketch::Sketch;
use super::tally::Count;
use crate::link::OwnerId;

const HOUR: i64 = Unit::Hour.ms();

fn put(bytes: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_u64(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_wide(bytes: &mut &[u8]) -> Option<u128> {
    let mut number = 0_u128;
    for shift in (0..128).step_by(7) {
        let (&octet, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u128::from(octet & 0x7f);
        if bits.leading_zeros() < shift {
            return None;
        }
        number |= bits << shift;
        if octet < 0x80 {
            return Some(number);
        }
    }
    None
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    // Most numbers are short.
    match bytes.split_first()? {
        (&octet, rest) if octet < 0x80 => {
            *bytes = rest;
            Some(octet.into())
        }
        _ => u64::try_from(take_wide(bytes)?).ok(),
    }
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(take(bytes)?).ok()
}

fn take_bytes<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(take(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// The numbers that values of a batch have in a chunk.
#[derive(Debug, Default)]
struct Locals {
    /// By the number in the batch; 0 if the chunk does not have it.
    of: Vec<u32>,
    /// The numbers in the batch, in the order of those in the chunk, which begin with 1.
    used: Vec<u32>,
}

impl Locals {
    /// The number of a value in the chunk. Calls `add` if it is new.
    fn number(&mut self, number: u32, add: impl FnOnce() -> Option<u32>) -> u32 {
        let at = number as usize;
        if self.of.len() <= at {
            self.of.resize(at + 1, 0);
        }
        if self.of[at] == 0 {
            self.used.push(number);
            self.of[at] = add().unwrap_or(self.used.len() as u32);
        }
        self.of[at]
    }

    fn clear(&mut self) {
        self.used.drain(..).for_each(|number| self.of[number as usize] = 0);
    }
}

/// The words of a chunk.
#[derive(Debug, Default)]
struct Words {
    numbers: HashMap<Interned, u32, RandomState>,
    bytes: Vec<u8>,
}

impl Words {
    fn number(&mut self, word: Option<&Interned>) -> u32 {
        let Some(word) = word else { return 0 };
        if let Some(&number) = self.numbers.get(word) {
            return number;
        }
        put_u64(&mut self.bytes, word.len() as u64);
        self.bytes.extend(word.as_bytes());
        let number = self.numbers.len() as u32 + 1;
        self.numbers.insert(word.clone(), number);
        number
    }
}

/// A chunk, not compressed and without checksums.
#[derive(Clone, Debug, Default)]
pub struct PlainChunk {
    /// Ids and numbers of clicks.
    pub heads: Vec<u8>,
    /// Everything else.
    pub bodies: Vec<u8>,
}

/// Writes chunks. All deltas of one chunk belong to the same columns.
#[derive(Debug, Default)]
pub struct DeltaChunkWriter {
    agents: Locals,
    places: Locals,
    campaigns: Locals,
    referrers: Locals,
    languages: Locals,
    words: Words,
    /// The lists of the dictionary, without their lengths.
    lists: [Vec<u8>; 3],
    heads: Vec<u8>,
    bodies: Vec<u8>,
    body: Vec<u8>,
    last_id: i64,
    len: usize,
}

impl DeltaChunkWriter {
    /// Adds a delta for which [`Delta::is_packable`] holds. Ids must not descend.
    pub fn push(&mut self, id: i64, delta: &Delta, columns: &ClickColumns) {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        let ExactMean { count, sum, squares } = delta.took;
        put_u64(&mut body, count);
        if count > 0 {
            put_u64(&mut body, sum);
        }
        if count > 1 {
            put(&mut body, squares.get());
        }
        // The sum of a day has the number of its last hour.
        let begin = (delta.hour.div_euclid(24) * 24) * HOUR;
        let before_end = (delta.hour + 1) * HOUR - delta.last_ms.max(begin);
        let last = if delta.last_ms == i64::MIN { 0 } else { before_end.cast_unsigned() };
        put_u64(&mut body, last);
        let visitors = delta.visitors.as_ref().map(Sketch::encode).unwrap_or_default();
        put_u64(&mut body, visitors.len() as u64);
        body.extend(visitors);
        for &Value { key, humans, bots } in delta.values() {
            let (property, number) = Value::split(key);
            let local = self.local(property, number, columns);
            let (humans, bots) = (u64::from(humans), u64::from(bots));
            let is_all = (Count { humans, bots }) == delta.clicks;
            put_u64(
                &mut body,
                u64::from(local) << 4 | u64::from(property) << 1 | u64::from(is_all),
            );
            if !is_all {
                put_u64(&mut body, humans);
                put_u64(&mut body, bots);
            }
        }
        if self.len == 0 {
            self.last_id = 0;
        }
        put_u64(&mut self.heads, id.wrapping_sub(self.last_id).cast_unsigned());
        let Count { humans, bots } = delta.clicks;
        put(&mut self.heads, u128::from(humans) << 1 | u128::from(bots > 0));
        if bots > 0 {
            put_u64(&mut self.heads, bots);
        }
        put_u64(&mut self.heads, body.len() as u64);
        self.bodies.extend(&body);
        self.body = body;
        self.last_id = id;
        self.len += 1;
    }

    fn local(&mut self, property: u32, number: u32, columns: &ClickColumns) -> u32 {
        let Self { agents, places, campaigns, referrers, languages, words, lists, .. } = self;
        let at = number as usize;
        let mut tuple = |list: usize, values: &[Option<Interned>]| {
            for value in values {
                let word = words.number(value.as_ref());
                put_u64(&mut lists[list], word.into());
            }
            None
        };
        if property == Property::Agent as u32 {
            agents.number(number, || {
                let AgentTraits { device, browser, system } = columns.agents[at].clone();
                tuple(0, &[device, browser, system])
            })
        } else if property == Property::Location as u32 {
            places.number(number, || {
                let GeoLocation { country, city } = columns.places[at].clone();
                tuple(1, &[country, city])
            })
        } else if property == Property::Campaign as u32 {
            campaigns.number(number, || tuple(2, &columns.campaigns[at]))
        } else if property == Property::Referrer as u32 {
            referrers.number(number, || Some(words.number(columns.referrers[at].as_ref())))
        } else if property == Property::Language as u32 {
            languages.number(number, || Some(words.number(columns.languages[at].as_ref())))
        } else {
            number
        }
    }

    /// How many deltas it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many octets the chunk has so far, about.
    pub fn size(&self) -> usize {
        self.bodies.len() + self.words.bytes.len()
    }

    /// The chunk. The writer is empty afterwards.
    pub fn finish(&mut self) -> PlainChunk {
        let mut dictionary = Vec::new();
        put_u64(&mut dictionary, self.words.numbers.len() as u64);
        dictionary.append(&mut self.words.bytes);
        for (list, locals) in
            self.lists.iter_mut().zip([&self.agents, &self.places, &self.campaigns])
        {
            put_u64(&mut dictionary, locals.used.len() as u64);
            dictionary.append(list);
        }
        let mut bodies = Vec::with_capacity(dictionary.len() + self.bodies.len() + 4);
        put_u64(&mut bodies, dictionary.len() as u64);
        bodies.extend(dictionary);
        bodies.append(&mut self.bodies);
        self.words.numbers.clear();
        for locals in [
            &mut self.agents,
            &mut self.places,
            &mut self.campaigns,
            &mut self.referrers,
            &mut self.languages,
        ] {
            locals.clear();
        }
        self.len = 0;
        PlainChunk { heads: std::mem::take(&mut self.heads), bodies }
    }
}

/// A delta in a chunk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeltaHead {
    /// Its id.
    pub id: i64,
    /// How many clicks.
    pub clicks: Count,
    start: usize,
    end: usize,
}

/// The deltas of a chunk, in their order. The last item is `None` if the bytes are not heads.
pub fn delta_heads(mut heads: &[u8]) -> impl Iterator<Item = Option<DeltaHead>> {
    let (mut last, mut start) = (0_i64, 0_usize);
    std::iter::from_fn(move || {
        if heads.is_empty() {
            return None;
        }
        let head = take_head(&mut heads, last, start);
        match &head {
            Some(head) => (last, start) = (head.id, head.end),
            None => heads = &[],
        }
        Some(head)
    })
}

fn take_head(bytes: &mut &[u8], last: i64, start: usize) -> Option<DeltaHead> {
    let id = last.wrapping_add(take(bytes)?.cast_signed());
    let humans = take_wide(bytes)?;
    let bots = if humans & 1 == 1 { take(bytes)? } else { 0 };
    let clicks = Count { humans: u64::try_from(humans >> 1).ok()?, bots };
    let end = start.checked_add(usize::try_from(take(bytes)?).ok()?)?;
    Some(DeltaHead { id, clicks, start, end })
}

/// The second part of a chunk, for reading.
#[derive(Debug)]
pub struct DeltaBodies {
    /// The dictionary: what the values of the deltas refer to.
    pub columns: ClickColumns,
    plain: Vec<u8>,
    /// Where the bodies begin.
    start: usize,
}

impl DeltaBodies {
    /// Reads the dictionary. `None` if these bytes are not the second part of a chunk.
    pub fn open(plain: Vec<u8>) -> Option<Self> {
        let mut rest = plain.as_slice();
        let mut dictionary = take_bytes(&mut rest)?;
        let start = plain.len() - rest.len();
        let columns = take_dictionary(&mut dictionary).filter(|_| dictionary.is_empty())?;
        Some(Self { columns, plain, start })
    }

    /// A delta, whose values are numbers in the columns. `None` if the bytes are not a body.
    pub fn delta(&self, head: &DeltaHead, hour: i64) -> Option<Delta> {
        let mut body = self.plain.get(self.start..)?.get(head.start..head.end)?;
        let body = &mut body;
        let mut delta = Delta::new(SumSubject::Everything, OwnerId(0), hour);
        delta.clicks = head.clicks;
        let count = take(body)?;
        let sum = if count > 0 { take(body)? } else { 0 };
        let squares = match count {
            0 => 0,
            1 => u128::from(sum) * u128::from(sum),
            _ => take_wide(body)?,
        };
        delta.took = ExactMean { count, sum, squares: squares.into() };
        let last = take(body)?;
        if last > 0 {
            delta.last_ms = (hour + 1) * HOUR - i64::try_from(last).ok()?;
        }
        let visitors = take_bytes(body)?;
        if !visitors.is_empty() {
            delta.visitors = Some(Sketch::decode(visitors)?);
        }
        while !body.is_empty() {
            let key = take(body)?;
            let (number, property) = (u32::try_from(key >> 4).ok()?, (key >> 1 & 7) as u32);
            let Count { humans, bots } = match key & 1 {
                1 => head.clicks,
                _ => Count { humans: take(body)?, bots: take(body)? },
            };
            let (humans, bots) = (u32::try_from(humans).ok()?, u32::try_from(bots).ok()?);
            if number as usize >= self.list_len(property)? {
                return None;
            }
            delta.push_value(Value::key(property, number), humans, bots);
        }
        Some(delta)
    }

    fn list_len(&self, property: u32) -> Option<usize> {
        let properties = [
            (Property::Agent, self.columns.agents.len()),
            (Property::Location, self.columns.places.len()),
            (Property::Referrer, self.columns.referrers.len()),
            (Property::Language, self.columns.languages.len()),
            (Property::Campaign, self.columns.campaigns.len()),
            (Property::Kind, 256),
            (Property::Warning, 3),
        ];
        let found = properties.into_iter().find(|(of, _)| *of as u32 == property);
        found.map(|(_, len)| len)
    }
}

fn take_dictionary(bytes: &mut &[u8]) -> Option<ClickColumns> {
    let mut columns = ClickColumns::default();
    for _ in 0..take(bytes)? {
        let word: Interned = std::str::from_utf8(take_bytes(bytes)?).ok()?.into();
        columns.referrers.push(Some(word));
    }
    columns.languages.clone_from(&columns.referrers);
    let words = &columns.referrers;
    let word = |bytes: &mut &[u8]| words.get(take_u32(bytes)? as usize).cloned();
    for _ in 0..take(bytes)? {
        let (device, browser, system) = (word(bytes)?, word(bytes)?, word(bytes)?);
        columns.agents.push(AgentTraits { device, browser, system });
    }
    for _ in 0..take(bytes)? {
        let (country, city) = (word(bytes)?, word(bytes)?);
        columns.places.push(GeoLocation { country, city });
    }
    for _ in 0..take(bytes)? {
        let mut campaign = [const { None }; 5];
        for value in &mut campaign {
            *value = word(bytes)?;
        }
        columns.campaigns.push(campaign);
    }
    Some(columns)
}

/// Columns that deltas of several chunks are moved to, so that they can be added up.
#[derive(Debug, Default)]
pub struct SharedColumns {
    /// The columns.
    pub columns: ClickColumns,
    agents: ValueNumbers<AgentTraits>,
    places: ValueNumbers<GeoLocation>,
    words: [ValueNumbers<Option<Interned>>; 2],
    campaigns: ValueNumbers<[Option<Interned>; 5]>,
}

/// The numbers that the values of a chunk have in shared columns.
#[derive(Debug)]
pub struct Renumbering([Vec<u32>; 5]);

impl SharedColumns {
    /// Adds the dictionary of a chunk.
    pub fn add(&mut self, chunk: &DeltaBodies) -> Renumbering {
        fn of<T: Clone + Eq + std::hash::Hash>(
            numbers: &mut ValueNumbers<T>,
            list: &mut Vec<T>,
            values: &[T],
        ) -> Vec<u32> {
            values.iter().map(|value| numbers.of(list, value.clone())).collect()
        }
        let (ours, theirs) = (&mut self.columns, &chunk.columns);
        let [referrers, languages] = &mut self.words;
        Renumbering([
            of(&mut self.agents, &mut ours.agents, &theirs.agents),
            of(&mut self.places, &mut ours.places, &theirs.places),
            of(referrers, &mut ours.referrers, &theirs.referrers),
            of(languages, &mut ours.languages, &theirs.languages),
            of(&mut self.campaigns, &mut ours.campaigns, &theirs.campaigns),
        ])
    }
}

impl Renumbering {
    /// Moves a delta of the chunk to the shared columns.
    pub fn apply(&self, delta: &mut Delta) {
        delta.renumber(|property, number| match self.0.get(property as usize) {
            Some(numbers) => numbers.get(number as usize).copied().unwrap_or(0),
            None => number,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clicks::{Click, ClickGatherer, ClickSum, ClickTarget, LinkId, Sums};
    use crate::link::LinkKey;
    use crate::{Code, Domain, Timestamp};

    fn clicks(count: u64, links: u64) -> ClickGatherer {
        let mut gatherer = ClickGatherer::default();
        for n in 0..count {
            let code = Code::parse(&format!("link{}", n % links)).unwrap();
            let key = LinkKey { domain: Domain::from_stored(""), code };
            let link = LinkId { key, created_at: Timestamp::from_ms(5) };
            let at = Timestamp::from_ms(1_780_000_000_000 + (n * 1000) as i64);
            let word = |name: &str, of: u64| Some(Interned::from(format!("{name}{}", n % of)));
            gatherer.push(&Click {
                took_nanos: 20_000 + n * 7919 % 10_000,
                visitor: (n % 4 > 0).then_some(n * 7919 % 1000 + 1),
                bot: (n % 7 == 0).then_some(super::super::BotKind::Monitor),
                repeat: n % 7 == 3,
                referrer: word("www.site.example", 5).filter(|_| n % 3 > 0),
                country: word("D", 3),
                browser: word("browser", 4),
                device: Some("desktop".into()),
                language: word("de", 2),
                utm: std::array::from_fn(|_| word("utm", 3).filter(|_| n % 5 == 0)),
                ..Click::bare(at, ClickTarget::Link(link, OwnerId(1)))
            });
        }
        gatherer
    }

    fn tally_of(delta: &Delta, columns: &ClickColumns) -> (ClickSum, Option<Vec<u8>>) {
        let mut tally = ClickSum::default();
        delta.add_to(columns, &mut tally);
        (tally, delta.visitors.as_ref().map(Sketch::encode))
    }

    fn of_links(sums: &Sums) -> Vec<&Delta> {
        let is_link = |delta: &&Delta| matches!(delta.subject, SumSubject::Link(_));
        sums.deltas().iter().filter(is_link).collect()
    }

    fn chunk(gatherer: &ClickGatherer) -> PlainChunk {
        let mut writer = DeltaChunkWriter::default();
        for (delta, id) in of_links(&gatherer.sums).into_iter().zip(0..) {
            assert!(delta.is_packable());
            writer.push(id * 1000 + 7, delta, &gatherer.columns);
        }
        writer.finish()
    }

    #[test]
    fn deltas_are_read_as_they_were_written() {
        for (count, links) in [(1, 1), (40, 40), (3000, 70)] {
            let gatherer = clicks(count, links);
            let PlainChunk { heads, bodies } = chunk(&gatherer);
            let bodies = DeltaBodies::open(bodies).unwrap();
            let mut shared = SharedColumns::default();
            shared.add(&DeltaBodies::open(chunk(&clicks(17, 3)).bodies).unwrap());
            let numbers = shared.add(&bodies);
            let read: Option<Vec<DeltaHead>> = delta_heads(&heads).collect();
            let (read, deltas) = (read.unwrap(), of_links(&gatherer.sums));
            assert_eq!(read.len(), deltas.len());
            for ((head, delta), id) in read.iter().zip(deltas).zip(0..) {
                assert_eq!((head.id, head.clicks), (id * 1000 + 7, delta.clicks));
                let mut found = bodies.delta(head, delta.hour).unwrap();
                let expected = tally_of(delta, &gatherer.columns);
                assert_eq!(tally_of(&found, &bodies.columns), expected);
                numbers.apply(&mut found);
                assert_eq!(tally_of(&found, &shared.columns), expected);
                // Twice the delta is twice the sum.
                found.merge(&found.clone());
                let mut twice = expected.0.clone();
                twice.merge(&expected.0);
                let found = tally_of(&found, &shared.columns);
                assert_eq!((found.0.clicks, found.1), (twice.clicks, expected.1));
            }
        }
    }

    #[test]
    fn a_sum_of_one_click_takes_few_octets() {
        let PlainChunk { heads, bodies } = chunk(&clicks(1000, 1000));
        let each = (heads.len() + bodies.len()) / 1000;
        assert!(each <= 32, "{each}");
    }

    /// Files hold these octets for days: a change of the form needs new tables.
    #[test]
    fn the_stored_form_is_frozen() {
        let PlainChunk { heads, bodies } = chunk(&clicks(40, 9));
        let hash = |bytes: &[u8]| xxhash_rust::xxh3::xxh3_64(bytes);
        assert_eq!(
            (heads.len(), hash(&heads), bodies.len(), hash(&bodies)),
            (41, 8_353_727_662_398_584_038, 804, 13_778_691_218_236_216_718)
        );
    }

    /// A checksum protects the bytes. Even so, bytes that are not a chunk must not cause a panic.
    #[test]
    fn other_bytes_are_not_a_chunk() {
        let PlainChunk { heads, bodies } = chunk(&clicks(40, 9));
        let read_all = |heads: &[u8], bodies: Vec<u8>| {
            let Some(bodies) = DeltaBodies::open(bodies) else { return };
            for head in delta_heads(heads).map_while(|head| head) {
                if let Some(delta) = bodies.delta(&head, 5) {
                    let _ = tally_of(&delta, &bodies.columns);
                }
            }
        };
        for at in 0..heads.len() {
            for bit in 0..8 {
                let mut changed = heads.clone();
                changed[at] ^= 1 << bit;
                read_all(&changed, bodies.clone());
            }
            read_all(&heads[..at], bodies.clone());
        }
        for at in 0..bodies.len() {
            for bit in 0..8 {
                let mut changed = bodies.clone();
                changed[at] ^= 1 << bit;
                read_all(&heads, changed);
            }
            read_all(&heads, bodies[..at].to_vec());
        }
    }
}
