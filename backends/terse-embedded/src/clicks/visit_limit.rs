//! Which clicks are stored one by one: one visitor must not fill the disk.

use std::collections::HashMap;
use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;
use terse_core::Timestamp;
use terse_core::clicks::{ClickColumns, WarningVisit};

/// How many clicks of one visitor on one link in one batch are stored one by one. All of them are
/// counted.
const MAX_ROWS_PER_VISITOR: u8 = 8;

/// A link whose clicks are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredLink {
    /// Its row.
    pub(crate) subject: i64,
    /// Only clicks after this time: the link was erased then.
    pub(crate) after: Option<Timestamp>,
    /// How many clicks it has in the batch.
    pub(crate) clicks: u64,
}

/// Where the clicks that are stored one by one are in the columns, with the rows of their links.
/// `links` are those of the targets.
pub(crate) fn within_limit(clicks: &ClickColumns, links: &[Option<StoredLink>]) -> Vec<(i64, u32)> {
    let is_busy = |link: &StoredLink| link.clicks > u64::from(MAX_ROWS_PER_VISITOR);
    let size = match links.iter().flatten().any(is_busy) {
        true => clicks.len().next_power_of_two(),
        false => 1,
    };
    // Few visitors have many clicks on a link. Clicks are counted by hash first, and exactly only
    // where a hash has many.
    let mut by_hash = vec![0_u8; size];
    let hash = RandomState::default();
    let stored = |at: usize| {
        let link = links[clicks.target[at] as usize].as_ref()?;
        let is_late = link.after.is_none_or(|after| clicks.at_ms[at] > after.as_ms());
        if clicks.warning[at] == WarningVisit::Shown || !is_late {
            return None;
        }
        let visit = (link.subject, clicks.visitor[at]);
        let is_limited = visit.1 != 0 && is_busy(link);
        Some((visit, is_limited.then(|| hash.hash_one(visit) as usize & (size - 1))))
    };
    for (_, place) in (0..clicks.len()).filter_map(stored) {
        if let Some(place) = place {
            by_hash[place] = by_hash[place].saturating_add(1);
        }
    }
    let mut by_visit: HashMap<(i64, u64), u8, RandomState> = HashMap::default();
    let mut kept = Vec::with_capacity(clicks.len());
    for at in 0..clicks.len() {
        let Some((visit, place)) = stored(at) else { continue };
        if place.is_some_and(|place| by_hash[place] > MAX_ROWS_PER_VISITOR) {
            let rows = by_visit.entry(visit).or_default();
            if *rows == MAX_ROWS_PER_VISITOR {
                continue;
            }
            *rows += 1;
        }
        kept.push((visit.0, at as u32));
    }
    kept
}

#[cfg(test)]
mod tests {
    use terse_core::OwnerId;
    use terse_core::clicks::{Batch, Click, ClickTarget, LinkId};
    use terse_testkit::key;

    use super::*;

    #[test]
    fn the_first_clicks_of_a_visitor_on_a_link_are_stored() {
        let link = |n: i64| {
            let link = LinkId { key: key(&format!("code{n}")), created_at: Timestamp::from_ms(0) };
            ClickTarget::Link(link, OwnerId(1))
        };
        // One visitor clicks three times as often as all others together, on either link.
        let clicks = (0..400).map(|n| {
            let mut click = Click::bare(Timestamp::from_ms(n), link(n % 2));
            click.visitor = match n / 2 % 4 {
                0 => Some(n as u64 + 1000),
                _ => Some(7),
            };
            click.visitor = click.visitor.filter(|_| n >= 20);
            click
        });
        let batch = Batch::of(vec![], clicks);
        let columns = &batch.clicks;
        let link = |subject| Some(StoredLink { subject, after: None, clicks: 200 });
        let kept = within_limit(columns, &[link(50), link(60)]);
        let of = |subject: i64, visitor: u64| {
            let is =
                |(of, at): &&(i64, u32)| *of == subject && columns.visitor[*at as usize] == visitor;
            kept.iter().filter(is).map(|(_, at)| *at).collect::<Vec<_>>()
        };
        assert_eq!((of(50, 0).len(), of(60, 0).len()), (10, 10), "unknown visitors");
        assert_eq!((of(50, 7).len(), of(60, 7).len()), (8, 8));
        assert_eq!(of(50, 7), [20, 22, 26, 28, 30, 34, 36, 38], "the first ones");
        let others = columns.visitor.iter().filter(|visitor| **visitor > 1000).count();
        assert_eq!(kept.len(), 20 + 16 + others);
        // After an erasure, and of one link only.
        let after = Some(Timestamp::from_ms(397));
        let late = Some(StoredLink { subject: 50, after, clicks: 200 });
        assert_eq!(within_limit(columns, &[late, None]), [(50, 398)]);
    }
}
