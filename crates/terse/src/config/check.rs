//! Checks bounds and dependencies between settings.

use std::collections::HashSet;

use terse_core::{BlockedHosts, Domain, EmailAddress};
use terse_safety::{Flag, ListLocation, ListSource};
use terse_server::CorsOrigins;
use url::{Host, Position, Url};

use super::{ByteSize, CdnConfig, CdnProvider, Config, HumanDuration, MailConfig, StoreUrl};

/// More partitions make each query slower and help no more.
const MAX_PARTITIONS: u32 = 256;

/// The first setting that is invalid, and why.
pub(crate) fn check(config: &Config) -> Result<(), (&'static str, String)> {
    durations(config)?;
    counts(config)?;
    sizes(config)?;
    shared_stores(config)?;
    object_storage(config)?;
    sign_in(config)?;
    requests(config)?;
    tls(config)?;
    cdn(config)?;
    domains(config)?;
    api_host(config)?;
    if let Err(host) = BlockedHosts::parse(&config.safety.blocked_hosts) {
        return Err(("safety.blocked_hosts", format!("{host:?} cannot be a host")));
    }
    lists(config)?;
    safe_browsing(config)?;
    traces(config)?;
    log_level(&config.log.level).map_err(|why| ("log.level", why))
}

fn durations(c: &Config) -> Result<(), (&'static str, String)> {
    let day = HumanDuration::days(1);
    let hour = HumanDuration::secs(3600);
    spans(&[
        ("cache.ttl", c.cache.ttl, HumanDuration::secs(1), day),
        (
            "cache.negative_ttl",
            c.cache.negative_ttl,
            HumanDuration::secs(0),
            HumanDuration::secs(60),
        ),
        (
            "redirect.permanent_max_age",
            c.redirect.permanent_max_age,
            HumanDuration::secs(0),
            HumanDuration::days(365),
        ),
        (
            "redirect.permanent_after",
            c.redirect.permanent_after,
            HumanDuration::secs(0),
            HumanDuration::days(3650),
        ),
        (
            "redirect.store_timeout",
            c.redirect.store_timeout,
            HumanDuration::ms(1),
            HumanDuration::secs(60),
        ),
        (
            "redirect.max_stale",
            c.redirect.max_stale,
            HumanDuration::secs(0),
            HumanDuration::days(7),
        ),
        (
            "redirect.header_timeout",
            c.redirect.header_timeout,
            HumanDuration::secs(1),
            HumanDuration::secs(300),
        ),
        ("redirect.idle_timeout", c.redirect.idle_timeout, HumanDuration::secs(1), hour),
        ("clicks.flush", c.clicks.flush, HumanDuration::secs(0), HumanDuration::secs(60)),
        ("clicks.keep_raw", c.clicks.keep_raw, HumanDuration::secs(0), HumanDuration::days(36_500)),
        (
            "clicks.keep_hours",
            c.clicks.keep_hours,
            HumanDuration::days(2),
            HumanDuration::days(366),
        ),
        (
            "accounts.session_ttl",
            c.accounts.session_ttl,
            HumanDuration::secs(60),
            HumanDuration::days(365),
        ),
        ("anonymous.ttl", c.anonymous.ttl, HumanDuration::secs(1), HumanDuration::days(3650)),
        (
            "safety.lists_every",
            c.safety.lists_every,
            HumanDuration::secs(60),
            HumanDuration::days(7),
        ),
        (
            "safety.rescan_every",
            c.safety.rescan_every,
            HumanDuration::secs(60),
            HumanDuration::days(365),
        ),
        ("backup.every", c.backup.every, hour, HumanDuration::days(365)),
        ("backup.keep", c.backup.keep, hour, HumanDuration::days(36_500)),
        (
            "backup.drill_every",
            c.backup.drill_every,
            HumanDuration::secs(0),
            HumanDuration::days(365),
        ),
        ("cdn.ttl", c.cdn.ttl, HumanDuration::secs(1), day),
        ("links.grace", c.links.grace, HumanDuration::secs(0), HumanDuration::days(3650)),
        (
            "links.keep_expired",
            c.links.keep_expired,
            HumanDuration::secs(0),
            HumanDuration::days(36_500),
        ),
        ("links.reap_every", c.links.reap_every, HumanDuration::secs(1), day),
        (
            "tls.handshake_timeout",
            c.tls.handshake_timeout,
            HumanDuration::secs(1),
            HumanDuration::secs(60),
        ),
        ("tls.hsts", c.tls.hsts, HumanDuration::secs(0), HumanDuration::days(3650)),
        ("shutdown.drain_delay", c.shutdown.drain_delay, HumanDuration::secs(0), hour),
        ("shutdown.timeout", c.shutdown.timeout, HumanDuration::secs(0), hour),
    ])
}

