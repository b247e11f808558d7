//! Clicks in columns: what many clicks share is stored once, and each click refers to it by number.

use std::hash::Hash;

use super::click::{BotKind, Click, ClickTarget, Interned};
use crate::time::Timestamp;

/// What a user agent says. All `None` at number 0.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct AgentTraits {
    /// See [`Dimension::Device`](super::Dimension::Device).
    pub device: Option<Interned>,
    /// See [`Dimension::Browser`](super::Dimension::Browser).
    pub browser: Option<Interned>,
    /// See [`Dimension::System`](super::Dimension::System).
    pub system: Option<Interned>,
}

/// Where a visitor is. All `None` at number 0.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct GeoLocation {
    /// See [`Dimension::Country`](super::Dimension::Country).
    pub country: Option<Interned>,
    /// See [`Dimension::City`](super::Dimension::City).
    pub city: Option<Interned>,
}

/// The network that a visitor comes from. Unknown at number 0.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct ClickNetwork {
    /// The cut address.
    pub address: Option<Interned>,
    /// A number in [`ClickColumns::places`].
    pub place: u32,
}

/// Whether a human or a bot clicked, in one octet. Stores keep these octets: the numbers never
/// change.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct ClickKind(u8);

impl ClickKind {
    /// A human's click.
    pub const HUMAN: Self = Self(0);
    /// A human's click that repeats another.
    pub const REPEAT: Self = Self(1);

    /// The kind of a bot's click.
    pub fn of_bot(bot: BotKind) -> Self {
        let at = BotKind::ALL.iter().position(|&other| other == bot).unwrap_or(0);
        Self(at as u8 + 2)
    }

    /// The bot, if it is one.
    pub fn bot(self) -> Option<BotKind> {
        BotKind::ALL.get(usize::from(self.0).checked_sub(2)?).copied()
    }

    /// The stored octet.
    pub fn octet(self) -> u8 {
        self.0
    }

    /// From the stored octet; `None` if no version of terse writes it.
    pub fn from_octet(octet: u8) -> Option<Self> {
        (usize::from(octet) < BotKind::ALL.len() + 2).then_some(Self(octet))
    }
}

/// What a visit has to do with the warning page of its link.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum WarningVisit {
    /// Nothing.
    #[default]
    None,
    /// The visitor saw the page. This is not a click: it counts as [`WARNED`](super::WARNED) in
    /// [`Dimension::Outcome`](super::Dimension::Outcome) and nowhere else.
    Shown,
    /// The visitor saw the page and went on: a click, which also counts as
    /// [`WENT_ON`](super::WENT_ON).
    Passed,
}

impl WarningVisit {
    /// The number that stores and messages hold.
    pub fn octet(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Shown => 1,
            Self::Passed => 2,
        }
    }

    /// Reads the number.
    pub fn from_octet(octet: u8) -> Option<Self> {
        match octet {
            0 => Some(Self::None),
            1 => Some(Self::Shown),
            2 => Some(Self::Passed),
            _ => None,
        }
    }
}

/// One click as numbers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClickRow {
    /// When.
    pub at_ms: i64,
    /// The visitor's hash; 0 if there is none.
    pub visitor: u64,
    /// How long its answer took.
    pub took_nanos: u64,
    /// A number in [`ClickColumns::targets`].
    pub target: u32,
    /// How many visits it represents.
    pub weight: u32,
    /// A number in [`ClickColumns::agents`].
    pub agent: u32,
    /// A number in [`ClickColumns::networks`].
    pub network: u32,
    /// A number in [`ClickColumns::referrers`].
    pub referrer: u32,
    /// A number in [`ClickColumns::languages`].
    pub language: u32,
    /// A number in [`ClickColumns::campaigns`].
    pub campaign: u32,
    /// Who clicked.
    pub kind: ClickKind,
    /// Whether it has to do with a warning page.
    pub warning: WarningVisit,
}

