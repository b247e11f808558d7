//! The components whose metrics this process shows.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use terse_cli::LAST_BACKUP;
use terse_clicks::ShipperCounts;
use terse_core::metrics::MetricsSource;
use terse_core::{MailQueue, Notices};
use terse_metrics::{LinkProbe, write_folder_metrics};
use terse_redirect::{Redirector, ServingThreads};
use terse_safety::Safety;
use terse_server::ApiStats;
use terse_tls::Certificates;
use terse_worker::{CountsByJob, OldestReport, OutgoingCounts, write_job_metrics};

use super::jobs;
use crate::backends::Stores;
use crate::memory_plan::MemoryPlan;

/// What metrics are read from.
pub(super) struct MetricsParts<'a> {
    pub(super) data_dir: PathBuf,
    pub(super) memory: MemoryPlan,
    pub(super) store: &'a Stores,
    pub(super) notices: Arc<Notices>,
    pub(super) redirector: Arc<Redirector>,
    /// The serving threads, once they have started.
    pub(super) workers: Arc<OnceLock<Arc<ServingThreads>>>,
    pub(super) certificates: Option<Arc<Certificates>>,
    pub(super) api: Arc<ApiStats>,
    pub(super) safety: Arc<Safety>,
    pub(super) outgoing: Arc<OutgoingCounts>,
    pub(super) jobs: CountsByJob,
    pub(super) job_counts: jobs::JobCounters,
    pub(super) oldest_report: Arc<OldestReport>,
    pub(super) click_plane: MetricsSource,
    pub(super) clicks: Arc<ShipperCounts>,
    pub(super) shared_cache: Option<MetricsSource>,
    /// What only this kind of store has.
    pub(super) store_metrics: Vec<MetricsSource>,
    /// Both sides of a bus for clicks.
    pub(super) bus: Vec<MetricsSource>,
    /// If a mail server is set.
    pub(super) mail: Option<Arc<MailQueue>>,
}

impl MetricsParts<'_> {
    /// One source for each component.
    pub(super) fn sources(self) -> Vec<MetricsSource> {
        let Self { data_dir, memory, notices, redirector, workers, certificates, .. } = self;
        let Self { api, safety, outgoing, jobs, job_counts, oldest_report, clicks, .. } = self;
        let (reserve, queue) = (Arc::clone(&self.store.disk_reserve), self.store.queue_depth());
        let last_backup = data_dir.join(LAST_BACKUP);
        let (threads, routes) = (Arc::clone(&workers), Arc::clone(&redirector));
        let mail = self.mail;
        let mut sources: Vec<MetricsSource> = vec![
            Box::new(move |to| {
                if let Some(mail) = &mail {
                    mail.write_metrics(to);
                }
            }),
            Box::new(move |to| oldest_report.write_metrics(to)),
            Box::new(move |to| write_folder_metrics(&data_dir, &last_backup, to)),
            Box::new(move |to| reserve.write_metrics(to)),
            Box::new(move |to| {
                let counts = threads.get().map(|workers| workers.counts()).unwrap_or_default();
                counts.write_metrics(to);
                if let Some(certificates) = &certificates {
                    counts.write_tls_metrics(to);
                    certificates.write_metrics(to);
                }
            }),
            Box::new(move |to| redirector.write_metrics(to)),
            Box::new(move |to| {
                let http2 = workers.get().map_or(0, |workers| workers.http2_connections());
                let links = routes.routes().bytes() as u64;
                let in_use = [
                    ("links", links),
                    ("http2", MemoryPlan::of_http2(http2)),
                    ("click_batches", clicks.in_memory_bytes.load(Ordering::Relaxed)),
                ];
                memory.write_metrics(&in_use, to);
            }),
            self.click_plane,
            Box::new(move |to| safety.write_metrics(to)),
            Box::new(move |to| outgoing.write_metrics(to)),
            Box::new(move |to| write_job_metrics(&jobs, to)),
            Box::new(move |to| job_counts.write_metrics(to)),
            Box::new(move |to| api.write_metrics(to)),
            Box::new(move |to| notices.write_metrics(to)),
            Box::new(move |to| {
                to.gauge("terse_store_queue", "Writes waiting for the store", queue() as f64);
            }),
        ];
        sources.extend(self.shared_cache);
        sources.extend(self.store_metrics);
        sources.extend(self.bus);
        sources
    }
}

/// Whether links that are not in memory can be read.
pub(super) fn reads_links(redirector: &Arc<Redirector>) -> LinkProbe {
    let redirector = Arc::clone(redirector);
    Arc::new(move || {
        let redirector = Arc::clone(&redirector);
        Box::pin(async move { redirector.reads_links().await })
    })
}

impl jobs::JobCounters {
    fn write_metrics(&self, to: &mut terse_core::metrics::Metrics) {
        let Self { reaper, rescan, cdn, archive, recalled } = self;
        archive.iter().for_each(|source| source(to));
        reaper.write_metrics(to);
        rescan.write_metrics(to);
        cdn.write_metrics(to);
        let recalled: &AtomicU64 = recalled;
        let help = "Cached links that terse read again because blocklists changed";
        to.counter("terse_recalled", help, recalled);
    }
}
