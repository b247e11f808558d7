//! The steps of a start, in order. Each owns what it has opened and hands it to the next.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use axum::Router;
use terse_core::clicks::LiveFollower;
use terse_core::job::Job;
use terse_core::limits::RateLimits;
use terse_core::metrics::MetricsSource;
use terse_core::registry::Salts;
use terse_core::{Clock, Hosts, LinkStore, MailQueue, Notices};
use terse_metrics::{Exposition, HealthEndpoints};
use terse_redirect::{RedirectSettings, Redirector, ServingThreads};
use terse_safety::Safety;
use terse_server::{AdminKeys, ApiStats, PasswordGate, RefusalPages};
use terse_tls::{AcmeCertificates, Certificates, ServerConfig};
use terse_traces::SpanQueue;
use terse_worker::{
    LeaseKeeper, LiveClicks, MailDelivery, OldestReport, OutgoingCounts, ReportWatch, Scheduler,
    UsedKeys,
};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use url::Url;

use super::listeners::{self, BoundListeners};
use super::metrics::{self, MetricsParts};
use super::services::Services;
use super::system_info::ServerInfo;
use super::tls::Tls;
use super::{credentials, jobs, policy, web};
use crate::backends::{self, ClickBus, DataDir, LockGuard, Stores};
use crate::click_plane::ClickPlane;
use crate::config::Config;
use crate::memory_plan::MemoryPlan;
use crate::outgoing::{self, mail};

/// First: the folder, the stores and the listeners.
pub(super) struct Opened {
    pub(super) listeners: BoundListeners,
    pub(super) base_url: Url,
    pub(super) hosts: Hosts,
    /// The certificates, until their jobs are added.
    tls: Option<Tls>,
    /// The certificates that terse orders itself.
    pub(super) acme: Option<Arc<AcmeCertificates>>,
    store_metrics: Vec<MetricsSource>,
    // In this order: the store closes before the folder's lock is released.
    pub(super) store: Stores,
    pub(super) runtime: Runtime,
    pub(super) lock: LockGuard,
    pub(super) data_dir: DataDir,
}

impl Opened {
    pub(super) fn open(config: &Config, clock: &Clock) -> anyhow::Result<Self> {
        // A node without a listener for TLS may order certificates for the others.
        let has_certificates = config.tls.listen.is_some() || config.tls.acme.enabled;
        let mut tls = has_certificates.then(|| Tls::open(config)).transpose()?;
        let data_dir = DataDir::open(&config.data_dir)?;
        let lock = data_dir.lock_for_server()?;
        backends::remove_leftovers(config);
        let runtime = listeners::runtime()?;
        runtime.block_on(backends::check_object_storage(config))?;
        let mut store = runtime.block_on(backends::open(config))?;
        let store_metrics = store.take_metrics();
        // Listeners are bound now, so that a wrong address fails before anything is written.
        let listeners = BoundListeners::open(config)?;
        let (address, tls_address) = (&listeners.address, listeners.tls_address);
        let base_url = config.base_url_at(address, tls_address);
        let addresses: Vec<_> = [address.tcp(), tls_address].into_iter().flatten().collect();
        let hosts = policy::hosts(config, &base_url, &addresses)?;
        if let Some(tls) = &mut tls {
            runtime.block_on(tls.read_ordered(config, &store, &hosts, clock))?;
        }
        let acme = tls.as_ref().and_then(|tls| tls.acme.clone());
        Ok(Self {
            listeners,
            base_url,
            hosts,
            tls,
            acme,
            store_metrics,
            runtime,
            store,
            data_dir,
            lock,
        })
    }
}

/// Second: the services, and the keys that the process makes for itself.
pub(super) struct OpenServices {
    pub(super) services: Services,
    /// How many threads serve visitors.
    pub(super) threads: usize,
    /// The keys with all permissions.
    pub(super) keys: AdminKeys,
    pub(super) own_keys: OwnKeys,
    pub(super) metrics: ServiceMetrics,
}

/// Keys that the start tells the operator and local commands.
pub(super) struct OwnKeys {
    /// The admin key, if this start generated it.
    pub(super) fresh_key: Option<String>,
    /// The key of commands on this machine.
    pub(super) local_key: String,
    /// The link that creates the first admin, while there has never been one.
    pub(super) setup_link: Option<String>,
}

/// The metrics of the services.
pub(super) struct ServiceMetrics {
    exposition: Exposition,
    shared_cache: Option<MetricsSource>,
}

