//! A batch, grouped by subject and hour.

use std::collections::HashMap;

use terse_core::clicks::{Click, ClickTarget, LinkId, MAX_VALUES_TOTAL, Unit};
use terse_core::{OwnerId, Timestamp};

use crate::clicks::sum::Sum;

/// The largest number of values of a dimension in the sum of a batch. The rarest of more would
/// become "other" anyway; this bounds the cost of a flood of values.
const MAX_VALUES_PER_BATCH: usize = 5 * MAX_VALUES_TOTAL;

/// The subject of a sum.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum SumKey<'a> {
    Link(&'a LinkId),
    Owner(OwnerId),
    Everything,
    Orphans,
}

/// What a batch adds to one subject.
pub(crate) struct Group<'a> {
    pub(crate) who: SumKey<'a>,
    /// For a link, its latest owner; for an owner, itself.
    pub(crate) owner: OwnerId,
    /// By hours since 1970. Nearly always one.
    pub(crate) hours: Vec<(i64, Sum)>,
    /// The clicks of a link.
    pub(crate) clicks: Vec<&'a Click>,
}

impl Group<'_> {
    /// Drops the clicks up to and including a time.
    pub(crate) fn keep_after(&mut self, at: Timestamp) {
        self.clicks.retain(|click| click.at > at);
        self.hours.clear();
        for click in self.clicks.clone() {
            self.hour(click.at.as_ms().div_euclid(Unit::Hour.ms())).add(click);
        }
    }

    fn hour(&mut self, hour: i64) -> &mut Sum {
        let at = match self.hours.iter().rposition(|(have, _)| *have == hour) {
            Some(at) => at,
            None => {
                self.hours.push((hour, Sum::default()));
                self.hours.len() - 1
            }
        };
        &mut self.hours[at].1
    }
}

/// The groups of a batch, and the index of each in the list.
#[derive(Default)]
struct Groups<'a> {
    list: Vec<Group<'a>>,
    places: HashMap<SumKey<'a>, usize>,
}

impl<'a> Groups<'a> {
    fn of(&mut self, who: SumKey<'a>, owner: OwnerId) -> &mut Group<'a> {
        let at = *self.places.entry(who).or_insert(self.list.len());
        if at == self.list.len() {
            self.list.push(Group { who, owner, hours: Vec::new(), clicks: Vec::new() });
        }
        &mut self.list[at]
    }
}

/// Groups the clicks of a batch.
pub(crate) fn groups(clicks: &[Click]) -> Vec<Group<'_>> {
    let mut groups = Groups::default();
    for click in clicks {
        let hour = click.at.as_ms().div_euclid(Unit::Hour.ms());
        match &click.target {
            ClickTarget::Link(link, owner) => {
                let group = groups.of(SumKey::Link(link), *owner);
                group.owner = *owner;
                group.clicks.push(click);
                group.hour(hour).add(click);
            }
            ClickTarget::Orphan(..) => {
                groups.of(SumKey::Orphans, OwnerId(0)).hour(hour).add(click);
            }
        }
    }
    let links = groups.list.len();
    groups
        .list
        .iter_mut()
        .flat_map(|group| &mut group.hours)
        .for_each(|(_, sum)| sum.tally.trim(MAX_VALUES_PER_BATCH));
    // An owner's sum adds up its links, and the total adds up the owners.
    for at in 0..links {
        if let Group { who: SumKey::Link(_), owner, .. } = groups.list[at] {
            let hours = std::mem::take(&mut groups.list[at].hours);
            let group = groups.of(SumKey::Owner(owner), owner);
            hours.iter().for_each(|(hour, sum)| group.hour(*hour).merge(sum));
            groups.list[at].hours = hours;
        }
    }
    let mut everything =
        Group { who: SumKey::Everything, owner: OwnerId(0), hours: Vec::new(), clicks: Vec::new() };
    for (hour, sum) in groups.list[links..].iter_mut().flat_map(|group| &mut group.hours) {
        sum.tally.trim(MAX_VALUES_PER_BATCH);
        everything.hour(*hour).merge(sum);
    }
    if !everything.hours.is_empty() {
        groups.list.push(everything);
    }
    groups.list
}
