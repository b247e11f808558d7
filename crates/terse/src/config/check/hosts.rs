//! How requests reach the server: listeners, proxies, hosts and certificates.

use std::collections::HashSet;

use terse_core::Domain;
use terse_server::CorsOrigins;
use url::Url;

use crate::config::Config;

/// How requests reach the server: proxies, other origins, the operator's key, listeners.
pub(super) fn requests(c: &Config) -> Result<(), (&'static str, String)> {
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

pub(super) fn tls(config: &Config) -> Result<(), (&'static str, String)> {
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

pub(super) fn api_host(config: &Config) -> Result<(), (&'static str, String)> {
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

pub(super) fn domains(config: &Config) -> Result<(), (&'static str, String)> {
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
