//! The web plane: builds the state of the API and the pages.

use std::sync::Arc;

use anyhow::Context as _;
use terse_clicks::UserAgentClassifier;
use terse_core::accounts::{KeyUse, NoKeyUse, NoRefresh, RefreshHook};
use terse_core::limits::LimitSettings;
use terse_core::link_codec::{CodecLimit, LATEST};
use terse_core::{
    CertificateStatus, Clock, JobBoard, Links, MailQueue, NoCertificates, NoLookup, NoRouteCache,
    NoSystemInfo, SystemInfo,
};
use terse_outgoing::SystemLookup;
use terse_safety::LazyScreen;
use terse_server::{AdminKeys, AppState, CorsOrigins, HttpSettings, RateLimits, RequestLog};
use terse_tls::AcmeCertificates;
use tokio::sync::watch;

use super::services::Services;
use super::{credentials, policy, safety};
use crate::backends::{self, Stores};
use crate::click_plane::ClickPlane;
use crate::commands::doctor;
use crate::config::{Config, LimitsConfig, LogRequests};
use crate::outgoing::Integrations;

/// The other dependencies of the web plane, besides the services.
pub(super) struct WebParts<'a> {
    pub(super) config: &'a Config,
    pub(super) store: &'a Stores,
    /// If terse orders certificates itself.
    pub(super) acme: Option<Arc<AcmeCertificates>>,
    /// If a mail server is set.
    pub(super) mail: Option<Arc<MailQueue>>,
    pub(super) info: Arc<dyn SystemInfo>,
}

impl WebParts<'_> {
    pub(super) fn state(
        &self,
        services: &Services,
        click_plane: &ClickPlane,
        keys: AdminKeys,
        (registry_refresh, used_keys): (Arc<dyn RefreshHook>, Arc<dyn KeyUse>),
        jobs: Arc<JobBoard>,
        stop: watch::Receiver<bool>,
    ) -> anyhow::Result<AppState> {
        let Self { config, store, ref acme, ref mail, ref info } = *self;
        let certificates: Arc<dyn CertificateStatus> = match acme {
            Some(acme) => Arc::clone(acme) as _,
            None => Arc::new(NoCertificates),
        };
        Ok(AppState {
            links: Arc::clone(&services.links),
            keys,
            registry: Arc::clone(&store.registry),
            registry_refresh,
            passwords: services.passwords.clone(),
            operator: Arc::clone(&services.operator),
            accounts: credentials::accounts(config, &services.links.rules().hosts, store)?,
            used_keys,
            classifier: services.classifier.clone(),
            cursor_key: store.links.identity().derive("terse list cursors v1"),
            pass_key: credentials::pass_key(store),
            two_factor_key: credentials::two_factor_key(store),
            reporter_key: store.links.identity().derive("terse reporters v1"),
            limits: RateLimits::new(
                Arc::clone(&services.shared.limiter),
                limit_settings(&config.limits),
            ),
            stats: Arc::default(),
            clicks: Arc::clone(&store.clicks),
            live: Arc::clone(&click_plane.live),
            webhooks: services.integrations.webhooks(),
            mail: mail.clone(),
            jobs,
            self_check: Arc::new(doctor::checks_of_server(config, acme.clone())),
            system_info: Arc::clone(info),
            lookup: Arc::<SystemLookup>::default(),
            certificates,
            http: http_settings(config)?,
            stop,
        })
    }
}

