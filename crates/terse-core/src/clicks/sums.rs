//! The sums of a batch while it grows.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::click::{Click, ClickTarget, Interned};
use super::columns::{
    AgentTraits, ClickColumns, ClickNetwork, ClickRow, GeoLocation, ValueNumbers,
};
use super::delta::{Delta, SumSubject};
use super::report::Unit;
use crate::link::OwnerId;

const HOUR: i64 = Unit::Hour.ms();
/// What an entry of the index takes in memory, about.
const PLACES_ENTRY: usize = 40;

/// The delta of the hour that was counted last: nearly every click falls into the same one.
#[derive(Clone, Copy, Debug)]
struct Latest {
    hour: i64,
    delta: u32,
}

const NONE: Latest = Latest { hour: i64::MIN, delta: 0 };

/// The sums of a batch while it grows. A click costs no lookup by text, and nothing is allocated
/// for values that the sums have already.
///
/// A click is added to the sum of its link only. Those of owners and of everything are made from
/// the sums of links when the batch is finished, or by [`Sums::sum_owners`] if a report asks
/// earlier.
#[derive(Debug, Default)]
pub struct Sums {
    deltas: Vec<Delta>,
    /// The latest delta of each target.
    targets: Vec<Latest>,
    orphans: Option<Latest>,
    /// How many clicks are in the sums of owners and of everything.
    in_owners: usize,
    /// What the lists of all deltas take in memory.
    memory: usize,
    /// All deltas, for clicks of other hours and for reports.
    index: SumIndex,
}

/// A click with what its sum needs of the columns, so that one thread can add clicks to sums while
/// another adds values to the columns.
#[derive(Clone, Copy, Debug)]
pub struct SumRow {
    /// The click.
    pub row: ClickRow,
    /// The place of its network.
    place: u32,
    /// The owner of its link; `None` for a visit that did not lead to a link.
    owner: Option<OwnerId>,
}

impl SumRow {
    /// A click of these columns.
    pub fn new(columns: &ClickColumns, row: ClickRow) -> Self {
        let place = columns.networks[row.network as usize].place;
        let owner = match &columns.targets[row.target as usize] {
            ClickTarget::Orphan(..) => None,
            ClickTarget::Link(_, owner) => Some(*owner),
        };
        Self { row, place, owner }
    }
}

/// Finds the deltas of a subject.
#[derive(Debug, Default)]
pub struct SumIndex {
    places: HashMap<(SumSubject, i64), u32, RandomState>,
    /// The hours that have deltas. Nearly always one or two.
    hours: Vec<i64>,
}

impl SumIndex {
    /// The places of a subject's deltas.
    pub fn places(&self, subject: SumSubject) -> impl Iterator<Item = usize> {
        let place = move |hour: &i64| self.places.get(&(subject, *hour));
        self.hours.iter().filter_map(place).map(|&place| place as usize)
    }
}

impl Sums {
    /// Adds a click of the columns, each once, in any order.
    pub fn add(&mut self, columns: &ClickColumns, row: &ClickRow) {
        self.add_row(&SumRow::new(columns, *row));
    }

    /// The same, without the columns.
    pub fn add_row(&mut self, SumRow { row, place, owner }: &SumRow) {
        let hour = row.at_ms.div_euclid(HOUR);
        match owner {
            None => {
                let latest = self.orphans.unwrap_or(NONE);
                let latest = self.latest(latest, SumSubject::Orphans, OwnerId(0), hour);
                self.orphans = Some(latest);
                self.add_to(latest, row, *place, true);
            }
            Some(owner) => {
                let at = row.target as usize;
                if self.targets.len() <= at {
                    self.targets.resize(at + 1, NONE);
                }
                let latest = self.targets[at];
                let latest = self.latest(latest, SumSubject::Link(row.target), *owner, hour);
                self.targets[at] = latest;
                self.add_to(latest, row, *place, false);
            }
        }
    }

    /// Brings the sums of owners and of everything up to date. `columns` are all clicks that were
    /// added.
    pub fn sum_owners(&mut self, columns: &ClickColumns) {
        for row in (self.in_owners..columns.len()).map(|at| columns.row(at)) {
            let ClickTarget::Link(_, owner) = &columns.targets[row.target as usize] else {
                continue;
            };
            let hour = row.at_ms.div_euclid(HOUR);
            let place = columns.networks[row.network as usize].place;
            for (subject, owner) in
                [(SumSubject::Owner(*owner), *owner), (SumSubject::Everything, OwnerId(0))]
            {
                let latest = self.latest(NONE, subject, owner, hour);
                self.add_to(latest, &row, place, false);
            }
        }
        self.in_owners = columns.len();
    }

