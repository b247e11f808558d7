//! Sums of clicks: how many, and how many for each value of each dimension.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

use super::click::{BotKind, Click, ClickTarget, Dimension, Interned};
use super::columns::WarningVisit;
use super::mean::Mean;
use crate::time::Timestamp;

/// The version of the stored form.
const VERSION: u8 = 1;
/// The longest value; longer values are truncated.
const MAX_VALUE_LEN: usize = 100;

/// The name of repeated clicks of humans in [`Dimension::BotKind`].
pub const REPEAT: &str = "repeat";

/// The name of views of a link's warning page in [`Dimension::Outcome`].
pub const WARNED: &str = "warned";
/// The name of clicks after such a view.
pub const WENT_ON: &str = "went_on";

/// How many values of each dimension a store keeps by name in the sum of an hour.
pub const MAX_VALUES_PER_HOUR: usize = 50;
/// The same in the sum of a day.
pub const MAX_VALUES_PER_DAY: usize = 100;
/// The same in the sum of all time, and in the sum of a requested period.
pub const MAX_VALUES_TOTAL: usize = 200;

/// A number of clicks, with humans and bots counted separately.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Count {
    /// By humans.
    pub humans: u64,
    /// By bots.
    pub bots: u64,
}

impl Count {
    /// Both together.
    pub fn all(self) -> u64 {
        self.humans + self.bots
    }

    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.humans += other.humans;
        self.bots += other.bots;
    }

    /// The difference to another count.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self {
            humans: self.humans.saturating_sub(other.humans),
            bots: self.bots.saturating_sub(other.bots),
        }
    }
}

/// The values of one dimension and their counts.
#[derive(Clone, Debug, Default)]
pub struct DimensionCounts {
    named: Vec<(Interned, Count)>,
    /// The index of each value in `named`, once there are many: most sums are of few clicks, and a
    /// short list is searched faster.
    places: HashMap<Interned, usize, FixedState>,
    other: Count,
}

/// The longest list without an index.
const MAX_UNINDEXED: usize = 16;

impl PartialEq for DimensionCounts {
    fn eq(&self, other: &Self) -> bool {
        let has = |(value, count): &(Interned, Count)| {
            other.place(value).is_some_and(|at| other.named[at].1 == *count)
        };
        self.other == other.other
            && self.named.len() == other.named.len()
            && self.named.iter().all(has)
    }
}

impl DimensionCounts {
    /// Each value with its count, in no order.
    pub fn named(&self) -> impl Iterator<Item = (&Interned, Count)> {
        self.named.iter().map(|(value, count)| (value, *count))
    }

    /// Values beyond the cap.
    pub fn other(&self) -> Count {
        self.other
    }

    /// All together.
    pub fn sum(&self) -> Count {
        let mut sum = self.other;
        self.named.iter().for_each(|(_, count)| sum.add(*count));
        sum
    }

    fn is_empty(&self) -> bool {
        self.named.is_empty() && self.other == Count::default()
    }

    fn place(&self, value: &str) -> Option<usize> {
        match self.named.len() > MAX_UNINDEXED {
            true => self.places.get(value).copied(),
            false => self.named.iter().position(|(have, _)| **have == *value),
        }
    }

    fn add(&mut self, value: &Interned, count: Count) {
        let short = &value[..value.floor_char_boundary(MAX_VALUE_LEN)];
        let whole = short.len() == value.len();
        self.add_as(short, count, || if whole { value.clone() } else { short.into() });
    }

    /// Interns the value only if it is new.
    fn add_as(&mut self, value: &str, count: Count, word: impl FnOnce() -> Interned) {
        if let Some(at) = self.place(value) {
            return self.named[at].1.add(count);
        }
        self.named.push((word(), count));
        match self.named.len() - 1 {
            ..MAX_UNINDEXED => {}
            MAX_UNINDEXED => self.note_places(),
            last => drop(self.places.insert(self.named[last].0.clone(), last)),
        }
    }