fn counts(c: &Config) -> Result<(), (&'static str, String)> {
    numbers(&[
        ("codes.length", c.codes.length.into(), 4, 10),
        ("codes.lease", c.codes.lease.into(), 1, 100_000),
        ("cache.negative_entries", c.cache.negative_entries.into(), 0, 100_000_000),
        ("redirect.threads", c.redirect.threads.into(), 0, 1024),
        ("redirect.store_concurrency", c.redirect.store_concurrency.into(), 1, 100_000),
        ("redirect.max_connections", c.redirect.max_connections.into(), 1, 10_000_000),
        (
            "redirect.max_connections_per_ip",
            c.redirect.max_connections_per_ip.into(),
            0,
            10_000_000,
        ),
        ("tls.max_handshakes", c.tls.max_handshakes.into(), 1, 1_000_000),
        ("links.reap_batch", c.links.reap_batch.into(), 1, 100_000),
        ("links.max_purge_percent", c.links.max_purge_percent.into(), 1, 100),
    ])
}

fn sizes(c: &Config) -> Result<(), (&'static str, String)> {
    if c.memory.budget < ByteSize::mib(64) || c.memory.budget > ByteSize::mib(1 << 20) {
        return Err(("memory.budget", "must be from 64MiB to 1024GiB".into()));
    }
    if c.cache.size.is_some_and(|size| size < ByteSize::mib(1) || size > ByteSize::mib(1 << 20)) {
        return Err(("cache.size", "must be from 1MiB to 1024GiB".into()));
    }
    if c.clicks.journal_size < ByteSize::mib(16) || c.clicks.journal_size > ByteSize::mib(1 << 20) {
        return Err(("clicks.journal_size", "must be from 16MiB to 1024GiB".into()));
    }
    Ok(())
}

/// What a node needs to share its stores with others, and what only such nodes can have.
fn shared_stores(c: &Config) -> Result<(), (&'static str, String)> {
    if !c.is_shared() && !c.roles.worker {
        let why = "must include worker while store is a file: only one process can use the file, \
                   and without that role nothing deletes expired links and old salts or sends \
                   webhook events";
        return Err(("roles", why.into()));
    }
    for (name, given) in [("store_direct", &c.store_direct), ("store_replica", &c.store_replica)] {
        if given.is_some() && c.registry_database().is_none() {
            return Err((name, "is for a store or registry on PostgreSQL only".into()));
        }
    }
    if c.store_partitions > MAX_PARTITIONS {
        return Err(("store_partitions", format!("must be at most {MAX_PARTITIONS}")));
    }
    if c.cache.url.is_some() && !c.is_shared() {
        let why = "is for a store that several nodes share, such as postgres://…";
        return Err(("cache.url", why.into()));
    }
    if c.cache.write_through && c.cache.url.is_none() {
        return Err(("cache.write_through", "needs cache.url".into()));
    }
    stores(c)?;
    if c.clicks.bus.is_some() && (!c.is_shared() || c.has_clicks_file()) {
        let why = "needs a store and a clicks.store that nodes share: postgres://… or, for clicks, \
                   clickhouse://…";
        return Err(("clicks.bus", why.into()));
    }
    Ok(())
}

fn sign_in(c: &Config) -> Result<(), (&'static str, String)> {
    let issuer = c.issuer().map_err(|why| ("oidc.issuer", why))?;
    if issuer.is_some() != c.oidc.client_id.is_some() {
        return Err(("oidc.client_id", "is needed with oidc.issuer, and only there".into()));
    }
    check_mail(&c.mail)
}