    /// Makes the sums of owners and of everything from those of links.
    fn merge_into_owners(&mut self) {
        let mut of_owners: HashMap<(OwnerId, i64), Delta, RandomState> = HashMap::default();
        for delta in &self.deltas {
            if let SumSubject::Link(_) = delta.subject {
                let subject = SumSubject::Owner(delta.owner);
                let sum = of_owners.entry((delta.owner, delta.hour));
                sum.or_insert_with(|| Delta::new(subject, delta.owner, delta.hour)).merge(delta);
            }
        }
        let mut of_everything: HashMap<i64, Delta, RandomState> = HashMap::default();
        for delta in of_owners.values() {
            let sum = of_everything.entry(delta.hour);
            sum.or_insert_with(|| Delta::new(SumSubject::Everything, OwnerId(0), delta.hour))
                .merge(delta);
        }
        for delta in of_owners.into_values().chain(of_everything.into_values()) {
            self.index.places.insert((delta.subject, delta.hour), self.deltas.len() as u32);
            self.deltas.push(delta);
        }
    }

    fn add_to(&mut self, latest: Latest, row: &ClickRow, place: u32, orphan: bool) {
        let delta = &mut self.deltas[latest.delta as usize];
        self.memory += delta.add(row, place, orphan);
    }

    fn latest(&mut self, latest: Latest, subject: SumSubject, owner: OwnerId, hour: i64) -> Latest {
        if latest.hour == hour {
            return latest;
        }
        let deltas = &mut self.deltas;
        let SumIndex { places, hours } = &mut self.index;
        let delta = *places.entry((subject, hour)).or_insert_with(|| {
            deltas.push(Delta::new(subject, owner, hour));
            // From the end: clicks come in the order of time.
            if hours.iter().rev().all(|known| *known != hour) {
                hours.push(hour);
            }
            deltas.len() as u32 - 1
        });
        Latest { hour, delta }
    }

    /// How many bytes they take in memory, about.
    pub fn memory(&self) -> usize {
        self.memory
            + self.deltas.capacity() * size_of::<Delta>()
            + self.deltas.len() * PLACES_ENTRY
            + self.targets.capacity() * size_of::<Latest>()
    }

    /// The deltas so far, in no order. Those of owners and of everything are as old as the last
    /// [`Sums::sum_owners`].
    pub fn deltas(&self) -> &[Delta] {
        &self.deltas
    }

    /// Finds the deltas of a subject.
    pub fn index(&self) -> &SumIndex {
        &self.index
    }

    /// The deltas of links and of orphans, in no order.
    pub(crate) fn into_link_deltas(mut self) -> Vec<Delta> {
        self.deltas
            .retain(|delta| matches!(delta.subject, SumSubject::Link(_) | SumSubject::Orphans));
        self.deltas
    }

    /// All deltas in no order, and what finds them. `columns` are all clicks that were added.
    pub fn finish(mut self, columns: &ClickColumns) -> (Vec<Delta>, SumIndex) {
        match self.in_owners {
            0 => self.merge_into_owners(),
            _ => self.sum_owners(columns),
        }
        (self.deltas, self.index)
    }
}

/// Builds columns and sums from clicks with texts. For tests and imports: the click pipeline finds
/// the numbers of texts before it has a [`Click`].
#[derive(Debug, Default)]
pub struct ClickGatherer {
    /// The clicks so far.
    pub columns: ClickColumns,
    /// Their sums.
    pub sums: Sums,
    targets: ValueNumbers<ClickTarget>,
    agents: ValueNumbers<AgentTraits>,
    networks: ValueNumbers<ClickNetwork>,
    places: ValueNumbers<GeoLocation>,
    referrers: ValueNumbers<Option<Interned>>,
    languages: ValueNumbers<Option<Interned>>,
    campaigns: ValueNumbers<[Option<Interned>; 5]>,
}

