//! The state that the handlers of the API and the pages share.

use std::sync::Arc;

use axum::extract::State;
use terse_core::accounts::{Accounts, Erasures, KeyUse, RefreshHook, TwoFactorKey};
use terse_core::clicks::{ClickStore, LiveFeed};
use terse_core::limits::RateLimits;
use terse_core::moderation::Moderation;
use terse_core::registry::{Registry, Salts};
use terse_core::rules::VisitorClassifier;
use terse_core::webhooks::{WebhookState, Webhooks};
use terse_core::{
    CertificateStatus, DomainChecks, EffectiveOperator, Imports, JobBoard, LinkCreation, Links,
    MailQueue, NameLookup, PublicLinks, Removals, SelfCheck, SystemInfo,
};
use tokio::sync::{Semaphore, watch};

use super::cors::CorsOrigins;
use super::request_id::RequestLog;
use crate::accounts::AccountSettings;
use crate::keys::AdminKeys;
use crate::oidc::OidcProvider;
use crate::passwords::Passwords;
use crate::site::{CurrentSite, Site};
use crate::stats::ApiStats;

/// The services and settings that the binary passes to the web plane.
#[derive(Clone)]
pub struct AppState {
    /// The links: the policy and the store.
    pub links: Arc<Links>,
    /// The operator's keys.
    pub keys: AdminKeys,
    /// Owners, their keys and sessions.
    pub registry: Arc<dyn Registry>,
    /// Refreshes the redirect plane after a change of suspended accounts, blocked hosts or domains
    /// in the registry.
    pub registry_refresh: Arc<dyn RefreshHook>,
    /// Hashes and checks passwords.
    pub passwords: Passwords,
    /// Who runs this server.
    pub operator: Arc<EffectiveOperator>,
    /// Who may create an account, and how long sessions last.
    pub accounts: AccountSettings,
    /// Records which keys were used.
    pub used_keys: Arc<dyn KeyUse>,
    /// Classifies visitors, to test redirect rules on them.
    pub classifier: Arc<dyn VisitorClassifier>,
    /// Seals list cursors. The same on every node of a fleet, so that each node can continue a
    /// list.
    pub cursor_key: [u8; 32],
    /// Signs the access cookies of links with a password. The same on every node of a fleet.
    pub pass_key: [u8; 32],
    /// Derives the secrets of two-factor sign-in. The same on every node of a fleet.
    pub two_factor_key: TwoFactorKey,
    /// Hashes reporters, to count them without storing who they are. The same on every node of a
    /// fleet.
    pub reporter_key: [u8; 32],
    /// The rate limits.
    pub limits: RateLimits,
    /// The counters of the API.
    pub stats: Arc<ApiStats>,
    /// The store of clicks.
    pub clicks: Arc<dyn ClickStore>,
    /// Publishes counted clicks.
    pub live: Arc<LiveFeed>,
    /// Webhooks; `None` if they are off.
    pub webhooks: Option<WebhookState>,
    /// Mails that wait to be sent; `None` if no mail server is set.
    pub mail: Option<Arc<MailQueue>>,
    /// The background jobs of this node.
    pub jobs: Arc<JobBoard>,
    /// Checks the process, for `terse doctor`.
    pub self_check: Arc<dyn SelfCheck>,
    /// Figures and settings of the process, for the page System.
    pub system_info: Arc<dyn SystemInfo>,
    /// Resolves names, to check the DNS records of short domains.
    pub lookup: Arc<dyn NameLookup>,
    /// Knows the certificates that this server orders.
    pub certificates: Arc<dyn CertificateStatus>,
    /// How requests are answered and logged.
    pub http: HttpSettings,
    /// True once the server stops: event streams end then.
    pub stop: watch::Receiver<bool>,
}

/// Settings that hold for every request to the API and the pages.
#[derive(Clone, Debug, Default)]
pub struct HttpSettings {
    /// Which web pages elsewhere may call the API.
    pub cors: CorsOrigins,
    /// Which requests are logged.
    pub log: RequestLog,
}

/// The state of every handler: the services, and what the adapters need themselves.
pub(crate) struct App {
    pub(crate) links: Arc<Links>,
    pub(crate) public_links: PublicLinks,
    pub(crate) creation: Arc<LinkCreation>,
    pub(crate) imports: Imports,
    pub(crate) keys: AdminKeys,
    pub(crate) passwords: Passwords,
    site: CurrentSite,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) moderation: Moderation,
    pub(crate) erasures: Erasures,
    pub(crate) removals: Removals,
    pub(crate) oidc: Option<Arc<OidcProvider>>,
    pub(crate) classifier: Arc<dyn VisitorClassifier>,
    pub(crate) cursor_key: [u8; 32],
    pub(crate) pass_key: [u8; 32],
    pub(crate) stats: Arc<ApiStats>,
    pub(crate) clicks: Arc<dyn ClickStore>,
    pub(crate) live: Arc<LiveFeed>,
    /// The salts of visitor hashes, to tell viewers which clicks are theirs.
    pub(crate) salts: Arc<dyn Salts>,
    pub(crate) webhooks: Option<Webhooks>,
    pub(crate) mail: Option<Arc<MailQueue>>,
    pub(crate) jobs: Arc<JobBoard>,
    pub(crate) self_check: Arc<dyn SelfCheck>,
    pub(crate) system_info: Arc<dyn SystemInfo>,
    pub(crate) domain_checks: DomainChecks,
    pub(crate) certificates: Arc<dyn CertificateStatus>,
    pub(crate) http: HttpSettings,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) turns: RequestPermits,
}