impl OpenServices {
    pub(super) fn open(
        config: &Config,
        opened: &Opened,
        clock: &Clock,
        adjust: impl FnOnce(&mut RedirectSettings),
    ) -> anyhow::Result<Self> {
        let Opened { listeners, hosts, runtime, store, .. } = opened;
        let mut settings = policy::redirect_settings(config, store.links.identity())?;
        adjust(&mut settings);
        let threads = settings.threads.max(1);
        let mut exposition = Exposition::default();
        // The port that most visitors use.
        let port = listeners.tls_address.or(listeners.address.tcp());
        let port = port.map_or(0, |address| address.port());
        let services = Services::open(config, store, hosts, port, settings, clock, &mut exposition);
        let mut services = runtime.block_on(services)?;
        let shared_cache = services.shared.metrics.take();
        // After every step that a wrong setting can make fail: a generated key that was stored but
        // never printed would be lost.
        let (keys, fresh_key, local_key) = runtime.block_on(credentials::keys(config, store))?;
        let setup_link = match config.roles.web {
            true => runtime.block_on(credentials::setup_link(store, &hosts.api_base()))?,
            false => None,
        };
        let own_keys = OwnKeys { fresh_key, local_key, setup_link };
        let metrics = ServiceMetrics { exposition, shared_cache };
        Ok(Self { services, threads, keys, own_keys, metrics })
    }
}

/// Third: the planes. From here on jobs can be added.
pub(super) struct Planes {
    pub(super) jobs: Scheduler,
    pub(super) click_plane: ClickPlane,
    bus_metrics: Vec<MetricsSource>,
    /// The job that sends mails, until it is added.
    mail: Option<MailDelivery>,
    used_keys: Arc<UsedKeys>,
    pub(super) system_info: Arc<ServerInfo>,
    /// The API and the pages.
    pub(super) web: Router,
    pub(super) password_gate: PasswordGate,
    api: Arc<ApiStats>,
    pub(super) limits: RateLimits,
    /// Ends what waits for the end of the process.
    pub(super) stop: watch::Sender<bool>,
}

impl Planes {
    pub(super) fn start(
        config: &Config,
        opened: &mut Opened,
        services: &Services,
        (keys, threads): (AdminKeys, usize),
        clock: &Clock,
    ) -> anyhow::Result<Self> {
        let Opened { hosts, acme, runtime, store, .. } = opened;
        let (stop, stopped) = watch::channel(false);
        let mut jobs = Scheduler::new(LeaseKeeper::new(store.leases(), store.node()));
        jobs.add_all(store.take_jobs());
        let registry_refresh = runtime.block_on(services.follow(store, &mut jobs))?;
        let (click_plane, bus_metrics) =
            start_click_plane(config, store, threads, clock, runtime, &mut jobs)?;
        let operator = services.operator.current();
        let mail = mail::delivery(config, &store.registry, &operator, hosts, clock)?;
        let system_info = Arc::new(ServerInfo::new(config));
        let parts = web::WebParts {
            config,
            store,
            acme: acme.clone(),
            mail: mail.as_ref().map(|mail| Arc::clone(&mail.queue)),
            info: system_info.clone(),
        };
        let used_keys = Arc::<UsedKeys>::default();
        let (refresh, uses) = (Arc::new(registry_refresh), Arc::clone(&used_keys));
        let board = jobs.job_board();
        let state = parts.state(services, &click_plane, keys, (refresh, uses), board, stopped)?;
        let (api, limits) = (Arc::clone(&state.stats), state.limits.clone());
        let (web, password_gate) = terse_server::router_and_gate(state);
        Ok(Self {
            jobs,
            click_plane,
            bus_metrics,
            mail,
            used_keys,
            system_info,
            web,
            password_gate,
            api,
            limits,
            stop,
        })
    }
}

/// Starts the journal and its shipper, and returns the metrics of the bus. From here on, clicks
/// that are read and erased in `store` include what the click plane has in memory.
fn start_click_plane(
    config: &Config,
    store: &mut Stores,
    threads: usize,
    clock: &Clock,
    runtime: &Runtime,
    jobs: &mut Scheduler,
) -> anyhow::Result<(ClickPlane, Vec<MetricsSource>)> {
    let salts: Arc<dyn Salts> = store.registry.clone();
    let mut bus = runtime.block_on(ClickBus::open(config, store, clock))?;
    let bus_metrics = bus.as_mut().map(ClickBus::take_metrics).unwrap_or_default();
    let click_plane =
        ClickPlane::start(config, &store.clicks, bus, &salts, threads, clock, runtime, jobs)?;
    if store.shares_clicks {
        let (live, clicks) = (Arc::clone(&click_plane.live), Arc::clone(&store.clicks));
        jobs.add(LiveClicks(LiveFollower::new(live, clicks, clock.clone())));
    } else {
        store.clicks = click_plane.with_pending(&store.clicks);
    }
    Ok((click_plane, bus_metrics))
}

/// Fourth: the jobs, and what is left of the services, which they take.
pub(super) struct AddedJobs {
    pub(super) redirector: Arc<Redirector>,
    links: Arc<dyn LinkStore>,
    safety: Arc<Safety>,
    outgoing: Arc<OutgoingCounts>,
    pub(super) refusal_pages: RefusalPages,
    notices: Arc<Notices>,
    certificates: Option<Arc<Certificates>>,
    /// What the listener for TLS needs.
    pub(super) tls_config: Option<Arc<ServerConfig>>,
    mail: Option<Arc<MailQueue>>,
    counts: jobs::JobCounters,
    oldest_report: Arc<OldestReport>,
    trace_metrics: Option<MetricsSource>,
}

