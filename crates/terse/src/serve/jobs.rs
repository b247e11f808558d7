//! The background jobs of this process.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use terse_clicks::GeoRefresh;
use terse_core::accounts::Erasures;
use terse_core::job::Job;
use terse_core::metrics::MetricsSource;
use terse_core::moderation::LinkReports;
use terse_core::{Clock, Notices, OwnerTags};
use terse_worker::{
    CacheRescreen, CdnCounts, CdnPurge, CdnPurgeParts, ErasureJob, FreeMemory, OldSalts,
    ProgramPages, Reaper, ReaperCounts, RegistryRetention, RemovalGuard, ReportRepair, Rescan,
    RescanCounts, RescanParts, Scheduler, UsedKeyFlush, UsedKeys,
};

use super::services::Services;
use crate::backends::{self, DiskWatch, Stores};
use crate::click_plane::ClickPlane;
use crate::config::Config;
use crate::outgoing::edge_caches;

/// The other dependencies of jobs, besides the services.
pub(super) struct JobParts<'a> {
    pub(super) config: &'a Config,
    pub(super) clock: &'a Clock,
    pub(super) store: &'a Stores,
    pub(super) notices: &'a Arc<Notices>,
}

/// The counters of jobs, for metrics.
#[derive(Default)]
pub(super) struct JobCounters {
    pub(super) reaper: Arc<ReaperCounts>,
    pub(super) rescan: Arc<RescanCounts>,
    pub(super) cdn: Arc<CdnCounts>,
    /// The metrics of the archive and of backups.
    pub(super) archive: Vec<MetricsSource>,
    /// Cached links that were dropped because the screen changed.
    pub(super) recalled: Arc<AtomicU64>,
}

impl JobParts<'_> {
    /// Adds the jobs of this node and, with the role `worker`, those of the fleet.
    pub(super) fn add(
        &self,
        services: Services,
        click_plane: &ClickPlane,
        used_keys: Arc<UsedKeys>,
        jobs: &mut Scheduler,
    ) -> anyhow::Result<JobCounters> {
        let Self { config, clock, store, .. } = *self;
        let mut counts = JobCounters::default();
        if config.roles.worker {
            let archive = backends::archive_jobs(config, store, clock)?;
            jobs.add_all(archive.jobs);
            counts.archive = archive.metrics;
            self.add_fleet_jobs(&services, click_plane, &counts, jobs);
        }
        let Services {
            store: link_store,
            classifier,
            safety,
            redirector,
            links,
            integrations,
            node_report,
            ..
        } = services;
        jobs.add_all(node_report.map(|report| -> Box<dyn Job> { Box::new(report) }));
        if config.clicks.geo_database.is_some() {
            jobs.add(GeoRefresh { classifier, clock: clock.clone() });
        }
        jobs.add_all(safety.jobs(&links));
        let rescreen = move || redirector.rescreen();
        let recalled = Arc::clone(&counts.recalled);
        jobs.add(CacheRescreen::new(safety.screen.clone(), rescreen, recalled));
        let (reserve, notices) = (Arc::clone(&store.disk_reserve), Arc::clone(self.notices));
        let size = config.storage.reserve.to_string();
        jobs.add(DiskWatch { reserve, size, notices });
        jobs.add(ProgramPages::default());
        jobs.add(FreeMemory);
        jobs.add(UsedKeyFlush { registry: Arc::clone(&store.registry), used_keys });
        integrations.add_jobs(config, &link_store, &links, clock, jobs);
        Ok(counts)
    }

    /// Jobs that one node runs for all, under the lease.
    fn add_fleet_jobs(
        &self,
        services: &Services,
        click_plane: &ClickPlane,
        counts: &JobCounters,
        jobs: &mut Scheduler,
    ) {
        let Self { config, clock, store, .. } = *self;
        let (links, registry) = (&services.links, &store.registry);
        let guard = Arc::new(RemovalGuard::new(
            Arc::clone(links),
            Arc::clone(registry),
            clock.clone(),
            Arc::clone(self.notices),
            config.links.max_purge_percent,
        ));
        jobs.add(Reaper {
            links: Arc::clone(links),
            clicks: Arc::clone(&store.clicks),
            guard: Arc::clone(&guard),
            every: config.links.reap_every.get(),
            batch: config.links.reap_batch as usize,
            counts: Arc::clone(&counts.reaper),
        });
        jobs.add(Rescan::new(RescanParts {
            links: Arc::clone(links),
            registry: registry.clone(),
            old_file: config.data_dir.join("lists/judged.json"),
            lists: services.safety.changes(),
            every: config.safety.rescan_every.get(),
            clock: clock.clone(),
            counts: Arc::clone(&counts.rescan),
        }));
        for (name, cdn) in edge_caches(config, clock) {
            jobs.add(CdnPurge::new(CdnPurgeParts {
                feed: services.store.clone(),
                registry: registry.clone(),
                progress: registry.clone(),
                cdn,
                name,
                owner_tags: OwnerTags::of(services.store.identity()),
                ttl: config.cdn.ttl.get(),
                clock: clock.clone(),
                counts: Arc::clone(&counts.cdn),
            }));
        }
        jobs.add(ReportRepair(LinkReports::new(Arc::clone(links), Arc::clone(registry))));
        let clicks = (&store.clicks, &services.store);
        jobs.add(click_plane.retention(config, clicks, self.clock, &guard));
        jobs.add(RegistryRetention { registry: store.registry.clone(), guard });
        jobs.add(OldSalts { salts: store.registry.clone() });
        let (clicks, registry) = (Arc::clone(&store.clicks), Arc::clone(&store.registry));
        jobs.add(ErasureJob { erasures: Erasures::new(Arc::clone(links), clicks, registry) });
    }
}
