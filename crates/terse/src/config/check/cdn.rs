//! The purges of a CDN.

use std::collections::HashSet;

use url::{Position, Url};

use super::is_loopback;
use crate::config::{CdnConfig, CdnProvider, Config};

pub(super) fn cdn(config: &Config) -> Result<(), (&'static str, String)> {
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