/// How requests reach the server: proxies, other origins, the operator's key, listeners.
fn requests(c: &Config) -> Result<(), (&'static str, String)> {
    c.proxies().map_err(|why| ("trusted_proxies", why))?;
    if c.proxy_protocol && c.trusted_proxies.is_empty() {
        return Err(("proxy_protocol", "needs the balancers in trusted_proxies".into()));
    }
    CorsOrigins::parse(&c.api.cors_origins).map_err(|why| ("api.cors_origins", why))?;
    if let Some(key) = &c.admin_key {
        let key = key.reveal();
        if !(16..=256).contains(&key.len()) || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err((
                "admin_key",
                "16 to 256 visible ASCII characters without spaces are needed".into(),
            ));
        }
    }
    if c.listen.unix().is_some() && c.base_url.is_none() && c.tls.listen.is_none() {
        let why = "must be set if listen is a Unix socket, which has no host and port";
        return Err(("base_url", why.into()));
    }
    if c.admin.listen.is_some_and(|at| Some(at) == c.listen.tcp() && at.port() != 0) {
        return Err(("admin.listen", "must differ from listen".into()));
    }
    Ok(())
}

/// Which stores may stand beside each other.
fn stores(config: &Config) -> Result<(), (&'static str, String)> {
    use StoreUrl::{ClickHouse, Dynamo, File, Postgres};
    let refuse = |name, why: &str| Err((name, why.to_owned()));
    match (&config.store, &config.registry) {
        (ClickHouse(_), _) => {
            return refuse("store", "must not be ClickHouse, which is for clicks.store only");
        }
        (_, Some(ClickHouse(_) | Dynamo(_))) => {
            return refuse("registry", "must be postgres://… or file:…");
        }
        (File(_), Some(Postgres(_))) => {
            return refuse("registry", "must be a file while store is a file");
        }
        (Postgres(_), Some(File(_))) | (Dynamo(_), None | Some(File(_))) => {
            let why = "must be postgres://… while nodes share the store: they share accounts, \
                       sessions and the leases of jobs, too";
            return refuse("registry", why);
        }
        (Postgres(store), Some(Postgres(registry))) if store != registry => {
            return refuse("registry", "must be the database of store, or not be set");
        }
        (File(_), None | Some(File(_)))
        | (Postgres(_), None | Some(Postgres(_)))
        | (Dynamo(_), Some(Postgres(_))) => {}
    }
    match (&config.store, &config.clicks.store) {
        (_, Some(Dynamo(_))) => {
            return refuse("clicks.store", "must not be DynamoDB, which is for store only");
        }
        (File(_), Some(Postgres(_) | ClickHouse(_))) => {
            return refuse("clicks.store", "must be a file while store is a file");
        }
        (Dynamo(_), Some(File(_))) => {
            let why = "must be postgres://… or clickhouse://… while store is on DynamoDB; without \
                       it, clicks are in the database of registry";
            return refuse("clicks.store", why);
        }
        _ => {}
    }
    if config.is_shared() {
        return Ok(());
    }
    if config.clicks_file() == config.store_file() {
        return refuse("clicks.store", "must be another file than store");
    }
    if [config.store_file(), config.clicks_file()].contains(&config.registry_file()) {
        return refuse("registry", "must be another file than store and clicks.store");
    }
    Ok(())
}

fn traces(config: &Config) -> Result<(), (&'static str, String)> {
    let Some(text) = &config.traces.url else { return Ok(()) };
    let url = Url::parse(text).ok().filter(|url| {
        let no_user = url.username().is_empty() && url.password().is_none();
        matches!(url.scheme(), "http" | "https") && url.has_host() && no_user
    });
    if url.is_none() {
        // A query may contain a key.
        let why = "must be a URL such as http://127.0.0.1:4318/v1/traces, without a password";
        return Err(("traces.url", why.into()));
    }
    let secret = config.traces.authorization.as_ref().map_or("", super::Secret::reveal);
    match secret.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        true => Ok(()),
        false => Err(("traces.authorization", "must be visible ASCII characters".into())),
    }
}

