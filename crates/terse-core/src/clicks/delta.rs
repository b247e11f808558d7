//! What a batch adds to the sums: one [`Delta`] per subject and hour.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::click::{ClickTarget, Dimension, LinkId};
use super::columns::{AgentTraits, ClickColumns, ClickKind, ClickRow, GeoLocation, WarningVisit};
use super::mean::ExactMean;
use super::report::{ClickSubject, Unit};
use super::sketch::Sketch;
use super::tally::{ClickSum, Count, REPEAT, WARNED, WENT_ON};
use crate::link::OwnerId;
use crate::time::Timestamp;

const HOUR: i64 = Unit::Hour.ms();
/// The longest list of values without an index.
const MAX_UNINDEXED: usize = 16;
/// How many values a single click has, about.
const TYPICAL_VALUES: usize = 6;
/// The most values and the largest sketch, in octets, of a delta in a chunk.
const MAX_PACKED_VALUES: usize = 100;
const MAX_PACKED_SKETCH: usize = 2048;
/// What an entry of an index takes in memory, about.
const INDEX_ENTRY: usize = 10;

/// The subject of a delta. A link is a number in [`ClickColumns::targets`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum SumSubject {
    /// A link.
    Link(u32),
    /// All links of an owner.
    Owner(OwnerId),
    /// All links.
    Everything,
    /// Visits that did not lead to a link.
    Orphans,
}

/// A list of [`ClickColumns`], or another property that a sum counts by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(crate) enum Property {
    /// [`ClickColumns::agents`].
    Agent = 0,
    /// [`ClickColumns::places`].
    Location = 1,
    /// [`ClickColumns::referrers`].
    Referrer = 2,
    /// [`ClickColumns::languages`].
    Language = 3,
    /// [`ClickColumns::campaigns`].
    Campaign = 4,
    /// The octet of a [`ClickKind`].
    Kind = 5,
    /// Of orphans: outcome and code.
    Target = 6,
    /// Of links: 1 for views of the warning page, 2 for clicks after it.
    Warning = 7,
}

const PROPERTY_SHIFT: u32 = 29;

/// A value and its clicks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    /// The property in the upper bits, and the number of the value.
    pub(crate) key: u32,
    pub(crate) humans: u32,
    pub(crate) bots: u32,
}

impl Value {
    pub(crate) fn key(property: u32, number: u32) -> u32 {
        property << PROPERTY_SHIFT | number
    }

    /// The property and the number of a key.
    pub(crate) fn split(key: u32) -> (u32, u32) {
        (key >> PROPERTY_SHIFT, key & ((1 << PROPERTY_SHIFT) - 1))
    }
}

/// What the clicks of a batch add to the sum of one subject in one hour. Its values are numbers in
/// the columns of the batch.
#[derive(Clone, Debug)]
pub struct Delta {
    /// The subject.
    pub subject: SumSubject,
    /// For a link, its latest owner.
    pub owner: OwnerId,
    /// The hour, since 1970.
    pub hour: i64,
    /// How many clicks.
    pub clicks: Count,
    /// How long their answers took, in nanoseconds.
    pub(crate) took: ExactMean,
    /// The latest.
    pub last_ms: i64,
    /// Human visitors; `None` if no visitor is known.
    pub visitors: Option<Sketch>,
    values: Vec<Value>,
    /// The index of each key in `values`, once there are many. Boxed, because most deltas have few
    /// values and need no index.
    #[allow(clippy::box_collection, reason = "see above")]
    index: Option<Box<HashMap<u32, u32, RandomState>>>,
}

impl Delta {
    pub(crate) fn new(subject: SumSubject, owner: OwnerId, hour: i64) -> Self {
        Self {
            subject,
            owner,
            hour,
            clicks: Count::default(),
            took: ExactMean::default(),
            last_ms: i64::MIN,
            visitors: None,
            values: Vec::new(),
            index: None,
        }
    }

    /// Clicks of which only the number is known.
    pub fn bare(hour: i64, clicks: Count) -> Self {
        Self { clicks, ..Self::new(SumSubject::Everything, OwnerId(0), hour) }
    }