/// The API without a server: the same router on the store of a data folder whose lock the caller
/// holds, and a key that it accepts. Called inside a runtime.
pub(crate) async fn in_process_api(
    config: &Config,
) -> anyhow::Result<(axum::Router, String, Stores)> {
    let store = backends::open(config).await?;
    let base_url = config.base_url();
    let addresses: Vec<_> = config.listen.tcp().into_iter().collect();
    let hosts = policy::hosts(config, &base_url, &addresses)?;
    let places = store.registry.domain_configs().await.context("reading the short domains")?;
    hosts.set_added(places.into_iter().map(|place| place.domain));
    let moderator_blocks =
        store.registry.blocked_hosts().await.context("reading the blocked hosts")?;
    let screen =
        Arc::new(LazyScreen::new(safety::settings(config), hosts.clone(), moderator_blocks));
    // Most commands choose no alias, and must work for users who cannot read the list.
    let unwanted = policy::unwanted_aliases(config).unwrap_or_else(|error| {
        tracing::warn!(error = format!("{error:#}"), "aliases are not compared with the list");
        terse_core::UnwantedAliases::default()
    });
    let rules = policy::link_policy(config, hosts, unwanted)?;
    let clock = Clock::default();
    let codes = policy::code_source(config, &store.links, &clock);
    let integrations =
        Integrations::open(config, &store.registry, store.links.identity(), &rules.hosts).await?;
    let links =
        Links::new(Arc::clone(&store.links), codes, Arc::new(NoRouteCache), screen, rules, clock);
    let passwords = credentials::passwords();
    let links = links.with_passwords(Arc::new(passwords.clone()));
    let codec_limit = CodecLimit::default();
    if config.is_shared() {
        let lowest = store.registry.lowest_version().await.context("reading which nodes run")?;
        codec_limit.set(lowest.unwrap_or(LATEST));
    }
    let links = links.with_codec_limit(codec_limit);
    let links = policy::with_audit(links, &store.registry);
    // The next server sends the events of this command. Titles are not fetched.
    let links = Arc::new(policy::with_events(links, &integrations));
    let accounts = credentials::accounts(config, &links.rules().hosts, &store)?;
    let (key, hash) = AdminKeys::generate().context("making a key")?;
    let cursor_key = store.links.identity().derive("terse list cursors v1");
    let reporter_key = store.links.identity().derive("terse reporters v1");
    // A command ends with its process.
    let stop = watch::channel(false).1;
    let state = AppState {
        links,
        keys: AdminKeys::new(vec![hash]),
        registry: Arc::clone(&store.registry),
        registry_refresh: Arc::new(NoRefresh),
        passwords,
        // Commands show no pages.
        operator: Arc::default(),
        accounts,
        used_keys: Arc::new(NoKeyUse),
        classifier: Arc::new(UserAgentClassifier::new(config.clicks.geo_database.clone())),
        cursor_key,
        pass_key: credentials::pass_key(&store),
        two_factor_key: credentials::two_factor_key(&store),
        reporter_key,
        // An operator with access to the store has no limits.
        limits: RateLimits::off(),
        stats: Arc::default(),
        clicks: Arc::clone(&store.clicks),
        live: Arc::default(),
        webhooks: integrations.webhooks(),
        // Commands send no mails.
        mail: None,
        jobs: Arc::default(),
        self_check: Arc::new(doctor::checks(config)),
        system_info: Arc::new(NoSystemInfo),
        lookup: Arc::new(NoLookup),
        certificates: Arc::new(NoCertificates),
        http: HttpSettings::default(),
        stop,
    };
    Ok((terse_server::router(state), key, store))
}

fn http_settings(config: &Config) -> anyhow::Result<HttpSettings> {
    let cors = CorsOrigins::parse(&config.api.cors_origins);
    let cors = cors.map_err(|why| anyhow::anyhow!("api.cors_origins {why}"))?;
    Ok(HttpSettings { cors, log: request_log(config) })
}

/// The limits of the services, in their words.
pub(super) fn limit_settings(limits: &LimitsConfig) -> LimitSettings {
    LimitSettings {
        create_per_address: limits.create_per_ip,
        create_per_key: limits.create_per_key,
        create_per_account: limits.create_per_account,
        create_per_address_with_key: limits.create_per_ip_with_key,
        guesses_per_address: limits.guesses_per_ip,
        passwords_per_address: limits.password_attempts_per_ip,
        sign_in: limits.sign_in_per_ip,
        reports_per_address: limits.report_per_ip,
    }
}

/// Which requests are logged.
pub(super) fn request_log(config: &Config) -> RequestLog {
    match config.log.requests {
        LogRequests::Off => RequestLog::Off,
        LogRequests::Writes => RequestLog::Writes,
        LogRequests::All => RequestLog::All,
    }
}