impl AddedJobs {
    pub(super) fn add(
        config: &Config,
        opened: &mut Opened,
        services: Services,
        planes: &mut Planes,
        spans: Option<SpanQueue>,
        clock: &Clock,
    ) -> anyhow::Result<Self> {
        let Opened { hosts, store, tls, .. } = opened;
        let jobs = &mut planes.jobs;
        let (links, safety) = (Arc::clone(&services.store), Arc::clone(&services.safety));
        let redirector = Arc::clone(&services.redirector);
        let outgoing = Arc::clone(&services.integrations.counts);
        let refusal_pages = RefusalPages::new(Arc::clone(&services.operator), hosts);
        let notices = Arc::<Notices>::default();
        notices.set("store", store.notice());
        let tls = tls.take();
        let certificates = tls.as_ref().map(|tls| Arc::clone(&tls.certificates));
        let tls = tls.map(|tls| tls.start(config, hosts, clock, &notices, jobs));
        let tls_config = tls.transpose()?;
        let parts = jobs::JobParts { config, clock, store, notices: &notices };
        let counts =
            parts.add(services, &planes.click_plane, Arc::clone(&planes.used_keys), jobs)?;
        let mail = planes.mail.take();
        let mail_queue = mail.as_ref().map(|mail| Arc::clone(&mail.queue));
        if let Some(mail) = mail {
            jobs.add(mail);
        }
        let traces = spans.and_then(|spans| outgoing::trace_export(config, store, spans));
        let trace_metrics =
            traces.as_ref().map(|traces| -> MetricsSource { Box::new(traces.metrics()) });
        jobs.add_all(traces.map(|traces| -> Box<dyn Job> { Box::new(traces) }));
        let oldest_report = Arc::<OldestReport>::default();
        let (registry, oldest) = (store.registry.clone(), Arc::clone(&oldest_report));
        jobs.add(ReportWatch { registry, oldest });
        Ok(Self {
            redirector,
            links,
            safety,
            outgoing,
            refusal_pages,
            notices,
            certificates,
            tls_config,
            mail: mail_queue,
            counts,
            oldest_report,
            trace_metrics,
        })
    }
}

/// Fifth: metrics and health.
pub(super) struct Monitoring {
    /// The serving threads, which start last. The metrics read them.
    pub(super) workers: Arc<OnceLock<Arc<ServingThreads>>>,
    /// Whether the process is about to end.
    pub(super) draining: Arc<AtomicBool>,
    pub(super) health: Router,
}

impl Monitoring {
    pub(super) fn begin(
        config: &Config,
        opened: &mut Opened,
        planes: &mut Planes,
        added: &mut AddedJobs,
        metrics: ServiceMetrics,
        started_seconds: f64,
    ) -> Self {
        let ServiceMetrics { mut exposition, shared_cache } = metrics;
        let workers: Arc<OnceLock<Arc<ServingThreads>>> = Arc::default();
        let parts = MetricsParts {
            data_dir: config.data_dir.clone(),
            memory: MemoryPlan::of(config),
            store_metrics: std::mem::take(&mut opened.store_metrics),
            store: &opened.store,
            notices: Arc::clone(&added.notices),
            redirector: Arc::clone(&added.redirector),
            workers: Arc::clone(&workers),
            mail: added.mail.take(),
            certificates: added.certificates.take(),
            api: Arc::clone(&planes.api),
            safety: Arc::clone(&added.safety),
            outgoing: Arc::clone(&added.outgoing),
            jobs: planes.jobs.counts(),
            job_counts: std::mem::take(&mut added.counts),
            oldest_report: Arc::clone(&added.oldest_report),
            click_plane: planes.click_plane.metrics(),
            clicks: planes.click_plane.counts(),
            shared_cache,
            bus: std::mem::take(&mut planes.bus_metrics),
        };
        let sources = parts.sources().into_iter().chain(added.trace_metrics.take()).collect();
        show_metrics(sources, started_seconds, &mut exposition, &planes.system_info);
        let draining = Arc::new(AtomicBool::new(false));
        let health = HealthEndpoints {
            store: Arc::clone(&added.links),
            reads_links: metrics::reads_links(&added.redirector),
            draining: Arc::clone(&draining),
            metrics: Arc::new(exposition),
            notices: Arc::clone(&added.notices),
        };
        Self { workers, draining, health: health.router() }
    }
}

/// Shows the same metrics at `/metrics` and on the page System.
fn show_metrics(
    sources: Vec<MetricsSource>,
    started_seconds: f64,
    exposition: &mut Exposition,
    system_info: &ServerInfo,
) {
    let sources = Arc::new(sources);
    let all = Arc::clone(&sources);
    let write_all: MetricsSource = Box::new(move |to| all.iter().for_each(|source| source(to)));
    exposition.add(vec![write_all], started_seconds);
    let _first = system_info.sources.set(sources);
}