    /// When the hour begins.
    pub fn start(&self) -> Timestamp {
        Timestamp::from_ms(self.hour * HOUR)
    }

    /// Adds a click. Returns how many octets its lists have grown by, about.
    pub(crate) fn add(&mut self, row: &ClickRow, place: u32, orphan: bool) -> usize {
        let weight = row.weight;
        let mut grown = 0;
        let (humans, bots) = match row.kind.bot() {
            None => (weight, 0),
            Some(_) => (0, weight),
        };
        match row.warning {
            WarningVisit::None => {}
            WarningVisit::Shown => {
                return self.count(Value::key(Property::Warning as u32, 1), humans, bots);
            }
            WarningVisit::Passed => {
                grown += self.count(Value::key(Property::Warning as u32, 2), humans, bots);
            }
        }
        self.clicks.humans += u64::from(humans);
        self.clicks.bots += u64::from(bots);
        self.took.add(row.took_nanos);
        self.last_ms = self.last_ms.max(row.at_ms);
        if row.visitor != 0 && bots == 0 {
            let visitors = self.visitors.get_or_insert_default();
            let before = visitors.memory();
            visitors.add(row.visitor);
            grown += visitors.memory() - before;
        }
        for (property, number) in [
            (Property::Agent, row.agent),
            (Property::Location, place),
            (Property::Referrer, row.referrer),
            (Property::Language, row.language),
            (Property::Campaign, row.campaign),
            (Property::Kind, u32::from(row.kind.octet())),
        ] {
            if number != 0 {
                grown += self.count(Value::key(property as u32, number), humans, bots);
            }
        }
        if orphan {
            grown += self.count(Value::key(Property::Target as u32, row.target), humans, bots);
        }
        grown
    }

    /// Counts a value. Returns how many octets the lists have grown by, about.
    fn count(&mut self, key: u32, humans: u32, bots: u32) -> usize {
        let at = match &self.index {
            Some(index) => index.get(&key).map(|&at| at as usize),
            None => self.values.iter().position(|value| value.key == key),
        };
        if let Some(value) = at.map(|at| &mut self.values[at])
            && let (Some(humans), Some(bots)) =
                (value.humans.checked_add(humans), value.bots.checked_add(bots))
        {
            (value.humans, value.bots) = (humans, bots);
            return 0;
        }
        // New, or too many for one entry: entries of one key add up.
        let new = self.values.len();
        let before = self.memory();
        if new == 0 {
            self.values.reserve_exact(TYPICAL_VALUES);
        }
        self.values.push(Value { key, humans, bots });
        match &mut self.index {
            Some(index) => drop(index.insert(key, new as u32)),
            None => self.note_places(),
        }
        self.memory() - before
    }