/// The archive of clicks, backups, and S3.
fn object_storage(config: &Config) -> Result<(), (&'static str, String)> {
    let (clicks, s3, day) = (&config.clicks, &config.s3, HumanDuration::days(1));
    if clicks.archive.is_some() && clicks.keep_raw < day {
        let why = "must be at least 1d with clicks.archive, which copies single clicks";
        return Err(("clicks.keep_raw", why.into()));
    }
    if clicks.archive.is_some() && config.is_shared() && config.has_clicks_file() {
        let why = "must be a database with clicks.archive: one node archives the clicks of all";
        return Err(("clicks.store", why.into()));
    }
    match clicks.archive_keep {
        Some(_) if clicks.archive.is_none() => {
            return Err(("clicks.archive_keep", "needs clicks.archive".into()));
        }
        Some(keep) if keep < day => {
            return Err(("clicks.archive_keep", format!("must be at least 1d (got {keep})")));
        }
        _ => {}
    }
    let drill_every = config.backup.drill_every;
    if drill_every > HumanDuration::secs(0) && drill_every < HumanDuration::secs(3600) {
        let why = format!("must be 0s for never, or at least 1h (got {drill_every})");
        return Err(("backup.drill_every", why));
    }
    if config.backup.url.is_some() && config.is_shared() {
        let why = "is for a store in files: back databases up with their own tools";
        return Err(("backup.url", why.into()));
    }
    if s3.access_key_id.is_some() != s3.secret_access_key.is_some() {
        let why = "is needed with s3.secret_access_key, and only there";
        return Err(("s3.access_key_id", why.into()));
    }
    let is_server = |text: &String| {
        Url::parse(text).is_ok_and(|url| {
            let is_plain = matches!(url.path(), "" | "/") && url.query().is_none();
            let no_user = url.username().is_empty() && url.password().is_none();
            matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain && no_user
        })
    };
    match s3.endpoint.as_ref().filter(|endpoint| !is_server(endpoint)) {
        Some(text) => Err((
            "s3.endpoint",
            format!("must be a URL such as https://minio.example:9000 (got {text:?})"),
        )),
        None => Ok(()),
    }
}

fn cdn(config: &Config) -> Result<(), (&'static str, String)> {
    let CdnConfig { enabled, purge, url, service, key_id, token, .. } = &config.cdn;
    if *enabled && *purge == CdnProvider::Nothing {
        let why = "must be varnish, fastly, cloudflare or cloudfront with cdn.enabled: without \
                   purges, edges would serve changed and blocked links";
        return Err(("cdn.purge", why.into()));
    }
    if *purge == CdnProvider::Nothing {
        return Ok(());
    }
    if *enabled && *purge == CdnProvider::CloudFront && config.codes.loose {
        let why = "must be false with cdn.purge = cloudfront: CloudFront forgets paths, and would \
                   keep other spellings of a changed link";
        return Err(("codes.loose", why.into()));
    }
    let is_varnish = *purge == CdnProvider::Varnish;
    let mut servers = HashSet::new();
    for text in url {
        let parsed = Url::parse(text).ok().filter(|url| {
            let is_plain = url.query().is_none() && url.fragment().is_none();
            let no_user = url.username().is_empty() && url.password().is_none();
            matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain && no_user
        });
        match parsed {
            None => {
                let why = format!("must be URLs such as http://10.0.0.7:6081 (got {text:?})");
                return Err(("cdn.url", why));
            }
            // A token must not be readable in transit.
            Some(url) if !is_varnish && url.scheme() != "https" && !is_loopback(&url) => {
                return Err(("cdn.url", "must be https, unless it is on this machine".into()));
            }
            // The job that purges a server is named after it.
            Some(url)
                if !servers.insert(
                    url[Position::BeforeHost..Position::AfterPath].trim_end_matches('/').to_owned(),
                ) =>
            {
                return Err((
                    "cdn.url",
                    format!("must name each server once (got {text:?} again)"),
                ));
            }
            Some(_) => {}
        }
    }
    match (is_varnish, url.len()) {
        (true, 0) => return Err(("cdn.url", "must name the Varnish servers".into())),
        (true, 1..=64) | (false, 0 | 1) => {}
        (true, _) => return Err(("cdn.url", "must be at most 64 servers".into())),
        (false, _) => return Err(("cdn.url", "must be one URL".into())),
    }
    let is_id = |id: &String| id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric());
    if service.as_ref().is_some_and(|id| !is_id(id)) {
        return Err(("cdn.service", "must be at most 64 letters and digits".into()));
    }
    if key_id.as_ref().is_some_and(|id| !is_id(id)) {
        return Err(("cdn.key_id", "must be at most 64 letters and digits".into()));
    }
    let is_token = |token: &str| token.bytes().all(|b| b.is_ascii_graphic()) && token.len() <= 512;
    if token.as_ref().is_some_and(|token| !is_token(token.reveal())) {
        return Err(("cdn.token", "must be at most 512 visible ASCII characters".into()));
    }
    let needed = [
        ("cdn.service", !is_varnish && service.is_none()),
        ("cdn.token", !is_varnish && token.is_none()),
        ("cdn.key_id", *purge == CdnProvider::CloudFront && key_id.is_none()),
    ];
    match needed.into_iter().find(|(_, is_missing)| *is_missing) {
        Some((name, _)) => Err((name, "is needed for this CDN".into())),
        None => Ok(()),
    }
}

