//! The click plane: the journal that serving threads write visits to, the pipeline that counts
//! them, and its jobs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use terse_clicks::{AddressPrecision, Shipper, ShipperCounts, ShipperParts};
use terse_core::clicks::{ClickIngest, ClickStore, LiveFeed, WithPending};
use terse_core::metrics::MetricsSource;
use terse_core::registry::Salts;
use terse_core::{Clock, LinkStore};
use terse_redirect::{AddressDetail, Journal, JournalSettings};
use terse_worker::{
    ClickRetentionCounts, ClickRetentionJob, ClickRetentionSettings, DailySalt, RemovalGuard,
    Scheduler,
};
use tokio::runtime::Runtime;

use crate::backends::ClickBus;
use crate::config::{ByteSize, ClickAddresses, Config};
use crate::memory_plan::MemoryPlan;

/// How many times `clicks.journal_size` the journal may hold while the click store counts, but more
/// slowly than visitors click. From half of it on, visitors wait for the store.
const SLOW_STORE: u64 = 4;
/// How long the click store leaves out clicks of erased links that come late.
const KEEP_TOMBSTONES: Duration = Duration::from_hours(7 * 24);
/// With an archive: it takes erased clicks out of its files by the tombstones, and may be away.
const KEEP_TOMBSTONES_FOR_ARCHIVE: Duration = Duration::from_hours(90 * 24);

/// Everything that counts clicks in this process.
pub(crate) struct ClickPlane {
    /// Where the serving threads write; `None` if visits are not counted here.
    pub(crate) journal: Option<Arc<Journal>>,
    /// Publishes clicks within this process.
    pub(crate) live: Arc<LiveFeed>,
    shipper: Mutex<Option<Shipper>>,
    /// Carries the clicks to workers, if the settings name one.
    bus: Option<ClickBus>,
    counts: Arc<ShipperCounts>,
    pruned: Arc<ClickRetentionCounts>,
}

impl ClickPlane {
    /// Starts what the settings enable. Call this before the serving threads start. With a bus, the
    /// clicks of this node go there.
    #[expect(clippy::too_many_arguments, reason = "its only caller has each of them at hand")]
    pub(crate) fn start(
        config: &Config,
        clicks: &Arc<dyn ClickStore>,
        bus: Option<ClickBus>,
        salts: &Arc<dyn Salts>,
        threads: usize,
        clock: &Clock,
        runtime: &Runtime,
        scheduler: &mut Scheduler,
    ) -> anyhow::Result<Self> {
        let settings = &config.clicks;
        let folder = config.data_dir.join("journal");
        let run = getrandom::u64().context("naming this run")?;
        let live: Arc<LiveFeed> = Arc::default();
        let wanted = settings.enabled && config.roles.redirect;
        let (address, keep) = match settings.address {
            ClickAddresses::Cut => (AddressDetail::Cut, AddressPrecision::Network),
            ClickAddresses::Nothing => (AddressDetail::Drop, AddressPrecision::Omitted),
            ClickAddresses::Full => (AddressDetail::Full, AddressPrecision::Full),
        };
        // Clicks that an earlier run has written are counted even if counting is off now.
        let plan = MemoryPlan::of(config).click_batch();
        let (store, batch_bytes): (Arc<dyn ClickIngest>, _) = match &bus {
            Some(bus) => (Arc::clone(&bus.ingest), plan.min(bus.batch_bytes)),
            None => (Arc::<dyn ClickStore>::clone(clicks), plan),
        };
        let shipper = if wanted || folder.exists() {
            let parts = ShipperParts {
                folder: folder.clone(),
                run,
                store,
                live: Arc::clone(&live),
                places: settings.geo_database.clone(),
                keep,
                limit_bytes: settings.journal_size.bytes(),
                batch_bytes,
                flush: settings.flush.get(),
                clock: clock.clone(),
            };
            let what = match &settings.geo_database {
                Some(file) => format!(
                    "starting to count clicks with clicks.geo_database = {}",
                    file.display()
                ),
                None => "starting to count clicks".to_owned(),
            };
            Some(Shipper::start(parts).context(what)?)
        } else {
            None
        };
        let journal = if wanted {
            let journal = JournalSettings {
                folder,
                run,
                segment_bytes: MemoryPlan::of(config).journal_segment(),
                // The shipper keeps the journal within its size. While the store counts slowly, it
                // drops nothing: then this is the bound.
                limit_bytes: settings.journal_size.bytes().saturating_mul(SLOW_STORE),
                address,
                honour_dnt: settings.honour_dnt,
                signals: shipper
                    .as_ref()
                    .map(|shipper| Arc::clone(&shipper.counts().signals))
                    .unwrap_or_default(),
            };
            let journal =
                Journal::start(journal, threads, clock.clone()).context("making the journal")?;
            // Before the first visitor, so that the first clicks have a visitor hash.
            let salted = Arc::clone(&journal);
            let set_salt = move |salt| salted.set_salt(salt);
            let mut salt = DailySalt::new(Arc::clone(salts), set_salt, clock.clone());
            if let Err(error) = runtime.block_on(salt.poll()) {
                tracing::warn!(%error, "the registry gives no salt for today; clicks are counted \
                    without telling visitors apart until it does");
            }
            scheduler.add(salt);
            Some(journal)
        } else {
            None
        };
        let counts = shipper.as_ref().map(Shipper::counts).unwrap_or_default();
        let (shipper, pruned) = (Mutex::new(shipper), Arc::default());
        Ok(Self { journal, live, shipper, bus, counts, pruned })
    }

