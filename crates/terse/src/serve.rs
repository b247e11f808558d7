//! `terse serve`: configuration, backends, services, planes, jobs, listeners, and shutdown.

mod credentials;
mod first_steps;
mod jobs;
mod listeners;
mod metrics;
mod policy;
mod reload;
mod safety;
mod services;
mod start;
mod system_info;
mod tls;
mod unix_socket;
mod web;
mod web_plane;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use terse_core::clicks::ClickStore;
use terse_core::limits::RateLimits;
use terse_core::{Clock, JobBoard, LinkKey, ListenAddress};
use terse_redirect::{
    FallbackParts, HttpFallback, Listeners, RedirectSettings, Redirector, ServedRoles,
    ServingThreads,
};
use terse_traces::SpanQueue;
use terse_worker::{HotLinks, RunningJobs};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use url::Url;

use crate::backends::{DataDir, LockGuard, RunInfo, Stores};
use crate::click_plane::ClickPlane;
use crate::config::Config;
use listeners::BoundListeners;
use reload::Reloaded;
use start::{AddedJobs, Monitoring, OpenServices, Opened, OwnKeys, Planes};
use system_info::ServerInfo;

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

/// The links in use, which are saved for the next start.
fn hot_links(
    config: &Config,
    redirector: &Arc<Redirector>,
    click_plane: &ClickPlane,
    clock: &Clock,
) -> HotLinks {
    let (in_use, live) = (Arc::clone(redirector), Arc::clone(&click_plane.live));
    let in_use = move |visit: &mut dyn FnMut(LinkKey)| in_use.for_each_link_in_use(visit);
    HotLinks::new(in_use, live, clock.clone(), &config.data_dir)
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
        let mut opened = Opened::open(config, &clock)?;
        let OpenServices { services, threads, keys, own_keys, metrics } =
            OpenServices::open(config, &opened, &clock, adjust)?;
        let mut planes = Planes::start(config, &mut opened, &services, (keys, threads), &clock)?;
        let mut added = AddedJobs::add(config, &mut opened, services, &mut planes, spans, &clock)?;
        let started = started.map_or(0.0, |since| since.as_secs_f64());
        let Monitoring { workers, draining, health } =
            Monitoring::begin(config, &mut opened, &mut planes, &mut added, metrics, started);

        // The stores, the runtime and the folder's lock stay in `opened`: it was made first, so an
        // error below releases them after everything that uses them.
        let (base_url, hosts, acme) = (opened.base_url, opened.hosts, opened.acme);
        let BoundListeners { plain, tls, admin, address, tls_address, outlive } = opened.listeners;
        let (runtime, store) = (&opened.runtime, &opened.store);
        let Planes { mut jobs, click_plane, system_info, web, password_gate, limits, stop, .. } =
            planes;
        let AddedJobs { redirector, refusal_pages, tls_config, .. } = added;
        let (web, served_admin) = match admin {
            None => (web.merge(health), None),
            Some(admin) => {
                let stopped = stop.subscribe();
                (web, Some(listeners::serve_admin(runtime, admin, health, stopped)?))
            }
        };
        let (admin_address, admin) = served_admin.unzip();
        let roles = config.roles;
        let (router, log) = (web, web::request_log(config));
        let fallback = HttpFallback::new(FallbackParts {
            redirector: Arc::clone(&redirector),
            web: web_plane::WebService { router, password_gate, refusal_pages, log, acme },
            web_runtime: runtime.handle().clone(),
            serves: ServedRoles { redirects: roles.redirect, api: roles.api, pages: roles.web },
            hosts: hosts.clone(),
            https_port: https_port(&base_url, tls_address),
        });
        let hot_links = hot_links(config, &redirector, &click_plane, &clock);
        jobs.add(hot_links.clone());
        let tls = tls.zip(tls_config).map(|(listener, config)| (listener.into(), config));
        let (listeners, journal) = (Listeners { plain, tls, outlive }, click_plane.journal.clone());
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
        let OwnKeys { fresh_key, local_key, setup_link } = own_keys;
        tell_local_commands(&opened.data_dir, &address, local_key);
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
            runtime: opened.runtime,
            draining,
            stop,
            loading,
            admin,
            clock,
            data_dir: opened.data_dir,
            store: opened.store,
            _lock: opened.lock,
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
}