fn tls(config: &Config) -> Result<(), (&'static str, String)> {
    let tls = &config.tls;
    let (certificates, keys) = (tls.certificate.0.len(), tls.key.0.len());
    if certificates != keys {
        let why =
            format!("must name a key for each tls.certificate (got {keys} for {certificates})");
        return Err(("tls.key", why));
    }
    acme(config)?;
    let Some(listen) = tls.listen else {
        let orders_for_others = config.is_shared() && config.roles.worker;
        return match certificates {
            _ if tls.acme.enabled && orders_for_others => Ok(()),
            _ if tls.acme.enabled => {
                let why = "needs tls.listen; without it, only a node with the role worker and a \
                           store that nodes share orders certificates, for the other nodes";
                Err(("tls.acme.enabled", why.into()))
            }
            0 => Ok(()),
            _ => Err(("tls.certificate", "needs tls.listen".into())),
        };
    };
    if certificates == 0 && !tls.acme.enabled {
        let why = "needs tls.certificate and tls.key, or tls.acme.enabled";
        return Err(("tls.listen", why.into()));
    }
    let others = [config.listen.tcp(), config.admin.listen];
    if listen.port() != 0 && others.contains(&Some(listen)) {
        return Err(("tls.listen", "must differ from listen and admin.listen".into()));
    }
    Ok(())
}

/// Certificates that terse orders itself.
fn acme(config: &Config) -> Result<(), (&'static str, String)> {
    let acme = &config.tls.acme;
    let directory = Url::parse(&acme.directory).ok().filter(|url| url.scheme() == "https");
    if directory.is_none_or(|url| url.host().is_none()) {
        let why = format!("must be a URL with https (got {:?})", acme.directory);
        return Err(("tls.acme.directory", why));
    }
    let is_address = |email: &String| {
        let (name, host) = email.split_once('@').unwrap_or_default();
        let is_text = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        is_text(name) && is_text(host) && !email.contains([',', '?', '<', '>', ':', '/'])
    };
    if let Some(email) = acme.email.as_ref().filter(|email| !is_address(email)) {
        let why = format!("must be an email address such as you@example.org (got {email:?})");
        return Err(("tls.acme.email", why));
    }
    if acme.enabled && !acme.accept_terms {
        let why = "must be true to order certificates: read the terms of the certificate authority \
                   (Let's Encrypt: https://letsencrypt.org/repository/) and accept them";
        return Err(("tls.acme.accept_terms", why.into()));
    }
    Ok(())
}

/// The log filter accepts any word as the name of a module, so this check is stricter.
fn log_level(text: &str) -> Result<(), String> {
    let is_level = |word: &str| {
        let levels = ["error", "warn", "info", "debug", "trace", "off"];
        levels.into_iter().any(|level| level.eq_ignore_ascii_case(word.trim()))
    };
    let is_part = |part: &str| match part.rsplit_once('=') {
        Some((target, level)) => !target.trim().is_empty() && is_level(level),
        None => is_level(part),
    };
    if text.split(',').all(is_part) && crate::logging::filter(text).is_ok() {
        return Ok(());
    }
    Err(format!("must be error, warn, info, debug, trace or target=level pairs (got {text:?})"))
}

