//! Checks bounds and dependencies between settings.

mod bounds;
mod cdn;
mod hosts;
mod safety;
mod stores;

use terse_core::{BlockedHosts, EmailAddress};
use url::{Host, Url};

use super::{Config, MailConfig};
use bounds::{counts, durations, sizes};
use cdn::cdn;
use hosts::{api_host, domains, requests, tls};
use safety::{lists, safe_browsing};
use stores::{object_storage, shared_stores};

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

fn sign_in(c: &Config) -> Result<(), (&'static str, String)> {
    let issuer = c.issuer().map_err(|why| ("oidc.issuer", why))?;
    if issuer.is_some() != c.oidc.client_id.is_some() {
        return Err(("oidc.client_id", "is needed with oidc.issuer, and only there".into()));
    }
    check_mail(&c.mail)
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

/// Whether the URL's host is this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
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