    /// The click store together with the clicks that this process has read and not stored yet.
    pub(crate) fn with_pending(&self, clicks: &Arc<dyn ClickStore>) -> Arc<dyn ClickStore> {
        let shipper = self.shipper.lock().unwrap_or_else(PoisonError::into_inner);
        match &*shipper {
            Some(shipper) => {
                let with = WithPending::new(Arc::clone(clicks), shipper.pending());
                Arc::new(with.with_live(Arc::clone(&self.live)))
            }
            None => Arc::clone(clicks),
        }
    }

    /// The job that deletes clicks after the time they are kept.
    pub(crate) fn retention(
        &self,
        config: &Config,
        (clicks, links): (&Arc<dyn ClickStore>, &Arc<dyn LinkStore>),
        clock: &Clock,
        guard: &Arc<RemovalGuard>,
    ) -> ClickRetentionJob {
        let settings = ClickRetentionSettings {
            every: config.links.reap_every.get(),
            keep_raw: config.clicks.keep_raw.get(),
            max_raw: config.clicks.max_raw.map(ByteSize::bytes),
            keep_hours: config.clicks.keep_hours.get(),
            keep_tombstones: keep_tombstones(
                config.clicks.archive.is_some(),
                self.bus.as_ref().map(|bus| bus.keep_tombstones),
            ),
        };
        let (clicks, links, guard) = (Arc::clone(clicks), Arc::clone(links), Arc::clone(guard));
        let counts = Arc::clone(&self.pruned);
        ClickRetentionJob::new(clicks, links, clock.clone(), guard, settings, counts)
    }

    /// What the shipper has done.
    pub(crate) fn counts(&self) -> Arc<ShipperCounts> {
        Arc::clone(&self.counts)
    }

    /// The metrics of the click plane.
    pub(crate) fn metrics(&self) -> MetricsSource {
        let (counts, pruned) = (Arc::clone(&self.counts), Arc::clone(&self.pruned));
        Box::new(move |to| {
            counts.write_metrics(to);
            pruned.write_metrics(to);
        })
    }

    /// Counts the remaining clicks and ends. Call this after the serving threads have ended or
    /// timed out. The next start counts the rest.
    pub(crate) fn stop(self, timeout: Duration, all_gone: bool) {
        if let Some(journal) = &self.journal {
            journal.stop();
        }
        if let Some(shipper) = self.shipper.into_inner().unwrap_or_else(PoisonError::into_inner)
            && !shipper.stop(timeout, all_gone)
        {
            tracing::warn!(
                "not every click could be counted before the end; the rest is counted at the next \
                 start"
            );
        }
        // After the last clicks of this node: it may count them itself.
        if let Some(bus) = self.bus {
            bus.stop(timeout);
        }
    }
}

/// How long the click store keeps tombstones, with an archive, and with a bus that has clicks for
/// so long.
fn keep_tombstones(has_archive: bool, bus: Option<Duration>) -> Duration {
    let archive = if has_archive { KEEP_TOMBSTONES_FOR_ARCHIVE } else { Duration::ZERO };
    KEEP_TOMBSTONES.max(archive).max(bus.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tombstones_are_kept_for_as_long_as_clicks_may_come() {
        let days = |days: u64| Duration::from_hours(days * 24);
        assert_eq!(keep_tombstones(false, None), days(7));
        assert_eq!(keep_tombstones(false, Some(days(30))), days(30));
        assert_eq!(keep_tombstones(true, Some(days(30))), days(90));
        assert_eq!(keep_tombstones(true, Some(days(100))), days(100));
    }
}