impl ClickGatherer {
    /// Adds a click.
    pub fn push(&mut self, click: &Click) {
        let columns = &mut self.columns;
        let place = GeoLocation { country: click.country.clone(), city: click.city.clone() };
        let place = self.places.of(&mut columns.places, place);
        let network = ClickNetwork { address: click.address.clone(), place };
        let agent = AgentTraits {
            device: click.device.clone(),
            browser: click.browser.clone(),
            system: click.system.clone(),
        };
        let row = ClickRow {
            at_ms: click.at.as_ms(),
            visitor: click.visitor.unwrap_or(0),
            took_nanos: click.took_nanos,
            target: self.targets.of(&mut columns.targets, click.target.clone()),
            weight: click.weight,
            agent: self.agents.of(&mut columns.agents, agent),
            network: self.networks.of(&mut columns.networks, network),
            referrer: self.referrers.of(&mut columns.referrers, click.referrer.clone()),
            language: self.languages.of(&mut columns.languages, click.language.clone()),
            campaign: self.campaigns.of(&mut columns.campaigns, click.utm.clone()),
            kind: click.kind(),
            warning: click.warning,
        };
        columns.push(row);
        self.sums.add(columns, &row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clicks::{BotKind, ClickSum, Dimension, LinkId, Sketch, WarningVisit};
    use crate::code::Code;
    use crate::domain::Domain;
    use crate::link::LinkKey;
    use crate::time::Timestamp;

    fn click(n: i64) -> Click {
        let code = Code::parse(&format!("code{}", n % 7)).unwrap();
        let key = LinkKey { domain: Domain::primary(), code };
        let link = LinkId { key, created_at: Timestamp::from_ms(0) };
        let target = ClickTarget::Link(link, OwnerId(n as u64 % 3));
        let mut click = Click::bare(Timestamp::from_ms(n * HOUR / 50), target);
        click.visitor = (n % 5 != 0).then_some(n as u64 * 7919 % 300 + 1);
        click.took_nanos = n as u64 * 31 % 1000;
        click.bot = (n % 9 == 0).then_some(BotKind::Crawler);
        click.warning =
            [WarningVisit::None, WarningVisit::Shown, WarningVisit::Passed][(n / 4 % 3) as usize];
        click.country = Some(format!("country-{}", n % 23).into());
        click.referrer = (n % 2 == 0).then(|| format!("site-{}", n % 40).into());
        click
    }

    /// Sums of the same clicks, in an order that does not depend on how they were made.
    fn sums(reports_after: &[usize]) -> Vec<(String, ClickSum, u64)> {
        let mut gatherer = ClickGatherer::default();
        for n in 0..400 {
            gatherer.push(&click(n));
            if reports_after.contains(&(n as usize)) {
                gatherer.sums.sum_owners(&gatherer.columns);
            }
        }
        let (deltas, index) = gatherer.sums.finish(&gatherer.columns);
        let mut found: Vec<_> = deltas
            .iter()
            .enumerate()
            .map(|(at, delta)| {
                assert!(index.places(delta.subject).any(|place| place == at));
                let mut tally = ClickSum::default();
                delta.add_to(&gatherer.columns, &mut tally);
                let visitors = delta.visitors.as_ref().map_or(0, Sketch::count);
                (format!("{:?} {}", delta.subject, delta.hour), tally, visitors)
            })
            .collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        found
    }

    #[test]
    fn owners_have_the_sums_of_their_links_whenever_they_are_made() {
        let at_the_end = sums(&[]);
        assert_eq!(sums(&[0, 17, 200]), at_the_end);
        assert_eq!(sums(&[399]), at_the_end);
        // Every click is in the sum of its link, of its owner and of everything.
        for (subject, count) in [("Link", 7), ("Owner", 3), ("Everything", 1)] {
            let of = at_the_end.iter().filter(|(name, ..)| name.starts_with(subject));
            let (mut clicks, mut countries, mut sums) = (0, 0, 0);
            for (_, tally, _) in of {
                clicks += tally.clicks.all();
                countries += tally.values(Dimension::Country).unwrap().sum().all();
                sums += 1;
            }
            let all = (0..400).filter(|n| click(*n).warning != WarningVisit::Shown).count() as u64;
            assert_eq!((clicks, countries), (all, all), "{subject}");
            assert!(sums >= count, "{subject}");
        }
    }
}
