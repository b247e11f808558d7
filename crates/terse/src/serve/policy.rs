//! Converts the settings to the types of the core and the redirect plane.

use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use terse_core::registry::{
    Attribution, AuditAction, AuditEntry, AuditLog, AuditQuery, Registry, RegistryError,
};
use terse_core::{
    Alphabet, BlockedHosts, Clock, CodeSource, Domain, HashedCodes, Hosts, LinkPolicy, LinkStore,
    Links, Logo, NumberedCodes, Operator, OwnerTags, PageLanguage, RandomCodes, SnowflakeCodes,
    StoreIdentity, TargetRules, UnwantedAliases,
};
use terse_redirect::{EdgeSettings, ErrorStyle, FailurePages, LanguagePages, RedirectSettings};
use url::Url;

use super::listeners;
use crate::config::{self, CdnProvider, Config};
use crate::memory_plan::MemoryPlan;
use crate::outgoing::Integrations;

/// The hosts that terse serves. They always include the local names, which commands use.
pub(crate) fn hosts(
    config: &Config,
    base_url: &Url,
    addresses: &[SocketAddr],
) -> anyhow::Result<Hosts> {
    let mut own = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
    for address in addresses.iter().flat_map(|address| listeners::reachable(*address)) {
        let name = match address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        if !own.contains(&name) {
            own.push(name);
        }
    }
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let parse = |name: &String| {
        Domain::parse(name).with_context(|| format!("domains: {name:?} is not a host name"))
    };
    let further = config.domains.iter().map(parse).collect::<anyhow::Result<Vec<_>>>()?;
    let hosts = Hosts::new(base_url, &own, further).context("base_url has no host")?;
    let Some(name) = &config.api.host else { return Ok(hosts) };
    let host = Domain::parse(name).context("api.host is not a host name")?;
    hosts.with_api_host(host).context("api.host must be another host than those of short links")
}

/// The policy for links.
pub(super) fn link_policy(
    config: &Config,
    hosts: Hosts,
    unwanted_aliases: UnwantedAliases,
) -> anyhow::Result<LinkPolicy> {
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
        // Expired links of owners stay at least as long as deleted ones.
        keep_expired: config.links.keep_expired.get().max(config.links.grace.get()),
        quarantine: config.links.quarantine.get(),
        unwanted_aliases,
    })
}

/// Reads the list of unwanted aliases.
pub(crate) fn unwanted_aliases(config: &Config) -> anyhow::Result<UnwantedAliases> {
    let Some(path) = &config.links.unwanted_aliases else { return Ok(UnwantedAliases::default()) };
    let read = || -> std::io::Result<String> {
        let mut text = String::new();
        let most = UnwantedAliases::MAX_BYTES;
        std::fs::File::open(path)?.take(most as u64 + 1).read_to_string(&mut text)?;
        match text.len() > most {
            true => Err(std::io::Error::other("the list must have at most 1 MiB")),
            false => Ok(text),
        }
    };
    let text = read()
        .with_context(|| format!("links.unwanted_aliases cannot be read: {}", path.display()))?;
    let unwanted = UnwantedAliases::parse(&text);
    if unwanted.skipped() > 0 {
        tracing::info!(
            aliases = unwanted.len(),
            skipped = unwanted.skipped(),
            "some lines of links.unwanted_aliases cannot be an alias and are skipped"
        );
    }
    Ok(unwanted)
}

/// How codes are generated.
pub(super) fn code_source(
    config: &Config,
    store: &Arc<dyn LinkStore>,
    clock: &Clock,
) -> Arc<dyn CodeSource> {
    let codes = &config.codes;
    let alphabet = alphabet(config);
    match codes.strategy {
        config::CodeStrategy::Numbered => {
            Arc::new(NumberedCodes::new(Arc::clone(store), codes.length, codes.lease.into()))
        }
        config::CodeStrategy::Random => Arc::new(RandomCodes::new(alphabet, codes.length)),
        config::CodeStrategy::Hash => Arc::new(HashedCodes::new(store.identity(), codes.length)),
        config::CodeStrategy::Snowflake => {
            Arc::new(SnowflakeCodes::new(alphabet, codes.machine, clock.clone()))
        }
    }
}

/// The alphabet of generated codes.
pub(crate) fn alphabet(config: &Config) -> Alphabet {
    match config.codes.alphabet {
        config::CodeAlphabet::Base62 => Alphabet::Base62,
        config::CodeAlphabet::Base58 => Alphabet::Base58,
    }
}

/// How long a node remembers that a code does not exist, where other nodes create codes, too.
const MAX_SHARED_NEGATIVE_TTL: std::time::Duration = std::time::Duration::from_secs(5);

