//! Lists of links by their clicks.

use super::{LinkError, Links, Listing, OwnerFilter};
use crate::clicks::{BotFilter, ClickReports, Count, LinkId, Period, Rank, RankedLink, TopQuery};
use crate::code::Code;
use crate::domain::Domain;
use crate::link::{Link, LinkKey};
use crate::principal::Principal;
use crate::store::{Cursor, LinkPage, ListQuery, Sort, StoreError};
use crate::time::Timestamp;

/// How many pages of the ranking a list reads at most to fill its own page. If the first page is
/// not enough, it reads the others at once: most of the work of a ranking does not depend on how
/// much of it is asked for.
const PAGES: usize = 10;
/// The most links of a ranking that are read at once.
const MAX_RANKED: usize = 1000;

/// Where the next page starts.
enum RankedCursor {
    /// Among the links with clicks, after this one.
    Ranked(Option<Rank>),
    /// Among the links without clicks.
    Rest(Option<Cursor>),
}

impl RankedCursor {
    fn write(&self) -> Cursor {
        let mut bytes = Vec::new();
        match self {
            Self::Ranked(None) => bytes.push(0),
            Self::Ranked(Some(Rank { clicks, link: LinkId { key, created_at } })) => {
                bytes.push(1);
                bytes.extend(clicks.to_be_bytes());
                bytes.extend(created_at.as_ms().to_be_bytes());
                bytes.extend(key.code.as_str().bytes());
                bytes.push(b' ');
                bytes.extend(key.domain.as_str().bytes());
            }
            Self::Rest(None) => bytes.push(2),
            Self::Rest(Some(cursor)) => {
                bytes.push(3);
                bytes.extend(&cursor.0);
            }
        }
        Cursor(bytes)
    }

    fn read(cursor: &Cursor) -> Option<Self> {
        let (kind, rest) = cursor.0.split_first()?;
        match kind {
            0 => Some(Self::Ranked(None)),
            1 => {
                let (clicks, rest) = rest.split_first_chunk()?;
                let (created_at, name) = rest.split_first_chunk()?;
                let (code, domain) = std::str::from_utf8(name).ok()?.split_once(' ')?;
                let key = LinkKey { domain: Domain::from_stored(domain), code: Code::parse(code)? };
                let created_at = Timestamp::from_ms(i64::from_be_bytes(*created_at));
                let link = LinkId { key, created_at };
                Some(Self::Ranked(Some(Rank { clicks: u64::from_be_bytes(*clicks), link })))
            }
            2 => Some(Self::Rest(None)),
            3 => Some(Self::Rest(Some(Cursor(rest.to_vec())))),
            _ => None,
        }
    }
}

impl Links {
    /// The links of another owner, or all that the principal may see, by their clicks.
    pub async fn list_of_by_clicks(
        &self,
        principal: &Principal,
        owner: OwnerFilter,
        clicks: &(impl ClickReports + ?Sized),
        mut query: ListQuery,
    ) -> Result<Listing, LinkError> {
        query.owner = owner.seen_by(principal)?;
        self.list_by_clicks(clicks, query).await
    }

    /// The links of a query by their clicks, the most first, then those without clicks, the newest
    /// first. `sort` of the query has no effect; its cursor is one that this function returned.
    ///
    /// A link whose clicks do not change during the walk is listed exactly once.
    async fn list_by_clicks(
        &self,
        clicks: &(impl ClickReports + ?Sized),
        query: ListQuery,
    ) -> Result<Listing, LinkError> {
        let now = query.now;
        let bad = || StoreError::Corrupt("not a place in this list".into());
        let mut place = match &query.after {
            None => RankedCursor::Ranked(None),
            Some(cursor) => RankedCursor::read(cursor).ok_or_else(bad)?,
        };
        let (mut links, mut stopped_early) = (Vec::new(), false);
        let mut ranked = 0;
        for _ in 0..PAGES {
            place = match place {
                RankedCursor::Ranked(after) => {
                    let pages = if ranked == 0 { 1 } else { PAGES - 1 };
                    ranked += pages;
                    let limit = query.limit.saturating_mul(pages).min(MAX_RANKED);
                    self.next_ranked(clicks, &query, after, limit, &mut links).await?
                }
                RankedCursor::Rest(after) => {
                    let limit = query.limit - links.len();
                    let rest = ListQuery { sort: Sort::Newest, after, limit, ..query.clone() };
                    let page = self.store.list_to_show(&rest).await?;
                    stopped_early = page.links.len() < limit;
                    let ids: Vec<LinkId> = page.links.iter().map(LinkId::of).collect();
                    let counts = clicks.counts(&ids).await?;
                    let without = page.links.into_iter().zip(counts);
                    links.extend(
                        without
                            .filter(|(_, count)| *count == Count::default())
                            .map(|(link, _)| link),
                    );
                    match page.next {
                        Some(next) => RankedCursor::Rest(Some(next)),
                        None => return Ok(Listing { page: LinkPage { links, next: None }, now }),
                    }
                }
            };
            let has_read_enough = ranked >= PAGES && matches!(place, RankedCursor::Ranked(_));
            // The next page continues a search that stopped because it takes long.
            if links.len() >= query.limit || stopped_early || has_read_enough {
                break;
            }
        }
        Ok(Listing { page: LinkPage { links, next: Some(place.write()) }, now })
    }

    /// Adds links of the query from the next `limit` of the ranking, until there are enough.
    async fn next_ranked(
        &self,
        clicks: &(impl ClickReports + ?Sized),
        query: &ListQuery,
        mut after: Option<Rank>,
        limit: usize,
        links: &mut Vec<Link>,
    ) -> Result<RankedCursor, LinkError> {
        let top = TopQuery {
            owner: query.owner,
            period: Period::default(),
            bots: BotFilter::Include,
            after: after.clone(),
            limit,
        };
        let ranked: Vec<RankedLink> = clicks.top(&top).await?;
        let is_last = ranked.len() < top.limit;
        for found in ranked {
            if links.len() >= query.limit {
                return Ok(RankedCursor::Ranked(after));
            }
            let link = self.store.get(&found.link.key).await?;
            // Another link may have the code by now, or the owner may have erased this one.
            let same = |link: &Link| LinkId::of(link) == found.link;
            links.extend(link.filter(|link| same(link) && query.matches(link)));
            after = Some(found.rank(BotFilter::Include));
        }
        Ok(if is_last { RankedCursor::Rest(None) } else { RankedCursor::Ranked(after) })
    }
}
