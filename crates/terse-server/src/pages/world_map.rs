//! A map of the world that shows how many clicks come from each country. The shapes are in a file
//! of their own, which browsers keep; a page only names the countries, by how strongly they are
//! coloured.

use terse_core::clicks::Dimension;

use super::format::grouped;
use super::names;
use crate::value_lists::{ValueCount, ValueLists};

/// How many strengths of the colour there are.
const LEVELS: usize = 5;

pub(super) struct WorldMap {
    /// The strengths from the weakest to the strongest that are used, with their countries.
    pub(super) levels: Vec<(usize, Vec<Country>)>,
}

pub(super) struct Country {
    pub(super) code: String,
    /// The name and the number of clicks.
    pub(super) title: String,
}

impl WorldMap {
    /// The map of a report; none where no country is known.
    pub(super) fn of(lists: &ValueLists<'_>) -> Option<Self> {
        Self::new(&ValueLists { most: usize::MAX, ..*lists }.known(Dimension::Country))
    }

    fn new(countries: &[ValueCount]) -> Option<Self> {
        let countries: Vec<&ValueCount> =
            countries.iter().filter(|named| is_code(&named.name)).collect();
        let most = countries.iter().map(|named| named.clicks).max().filter(|most| *most > 0)?;
        let mut levels: Vec<(usize, Vec<Country>)> =
            (1..=LEVELS).map(|level| (level, Vec::new())).collect();
        for named in countries {
            let title = format!("{}: {}", names::country(&named.name), grouped(named.clicks));
            let country = Country { code: named.name.clone(), title };
            levels[level(named.clicks, most) - 1].1.push(country);
        }
        levels.retain(|(_, countries)| !countries.is_empty());
        Some(Self { levels })
    }
}

/// ISO 3166: two capital letters.
fn is_code(name: &str) -> bool {
    name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// By the square root: a few countries usually have most of the clicks, and the others still
/// differ.
fn level(clicks: u64, most: u64) -> usize {
    let share = (clicks as f64 / most as f64).sqrt();
    ((share * LEVELS as f64).ceil() as usize).clamp(1, LEVELS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn countries_are_coloured_by_their_clicks() {
        let named = |name: &str, clicks| ValueCount { name: name.to_owned(), clicks };
        let list = [named("DE", 1000), named("AT", 300), named("PT", 1), named("other", 5000)];
        let map = WorldMap::new(&list).unwrap();
        let levels: Vec<_> = map
            .levels
            .iter()
            .map(|(level, of)| (*level, of.iter().map(|one| &*one.title).collect::<Vec<_>>()))
            .collect();
        let want =
            [(1, vec!["Portugal: 1"]), (3, vec!["Austria: 300"]), (5, vec!["Germany: 1,000"])];
        assert_eq!(levels, want);
        assert!(WorldMap::new(&[named("other", 3)]).is_none());
        assert!(WorldMap::new(&[]).is_none());
    }

    /// Shapes of the file that no country has, and countries that the file does not show, would
    /// stay grey without anyone seeing it.
    #[test]
    fn the_file_has_a_shape_for_almost_every_country() {
        let file = include_str!("../../assets/world.svg");
        let has = |code: &str| file.contains(&format!("id=\"{code}\""));
        let missing: Vec<&str> = names::country_codes().filter(|code| !has(code)).collect();
        // Antarctica, and territories that the data counts to another country.
        let known = [
            "AQ", "BQ", "BV", "CC", "CX", "GF", "GI", "GP", "MQ", "RE", "SJ", "TK", "TV", "UM",
            "YT",
        ];
        assert_eq!(missing, known);
        assert!(!file.contains("<style") && !file.contains("<script"));
    }
}
