//! Lists of the values of clicks, such as their countries, with the number of clicks of each.

use crate::describe::ToSchema;
use serde::Serialize;
use terse_core::clicks::{BotFilter, ClickSum, Dimension, DimensionCounts, REPEAT};

/// A value and its number of clicks.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct ValueCount {
    /// The value; `unknown` where it is not known, `other` for all values beyond the limit.
    pub(crate) name: String,
    /// How many clicks.
    pub(crate) clicks: u64,
}

/// Makes the lists of values and their clicks.
pub(crate) struct ValueLists<'a> {
    pub(crate) tally: &'a ClickSum,
    pub(crate) bots: BotFilter,
    /// The largest number of values listed by name.
    pub(crate) most: usize,
}

impl ValueLists<'_> {
    /// The known values, the most frequent first, and the sum of all further values as `other`.
    pub(crate) fn known(&self, dimension: Dimension) -> Vec<ValueCount> {
        self.list(dimension, false)
    }

    /// Why clicks count as clicks by bots, without the repeated clicks of humans.
    pub(crate) fn bot_reasons(&self) -> Vec<ValueCount> {
        match self.bots {
            BotFilter::Exclude => Vec::new(),
            _ => ValueLists { bots: BotFilter::Only, ..*self }.known(Dimension::BotKind),
        }
    }

    pub(crate) fn repeats(&self) -> u64 {
        let values =
            self.tally.values(Dimension::BotKind).into_iter().flat_map(DimensionCounts::named);
        values.filter(|(name, _)| &***name == REPEAT).map(|(_, count)| count.humans).sum()
    }

    /// The same, with the number of clicks without a value as `unknown`.
    pub(crate) fn with_unknown(&self, dimension: Dimension) -> Vec<ValueCount> {
        self.list(dimension, true)
    }

    fn list(&self, dimension: Dimension, unknown: bool) -> Vec<ValueCount> {
        let nothing = DimensionCounts::default();
        let values = self.tally.values(dimension).unwrap_or(&nothing);
        let mut other = self.bots.of(values.other());
        let mut missing =
            if unknown { self.bots.of(self.tally.clicks.without(values.sum())) } else { 0 };
        let mut named = Vec::new();
        for (name, count) in values.named() {
            match (&**name, self.bots.of(count)) {
                (_, 0) => {}
                // A campaign may have this name; each name is listed once.
                ("other", clicks) => other += clicks,
                ("unknown", clicks) if unknown => missing += clicks,
                (name, clicks) => named.push(ValueCount { name: name.to_owned(), clicks }),
            }
        }
        named.sort_by(|a, b| b.clicks.cmp(&a.clicks).then_with(|| a.name.cmp(&b.name)));
        other += named.drain(named.len().min(self.most)..).map(|named| named.clicks).sum::<u64>();
        let rest =
            [("unknown", missing), ("other", other)].into_iter().filter(|(_, clicks)| *clicks > 0);
        named.extend(rest.map(|(name, clicks)| ValueCount { name: name.to_owned(), clicks }));
        named
    }
}
