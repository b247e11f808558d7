//! Makes blocks of single clicks.

use terse_core::clicks::{
    AgentTraits, ClickColumns, ClickNetwork, ClickRow, GeoLocation, Interned, ValueNumbers,
};

use crate::clicks::block::Block;

/// Builds a block from clicks of one or several columns, which must come in the order of (time,
/// number). It keeps only texts that the clicks refer to.
#[derive(Default)]
pub(crate) struct BlockBuilder {
    block: Block,
    /// Finds texts that several columns have; `None` if there is one source, which has each once.
    texts: Option<TextNumbers>,
}

#[derive(Default)]
struct TextNumbers {
    agents: ValueNumbers<AgentTraits>,
    networks: ValueNumbers<ClickNetwork>,
    places: ValueNumbers<GeoLocation>,
    referrers: ValueNumbers<Option<Interned>>,
    languages: ValueNumbers<Option<Interned>>,
    campaigns: ValueNumbers<[Option<Interned>; 5]>,
}

/// The numbers in the block of texts of other columns.
pub(crate) struct Source<'c> {
    columns: &'c ClickColumns,
    agents: Vec<Option<u32>>,
    networks: Vec<Option<u32>>,
    places: Vec<Option<u32>>,
    referrers: Vec<Option<u32>>,
    languages: Vec<Option<u32>>,
    campaigns: Vec<Option<u32>>,
}

impl<'c> Source<'c> {
    pub(crate) fn new(columns: &'c ClickColumns) -> Self {
        // The first text of every list is the same in all columns.
        let numbers = |length: usize| {
            let mut numbers = vec![None; length];
            if let Some(first) = numbers.first_mut() {
                *first = Some(0);
            }
            numbers
        };
        Self {
            columns,
            agents: numbers(columns.agents.len()),
            networks: numbers(columns.networks.len()),
            places: numbers(columns.places.len()),
            referrers: numbers(columns.referrers.len()),
            languages: numbers(columns.languages.len()),
            campaigns: numbers(columns.campaigns.len()),
        }
    }
}

/// The number in the block of a text of a source.
fn numbered<T: Clone + Eq + std::hash::Hash>(
    known: &mut [Option<u32>],
    at: u32,
    texts: Option<&mut ValueNumbers<T>>,
    list: &mut Vec<T>,
    value: impl FnOnce() -> T,
) -> u32 {
    *known[at as usize].get_or_insert_with(|| match texts {
        Some(texts) => texts.of(list, value()),
        None => {
            list.push(value());
            list.len() as u32 - 1
        }
    })
}

impl BlockBuilder {
    /// A block of clicks of several columns.
    pub(crate) fn of_several() -> Self {
        Self { texts: Some(TextNumbers::default()), ..Self::default() }
    }

    /// A block of about so many clicks of one source.
    pub(crate) fn of_one(clicks: usize) -> Self {
        let mut builder = Self::default();
        builder.block.columns.reserve(clicks);
        builder.block.subjects.reserve(clicks);
        builder.block.numbers.reserve(clicks);
        builder
    }

    pub(crate) fn push(
        &mut self,
        source: &mut Source<'_>,
        subject: i64,
        number: u64,
        row: ClickRow,
    ) {
        let (from, to) = (source.columns, &mut self.block.columns);
        let mut texts = self.texts.as_mut();
        let network = match source.networks[row.network as usize] {
            Some(network) => network,
            None => {
                let ClickNetwork { address, place } = from.networks[row.network as usize].clone();
                let numbers = texts.as_mut().map(|texts| &mut texts.places);
                let value = || from.places[place as usize].clone();
                let place = numbered(&mut source.places, place, numbers, &mut to.places, value);
                let numbers = texts.as_mut().map(|texts| &mut texts.networks);
                let value = || ClickNetwork { address, place };
                numbered(&mut source.networks, row.network, numbers, &mut to.networks, value)
            }
        };
        let row = ClickRow {
            target: 0,
            weight: 1,
            agent: numbered(
                &mut source.agents,
                row.agent,
                texts.as_mut().map(|texts| &mut texts.agents),
                &mut to.agents,
                || from.agents[row.agent as usize].clone(),
            ),
            network,
            referrer: numbered(
                &mut source.referrers,
                row.referrer,
                texts.as_mut().map(|texts| &mut texts.referrers),
                &mut to.referrers,
                || from.referrers[row.referrer as usize].clone(),
            ),
            language: numbered(
                &mut source.languages,
                row.language,
                texts.as_mut().map(|texts| &mut texts.languages),
                &mut to.languages,
                || from.languages[row.language as usize].clone(),
            ),
            campaign: numbered(
                &mut source.campaigns,
                row.campaign,
                texts.as_mut().map(|texts| &mut texts.campaigns),
                &mut to.campaigns,
                || from.campaigns[row.campaign as usize].clone(),
            ),
            ..row
        };
        to.push(row);
        self.block.subjects.push(subject);
        self.block.numbers.push(number);
    }

    pub(crate) fn finish(self) -> Block {
        self.block
    }
}