/// Clicks in columns. The first seven lists hold what the clicks refer to; in all of them but
/// `targets`, number 0 means unknown. The others have one entry per click.
#[derive(Clone, Debug)]
pub struct ClickColumns {
    /// Where clicks led, each once.
    pub targets: Vec<ClickTarget>,
    /// User agents.
    pub agents: Vec<AgentTraits>,
    /// Networks.
    pub networks: Vec<ClickNetwork>,
    /// Places of networks.
    pub places: Vec<GeoLocation>,
    /// Referrers.
    pub referrers: Vec<Option<Interned>>,
    /// Languages.
    pub languages: Vec<Option<Interned>>,
    /// `utm_…` values.
    pub campaigns: Vec<[Option<Interned>; 5]>,

    /// See [`ClickRow::at_ms`].
    pub at_ms: Vec<i64>,
    /// See [`ClickRow::visitor`].
    pub visitor: Vec<u64>,
    /// See [`ClickRow::took_nanos`].
    pub took_nanos: Vec<u64>,
    /// See [`ClickRow::target`].
    pub target: Vec<u32>,
    /// See [`ClickRow::weight`].
    pub weight: Vec<u32>,
    /// See [`ClickRow::agent`].
    pub agent: Vec<u32>,
    /// See [`ClickRow::network`].
    pub network: Vec<u32>,
    /// See [`ClickRow::referrer`].
    pub referrer: Vec<u32>,
    /// See [`ClickRow::language`].
    pub language: Vec<u32>,
    /// See [`ClickRow::campaign`].
    pub campaign: Vec<u32>,
    /// See [`ClickRow::kind`].
    pub kind: Vec<ClickKind>,
    /// See [`ClickRow::warning`].
    pub warning: Vec<WarningVisit>,
}

impl Default for ClickColumns {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            agents: vec![AgentTraits::default()],
            networks: vec![ClickNetwork::default()],
            places: vec![GeoLocation::default()],
            referrers: vec![None],
            languages: vec![None],
            campaigns: vec![[const { None }; 5]],
            at_ms: Vec::new(),
            visitor: Vec::new(),
            took_nanos: Vec::new(),
            target: Vec::new(),
            weight: Vec::new(),
            agent: Vec::new(),
            network: Vec::new(),
            referrer: Vec::new(),
            language: Vec::new(),
            campaign: Vec::new(),
            kind: Vec::new(),
            warning: Vec::new(),
        }
    }
}

impl ClickColumns {
    /// How many clicks there are.
    pub fn len(&self) -> usize {
        self.at_ms.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.at_ms.is_empty()
    }

    /// Makes room for so many further clicks.
    pub fn reserve(&mut self, clicks: usize) {
        self.at_ms.reserve(clicks);
        self.visitor.reserve(clicks);
        self.took_nanos.reserve(clicks);
        self.kind.reserve(clicks);
        self.warning.reserve(clicks);
        for column in [
            &mut self.target,
            &mut self.weight,
            &mut self.agent,
            &mut self.network,
            &mut self.referrer,
            &mut self.language,
            &mut self.campaign,
        ] {
            column.reserve(clicks);
        }
    }

    /// Adds a click whose numbers are in the lists already.
    pub fn push(&mut self, row: ClickRow) {
        self.at_ms.push(row.at_ms);
        self.visitor.push(row.visitor);
        self.took_nanos.push(row.took_nanos);
        self.target.push(row.target);
        self.weight.push(row.weight);
        self.agent.push(row.agent);
        self.network.push(row.network);
        self.referrer.push(row.referrer);
        self.language.push(row.language);
        self.campaign.push(row.campaign);
        self.kind.push(row.kind);
        self.warning.push(row.warning);
    }

