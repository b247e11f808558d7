//! Takes the clicks of erased links and owners out of the files.
//!
//! The click store lists its tombstones. The job searches all files for them at most every six
//! hours, so that an erased click is gone within a day. A file is read only if its Bloom filters
//! say that it may hold such a click; it is then written again without it, or deleted if nothing is
//! left. Where the storage knows conditional writes, an empty file is written instead.

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
    // No deletion has a condition: a process that was paused here would delete the file that the
    // next holder of the lease has written with late clicks.
    if left.rows.is_empty() && !storage.has_conditional_writes() {
        storage.delete(&object.name).await?;
    } else {
        let content = blocking(move || encode(left)).await?;
        storage.replace(object, content).await?;
    }
    tracing::info!(file = object.name, erased, "took erased clicks out of a file of the archive");
    Ok(erased)
}

#[cfg(test)]
mod tests {
    use terse_core::clicks::{Click, ClickRetention as _, ClickTarget, LinkId, Unit};
    use terse_core::job::Job as _;
    use terse_core::{Clock, OwnerId};
    use terse_testkit::{MemoryClickStore, MemoryRegistry, PausedLease, key, timestamp};

    use super::*;
    use crate::archive::{Archive, ArchiveQuery};
    use crate::job::ArchiveJobParts;

    const DAY: i64 = Unit::Day.ms();

    struct Site {
        clicks: Arc<MemoryClickStore>,
        registry: Arc<MemoryRegistry>,
        storage: Storage,
        clock: Clock,
    }

    impl Site {
        /// With a file, all of whose clicks are erased, and which the next run searches.
        async fn with_an_erased_click() -> Self {
            let site = Self {
                clicks: Arc::new(MemoryClickStore::new()),
                registry: Arc::new(MemoryRegistry::new()),
                storage: Storage::in_memory(),
                clock: Clock::frozen(timestamp(DAY)),
            };
            site.add("gone", 0).await;
            site.run().await;
            assert_eq!(site.codes().await, ["gone"]);
            site.clicks.erase_links(&[key("gone")], timestamp(0), site.clock.now()).await.unwrap();
            site.clock.advance(Duration::from_hours(7));
            site
        }

        fn job(&self) -> ArchiveJob {
            ArchiveJob::new(ArchiveJobParts {
                clicks: self.clicks.clone(),
                registry: self.registry.clone(),
                storage: self.storage.clone(),
                keep_raw: Duration::from_hours(30 * 24),
                keep: None,
                clock: self.clock.clone(),
                counts: Arc::default(),
            })
        }

        /// Runs the job in a process that takes the lease over.
        async fn run(&self) {
            let context = PausedLease::take_over(&self.registry).await;
            self.job().run(&context).await.unwrap();
        }

        async fn add(&self, code: &str, ms: i64) {
            let link = LinkId { key: key(code), created_at: timestamp(-DAY) };
            let target = ClickTarget::Link(link, OwnerId(1));
            let click = Click::bare(timestamp(ms), target);
            terse_testkit::add_clicks(&*self.clicks, vec![click]).await;
        }

        /// The codes of all clicks in the archive.
        async fn codes(&self) -> Vec<String> {
            let (archive, query) = (Archive::new(self.storage.clone()), ArchiveQuery::default());
            let mut codes = Vec::new();
            for file in archive.files(&query).await.unwrap() {
                let clicks = archive.read(&file, &query).await.unwrap();
                let code = |click: &Click| click.link().unwrap().key.code.as_str().to_owned();
                codes.extend(clicks.iter().map(code));
            }
            codes
        }
    }

    #[tokio::test]
    async fn a_late_erasure_leaves_the_file_that_another_node_has_written_meanwhile() {
        let site = Site::with_an_erased_click().await;
        let lease = PausedLease::after_check(site.registry.clone(), 0);
        let meanwhile = async {
            site.add("late", 1).await;
            site.run().await;
        };
        let error = lease.run(&mut site.job(), meanwhile).await.unwrap_err();
        assert!(error.to_string().contains("another process has changed"), "{error}");
        assert_eq!(site.codes().await, ["late"]);
        site.run().await;
        assert_eq!(site.codes().await, ["late"]);
    }

    #[tokio::test]
    async fn a_file_without_clicks_is_empty_and_takes_late_clicks() {
        let site = Site::with_an_erased_click().await;
        site.run().await;
        assert_eq!(site.codes().await, Vec::<String>::new());
        let archive = Archive::new(site.storage.clone());
        let files = archive.files(&ArchiveQuery::default()).await.unwrap();
        assert_eq!(archive.verify(&files[0]).await.unwrap(), 0);
        site.add("late", 1).await;
        site.run().await;
        assert_eq!(site.codes().await, ["late"]);
    }
}