    fn note_places(&mut self) {
        self.places.clear();
        if self.named.len() > MAX_UNINDEXED {
            self.places
                .extend(self.named.iter().zip(0..).map(|((value, _), at)| (value.clone(), at)));
        }
    }

    /// Keeps the `cap` most frequent by name.
    fn trim(&mut self, cap: usize) {
        if self.named.len() <= cap {
            return;
        }
        // Breaks ties differently each time. So of many values seen once, a value that is seen
        // again may be kept by name.
        let turn = FixedState::with_seed(self.sum().all());
        let rank =
            |(value, count): &(Interned, Count)| (Reverse(count.all()), turn.hash_one(value));
        self.named
            .select_nth_unstable_by(cap, |a, b| rank(a).cmp(&rank(b)).then_with(|| a.0.cmp(&b.0)));
        for (_, count) in self.named.drain(cap..) {
            self.other.add(count);
        }
        self.note_places();
    }
}

/// A sum of clicks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClickSum {
    /// How many.
    pub clicks: Count,
    /// How long their answers took, in milliseconds.
    pub took: Mean,
    /// The latest.
    pub last: Option<Timestamp>,
    values: Vec<DimensionCounts>,
}

impl ClickSum {
    /// Adds a click.
    pub fn add(&mut self, click: &Click) {
        let weight = u64::from(click.weight);
        let count = match click.bot {
            None => Count { humans: weight, bots: 0 },
            Some(_) => Count { humans: 0, bots: weight },
        };
        match click.warning {
            WarningVisit::None => {}
            WarningVisit::Shown => return self.add_word(Dimension::Outcome, WARNED, count),
            WarningVisit::Passed => self.add_word(Dimension::Outcome, WENT_ON, count),
        }
        self.clicks.add(count);
        self.took.add(click.took_nanos as f64 / 1e6);
        self.last = self.last.max(Some(click.at));
        let [source, medium, campaign, term, content] = &click.utm;
        for (dimension, value) in [
            (Dimension::Referrer, &click.referrer),
            (Dimension::Country, &click.country),
            (Dimension::City, &click.city),
            (Dimension::Device, &click.device),
            (Dimension::Browser, &click.browser),
            (Dimension::System, &click.system),
            (Dimension::Language, &click.language),
            (Dimension::Source, source),
            (Dimension::Medium, medium),
            (Dimension::Campaign, campaign),
            (Dimension::Term, term),
            (Dimension::Content, content),
        ] {
            self.add_value(dimension, value.as_ref(), count);
        }
        if let Some(reason) = click.bot.map(BotKind::as_str).or(click.repeat.then_some(REPEAT)) {
            self.add_word(Dimension::BotKind, reason, count);
        }
        if let ClickTarget::Orphan(key, outcome) = &click.target {
            self.add_word(Dimension::Outcome, outcome.as_str(), count);
            self.add_word(Dimension::Code, key.code.as_str(), count);
        }
    }

    /// How often a link's warning page was seen, and how many clicks came after it.
    pub fn warnings(&self) -> [Count; 2] {
        let named = |word: &str| {
            let values = self.values(Dimension::Outcome);
            values.and_then(|values| values.place(word).map(|at| values.named[at].1))
        };
        [named(WARNED).unwrap_or_default(), named(WENT_ON).unwrap_or_default()]
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.clicks == Count::default() && self.values.iter().all(DimensionCounts::is_empty)
    }

    /// Adds clicks with a value, if the value is known.
    pub(crate) fn add_value(
        &mut self,
        dimension: Dimension,
        value: Option<&Interned>,
        count: Count,
    ) {
        if let Some(value) = value {
            self.values_mut(dimension).add(value, count);
        }
    }

    pub(crate) fn add_word(&mut self, dimension: Dimension, word: &str, count: Count) {
        self.values_mut(dimension).add_as(word, count, || word.into());
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.clicks.add(other.clicks);
        self.took.merge(&other.took);
        self.last = self.last.max(other.last);
        for (dimension, theirs) in Dimension::ALL.iter().zip(&other.values) {
            if theirs.is_empty() {
                continue;
            }
            let ours = self.values_mut(*dimension);
            theirs.named.iter().for_each(|(value, count)| ours.add(value, *count));
            ours.other.add(theirs.other);
        }
    }

