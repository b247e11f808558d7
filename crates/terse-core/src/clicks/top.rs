//! The links with the most clicks.

use std::collections::HashMap;

use super::click::LinkId;
use super::report::{BotFilter, Period};
use super::tally::Count;
use crate::link::OwnerId;

/// Which links to rank, and which part of the ranking to return.
#[derive(Clone, Debug)]
pub struct TopQuery {
    /// Only links of this owner; of all owners if `None`.
    pub owner: Option<OwnerId>,
    /// The clicks of this period count.
    pub period: Period,
    /// These clicks count.
    pub bots: BotFilter,
    /// Only links after this place in the ranking.
    pub after: Option<Rank>,
    /// The largest number of links to return.
    pub limit: usize,
}

/// A place in a ranking: the more clicks the earlier, and links with as many clicks in the order of
/// their ids.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rank {
    /// How many clicks count.
    pub clicks: u64,
    /// The link.
    pub link: LinkId,
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.clicks.cmp(&self.clicks).then_with(|| self.link.cmp(&other.link))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A link and its clicks in a period.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RankedLink {
    /// The link.
    pub link: LinkId,
    /// Its clicks.
    pub clicks: Count,
}

impl RankedLink {
    /// Its place among the links that `bots` ranks.
    pub fn rank(&self, bots: BotFilter) -> Rank {
        Rank { clicks: bots.of(self.clicks), link: self.link.clone() }
    }
}

impl TopQuery {
    /// The part of the ranking that the query asks for, of the links that were found; a link that
    /// was found twice has the sum of its clicks. A link without a click that counts has no place.
    pub fn rank(&self, found: impl IntoIterator<Item = RankedLink>) -> Vec<RankedLink> {
        let mut sums: HashMap<LinkId, Count> = HashMap::new();
        for RankedLink { link, clicks } in found {
            sums.entry(link).or_default().add(clicks);
        }
        let ranked = sums.into_iter().map(|(link, clicks)| {
            let link = RankedLink { link, clicks };
            (link.rank(self.bots), link)
        });
        let mut ranked: Vec<_> = ranked
            .filter(|(rank, _)| {
                rank.clicks > 0 && self.after.as_ref().is_none_or(|after| rank > after)
            })
            .collect();
        ranked.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        ranked.truncate(self.limit);
        ranked.into_iter().map(|(_, link)| link).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, Domain, LinkKey, Timestamp};

    #[test]
    fn a_ranking_has_the_most_clicks_first_and_continues_after_a_place() {
        let link = |code: &str| LinkId {
            key: LinkKey { domain: Domain::primary(), code: Code::parse(code).unwrap() },
            created_at: Timestamp::from_ms(1),
        };
        let found =
            |code, humans, bots| RankedLink { link: link(code), clicks: Count { humans, bots } };
        let all = [found("bbb", 3, 0), found("aaa", 3, 0), found("ccc", 1, 9), found("ddd", 0, 2)];
        let mut query = TopQuery {
            owner: None,
            period: Period::default(),
            bots: BotFilter::Include,
            after: None,
            limit: 3,
        };
        let codes = |query: &TopQuery| -> Vec<String> {
            let ranked = query.rank(all.iter().cloned());
            ranked.iter().map(|ranked| ranked.link.key.code.to_string()).collect()
        };
        assert_eq!(codes(&query), ["ccc", "aaa", "bbb"]);
        query.after = Some(all[1].rank(BotFilter::Include));
        assert_eq!(codes(&query), ["bbb", "ddd"]);
        query.after = None;
        query.bots = BotFilter::Exclude;
        assert_eq!(codes(&query), ["aaa", "bbb", "ccc"]);
        let twice = query.rank([found("ccc", 2, 0), found("aaa", 3, 0), found("ccc", 2, 0)]);
        assert_eq!(twice, [found("ccc", 4, 0), found("aaa", 3, 0)]);
    }
}
