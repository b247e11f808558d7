//! `terse serve`: configuration, backends, services, planes, jobs, listeners, and shutdown.

mod credentials;
mod jobs;
mod listeners;
mod metrics;
mod policy;
mod reload;
mod safety;
mod services;
mod system_info;
mod tls;
mod unix_socket;
mod web;
mod web_plane;

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use terse_core::clicks::{ClickStore, LiveFollower};
use terse_core::job::Job;
use terse_core::limits::RateLimits;
use terse_core::metrics::MetricsSource;
use terse_core::registry::Salts;
use terse_core::{Clock, JobBoard, LinkKey, ListenAddress, Notices};
use terse_metrics::{Exposition, HealthEndpoints};
use terse_redirect::{
    FallbackParts, HttpFallback, Listeners, RedirectSettings, Redirector, ServedRoles,
    ServingThreads,
};
use terse_server::RefusalPages;
use terse_traces::SpanQueue;
use terse_worker::{
    HotLinks, LeaseKeeper, LiveClicks, OldestReport, ReportWatch, RunningJobs, Scheduler, UsedKeys,
};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use url::Url;

use crate::backends::{self, ClickBus, DataDir, LockGuard, RunInfo, Stores};
use crate::click_plane::ClickPlane;
use crate::config::Config;
use crate::memory_plan::MemoryPlan;
use crate::outgoing::{self, mail};
use listeners::BoundListeners;
use metrics::MetricsParts;
use reload::Reloaded;
use services::Services;
use system_info::ServerInfo;
use tls::Tls;

pub(crate) use policy::{alphabet, hosts, unwanted_aliases};
pub use reload::Reload;
pub(crate) use tls::open_files;
pub(crate) use web::in_process_api;

/// How long background jobs may take to end at shutdown.
const JOBS_TIMEOUT: Duration = Duration::from_secs(5);
/// How long requests to the admin listener may take to end at shutdown.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the server until SIGTERM or SIGINT. Spans of the queue are sent to `traces.url`. SIGHUP
/// reads the settings again.
pub fn run(config: Config, spans: Option<SpanQueue>, reload: Reload) -> anyhow::Result<()> {
    terse_worker::configure_allocator();
    listeners::raise_open_files();
    let shutdown = config.shutdown.clone();
    let server = Server::build(&config, Clock::default(), spans, |_| ())?;
    server.print_first_steps(&config);
    let (jobs, limits) = (Arc::clone(&server.board), server.limits.clone());
    let reloaded = Reloaded { jobs, limits, info: Arc::clone(&server.system_info) };
    let signals = server.runtime.spawn(async move {
        if let Err(error) = reload::follow_signals(config, reload, reloaded).await {
            tracing::error!(error = format!("{error:#}"), "SIGHUP is not followed");
        }
    });
    server.runtime.block_on(listeners::stop_signal())?;
    tracing::info!("stopping");
    signals.abort();
    server.draining.store(true, Ordering::Relaxed);
    server.workers.drain();
    std::thread::sleep(shutdown.drain_delay.get());
    server.stop(shutdown.timeout.get());
    tracing::info!("stopped");
    Ok(())
}

/// Reads the links into memory that were in use before the restart, and those with the most clicks.
async fn load_hot_links(
    hot_links: HotLinks,
    redirector: Arc<Redirector>,
    clicks: Arc<dyn ClickStore>,
) {
    let keys = hot_links.read(&*clicks).await;
    if !keys.is_empty() {
        let links = redirector.load_ahead(&keys).await;
        tracing::info!(links, "read the links with the most visits into memory");
    }
}

/// The port of https URLs; `None` for the usual one. Taken from an https `base_url`, because a
/// router may forward another port to the listener.
fn https_port(base_url: &Url, tls: Option<SocketAddr>) -> Option<u16> {
    match base_url.scheme() {
        "https" => base_url.port(),
        _ => tls.map(|address| address.port()).filter(|port| *port != 443),
    }
}

/// What the server opens first.
struct Backends {
    data_dir: DataDir,
    lock: LockGuard,
    runtime: Runtime,
    store: Stores,
}