    /// The values of a dimension. Clicks without a known value are not in it.
    pub fn values(&self, dimension: Dimension) -> Option<&DimensionCounts> {
        self.values.get(dimension as usize)
    }

    /// Keeps at most `cap` values by name in each dimension, the most frequent ones.
    pub fn trim(&mut self, cap: usize) {
        self.values.iter_mut().for_each(|values| values.trim(cap));
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let values = self.values.iter().zip(0..).filter(|(values, _)| !values.is_empty());
        let values = values.map(|(values, dimension)| StoredValues {
            dimension,
            other: values.other,
            named: values.named.iter().map(|(value, count)| (&**value, *count)).collect(),
        });
        let stored = StoredTally {
            clicks: self.clicks,
            took: self.took,
            last_ms: self.last.map(Timestamp::as_ms),
            values: values.collect(),
        };
        postcard::to_extend(&stored, vec![VERSION]).unwrap_or_default()
    }

    /// From the stored form.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut tally = Self::default();
        tally.merge_stored(bytes).then_some(tally)
    }

    /// Adds another sum in its stored form, without decoding it into a `ClickSum` first. If these
    /// bytes are not a sum, nothing changes and the result is false.
    #[must_use]
    pub fn merge_stored(&mut self, bytes: &[u8]) -> bool {
        let Some((&VERSION, bytes)) = bytes.split_first() else { return false };
        let Ok(stored) = postcard::from_bytes::<StoredTally<'_>>(bytes) else { return false };
        self.clicks.add(stored.clicks);
        self.took.merge(&stored.took);
        self.last = self.last.max(stored.last_ms.map(Timestamp::from_ms));
        for stored in stored.values {
            // Skips an unknown dimension of a newer version instead of the whole sum.
            let Some(&dimension) = Dimension::ALL.get(usize::from(stored.dimension)) else {
                continue;
            };
            let values = self.values_mut(dimension);
            values.other.add(stored.other);
            values.named.reserve(if values.named.is_empty() { stored.named.len() } else { 0 });
            stored
                .named
                .into_iter()
                .for_each(|(value, count)| values.add_as(value, count, || value.into()));
        }
        true
    }

    fn values_mut(&mut self, dimension: Dimension) -> &mut DimensionCounts {
        let at = dimension as usize;
        if self.values.len() <= at {
            self.values.resize_with(at + 1, DimensionCounts::default);
        }
        &mut self.values[at]
    }
}

#[derive(Deserialize, Serialize)]
struct StoredTally<'a> {
    clicks: Count,
    took: Mean,
    last_ms: Option<i64>,
    #[serde(borrow)]
    values: Vec<StoredValues<'a>>,
}

