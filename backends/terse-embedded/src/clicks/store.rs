//! The store of clicks, as everyone else sees it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use terse_core::clicks::{
    Batch, ClickPage, ClickStore, Count, LinkId, Period, RawQuery, Recorded, Report, Retention, Salt, Subject, Tidied,
};
use terse_core::{LinkKey, Moment, OwnerId, StoreError};

use crate::backup::BackupError;
use crate::clicks::options::ClickOptions;
use crate::clicks::schema::CLICKS;
use crate::clicks::scribe::Scribe;
use crate::clicks::shelf::Shelf;
use crate::crew::{Crew, Hall};
use crate::engine::{self, Site};
use crate::options::OpenError;
use crate::trade::Trade;

/// A large batch on a slow disk takes its time, and nobody's answer depends on it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many reports may wait.
const REPORTS: usize = 1024;
const READ: usize = 0;
/// Chores are done in steps of this many rows or links, so that a batch never waits long behind one.
const STEP: usize = 2000;
const LINKS_A_STEP: usize = 200;

/// Clicks in one SQLite file. Dropping it finishes what is waiting.
pub struct EmbeddedClicks {
    site: Site,
    crew: Crew<Clicks>,
    /// Whether a salt was deleted that may still stand in the log.
    to_wipe: AtomicBool,
}

/// What the threads of this store know.
#[derive(Clone)]
pub(crate) struct Clicks {
    site: Site,
    keep_raw: bool,
}

impl Trade for Clicks {
    type Shelf = Shelf;
    type Scribe = Scribe;
    const NAME: &'static str = "clicks";
    const WRITES_AT_ONCE: usize = 16;
    // The same rows change in batch after batch: copying each page once in a while saves most of the copying, and nobody
    // waits for it.
    const CHECKPOINT_PAGES: u32 = 8000;
    const BEHIND_OTHERS: bool = true;

    fn site(&self) -> &Site {
        &self.site
    }

    fn shelf(&self, conn: Connection) -> Shelf {
        Shelf::new(conn)
    }

    fn scribe(&self, conn: Connection) -> rusqlite::Result<Scribe> {
        Scribe::new(self.shelf(conn), self.keep_raw)
    }
}

impl EmbeddedClicks {
    /// Opens the store, making it if it is missing. May take a moment; not for async threads.
    pub fn open(options: ClickOptions) -> Result<Self, OpenError> {
        let site = options.site();
        let conn = CLICKS.open(&site)?;
        engine::sync_folder_of(&site.path)?;
        let halls = [Hall { name: "read", threads: options.readers.max(1), bound: REPORTS, at_once: 1 }];
        let trade = Clicks { site: site.clone(), keep_raw: options.keep_raw };
        let crew = Crew::start(&trade, options.queue, PATIENCE, &halls)?;
        // Only now, so that the log is never cleaned away between two connections.
        drop(conn);
        // A process that was killed may have left one behind.
        Ok(Self { site, crew, to_wipe: AtomicBool::new(true) })
    }

    /// Finishes what is waiting and lets go of the file. Later calls are answered `Unavailable`. Blocks meanwhile.
    pub fn close(&self) {
        self.crew.close();
    }

    /// Empties the log if a salt that was forgotten may still stand in it. If a reader stands in the way, the next chore tries again.
    async fn wipe(&self) {
        if !self.to_wipe.load(Ordering::Relaxed) {
            return;
        }
        let site = self.site.clone();
        let emptied = tokio::task::spawn_blocking(move || engine::empty_log(&site)).await;
        match emptied {
            Ok(Ok(true)) => self.to_wipe.store(false, Ordering::Relaxed),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "a forgotten salt may still stand in the log of the clicks; trying again later");
            }
            Err(_stopping) => {}
        }
    }

    /// How many writes are waiting.
    pub fn queue_depth(&self) -> usize {
        self.crew.queue_depth()
    }

    /// How many bytes the store takes on the disk, its log included.
    pub fn disk_size(&self) -> u64 {
        self.site.disk_size()
    }

    /// Copies the store as it is now into a new file, while everyone goes on working. Blocks for as long as it takes.
    pub fn backup(&self, to: &Path) -> Result<(), BackupError> {
        crate::clicks::backup_clicks(&self.site.path, to)
    }
}

impl std::fmt::Debug for EmbeddedClicks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedClicks").field("path", &self.site.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl ClickStore for EmbeddedClicks {
    async fn positions(&self) -> Result<Vec<(u64, u64)>, StoreError> {
        self.crew.read(READ, Shelf::positions).await
    }

    async fn record(&self, batch: &Batch) -> Result<Recorded, StoreError> {
        // Where writing stands still, tries that were given up would pile up.
        self.crew.check()?;
        let batch = batch.clone();
        self.crew.write(move |scribe| scribe.record(&batch)).await
    }

    async fn forget_segments(&self, segments: &[u64]) -> Result<(), StoreError> {
        let segments = segments.to_vec();
        self.crew.write(move |scribe| scribe.forget_segments(&segments)).await
    }

    async fn counts(&self, links: &[LinkId]) -> Result<Vec<Count>, StoreError> {
        let links = links.to_vec();
        self.crew.read(READ, move |shelf| shelf.counts(&links)).await
    }

    async fn report(&self, subject: &Subject, period: Period, now: Moment) -> Result<Report, StoreError> {
        let subject = subject.clone();
        self.crew.read(READ, move |shelf| shelf.report(&subject, period, now)).await
    }

    async fn clicks(&self, query: &RawQuery) -> Result<ClickPage, StoreError> {
        let query = query.clone();
        self.crew.read(READ, move |shelf| shelf.clicks(&query)).await
    }

    async fn links(&self, after: Option<&LinkId>, limit: usize) -> Result<Vec<LinkId>, StoreError> {
        let after = after.cloned();
        self.crew.read(READ, move |shelf| shelf.links(after.as_ref(), limit)).await
    }

    async fn forget_links(&self, links: &[LinkKey], born_by: Moment) -> Result<(), StoreError> {
        for some in links.chunks(LINKS_A_STEP) {
            let some = some.to_vec();
            self.crew.write(move |scribe| scribe.forget_links(&some, born_by)).await?;
        }
        Ok(())
    }

    async fn forget_owner(&self, owner: OwnerId) -> Result<(), StoreError> {
        while !self.crew.write(move |scribe| scribe.forget_owner(owner, LINKS_A_STEP)).await? {}
        Ok(())
    }

    async fn tidy(&self, retention: Retention) -> Result<Tidied, StoreError> {
        self.wipe().await;
        let mut all = Tidied { more: true, ..Tidied::default() };
        let mut left = retention.limit.max(1);
        while left > 0 && all.more {
            let step = left.min(STEP);
            let Tidied { raw, hours, more } = self.crew.write(move |scribe| scribe.tidy(&retention, step)).await?;
            all = Tidied { raw: all.raw + raw, hours: all.hours + hours, more };
            left -= (raw + hours) as usize;
        }
        Ok(all)
    }

    async fn salt(&self, day: i64) -> Result<Salt, StoreError> {
        let (salt, forgotten) = self.crew.write(move |scribe| scribe.salt(day)).await?;
        if forgotten {
            self.to_wipe.store(true, Ordering::Relaxed);
        }
        self.wipe().await;
        Ok(salt)
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.crew.check()
    }
}