/// The settings of the redirect plane, for a store.
pub(super) fn redirect_settings(
    config: &Config,
    store: &StoreIdentity,
) -> anyhow::Result<RedirectSettings> {
    let (redirect, cache, memory) = (&config.redirect, &config.cache, MemoryPlan::of(config));
    let threads = match usize::from(redirect.threads) {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    };
    Ok(RedirectSettings {
        threads,
        fast_path: config.roles.redirect,
        errors: match redirect.errors {
            config::ErrorAnswers::Status => ErrorStyle::Status,
            config::ErrorAnswers::Page => ErrorStyle::Page,
        },
        permanent_max_age: redirect.permanent_max_age.get(),
        permanent_after: Some(redirect.permanent_after.get()).filter(|after| !after.is_zero()),
        store_timeout: redirect.store_timeout.get(),
        store_concurrency: redirect.store_concurrency as usize,
        header_timeout: redirect.header_timeout.get(),
        handshake_timeout: config.tls.handshake_timeout.get(),
        max_handshakes: config.tls.max_handshakes as usize,
        https_only: config.tls.listen.is_some() && config.tls.redirect,
        idle_timeout: redirect.idle_timeout.get(),
        max_connections: redirect.max_connections as usize,
        max_connections_per_source: match redirect.max_connections_per_ip {
            0 => (redirect.max_connections as usize / 8).max(1),
            most => most as usize,
        },
        cache_bytes: usize::try_from(memory.links).unwrap_or(usize::MAX),
        max_http2_connections: memory.http2_connections(),
        cache_ttl: cache.ttl.get(),
        max_stale: redirect.max_stale.get(),
        negative_ttl: match config.is_shared() {
            // Another node may create the code meanwhile.
            true => cache.negative_ttl.get().min(MAX_SHARED_NEGATIVE_TTL),
            false => cache.negative_ttl.get(),
        },
        negative_entries: cache.negative_entries as usize,
        loose: config.codes.loose,
        redirect_per_address: config.limits.redirect_per_ip,
        redirect_per_code: config.limits.redirect_per_code,
        guesses_per_address: config.limits.guesses_per_ip,
        edge: config.cdn.enabled.then(|| EdgeSettings {
            ttl: config.cdn.ttl.get(),
            reads_cache_control_only: matches!(
                config.cdn.purge,
                CdnProvider::Fastly | CdnProvider::CloudFront
            ),
            obeys_vary: config.cdn.purge == CdnProvider::Varnish,
            owner_tags: OwnerTags::of(store),
        }),
        // Without a TLS listener and an https `base_url`, visitors may have no https at all.
        hsts: Some(config.tls.hsts.get()).filter(|age| {
            let https = config.tls.listen.is_some() || config.base_url().scheme() == "https";
            !age.is_zero() && https
        }),
        proxy_protocol: config.proxy_protocol,
        proxies: config.proxies().map_err(anyhow::Error::msg).context("trusted_proxies")?,
    })
}

/// Who runs the server. Reads the logo.
pub(super) fn operator(config: &Config) -> anyhow::Result<Operator> {
    let config::OperatorConfig { name, logo, imprint, abuse_contact, security_contact } =
        config.operator.clone();
    let logo = match logo {
        Some(path) => {
            let bytes = std::fs::read(&path)
                .with_context(|| format!("operator.logo cannot be read: {}", path.display()))?;
            let logo = Logo::parse(bytes).map_err(|why| {
                anyhow::anyhow!("operator.logo {why} (got {:?})", path.display().to_string())
            })?;
            Some(logo)
        }
        None => None,
    };
    let (accent, links) = (None, Vec::new());
    Ok(Operator { name, logo, imprint, abuse_contact, security_contact, accent, links })
}

/// The pages that the redirect plane sends by itself.
pub(super) fn failure_pages(operator: &Operator, hosts: &Hosts) -> FailurePages {
    let pages = PageLanguage::ALL.map(|language| {
        let pages = terse_server::pages(operator, hosts, language);
        LanguagePages {
            not_found: pages.not_found,
            gone: pages.gone,
            used_up: pages.used_up,
            blocked: pages.blocked,
            unavailable: pages.unavailable,
            limited: pages.limited,
        }
    });
    FailurePages {
        pages,
        contact: operator.abuse_contact.as_ref().map(ToString::to_string),
        policy: terse_server::CSP.to_owned(),
    }
}

/// The audit log of automatic decisions. Logs a record that cannot be written.
struct LoggedAudit(Arc<dyn Registry>);

#[async_trait]
impl AuditLog for LoggedAudit {
    async fn record(
        &self,
        act: AuditAction,
        subject: &str,
        change: (Option<String>, Option<String>),
        by: Attribution,
    ) -> Result<(), RegistryError> {
        self.0.record(act, subject, change, by).await.inspect_err(|error| {
            tracing::warn!(%error, subject, "an automatic decision could not be recorded");
        })
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditEntry>, RegistryError> {
        self.0.audit(query).await
    }
}

/// Adds the audit log of automatic decisions to the links.
pub(super) fn with_audit(links: Links, registry: &Arc<dyn Registry>) -> Links {
    links.audited_by(Arc::new(LoggedAudit(Arc::clone(registry))))
}

/// Adds the event listeners to the links.
pub(super) fn with_events(links: Links, outside: &Integrations) -> Links {
    match outside.events() {
        Some(events) => links.with_events(events),
        None => links,
    }
}
