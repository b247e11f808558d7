//! `terse serve`: opens the parts, joins them, runs until told to stop.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use prometheus_client::registry::Registry;
use terse_clicks::UserAgentClassifier;
use terse_core::registry::Token;
use terse_core::{
    Alphabet, BlockedHosts, ChangeFollower, Clock, CodeSource, Domain, Hashed, Hosts, LinkPolicy,
    LinkStore, Links, NoRouteCache, Numbered, Random, RouteCache, Snowflake, TargetRules,
};
use terse_redirect::{ErrorStyle, FailurePages, Redirector, Settings, Workers};
use terse_server::{
    AccountSettings, ApiStats, AppState, Erasures, Keys, Limits, Oidc, OidcSettings, PasswordGate,
    Passwords, RegistryRefresh, UsedKeys,
};
use terse_worker::{
    LeaseKeeper, Reaper, ReaperCounts, RegistryRetention, Reports, Running, Scheduler,
};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use url::Url;

use crate::account_jobs::{ErasureJob, UsedKeyFlush};
use crate::backends::{self, Store};
use crate::change_job::ChangeJob;
use crate::click_plane::ClickPlane;
use crate::config::{self, Config};
use crate::data_dir_lock::{DataDir, LockGuard, RunInfo};
use crate::geo_refresh::GeoRefresh;
use crate::health::HealthEndpoints;
use crate::http_fallback::HttpFallback;
use crate::metrics::MetricsSources;
use crate::metrics_store::MetricsStore;
use crate::outgoing::{Integrations, ProviderHttp};
use crate::registry_watcher::RegistryWatcher;
use crate::rescan::{Progress, Rescan, RescanCounts};
use crate::safety::{CacheRescreen, LazyScreen, Safety};

/// How long background jobs may take to end at shutdown.
const JOBS_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the server until it is told to stop.
pub fn run(config: Config) -> anyhow::Result<()> {
    raise_open_files();
    let (shutdown, server) = (config.shutdown.clone(), Server::start(&config, Clock::default())?);
    server.greet(&config);
    server.back_office.block_on(stop_signal())?;
    tracing::info!("stopping");
    server.draining.store(true, Ordering::Relaxed);
    std::thread::sleep(shutdown.drain_delay.get());
    server.stop(shutdown.timeout.get());
    tracing::info!("stopped");
    Ok(())
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
    base_url: Url,
    fresh_key: Option<String>,
    setup_link: Option<String>,
    workers: Arc<Workers>,
    click_plane: ClickPlane,
    jobs: Running,
    back_office: Runtime,
    draining: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
    clock: Clock,
    data_dir: DataDir,
    // Last: the store closes when everything that uses it is gone, and then the folder is let go.
    store: Store,
    _lock: LockGuard,
}

impl Server {
    /// Opens the store, joins the rooms, and only then opens the port.
    pub fn start(config: &Config, clock: Clock) -> anyhow::Result<Self> {
        Self::start_with(config, clock, |_| ())
    }