fn spans(
    bounds: &[(&'static str, HumanDuration, HumanDuration, HumanDuration)],
) -> Result<(), (&'static str, String)> {
    match bounds.iter().find(|(_, is, from, to)| is < from || is > to) {
        Some((name, _, from, to)) => Err((name, format!("must be from {from} to {to}"))),
        None => Ok(()),
    }
}

fn numbers(bounds: &[(&'static str, u64, u64, u64)]) -> Result<(), (&'static str, String)> {
    match bounds.iter().find(|(_, is, from, to)| is < from || is > to) {
        Some((name, _, from, to)) => Err((name, format!("must be from {from} to {to}"))),
        None => Ok(()),
    }
}

fn lists(config: &Config) -> Result<(), (&'static str, String)> {
    let safety = &config.safety;
    let mut seen = HashSet::new();
    let block = safety.lists.0.iter().map(|source| ("safety.lists", source));
    let warn = safety.warn_lists.0.iter().map(|source| ("safety.warn_lists", source));
    for (setting, ListSource { name, place }) in block.chain(warn) {
        if !seen.insert(name) {
            return Err((
                setting,
                format!("two lists are called {name:?}; write name=… before one of them"),
            ));
        }
        // An attacker who can change a list in transit decides which links work.
        if matches!(place, ListLocation::Url(url) if url.scheme() != "https")
            && !safety.allow_private_targets
        {
            return Err((setting, format!("{name:?} must be fetched by https")));
        }
    }
    match safety.warn_on.iter().find(|word| Flag::parse(word).is_none()) {
        Some(word) => {
            let known = Flag::ALL.map(Flag::as_str).join(", ");
            Err(("safety.warn_on", format!("{word:?} is not known; there are {known}")))
        }
        None => Ok(()),
    }
}

/// Whether the URL's host is this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn safe_browsing(config: &Config) -> Result<(), (&'static str, String)> {
    if let Some(key) = &config.safety.safe_browsing_key {
        let key = key.reveal();
        if !(1..=256).contains(&key.len()) || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err((
                "safety.safe_browsing_key",
                "1 to 256 visible ASCII characters without spaces are needed".into(),
            ));
        }
    }
    match &config.safety.safe_browsing_url {
        // An attacker who can change a response in transit decides which links work; one who can
        // read a request has the key.
        Some(url) if url.url().scheme() != "https" && !is_loopback(url.url()) => {
            Err(("safety.safe_browsing_url", "must be https, unless it is on this machine".into()))
        }
        _ => Ok(()),
    }
}

fn api_host(config: &Config) -> Result<(), (&'static str, String)> {
    let Some(host) = &config.api.host else { return Ok(()) };
    let is_name = |domain: &Domain| !domain.is_primary() && !domain.as_str().starts_with('[');
    let domain = Domain::parse(host).filter(is_name).ok_or_else(|| {
        ("api.host", format!("{host:?} is not a host name (no scheme, port or path)"))
    })?;
    let base = config.base_url();
    let base = base.host_str().unwrap_or_default().trim_end_matches('.');
    let is_short = domain.as_str() == base
        || config.domains.iter().filter_map(|host| Domain::parse(host)).any(|own| own == domain);
    match is_short {
        true => Err((
            "api.host",
            format!("must be another host than those of short links (got {host:?})"),
        )),
        false => Ok(()),
    }
}

fn domains(config: &Config) -> Result<(), (&'static str, String)> {
    let base = config.base_url();
    let mut seen =
        HashSet::from([base.host_str().unwrap_or_default().trim_end_matches('.').to_owned()]);
    for host in &config.domains {
        let domain = Domain::parse(host).filter(|domain| !domain.is_primary());
        let domain = domain.ok_or_else(|| {
            ("domains", format!("{host:?} is not a host name (no scheme, port or path)"))
        })?;
        if !seen.insert(domain.as_str().to_owned()) {
            return Err(("domains", format!("{host:?} appears twice, or is the host of base_url")));
        }
    }
    Ok(())
}

/// Checks the settings for mails.
fn check_mail(mail: &MailConfig) -> Result<(), (&'static str, String)> {
    let Some(server) = &mail.server else {
        let set = mail.username.is_some() || mail.password.is_some() || mail.from.is_some();
        return match set {
            true => Err(("mail.server", "is needed with the other settings of mail".into())),
            false => Ok(()),
        };
    };
    let parts = server.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
    if !parts.is_some_and(|(host, port)| !host.is_empty() && port.is_ok_and(|port| port > 0)) {
        return Err(("mail.server", "must be a host and a port, as smtp.example.com:587".into()));
    }
    if mail.from.as_deref().and_then(EmailAddress::parse).is_none() {
        return Err(("mail.from", "must be an email address such as links@example.com".into()));
    }
    if mail.username.is_some() != mail.password.is_some() {
        return Err(("mail.password", "is needed with mail.username, and only there".into()));
    }
    Ok(())
}