/// Bounds the requests that take much memory or many reads. A request beyond the bound gets 503.
pub(crate) struct RequestPermits {
    /// Bodies that are long lists of links.
    pub(crate) large_bodies: Semaphore,
    /// Exports of accounts.
    pub(crate) exports: Arc<Semaphore>,
    /// Lists of single clicks.
    pub(crate) clicks: Arc<Semaphore>,
    /// Statistics that add up the reports of many links.
    pub(crate) tag_reports: Semaphore,
    /// QR codes that are drawn as PNG.
    pub(crate) drawings: Arc<Semaphore>,
}

impl Default for RequestPermits {
    fn default() -> Self {
        let (exports, clicks) = (Arc::new(Semaphore::new(16)), Arc::new(Semaphore::new(32)));
        let (large_bodies, tag_reports) = (Semaphore::new(16), Semaphore::new(4));
        let drawings = Arc::new(Semaphore::new(4));
        Self { large_bodies, exports, clicks, tag_reports, drawings }
    }
}

impl App {
    /// Builds the services.
    pub(crate) fn new(state: AppState) -> Self {
        let creation = Arc::new(LinkCreation::new(
            Arc::clone(&state.links),
            state.limits.clone(),
            state.stats.clone(),
        ));
        let imports = Imports::new(Arc::clone(&creation), state.links.clock().clone());
        let refresh = state.registry_refresh;
        let accounts = Accounts::new(
            Arc::clone(&state.registry),
            Arc::new(state.passwords.clone()),
            state.limits.clone(),
            state.accounts.policy(),
            state.two_factor_key,
            Arc::clone(&refresh),
            state.used_keys.clone(),
            state.links.clock().clone(),
            state.links.rules().hosts.clone(),
        );
        let accounts = Arc::new(accounts.with_mail(state.mail.clone()));
        let moderation = Moderation::new(
            Arc::clone(&state.links),
            Arc::clone(&accounts),
            Arc::clone(&state.registry),
            state.limits.clone(),
            refresh,
            state.reporter_key,
        );
        let erasures = Erasures::new(
            Arc::clone(&state.links),
            Arc::clone(&state.clicks),
            Arc::clone(&state.registry),
        );
        let removals = Removals::new(state.registry.clone(), state.links.clock().clone());
        let webhooks = state.webhooks.map(|webhooks| {
            Webhooks::new(
                state.registry.clone(),
                webhooks.key.clone(),
                webhooks.rules.clone(),
                Arc::new(webhooks),
                state.links.clock().clone(),
            )
        });
        Self {
            certificates: state.certificates,
            domain_checks: DomainChecks::new(state.lookup, state.links.rules().hosts.clone()),
            site: CurrentSite::new(state.operator, state.links.rules().hosts.clone()),
            public_links: PublicLinks::new(Arc::clone(&state.links), state.limits),
            links: state.links,
            creation,
            imports,
            keys: state.keys,
            passwords: state.passwords,
            accounts,
            moderation,
            erasures,
            removals,
            oidc: state.accounts.oidc,
            classifier: state.classifier,
            cursor_key: state.cursor_key,
            pass_key: state.pass_key,
            stats: state.stats,
            clicks: state.clicks,
            live: state.live,
            salts: state.registry,
            webhooks,
            mail: state.mail,
            jobs: state.jobs,
            self_check: state.self_check,
            system_info: state.system_info,
            http: state.http,
            stop: state.stop,
            turns: RequestPermits::default(),
        }
    }

    /// The operator as pages show it.
    pub(crate) fn site(&self) -> Arc<Site> {
        self.site.get()
    }

    /// The name of the OpenID Connect provider that accounts can sign in with.
    pub(crate) fn provider(&self) -> Option<String> {
        self.oidc.as_ref().map(|oidc| oidc.settings().name.clone())
    }
}

/// The reset link with this token.
pub(crate) fn reset_url(state: &App, token: &str) -> String {
    format!("{}/login/reset?token={token}", state.links.rules().hosts.api_base())
}

/// The extractor for the state.
pub(crate) type Web = State<Arc<App>>;