#[derive(Deserialize, Serialize)]
struct StoredValues<'a> {
    dimension: u8,
    other: Count,
    #[serde(borrow)]
    named: Vec<(&'a str, Count)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clicks::LinkId;
    use crate::{Code, Domain, LinkKey, OwnerId};

    fn click(referrer: &str, bot: Option<BotKind>) -> Click {
        let key = LinkKey { domain: Domain::primary(), code: Code::parse("abc1234").unwrap() };
        let place =
            ClickTarget::Link(LinkId { key, created_at: Timestamp::from_ms(1) }, OwnerId(5));
        let took_nanos = 1000 * referrer.len() as u64;
        Click {
            referrer: Some(referrer.into()),
            bot,
            took_nanos,
            ..Click::bare(Timestamp::from_ms(1000), place)
        }
    }

    /// A sum with a named value in one dimension and "other" in another.
    fn known() -> ClickSum {
        let mut tally = ClickSum::default();
        tally.add(&click("a.example", None));
        tally.add(&click("a.example", Some(BotKind::Crawler)));
        tally.add(&Click { language: Some("de".into()), ..click("b.example", None) });
        tally.add(&Click { weight: 300, city: Some("Łódź, PL".into()), ..click("", None) });
        tally.values_mut(Dimension::Language).trim(0);
        tally
    }

    #[test]
    fn sums_in_parts_are_the_same_sum_and_survive_being_kept() {
        let clicks: Vec<Click> = (0..300)
            .map(|n| {
                click(&format!("host{}.example", n % 17), (n % 3 == 0).then_some(BotKind::Crawler))
            })
            .collect();
        let mut whole = ClickSum::default();
        clicks.iter().for_each(|click| whole.add(click));
        let (mut merged, mut stored_merged) = (ClickSum::default(), ClickSum::default());
        for part in clicks.chunks(7) {
            let mut tally = ClickSum::default();
            part.iter().for_each(|click| tally.add(click));
            assert!(stored_merged.merge_stored(&tally.encode()));
            merged.merge(&ClickSum::decode(&tally.encode()).unwrap());
        }
        assert_eq!(stored_merged, merged);
        assert_eq!(merged.clicks, Count { humans: 200, bots: 100 });
        assert_eq!(merged.values(Dimension::Referrer), whole.values(Dimension::Referrer));
        assert_eq!(merged.values(Dimension::Referrer).unwrap().sum(), whole.clicks);
        assert_eq!(merged.last, Some(Timestamp::from_ms(1000)));
    }

    #[test]
    fn past_the_cap_the_rest_is_other_and_nothing_is_lost() {
        let mut tally = ClickSum::default();
        for n in 0..1000 {
            tally.add(&click(&format!("{n}.{}", "x".repeat(200)), None));
            if n % 10 == 0 {
                tally.add(&click("often.example", None));
                tally.add(&click(&format!("often.{}", "é".repeat(n)), None));
                tally.trim(20);
            }
        }
        tally.trim(20);
        let values = tally.values(Dimension::Referrer).unwrap();
        assert_eq!(values.named().count(), 20);
        assert_eq!(values.named[values.place("often.example").unwrap()].1.humans, 100);
        assert_eq!(values.sum().humans, 1200);
        assert!(
            values.named().any(|(value, count)| value.len() > 90 && count.humans > 50),
            "{values:?}"
        );
        assert!(values.named().all(|(value, _)| value.len() <= MAX_VALUE_LEN));
        assert!(tally.encode().len() < 4096);
    }

    #[test]
    fn what_is_not_a_sum_is_none() {
        assert_eq!(ClickSum::decode(&[]), None);
        assert_eq!(ClickSum::decode(&[99, 1, 2]), None);
        assert_eq!(ClickSum::decode(&[VERSION]), None);
        let mut tally = ClickSum::default();
        assert!(!tally.merge_stored(&[VERSION, 1]) && tally == ClickSum::default());
        assert_eq!(ClickSum::decode(&ClickSum::default().encode()), Some(ClickSum::default()));
    }

    /// Stores hold these bytes for years, and other nodes read them: a change of the form needs
    /// another `VERSION`, and code that reads both.
    #[test]
    fn the_stored_form_is_frozen() {
        let stored = concat!(
            "01",               // version
            "ae0201",           // 302 humans, 1 bot
            "04",               // four times: count, mean, spread
            "d8cef753e3a57b3f", // mean
            "f860191bbad90f3f", // spread
            "01d00f",           // the last click
            "04",               // four dimensions
            "00000003",         // referrer: none other, three by name
            "09612e6578616d706c650101",
            "09622e6578616d706c650100",
            "00ac0200",
            "02000001", // city
            "0bc581c3b364c5ba2c20504cac0200",
            "06010000", // language: one other, none by name
            "0c000001", // kind of bot
            "07637261776c65720001",
        );
        let bytes = known().encode();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, stored);
        let read = ClickSum::decode(&bytes).unwrap();
        assert_eq!(read, known());
        let mut merged = known();
        assert!(merged.merge_stored(&bytes));
        assert_eq!(merged.clicks, Count { humans: 604, bots: 2 });
        assert_eq!(merged.values(Dimension::City).unwrap().sum().humans, 600);
    }
}
