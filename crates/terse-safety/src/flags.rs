//! The warning flags of a target.

use std::net::Ipv6Addr;

use terse_core::Target;

use crate::flag::{Flag, FlagSet};
use crate::known_hosts::{FREE_HOSTING, SHORTENERS};
use crate::url_parts::UrlParts;
use crate::{look_alike, open_redirect, script};

/// The warning flags of a target. A pure function, so links can be screened again at any time.
pub fn flags(target: &Target) -> FlagSet {
    let mut flags = FlagSet::NONE;
    let Some(parts) = UrlParts::of(target) else { return flags };
    let mut raise = |flag, is_raised: bool| {
        if is_raised {
            flags.insert(flag);
        }
    };
    raise(Flag::Userinfo, parts.credentials.is_some());
    raise(Flag::MisleadingAt, has_misleading_at(&parts));
    if parts.is_address() {
        raise(Flag::NumericHost, true);
        raise(Flag::OddAddress, embeds_ipv4(parts.host));
    } else {
        raise(Flag::SingleLabel, !parts.host.contains('.'));
        raise(Flag::MixedScript, script::is_mixed(parts.host));
        raise(Flag::LookAlike, look_alike::imitates(parts.host));
        // The home page of a shortener is not a short link.
        raise(Flag::Shortener, parts.path != "/" && SHORTENERS.contains(parts.host));
        raise(Flag::FreeHosting, FREE_HOSTING.contains(parts.host));
        raise(Flag::OpenRedirect, open_redirect::redirects(&parts));
    }
    flags
}

/// `https://evil.example#@bank.example`: an `@` and a host name follow the real host.
fn has_misleading_at(parts: &UrlParts<'_>) -> bool {
    let is_name = |text: &str| {
        let name = text.split(['/', '?', '#', ':']).next().unwrap_or_default();
        name.contains('.') && crate::host_name::canonical(name).is_some()
    };
    parts.path == "/"
        && [parts.query, parts.fragment]
            .into_iter()
            .flatten()
            .any(|text| text.strip_prefix('@').is_some_and(is_name))
}

/// Whether an IPv6 address embeds an IPv4 address: mapped, NAT64 or 6to4.
fn embeds_ipv4(host: &str) -> bool {
    let address = host
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'))
        .and_then(|inner| inner.parse::<Ipv6Addr>().ok());
    address.is_some_and(|address| {
        matches!(
            address.segments(),
            [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, ..] | [0x2002, ..]
        )
    })
}