    /// Also changes what the redirect plane is told beyond the settings, for those who compare.
    #[doc(hidden)]
    pub fn start_with(
        config: &Config,
        clock: Clock,
        adjust: impl FnOnce(&mut Settings),
    ) -> anyhow::Result<Self> {
        let data_dir = DataDir::open(&config.data_dir)?;
        let lock = data_dir.lock()?;
        let back_office = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("back-office")
            .enable_all()
            .build()
            .context("starting the back office")?;
        let store = back_office.block_on(backends::open(config))?;
        let listener = listen(config.listen)?;
        let address = listener.local_addr().context("reading the listener's address")?;
        let base_url = config.base_url_at(address);
        let hosts = hosts(config, &base_url, address)?;

        let mut settings = redirect_settings(config)?;
        adjust(&mut settings);
        let threads = settings.threads.max(1);
        let mut registry = Registry::default();
        let metrics_store: Arc<dyn LinkStore> =
            Arc::new(MetricsStore::new(Arc::clone(&store.links), &mut registry));
        let lookout = Arc::new(UserAgentClassifier::new(config.clicks.geo_database.clone()));
        let safety = Arc::new(Safety::open(config, &hosts, &clock)?);
        let redirector = Redirector::new(
            metrics_store.clone(),
            metrics_store.clone(),
            hosts.clone(),
            address.port(),
            &failure_pages(),
            settings,
            clock.clone(),
        );
        let redirector =
            Arc::new(redirector.with_classifier(lookout.clone()).screened_by(safety.judging()));
        let cache: Arc<dyn RouteCache> = redirector.clone();
        let rules = rules(config, hosts.clone())?;
        let admin = config.admin.listen.map(|at| listen(at).context("admin")).transpose()?;
        // Only now, when nothing that an operator can get wrong is left: a key that was kept but
        // never shown would be lost.
        let (keys, fresh_key, local_key) = back_office.block_on(keys(config, &store))?;
        let setup_link = match config.roles.web {
            true => back_office.block_on(setup_link(&store, &base_url))?,
            false => None,
        };
        let codes = code_source(config, &metrics_store, &clock);
        let outside = back_office.block_on(Integrations::open(
            config,
            &store.registry,
            store.links.identity(),
            &hosts,
        ))?;
        let links = Links::new(
            Arc::clone(&metrics_store),
            codes,
            Arc::clone(&cache),
            safety.judging(),
            rules,
            clock.clone(),
        );
        let links = Arc::new(telling(links, &outside));
        let api = Arc::new(ApiStats::default());
        let used_keys: Arc<UsedKeys> = Arc::default();
        let cursor_key = store.links.identity().derive("terse list cursors v1");
        let reporter_key = store.links.identity().derive("terse reporters v1");
        let (stop, stopped) = watch::channel(false);
        let mut jobs = Scheduler::new(LeaseKeeper::new(store.leases(), store.node()?));
        // Before anybody is let in: no link may be made, and none followed, that a moderator has
        // forbidden.
        let watch = RegistryWatcher::begin(
            store.registry.clone(),
            Arc::clone(&redirector),
            Arc::clone(&links),
            Arc::clone(&safety),
        );
        let watch = back_office.block_on(watch)?;
        let mut follower = ChangeFollower::new(metrics_store.clone(), Arc::clone(&cache));
        // Now, while nothing is cached: the first poll begins at the end of the feed.
        back_office.block_on(follower.poll()).context("reading the changes of links")?;
        jobs.add(ChangeJob(follower));
        let (registry_refresh, receiver) = RegistryRefresh::new();
        back_office.spawn(watch.run(receiver, stopped.clone()));
        let click_plane =
            ClickPlane::start(config, &store.clicks, threads, &clock, &back_office, &mut jobs)?;
        let state = AppState {
            links: Arc::clone(&links),
            keys,
            registry: Arc::clone(&store.registry),
            registry_refresh,
            passwords: passwords(),
            accounts: accounts(config, &base_url, &store)?,
            used_keys: Arc::clone(&used_keys),
            classifier: lookout.clone(),
            cursor_key,
            pass_key: pass_key(&store),
            reporter_key,
            limits: Limits {
                limiter: backends::limiter(&clock),
                create_per_address: config.limits.create_per_ip,
                create_per_key: config.limits.create_per_key,
                guesses_per_address: config.limits.guesses_per_ip,
                passwords_per_address: config.limits.password_attempts_per_ip,
                sign_in: config.limits.sign_in_per_ip,
                reports_per_address: config.limits.report_per_ip,
            },
            stats: Arc::clone(&api),
            clicks: Arc::clone(&store.clicks),
            live: Arc::clone(&click_plane.live),
            webhooks: outside.webhooks(),
            stop: stopped.clone(),
        };
        let gatekeeper = PasswordGate::new(state.clone());
        let web = terse_server::router(state);

        if config.clicks.geo_database.is_some() {
            jobs.add(GeoRefresh { classifier: lookout, clock: clock.clone() });
        }
        safety.add_jobs(config, base_url.as_str(), &mut jobs);
        if let Some(service) = &safety.service {
            service.add_jobs(&safety, &links, &mut jobs);
        }
        let recalled = Arc::new(AtomicU64::new(0));
        jobs.add(CacheRescreen {
            redirector: Arc::clone(&redirector),
            screen: safety.screen.clone(),
            recalled: Arc::clone(&recalled),
            seen: None,
        });
        let (reaper, rescan) =
            (Arc::new(ReaperCounts::default()), Arc::new(RescanCounts::default()));
        if config.roles.worker {
            jobs.add(Reaper {
                links: Arc::clone(&links),
                clicks: Arc::clone(&store.clicks),
                every: config.links.reap_every.get(),
                batch: config.links.reap_batch as usize,
                counts: Arc::clone(&reaper),
            });
            let chore = Rescan {
                links: Arc::clone(&links),
                safety: Arc::clone(&safety),
                every: config.safety.rescan_every.get(),
                clock: clock.clone(),
                progress: Progress::new(store.registry.clone(), store.node()?, safety.folder()),
                counts: Arc::clone(&rescan),
            };
            back_office.spawn(chore.run(stopped.clone()));
            jobs.add(Reports {
                links: Arc::clone(&links),
                registry: Arc::clone(&store.registry),
                clock: clock.clone(),
            });
            jobs.add(click_plane.retention(config, &store.clicks, &metrics_store, &clock));
            jobs.add(RegistryRetention {
                registry: Arc::clone(&store.registry),
                clock: clock.clone(),
            });
        }

        let sent = Arc::clone(&outside.counts);
        outside.add_jobs(config, &metrics_store, &links, &clock, &mut jobs);
        jobs.add(UsedKeyFlush { registry: Arc::clone(&store.registry), used_keys });
        if config.roles.worker {
            let (clicks, registry) = (Arc::clone(&store.clicks), Arc::clone(&store.registry));
            jobs.add(ErasureJob { erasures: Erasures::new(links, clicks, registry) });
        }

        // The metrics read the workers, and the workers' front door shows the metrics.
        let workers: Arc<std::sync::OnceLock<Arc<Workers>>> = Arc::default();
        let (seen, routes, queue) =
            (Arc::clone(&workers), Arc::clone(&redirector), store.queue_depth());
        registry.register_collector(Box::new(MetricsSources {
            redirects: Box::new(move || {
                seen.get().map(|workers| workers.counts()).unwrap_or_default()
            }),
            remembered: Box::new(move || (routes.routes().len(), routes.routes().bytes())),
            api,
            reaper,
            lists: Arc::clone(&safety.counts),
            rescan,
            recalled,
            safe_browsing: safety.service.clone(),
            outgoing: sent,
            queue: Box::new(queue),
            clicks: Box::new(click_plane.counted()),
            jobs: jobs.counts(),
        }));
        let draining = Arc::new(AtomicBool::new(false));
        let health = HealthEndpoints {
            store: Arc::clone(&metrics_store),
            draining: Arc::clone(&draining),
            registry: Arc::new(registry),
        }
        .router();
        let (web, admin_address) = match admin {
            None => (web.merge(health), None),
            Some(listener) => (web, Some(serve_admin(&back_office, listener, health, stopped)?)),
        };
        let primary_host = hosts.primary_host().to_owned();
        let api = HttpFallback::new(
            Arc::clone(&redirector),
            web,
            gatekeeper,
            back_office.handle().clone(),
            config.roles,
            primary_host,
        );
        let running = Arc::new(
            Workers::start(listener, redirector, api, click_plane.journal.clone())
                .context("starting the serving threads")?,
        );
        let _ = workers.set(Arc::clone(&running));
        let jobs = jobs.start(back_office.handle());
        // Visitors are served already: a full disk must not take them away again.
        if let Err(error) = data_dir.write_run(&RunInfo {
            pid: std::process::id(),
            url: local_url(address),
            key: local_key,
        }) {
            tracing::warn!(
                error = format!("{error:#}"),
                "commands on this machine will not find this server by its folder"
            );
        }
        Ok(Self {
            address,
            admin_address,
            base_url,
            fresh_key,
            setup_link,
            workers: running,
            click_plane,
            jobs,
            back_office,
            draining,
            stop,
            clock,
            data_dir,
            store,
            _lock: lock,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where health and metrics are, if on a listener of their own.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// The admin key, if it was made at this start.
    pub fn fresh_key(&self) -> Option<&str> {
        self.fresh_key.as_deref()
    }

    /// Its registry, for those who test what another node may change in it.
    #[doc(hidden)]
    pub fn registry(&self) -> &Arc<dyn terse_core::registry::Registry> {
        &self.store.registry
    }

    /// Where the first admin is made, as long as there has never been one.
    pub fn setup_link(&self) -> Option<&str> {
        self.setup_link.as_deref()
    }

    /// The time it lives by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Stops: no new connections, requests under way finish, clicks are counted, the stores are
    /// closed. Each of the two waits takes up to `patience`.
    pub fn stop(self, patience: Duration) {
        self.draining.store(true, Ordering::Relaxed);
        let _ = self.stop.send(true);
        let all_gone = self.workers.stop(patience);
        self.click_plane.stop(patience, all_gone);
        // Behind the requests: the last uses of keys are recorded.
        if !self.back_office.block_on(self.jobs.stop(JOBS_TIMEOUT)) {
            tracing::warn!("a background job did not end in time");
        }
        if let Err(error) = self.data_dir.remove_run() {
            tracing::warn!(%error, "the file that says where we are could not be removed");
        }
        self.back_office.shutdown_timeout(Duration::from_secs(1));
    }

    /// Says where it is and how to begin, on standard output: standard error is the log, and a key
    /// does not belong there.
    fn greet(&self, config: &Config) {
        let base = self.base_url.as_str().trim_end_matches('/');
        tracing::info!(address = %self.address, base_url = base, "terse is listening");
        let mut text = format!("\nterse is listening on http://{}\n", self.address);
        if let Some(link) = &self.setup_link {
            text += &format!("\nSet up your account: {link}\n");
        }
        if let Some(key) = &self.fresh_key {
            text += &format!("\nYour admin key, shown only this once:\n\n    {key}\n");
        }
        if config.roles.api {
            text += "\nMake a first link:\n\n    ";
            text += &format!(
                "curl -s {base}/api/v1/urls --json '{{\"long_url\":\"https://example.com/\"}}'\n"
            );
        }
        if config.roles.web {
            text += &format!("\nor open {base}/ in a browser.\n");
        }
        println!("{text}");
    }
}

/// The API without a server: the same router on the store of a data folder whose lock the caller
/// holds, and a key that it accepts. Called inside a runtime.
pub(crate) async fn local_door(config: &Config) -> anyhow::Result<(axum::Router, String, Store)> {
    let store = backends::open(config).await?;
    let base_url = config.base_url();
    let hosts = hosts(config, &base_url, config.listen)?;
    let places =
        store.registry.domain_configs().await.context("reading which domains there are")?;
    hosts.set_added(places.into_iter().map(|place| place.domain));
    let moderator_blocks =
        store.registry.blocked_hosts().await.context("reading the blocked hosts")?;
    let screen = Arc::new(LazyScreen::new(config.clone(), hosts.clone(), moderator_blocks));
    let rules = rules(config, hosts)?;
    let clock = Clock::default();
    let codes = code_source(config, &store.links, &clock);
    let outside =
        Integrations::open(config, &store.registry, store.links.identity(), &rules.hosts).await?;
    let links =
        Links::new(Arc::clone(&store.links), codes, Arc::new(NoRouteCache), screen, rules, clock);
    // What a command does waits for the next server to be sent; titles are not asked for.
    let links = Arc::new(telling(links, &outside));
    let (key, hash) = Keys::generate().context("making a key")?;
    let cursor_key = store.links.identity().derive("terse list cursors v1");
    let reporter_key = store.links.identity().derive("terse reporters v1");
    // Nobody tells a command to stop but by ending it.
    let stop = watch::channel(false).1;
    let state = AppState {
        links,
        keys: Keys::new(vec![hash]),
        registry: Arc::clone(&store.registry),
        registry_refresh: RegistryRefresh::default(),
        passwords: passwords(),
        accounts: accounts(config, &base_url, &store)?,
        used_keys: Arc::default(),
        classifier: Arc::new(UserAgentClassifier::new(config.clicks.geo_database.clone())),
        cursor_key,
        pass_key: pass_key(&store),
        reporter_key,
        // Whoever can run a command on the store is not to be kept from anything.
        limits: Limits::off(),
        stats: Arc::default(),
        clicks: Arc::clone(&store.clicks),
        live: Arc::default(),
        webhooks: outside.webhooks(),
        stop,
    };
    Ok((terse_server::router(state), key, store))
}

/// Signs passes of links with a password, on every node alike.
fn pass_key(store: &Store) -> [u8; 32] {
    store.links.identity().derive("terse link passes v1")
}

/// The keys that open everything; the one that was made now; and one for commands on this machine,
/// good while we run.
async fn keys(config: &Config, store: &Store) -> anyhow::Result<(Keys, Option<String>, String)> {
    let (local, local_hash) = Keys::generate().context("making a key")?;
    let mut keys = Keys::new(vec![local_hash]);
    let mut fresh = None;
    match store.admin_key().await.context("reading the admin key")? {
        Some(hash) => keys.add(hash),
        None if config.admin_key.is_none() => {
            let (key, hash) = Keys::generate().context("making the admin key")?;
            store.set_admin_key(hash).await.context("keeping the admin key")?;
            keys.add(hash);
            fresh = Some(key);
        }
        None => {}
    }
    if let Some(given) = &config.admin_key {
        keys.add(Keys::hash(given.reveal()));
    }
    Ok((keys, fresh, local))
}

/// With whoever wants to know what happens to links.
fn telling(links: Links, outside: &Integrations) -> Links {
    match outside.events() {
        Some(events) => links.telling(events),
        None => links,
    }
}

/// Who may come, how long they stay signed in, and who else vouches for them.
fn accounts(config: &Config, base_url: &Url, store: &Store) -> anyhow::Result<AccountSettings> {
    let issuer = config.issuer().map_err(anyhow::Error::msg).context("oidc.issuer")?;
    let oidc = config.oidc.issuer.clone().zip(issuer).zip(config.oidc.client_id.clone()).map(
        |((issuer, url), client_id)| {
            let settings = OidcSettings {
                issuer,
                client_id,
                client_secret: config
                    .oidc
                    .client_secret
                    .as_ref()
                    .map(|secret| secret.reveal().to_owned()),
                name: config
                    .oidc
                    .name
                    .clone()
                    .unwrap_or_else(|| url.host_str().unwrap_or_default().to_owned()),
                sign_up: config.oidc.sign_up,
                redirect_url: format!(
                    "{}/auth/oidc/callback",
                    base_url.as_str().trim_end_matches('/')
                ),
                key: store.links.identity().derive("terse sign-in elsewhere v1"),
            };
            Arc::new(Oidc::new(settings, Arc::new(ProviderHttp::new(config))))
        },
    );
    let open = config.accounts.sign_up == config::SignUp::Open;
    Ok(AccountSettings { open, session_ttl: config.accounts.session_ttl.get(), oidc })
}

/// The link that makes the first admin, as long as there has never been one. A new one at each
/// start: only the hash is kept.
async fn setup_link(store: &Store, base: &Url) -> anyhow::Result<Option<String>> {
    let (token, hash) = Keys::generate().context("making the set-up link")?;
    let offered =
        store.registry.offer_setup(Token(hash)).await.context("keeping the set-up link")?;
    Ok(offered.then(|| format!("{}/setup?token={token}", base.as_str().trim_end_matches('/'))))
}

/// As many at once as there are cores: each keeps one busy.
fn passwords() -> Passwords {
    Passwords::new(std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// A listening socket whose connections answer at once, small as they are.
fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let open = || -> std::io::Result<TcpListener> {
        let socket = socket2::Socket::new(
            socket2::Domain::for_address(address),
            socket2::Type::STREAM,
            None,
        )?;
        socket.set_reuse_address(true)?;
        // Inherited by every accepted connection: one call instead of one each.
        socket.set_tcp_nodelay(true)?;
        socket.bind(&address.into())?;
        socket.listen(4096)?;
        Ok(socket.into())
    };
    open().with_context(|| format!("listening on {address}"))
}

/// Which hosts we answer for. The machine's names for itself are always fine: commands reach us by
/// them.
fn hosts(config: &Config, base_url: &Url, address: SocketAddr) -> anyhow::Result<Hosts> {
    let here = match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let mut own = vec!["localhost", "127.0.0.1", "[::1]"];
    if !address.ip().is_unspecified() {
        own.push(&here);
    }
    let parse = |name: &String| {
        Domain::parse(name).with_context(|| format!("domains: {name:?} is not a host name"))
    };
    let further = config.domains.iter().map(parse).collect::<anyhow::Result<Vec<_>>>()?;
    Hosts::new(base_url, &own, further).context("base_url has no host")
}

fn rules(config: &Config, hosts: Hosts) -> anyhow::Result<LinkPolicy> {
    let blocked = BlockedHosts::parse(&config.safety.blocked_hosts)
        .map_err(|host| anyhow::anyhow!("safety.blocked_hosts: {host:?} is not a host"))?;
    Ok(LinkPolicy {
        targets: TargetRules {
            hosts: Some(hosts.clone()),
            allow_private: config.safety.allow_private_targets,
            blocked,
        },
        hosts,
        anonymous_create: config.anonymous.create,
        anonymous_ttl: config.anonymous.ttl.get(),
        grace: config.links.grace.get(),
        quarantine: config.links.quarantine.get(),
    })
}

fn code_source(config: &Config, store: &Arc<dyn LinkStore>, clock: &Clock) -> Arc<dyn CodeSource> {
    let codes = &config.codes;
    let alphabet = alphabet(config);
    match codes.strategy {
        config::Strategy::Numbered => {
            Arc::new(Numbered::new(Arc::clone(store), codes.length, codes.lease.into()))
        }
        config::Strategy::Random => Arc::new(Random::new(alphabet, codes.length)),
        config::Strategy::Hash => Arc::new(Hashed::new(alphabet, codes.length)),
        config::Strategy::Snowflake => {
            Arc::new(Snowflake::new(alphabet, codes.machine, clock.clone()))
        }
    }
}

/// The alphabet of generated codes.
pub(crate) fn alphabet(config: &Config) -> Alphabet {
    match config.codes.alphabet {
        config::Alphabet::Base62 => Alphabet::Base62,
        config::Alphabet::Base58 => Alphabet::Base58,
    }
}

fn redirect_settings(config: &Config) -> anyhow::Result<Settings> {
    let (redirect, cache) = (&config.redirect, &config.cache);
    let threads = match usize::from(redirect.threads) {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    };
    Ok(Settings {
        threads,
        fast_path: config.roles.redirect,
        errors: match redirect.errors {
            config::Errors::Status => ErrorStyle::Status,
            config::Errors::Page => ErrorStyle::Page,
        },
        permanent_max_age: redirect.permanent_max_age.get(),
        store_timeout: redirect.store_timeout.get(),
        store_concurrency: redirect.store_concurrency as usize,
        header_timeout: redirect.header_timeout.get(),
        idle_timeout: redirect.idle_timeout.get(),
        max_connections: redirect.max_connections as usize,
        cache_bytes: usize::try_from(cache.size.bytes()).unwrap_or(usize::MAX),
        cache_ttl: cache.ttl.get(),
        negative_ttl: cache.negative_ttl.get(),
        negative_entries: cache.negative_entries as usize,
        loose: config.codes.loose,
        redirect_per_address: config.limits.redirect_per_ip,
        redirect_per_code: config.limits.redirect_per_code,
        guesses_per_address: config.limits.guesses_per_ip,
        proxies: config.proxies().map_err(anyhow::Error::msg).context("trusted_proxies")?,
    })
}

fn failure_pages() -> FailurePages {
    let pages = terse_server::pages();
    FailurePages {
        not_found: pages.not_found,
        gone: pages.gone,
        blocked: pages.blocked,
        unavailable: pages.unavailable,
        limited: pages.limited,
        policy: pages.policy.to_owned(),
    }
}

/// Health and metrics on a listener of their own.
fn serve_admin(
    runtime: &Runtime,
    listener: TcpListener,
    router: axum::Router,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<SocketAddr> {
    let address = listener.local_addr().context("reading the admin listener's address")?;
    listener.set_nonblocking(true).context("admin")?;
    let _inside = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener).context("admin")?;
    runtime.spawn(async move {
        let stopped = async move {
            let _ = stop.wait_for(|stop| *stop).await;
        };
        if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stopped).await {
            tracing::error!(%error, "the admin listener ended");
        }
    });
    Ok(address)
}

/// Where commands on this machine reach us.
fn local_url(address: SocketAddr) -> String {
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V6(ip) if ip.is_unspecified() => "[::1]".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    format!("http://{host}:{}", address.port())
}

async fn stop_signal() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    // Whoever asks twice means it.
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(())
}

/// As many open files as the system lets us have: each visitor is one.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}