impl Backends {
    fn open(config: &Config) -> anyhow::Result<Self> {
        let data_dir = DataDir::open(&config.data_dir)?;
        let lock = data_dir.lock_for_server()?;
        backends::remove_leftovers(config);
        let runtime = listeners::runtime()?;
        runtime.block_on(backends::check_object_storage(config))?;
        let store = runtime.block_on(backends::open(config))?;
        Ok(Self { data_dir, lock, runtime, store })
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

/// Writes the file by which commands on this machine find the server. Not fatal: the server already
/// serves connections, and a full disk must not stop it.
fn tell_local_commands(data_dir: &DataDir, address: &ListenAddress, key: String) {
    let (pid, url) = (std::process::id(), listeners::local_url(address));
    if let Err(error) = data_dir.write_run(&RunInfo { pid, url, key }) {
        let error = format!("{:#}", anyhow::Error::new(error));
        tracing::warn!(error, "commands on this machine cannot find this server by its folder");
    }
}

/// A running server.
pub struct Server {
    address: ListenAddress,
    tls_address: Option<SocketAddr>,
    admin_address: Option<SocketAddr>,
    base_url: Url,
    /// The base of the API and the dashboard.
    api_base: String,
    fresh_key: Option<String>,
    setup_link: Option<String>,
    workers: Arc<ServingThreads>,
    click_plane: ClickPlane,
    hot_links: HotLinks,
    jobs: RunningJobs,
    board: Arc<JobBoard>,
    limits: RateLimits,
    system_info: Arc<ServerInfo>,
    runtime: Runtime,
    draining: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
    /// Reads links into memory after the start.
    loading: JoinHandle<()>,
    /// Serves health and metrics, if they have a listener of their own.
    admin: Option<JoinHandle<()>>,
    clock: Clock,
    data_dir: DataDir,
    // Last: the store closes after everything that uses it, and then the folder's lock is released.
    store: Stores,
    _lock: LockGuard,
}

impl Server {
    /// Opens the stores, starts the planes, and only then serves connections.
    pub fn start(config: &Config, clock: Clock) -> anyhow::Result<Self> {
        Self::build(config, clock, None, |_| ())
    }

    /// Like `start`, but changes settings of the redirect plane that have no configuration, for
    /// tests that compare.
    #[doc(hidden)]
    pub fn start_with(
        config: &Config,
        clock: Clock,
        adjust: impl FnOnce(&mut RedirectSettings),
    ) -> anyhow::Result<Self> {
        Self::build(config, clock, None, adjust)
    }

    fn build(
        config: &Config,
        clock: Clock,
        spans: Option<SpanQueue>,
        adjust: impl FnOnce(&mut RedirectSettings),
    ) -> anyhow::Result<Self> {
        let started = SystemTime::now().duration_since(UNIX_EPOCH);

        // A node without a listener for TLS may order certificates for the others.
        let has_certificates = config.tls.listen.is_some() || config.tls.acme.enabled;
        let mut tls = has_certificates.then(|| Tls::open(config)).transpose()?;

        // Backends.
        let Backends { data_dir, lock, runtime, mut store } = Backends::open(config)?;
        let store_metrics = store.take_metrics();

        // Listeners are bound now, so that a wrong address fails before anything is written.
        let BoundListeners { plain, tls: tls_listener, admin, address, tls_address, outlive } =
            BoundListeners::open(config)?;
        let base_url = config.base_url_at(&address, tls_address);
        let addresses: Vec<_> = [address.tcp(), tls_address].into_iter().flatten().collect();
        let hosts = policy::hosts(config, &base_url, &addresses)?;
        if let Some(tls) = &mut tls {
            runtime.block_on(tls.read_ordered(config, &store, &hosts, &clock))?;
        }
        let acme = tls.as_ref().and_then(|tls| tls.acme.clone());

        // Services.
        let mut settings = policy::redirect_settings(config, store.links.identity())?;
        adjust(&mut settings);
        let threads = settings.threads.max(1);
        let mut exposition = Exposition::default();
        // The port that most visitors use.
        let port = tls_address.or(address.tcp()).map_or(0, |address| address.port());
        let services =
            Services::open(config, &store, &hosts, port, settings, &clock, &mut exposition);
        let mut services = runtime.block_on(services)?;
        let shared_cache = services.shared.metrics.take();
        // After every step that a wrong setting can make fail: a generated key that was stored but
        // never printed would be lost.
        let (keys, fresh_key, local_key) = runtime.block_on(credentials::keys(config, &store))?;
        let setup_link = match config.roles.web {
            true => runtime.block_on(credentials::setup_link(&store, &hosts.api_base()))?,
            false => None,
        };

        // Planes.
        let (stop, stopped) = watch::channel(false);
        let mut jobs = Scheduler::new(LeaseKeeper::new(store.leases(), store.node()));
        jobs.add_all(store.take_jobs());
        let registry_refresh = runtime.block_on(services.follow(&store, &mut jobs))?;
        let (click_plane, bus_metrics) =
            start_click_plane(config, &mut store, threads, &clock, &runtime, &mut jobs)?;
        let stopping = stopped.clone();
        let operator = services.operator.current();
        let mail = mail::delivery(config, &store.registry, &operator, &hosts, &clock)?;
        let mail_queue = mail.as_ref().map(|mail| Arc::clone(&mail.queue));
        let system_info = Arc::new(ServerInfo::new(config));
        let parts = web::WebParts {
            config,
            store: &store,
            acme: acme.clone(),
            mail: mail_queue.clone(),
            info: system_info.clone(),
        };
        let used_keys = Arc::<UsedKeys>::default();
        let (refresh, uses) = (Arc::new(registry_refresh), Arc::clone(&used_keys));
        let state = parts.state(
            &services,
            &click_plane,
            keys,
            (refresh, uses),
            jobs.job_board(),
            stopping,
        )?;
        let (api, limits) = (Arc::clone(&state.stats), state.limits.clone());
        let (web, password_gate) = terse_server::router_and_gate(state);

        // Jobs.
        let Services { store: links_store, safety, redirector, .. } = &services;
        let (links_store, safety, redirector) =
            (Arc::clone(links_store), Arc::clone(safety), Arc::clone(redirector));
        let outgoing = Arc::clone(&services.integrations.counts);
        let refusal_pages = RefusalPages::new(Arc::clone(&services.operator), &hosts);
        let notices = Arc::<Notices>::default();
        notices.set("store", store.notice());
        let parts = jobs::JobParts { config, clock: &clock, store: &store, notices: &notices };
        let certificates = tls.as_ref().map(|tls| Arc::clone(&tls.certificates));
        let tls = tls.map(|tls| tls.start(config, &hosts, &clock, &notices, &mut jobs));
        let tls = tls_listener.zip(tls.transpose()?);
        let job_counts = parts.add(services, &click_plane, used_keys, &mut jobs)?;
        if let Some(mail) = mail {
            jobs.add(mail);
        }
        let traces = spans.and_then(|spans| outgoing::trace_export(config, &store, spans));
        let trace_metrics =
            traces.as_ref().map(|traces| -> MetricsSource { Box::new(traces.metrics()) });
        jobs.add_all(traces.map(|traces| -> Box<dyn Job> { Box::new(traces) }));

        // Metrics and health. The metrics read the serving threads, which start last.
        let oldest_report = Arc::<OldestReport>::default();
        let (registry, oldest) = (store.registry.clone(), Arc::clone(&oldest_report));
        jobs.add(ReportWatch { registry, oldest });
        let workers: Arc<OnceLock<Arc<ServingThreads>>> = Arc::default();
        let parts = MetricsParts {
            data_dir: config.data_dir.clone(),
            memory: MemoryPlan::of(config),
            store: &store,
            notices: Arc::clone(&notices),
            redirector: Arc::clone(&redirector),
            workers: Arc::clone(&workers),
            mail: mail_queue,
            certificates,
            api,
            safety,
            outgoing,
            jobs: jobs.counts(),
            job_counts,
            oldest_report,
            click_plane: click_plane.metrics(),
            clicks: click_plane.counts(),
            shared_cache,
            store_metrics,
            bus: bus_metrics,
        };
        let sources = parts.sources().into_iter().chain(trace_metrics).collect();
        let started = started.map_or(0.0, |since| since.as_secs_f64());
        show_metrics(sources, started, &mut exposition, &system_info);
        let draining = Arc::new(AtomicBool::new(false));
        let health = HealthEndpoints {
            store: links_store,
            reads_links: metrics::reads_links(&redirector),
            draining: Arc::clone(&draining),
            metrics: Arc::new(exposition),
            notices,
        };
        let health = health.router();

        // Listeners.
        let (web, served_admin) = match admin {
            None => (web.merge(health), None),
            Some(admin) => (web, Some(listeners::serve_admin(&runtime, admin, health, stopped)?)),
        };
        let (admin_address, admin) = served_admin.unzip();
        let roles = config.roles;
        let fallback = HttpFallback::new(FallbackParts {
            redirector: Arc::clone(&redirector),
            web: web_plane::WebService {
                router: web,
                password_gate,
                refusal_pages,
                log: web::request_log(config),
                acme,
            },
            web_runtime: runtime.handle().clone(),
            serves: ServedRoles { redirects: roles.redirect, api: roles.api, pages: roles.web },
            hosts: hosts.clone(),
            https_port: https_port(&base_url, tls_address),
        });
        let journal = click_plane.journal.clone();
        let (in_use, live) = (Arc::clone(&redirector), Arc::clone(&click_plane.live));
        let in_use = move |visit: &mut dyn FnMut(LinkKey)| in_use.for_each_link_in_use(visit);
        let hot_links = HotLinks::new(in_use, live, clock.clone(), &config.data_dir);
        jobs.add(hot_links.clone());
        let tls = tls.map(|(listener, config)| (listener.into(), config));
        let listeners = Listeners { plain, tls, outlive };
        let running = Arc::new(
            ServingThreads::start(listeners, Arc::clone(&redirector), fallback, journal)
                .context("starting the serving threads")?,
        );
        let _ = workers.set(Arc::clone(&running));
        // In the background, after the threads have begun to serve.
        let loading = load_hot_links(hot_links.clone(), redirector, Arc::clone(&store.clicks));
        let loading = runtime.spawn(loading);
        let board = jobs.job_board();
        let jobs = jobs.start(runtime.handle());
        tell_local_commands(&data_dir, &address, local_key);
        Ok(Self {
            address,
            tls_address,
            admin_address,
            base_url,
            api_base: hosts.api_base(),
            fresh_key,
            setup_link,
            workers: running,
            click_plane,
            hot_links,
            jobs,
            board,
            limits,
            system_info,
            runtime,
            draining,
            stop,
            loading,
            admin,
            clock,
            data_dir,
            store,
            _lock: lock,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// The address of the listener for TLS.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// The address of health and metrics, if they have a listener of their own.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// The admin key, if this start generated it.
    pub fn fresh_key(&self) -> Option<&str> {
        self.fresh_key.as_deref()
    }

    /// The registry, for tests that change it as another node would.
    #[doc(hidden)]
    pub fn registry(&self) -> &Arc<dyn terse_core::registry::Registry> {
        &self.store.registry
    }

    /// The link that creates the first admin, while there has never been one.
    pub fn setup_link(&self) -> Option<&str> {
        self.setup_link.as_deref()
    }

    /// The time that the server uses.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Stops in order: no new connections, open requests finish, clicks are counted, jobs end, the
    /// stores close. The waits for requests and for clicks each take up to `timeout`.
    pub fn stop(self, timeout: Duration) {
        self.draining.store(true, Ordering::Relaxed);
        let _ = self.stop.send(true);
        self.loading.abort();
        if let Err(error) = self.hot_links.save() {
            tracing::warn!(%error, "the links in use were not saved for the next start");
        }
        let all_gone = self.workers.stop(timeout);
        self.click_plane.stop(timeout, all_gone);
        // After the requests: the job records the last uses of keys.
        if !self.runtime.block_on(self.jobs.stop(JOBS_TIMEOUT)) {
            tracing::warn!("a background job did not end in time");
        }
        if let Err(error) = self.data_dir.remove_run() {
            tracing::warn!(%error, "run.json could not be removed from the data folder");
        }
        if let Some(admin) = self.admin {
            // A timeout is made within the runtime.
            let ended = async { tokio::time::timeout(ADMIN_TIMEOUT, admin).await };
            if self.runtime.block_on(ended).is_err() {
                tracing::warn!("requests to the admin listener did not end in time");
            }
        }
        self.runtime.shutdown_timeout(Duration::from_secs(1));
    }

    /// Prints the address and the first steps to standard output. Standard error is the log, which
    /// must not contain keys.
    fn print_first_steps(&self, config: &Config) {
        let (base, api) = (self.base_url.as_str().trim_end_matches('/'), &self.api_base);
        tracing::info!(address = %self.address, base_url = base, "terse is listening");
        let mut text = "\nterse is listening on".to_owned();
        match &self.address {
            ListenAddress::Tcp(address) => {
                for address in listeners::reachable(*address) {
                    text += &format!(" http://{address}");
                }
            }
            unix @ ListenAddress::Unix(_) => text += &format!(" {unix}"),
        }
        for address in self.tls_address.into_iter().flat_map(listeners::reachable) {
            text += &format!(" https://{address}");
        }
        text += "\n";
        if config.base_url.is_none() && !self.address.is_local() {
            text += &format!(
                "\nShort links begin with {base}/. Set base_url to the address that visitors use.\n"
            );
        }
        if let Some(link) = &self.setup_link {
            text += &format!("\nSet up your account: {link}\n");
        }
        if let Some(key) = &self.fresh_key {
            text += &format!("\nYour admin key, shown only this once:\n\n    {key}\n");
        }
        if config.roles.api {
            text += "\nCreate a first link:\n\n    ";
            text += &format!(
                "curl -s {api}/api/v1/urls -H 'Content-Type: application/json' \
                 -d '{{\"long_url\":\"https://example.com/\"}}'\n"
            );
        }
        if config.roles.web {
            text += &format!("\nor open {api}/ in a browser.\n");
        }
        // A closed standard output must not end the server.
        if let Err(error) = writeln!(std::io::stdout(), "{text}") {
            tracing::warn!(%error, "standard output is closed: the first steps were not printed");
        }
    }
}