    /// Adds this to a sum. `columns` are those of the delta's batch.
    pub fn add_to(&self, columns: &ClickColumns, tally: &mut ClickSum) {
        tally.clicks.add(self.clicks);
        tally.took.merge(&self.took.in_milliseconds());
        let last = (self.last_ms != i64::MIN).then(|| Timestamp::from_ms(self.last_ms));
        tally.last = tally.last.max(last);
        for &Value { key, humans, bots } in &self.values {
            let count = Count { humans: humans.into(), bots: bots.into() };
            let number = (key & ((1 << PROPERTY_SHIFT) - 1)) as usize;
            match key >> PROPERTY_SHIFT {
                0 => {
                    let AgentTraits { device, browser, system } = &columns.agents[number];
                    tally.add_value(Dimension::Device, device.as_ref(), count);
                    tally.add_value(Dimension::Browser, browser.as_ref(), count);
                    tally.add_value(Dimension::System, system.as_ref(), count);
                }
                1 => {
                    let GeoLocation { country, city } = &columns.places[number];
                    tally.add_value(Dimension::Country, country.as_ref(), count);
                    tally.add_value(Dimension::City, city.as_ref(), count);
                }
                2 => {
                    let referrer = columns.referrers[number].as_ref();
                    tally.add_value(Dimension::Referrer, referrer, count);
                }
                3 => {
                    let language = columns.languages[number].as_ref();
                    tally.add_value(Dimension::Language, language, count);
                }
                4 => {
                    let dimensions = [
                        Dimension::Source,
                        Dimension::Medium,
                        Dimension::Campaign,
                        Dimension::Term,
                        Dimension::Content,
                    ];
                    for (dimension, value) in dimensions.into_iter().zip(&columns.campaigns[number])
                    {
                        tally.add_value(dimension, value.as_ref(), count);
                    }
                }
                5 => {
                    let bot = ClickKind::from_octet(number as u8).and_then(ClickKind::bot);
                    tally.add_word(
                        Dimension::BotKind,
                        bot.map_or(REPEAT, |bot| bot.as_str()),
                        count,
                    );
                }
                7 => {
                    let word = if number == 1 { WARNED } else { WENT_ON };
                    tally.add_word(Dimension::Outcome, word, count);
                }
                _ => {
                    if let ClickTarget::Orphan(key, outcome) = &columns.targets[number] {
                        tally.add_word(Dimension::Outcome, outcome.as_str(), count);
                        tally.add_word(Dimension::Code, key.code.as_str(), count);
                    }
                }
            }
        }
    }

    /// Adds another delta of the same columns.
    pub fn merge(&mut self, other: &Self) {
        self.clicks.add(other.clicks);
        self.took.merge(other.took);
        self.last_ms = self.last_ms.max(other.last_ms);
        if let Some(visitors) = &other.visitors {
            self.visitors.get_or_insert_default().merge(visitors);
        }
        for &Value { key, humans, bots } in &other.values {
            self.count(key, humans, bots);
        }
    }

    /// Whether a [`DeltaChunkWriter`](super::DeltaChunkWriter) takes it: it is small, and not of
    /// orphans. A large one is cheaper in a row of its own, which reports read once.
    pub fn is_packable(&self) -> bool {
        self.values.len() <= MAX_PACKED_VALUES
            && self.visitors.as_ref().is_none_or(|visitors| visitors.memory() <= MAX_PACKED_SKETCH)
            && self.subject != SumSubject::Orphans
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }

    /// Adds a value that it does not have.
    pub(crate) fn push_value(&mut self, key: u32, humans: u32, bots: u32) {
        self.values.push(Value { key, humans, bots });
    }

    /// Replaces the number of each value, given its property and number.
    pub(crate) fn renumber(&mut self, number: impl Fn(u32, u32) -> u32) {
        self.index = None;
        for value in &mut self.values {
            let (property, old) = Value::split(value.key);
            value.key = Value::key(property, number(property, old));
        }
        self.note_places();
    }

    /// Makes the index if the list is long.
    fn note_places(&mut self) {
        if self.values.len() > MAX_UNINDEXED {
            let places = self.values.iter().zip(0..).map(|(value, at)| (value.key, at));
            self.index = Some(Box::new(places.collect()));
        }
    }

    /// How many octets its values take in memory, about.
    fn memory(&self) -> usize {
        self.values.capacity() * size_of::<Value>()
            + self.index.as_ref().map_or(0, |index| index.capacity() * INDEX_ENTRY)
    }
}

/// The subject that a delta of these columns is about.
pub(crate) fn subject_of(columns: &ClickColumns, subject: SumSubject) -> Option<ClickSubject> {
    Some(match subject {
        SumSubject::Link(target) => ClickSubject::Link(link_of(columns, target)?.clone()),
        SumSubject::Owner(owner) => ClickSubject::Owner(owner),
        SumSubject::Everything => ClickSubject::Everything,
        SumSubject::Orphans => ClickSubject::Orphans,
    })
}

/// The link that a target of these columns is.
pub(crate) fn link_of(columns: &ClickColumns, target: u32) -> Option<&LinkId> {
    match columns.targets.get(target as usize)? {
        ClickTarget::Link(link, _) => Some(link),
        ClickTarget::Orphan(..) => None,
    }
}
