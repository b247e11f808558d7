//! Takes the clicks of erased links and owners out of the files.
//!
//! The click store lists its tombstones. The job searches all files for them at most every six
//! hours, so that an erased click is gone within a day. A file is read only if its Bloom filters
//! say that it may hold such a click; it is then written again without it, or deleted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_core::clicks::{ClickStore, ErasedLink};
use terse_core::job::JobContext;
use terse_core::registry::FencingToken;
use terse_core::{BoxError, Timestamp};

use crate::job::{ArchiveJob, blocking, encode};
use crate::layout::{FileRange, ROOT};
use crate::parquet_file::{ClickFile, Filter, GroupFilter};
use crate::progress::Progress;
use crate::range_reader::RangeReader;
use crate::storage::{Storage, StoredObject};
use crate::table::{CODE, ClickTable, DOMAIN, TableRow};

/// How often all files are searched, if something was erased.
const SEARCH_INTERVAL: Duration = Duration::from_hours(6);
/// An erasure has its time from the node that asked for it, and is stored a little later.
const OVERLAP: Duration = Duration::from_hours(1);
/// Links that one search looks for, because all of them are in memory.
const LINKS: usize = 100_000;

/// What was erased.
#[derive(Debug, Default)]
struct Erasures {
    /// By code: the domain, and up to which creation time.
    links: HashMap<Box<str>, Vec<(Box<str>, i64)>>,
    owners: HashSet<u64>,
}

impl Erasures {
    fn add(&mut self, link: &ErasedLink) {
        let of_code = self.links.entry(link.key.code.as_str().into()).or_default();
        of_code.push((link.key.domain.as_str().into(), link.created_by.as_ms()));
    }

    fn covers(&self, table: &ClickTable, row: &TableRow) -> bool {
        let text = |column: usize| table.text(row.texts[column]).map_or("", |text| text);
        let is_erased = |(domain, created_by): &(Box<str>, i64)| {
            **domain == *text(DOMAIN) && row.link_created_at <= *created_by
        };
        self.owners.contains(&row.owner)
            || self.links.get(text(CODE)).is_some_and(|links| links.iter().any(is_erased))
    }
}

/// Finds erased clicks.
impl Filter for Erasures {
    fn may_hold(&self, group: &GroupFilter<'_>) -> bool {
        self.owners.iter().any(|owner| group.may_hold_owner(*owner))
            || self.links.keys().any(|code| group.may_hold_code(code))
    }

    fn keeps(&self, table: &ClickTable, row: &TableRow) -> bool {
        self.covers(table, row)
    }
}

/// Reads what is left.
struct Left(Arc<Erasures>);

impl Filter for Left {
    fn may_hold(&self, _: &GroupFilter<'_>) -> bool {
        true
    }

    fn keeps(&self, table: &ClickTable, row: &TableRow) -> bool {
        !self.0.covers(table, row)
    }
}

impl ArchiveJob {
    /// Searches all files for what was erased since the last search.
    pub(crate) async fn erase(
        &self,
        context: &JobContext,
        token: FencingToken,
        progress: &mut Progress,
    ) -> Result<(), BoxError> {
        let parts = &self.parts;
        let begun = parts.clock.now();
        let last = Timestamp::from_ms(progress.erased_to);
        // A clock that was ahead must not stop the search.
        if begun.saturating_sub(SEARCH_INTERVAL) < last && last <= begun {
            return Ok(());
        }
        let since = last.min(begun).saturating_sub(OVERLAP);
        let (mut after, mut failed) = (None, None);
        loop {
            let (erasures, next) = read_erasures(&*parts.clicks, since, after.as_ref()).await?;
            if erasures.links.is_empty() && erasures.owners.is_empty() {
                break;
            }
            let erasures = Arc::new(erasures);
            for object in parts.storage.list(ROOT).await? {
                if FileRange::parse(&object.name).is_some() {
                    match erase_in(context, &parts.storage, &object, &erasures).await {
                        Ok(erased) => {
                            parts.counts.erased.fetch_add(erased, Ordering::Relaxed);
                        }
                        // One file that cannot be read must not keep clicks in the others.
                        Err(error) => {
                            tracing::warn!(file = object.name, %error, "erased clicks may be left");
                            failed = Some(error);
                        }
                    }
                }
            }
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        progress.erased_to = begun.as_ms();
        Ok(progress.save(&*parts.registry, token).await?)
    }
}

/// The next erasures, and after which link the following ones begin.
async fn read_erasures(
    clicks: &dyn ClickStore,
    since: Timestamp,
    after: Option<&ErasedLink>,
) -> Result<(Erasures, Option<ErasedLink>), BoxError> {
    let mut erasures = Erasures::default();
    if after.is_none() {
        let owners = clicks.erased_owners(since).await?;
        erasures.owners.extend(owners.iter().map(|owner| owner.0));
    }
    let links = clicks.erased_links(since, after, LINKS).await?;
    links.iter().for_each(|link| erasures.add(link));
    let next = (links.len() == LINKS).then(|| links.last().cloned()).flatten();
    Ok((erasures, next))
}

/// Takes erased clicks out of one file. Returns how many there were.
async fn erase_in(
    context: &JobContext,
    storage: &Storage,
    object: &StoredObject,
    erasures: &Arc<Erasures>,
) -> Result<u64, BoxError> {
    let reader = RangeReader::open(storage, object).await?;
    let filter = Arc::clone(erasures);
    let read = blocking(move || {
        let file = ClickFile::open(reader)?;
        if !file.may_hold(&*filter)? {
            return Ok(None);
        }
        let mut left = ClickTable::default();
        file.read_into(&mut left, &Left(filter))?;
        let erased = file.len() - left.rows.len() as u64;
        // A Bloom filter may be wrong.
        Ok((erased > 0).then_some((left, erased)))
    });
    let Some((left, erased)) = read.await? else { return Ok(0) };
    context.check_lease().await?;
    if left.rows.is_empty() {
        storage.delete(&object.name).await?;
    } else {
        let content = blocking(move || encode(left)).await?;
        storage.replace(object, content).await?;
    }
    tracing::info!(file = object.name, erased, "took erased clicks out of a file of the archive");
    Ok(erased)
}