    /// Adds clicks whose numbers are in the lists already.
    pub fn extend(&mut self, rows: &[ClickRow]) {
        self.at_ms.extend(rows.iter().map(|row| row.at_ms));
        self.visitor.extend(rows.iter().map(|row| row.visitor));
        self.took_nanos.extend(rows.iter().map(|row| row.took_nanos));
        self.target.extend(rows.iter().map(|row| row.target));
        self.weight.extend(rows.iter().map(|row| row.weight));
        self.agent.extend(rows.iter().map(|row| row.agent));
        self.network.extend(rows.iter().map(|row| row.network));
        self.referrer.extend(rows.iter().map(|row| row.referrer));
        self.language.extend(rows.iter().map(|row| row.language));
        self.campaign.extend(rows.iter().map(|row| row.campaign));
        self.kind.extend(rows.iter().map(|row| row.kind));
        self.warning.extend(rows.iter().map(|row| row.warning));
    }

    /// A click as numbers. The index must be less than [`Self::len`].
    pub fn row(&self, at: usize) -> ClickRow {
        ClickRow {
            at_ms: self.at_ms[at],
            visitor: self.visitor[at],
            took_nanos: self.took_nanos[at],
            target: self.target[at],
            weight: self.weight[at],
            agent: self.agent[at],
            network: self.network[at],
            referrer: self.referrer[at],
            language: self.language[at],
            campaign: self.campaign[at],
            kind: self.kind[at],
            warning: self.warning[at],
        }
    }

    /// All clicks as numbers, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = ClickRow> {
        (0..self.len()).map(|at| self.row(at))
    }

    /// The click that a row of these columns stands for.
    pub fn click(&self, row: &ClickRow) -> Click {
        self.click_with_target(row, self.targets[row.target as usize].clone())
    }

    /// The same, with a target that is not in these columns.
    pub fn click_with_target(&self, row: &ClickRow, target: ClickTarget) -> Click {
        let agent = &self.agents[row.agent as usize];
        let network = &self.networks[row.network as usize];
        let place = &self.places[network.place as usize];
        Click {
            at: Timestamp::from_ms(row.at_ms),
            target,
            weight: row.weight,
            took_nanos: row.took_nanos,
            visitor: (row.visitor != 0).then_some(row.visitor),
            address: network.address.clone(),
            bot: row.kind.bot(),
            repeat: row.kind == ClickKind::REPEAT,
            warning: row.warning,
            referrer: self.referrers[row.referrer as usize].clone(),
            country: place.country.clone(),
            city: place.city.clone(),
            device: agent.device.clone(),
            browser: agent.browser.clone(),
            system: agent.system.clone(),
            language: self.languages[row.language as usize].clone(),
            utm: self.campaigns[row.campaign as usize].clone(),
        }
    }

    /// All clicks, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Click> {
        self.rows().map(|row| self.click(&row))
    }
}

/// The number of each value of a list.
#[derive(Clone, Debug)]
pub struct ValueNumbers<T>(std::collections::HashMap<T, u32, foldhash::fast::RandomState>);

impl<T> Default for ValueNumbers<T> {
    fn default() -> Self {
        Self(std::collections::HashMap::default())
    }
}

impl<T: Clone + Eq + Hash> ValueNumbers<T> {
    /// The number of a value, which is added to the list if it is new. A list that is not empty at
    /// first begins with the default value.
    pub fn of(&mut self, list: &mut Vec<T>, value: T) -> u32 {
        if list.first() == Some(&value) {
            return 0;
        }
        *self.0.entry(value).or_insert_with_key(|value| {
            list.push(value.clone());
            list.len() as u32 - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_an_octet_of_its_own_for_ever() {
        let kinds = BotKind::ALL.map(ClickKind::of_bot);
        assert_eq!(kinds.map(ClickKind::octet), [2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(kinds.map(|kind| kind.bot().unwrap()), BotKind::ALL);
        assert_eq!((ClickKind::HUMAN.octet(), ClickKind::REPEAT.octet()), (0, 1));
        assert_eq!((ClickKind::HUMAN.bot(), ClickKind::REPEAT.bot()), (None, None));
        let known = (0..=u8::MAX).filter_map(ClickKind::from_octet);
        assert_eq!(known.map(ClickKind::octet).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    }
}
