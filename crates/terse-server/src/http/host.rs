//! Finds the short domain that a request is for, and formats hosts and short URLs.

use axum::http::{HeaderMap, Uri, header};
use terse_core::{Code, Domain, Hosts, LinkKey};

use super::state::App;

/// The link that a path on the request's host names, if the path can be a code.
pub(crate) fn key_of(state: &App, uri: &Uri, headers: &HeaderMap, code: &str) -> Option<LinkKey> {
    Some(LinkKey { domain: domain_of(state, uri, headers), code: Code::parse(code)? })
}

/// The short domain that a request is for.
pub(crate) fn domain_of(state: &App, uri: &Uri, headers: &HeaderMap) -> Domain {
    let name = host_name(uri, headers);
    state.links.rules().hosts.domain_of(name).unwrap_or_else(Domain::primary)
}

/// The base of the site that a request is for: that of the API, or that of a short domain.
pub(crate) fn base_of(state: &App, uri: &Uri, headers: &HeaderMap) -> String {
    let hosts = &state.links.rules().hosts;
    match hosts.is_api_host(host_name(uri, headers)) {
        true => hosts.api_base(),
        false => hosts.base_of(&domain_of(state, uri, headers)),
    }
}

/// The host of a request, without its port.
fn host_name<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> &'a str {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .or_else(|| uri.host())
        .unwrap_or_default();
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    }
}

/// The short URL of a link.
pub(crate) fn short_url(link: &LinkKey, hosts: &Hosts) -> String {
    format!("{}/{}", hosts.base_of(&link.domain), link.code)
}

/// A host in Unicode, if that differs from its ASCII form.
pub(crate) fn unicode_host(host: &str) -> Option<String> {
    let (unicode, result) = idna::domain_to_unicode(host);
    (result.is_ok() && unicode != host).then_some(unicode)
}

/// Lower-case hexadecimal, two digits per byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_shown_in_its_own_script_too() {
        assert_eq!(unicode_host("xn--mnchen-3ya.de").as_deref(), Some("münchen.de"));
        assert_eq!(unicode_host("example.com"), None);
    }
}
