//! Statistics of the links with a tag.

use super::{LinkError, Links, OwnerFilter};
use crate::clicks::{ClickReport, ClickReports, ClickSubject, LinkId, Period, RankedLink};
use crate::principal::Principal;
use crate::store::{ListQuery, Sort};
use crate::time::Timestamp;

/// The largest number of links in the report of a tag.
pub const MAX_TAG_REPORT_LINKS: usize = 1000;
/// The number of links per page.
const PAGE: usize = 100;

/// The clicks of the links that have a tag now.
#[derive(Debug)]
pub struct TagReport {
    /// The sum.
    pub report: ClickReport,
    /// Each link with its clicks in the period.
    pub links: Vec<RankedLink>,
}

impl Links {
    /// The clicks of the links with a tag, except deleted links; `None` if more than
    /// [`MAX_TAG_REPORT_LINKS`] have it. `owner` names the links: see
    /// [`OwnerFilter::clicks_seen_by`]. The sums of each link are added up, because a store has
    /// none by tag.
    pub async fn report_of_tag(
        &self,
        principal: &Principal,
        owner: OwnerFilter,
        clicks: &(impl ClickReports + ?Sized),
        tag: &str,
        period: Period,
        now: Timestamp,
    ) -> Result<Option<TagReport>, LinkError> {
        let mut query = ListQuery {
            owner: owner.clicks_seen_by(principal)?,
            tag: Some(tag.to_owned()),
            ..ListQuery::all(Sort::Newest, PAGE, now)
        };
        let mut links = Vec::new();
        loop {
            let page = self.show(query.clone()).await?.page;
            links.extend(page.links.iter().map(LinkId::of));
            if links.len() > MAX_TAG_REPORT_LINKS {
                return Ok(None);
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        let mut all = TagReport { report: ClickReport::default(), links: Vec::new() };
        for link in links {
            let report = clicks.report(&ClickSubject::Link(link.clone()), period, now).await?;
            all.links.push(RankedLink { link, clicks: report.tally.clicks });
            all.report.merge(&report);
        }
        Ok(Some(all))
    }
}
