//! The links of an owner with the most clicks of a period, and the clicks of their tags.

use std::collections::HashMap;

use super::{Caller, LinkError, Links};
use crate::clicks::{BotFilter, ClickReports, Count, LinkId, Period, TopQuery};
use crate::link::{Link, LinkKey};

/// A link and its clicks in a period.
#[derive(Clone, Debug)]
pub struct BusiestLink {
    /// Which link.
    pub id: LinkId,
    /// Its clicks.
    pub clicks: Count,
    /// The link as it is now; `None` if it is gone.
    pub link: Option<Link>,
}

/// A tag, and the clicks by humans on links that have it now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TagClicks {
    /// The tag.
    pub tag: String,
    /// The clicks.
    pub clicks: u64,
}

impl Links {
    /// The caller's links with the most clicks by humans in a period, the busiest first.
    pub async fn busiest(
        &self,
        caller: Caller,
        clicks: &(impl ClickReports + ?Sized),
        period: Period,
        limit: usize,
    ) -> Result<Vec<BusiestLink>, LinkError> {
        let owner = match caller {
            Caller::Anonymous => return Err(LinkError::KeyNeeded),
            caller => Some(caller.owner()),
        };
        let query = TopQuery { owner, period, bots: BotFilter::Exclude, after: None, limit };
        let mut ranked = clicks.top(&query).await?;
        ranked.retain(|found| found.clicks.humans > 0);
        let keys: Vec<LinkKey> = ranked.iter().map(|found| found.link.key.clone()).collect();
        let links = self.store.get_many(&keys).await;
        let busiest = ranked.into_iter().zip(links).map(|(found, link)| {
            // One link that cannot be read must not hide the others. Another link may have got the
            // code.
            let link = link.ok().flatten().filter(|link| LinkId::of(link) == found.link);
            BusiestLink { id: found.link, clicks: found.clicks, link }
        });
        Ok(busiest.collect())
    }
}

impl TagClicks {
    /// The `limit` tags with the most clicks on these links; ties are ordered by name.
    pub fn ranked(links: &[BusiestLink], limit: usize) -> Vec<Self> {
        let mut sums: HashMap<&str, u64> = HashMap::new();
        for one in links {
            for tag in one.link.iter().flat_map(|link| link.tags.iter()) {
                let sum = sums.entry(tag).or_default();
                *sum = sum.saturating_add(one.clicks.humans);
            }
        }
        let mut all: Vec<Self> =
            sums.into_iter().map(|(tag, clicks)| Self { tag: tag.to_owned(), clicks }).collect();
        all.sort_unstable_by(|a, b| b.clicks.cmp(&a.clicks).then_with(|| a.tag.cmp(&b.tag)));
        all.truncate(limit);
        all
    }
}
