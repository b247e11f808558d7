//! The warning flags of a target.

use std::net::Ipv6Addr;

use percent_encoding::percent_decode_str;
use terse_core::Target;

use crate::flag::{Flag, FlagSet};
use crate::known_hosts::{FREE_HOSTING, SHORTENERS};
use crate::url_parts::UrlParts;
use crate::{look_alike, open_redirect, script};

/// The warning flags of a target. A pure function, so links can be scanned again at any time.
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
    raise(Flag::HiddenText, has_hidden_text(&parts));
    if parts.is_address() {
        raise(Flag::NumericHost, true);
        raise(Flag::OddAddress, embeds_ipv4(parts.host));
    } else {
        raise(Flag::SingleLabel, !parts.host.contains('.'));
        raise(Flag::MixedScript, script::is_mixed(parts.host));
        raise(Flag::LookAlike, look_alike::imitates_brand(parts.host));
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

/// Whether the address after the host contains characters that are invisible or reorder text. The
/// joiners of emoji and of Indic and Persian words do not count.
fn has_hidden_text(parts: &UrlParts<'_>) -> bool {
    let is_hidden = |char: char| {
        matches!(
            char,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}' | '\u{200e}'
                | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
                | '\u{2066}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
    };
    // All of them are escaped in a parsed URL, with a first octet from C2 on.
    let escaped = |text: &&str| text.contains('%');
    [Some(parts.path), parts.query, parts.fragment]
        .into_iter()
        .flatten()
        .filter(escaped)
        .any(|text| percent_decode_str(text).decode_utf8_lossy().chars().any(is_hidden))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_text_after_the_host_is_flagged() {
        for (text, want) in [
            ("https://example.com/invoice\u{202e}fdp.exe", true),
            ("https://example.com/a%E2%80%AEb", true),
            ("https://example.com/?q=a\u{200b}b", true),
            ("https://example.com/#a\u{2066}b", true),
            ("https://example.com/%C2%ADx", true),
            ("https://example.com/stra\u{df}e", false),
            ("https://example.com/\u{1f468}\u{200d}\u{1f469}", false),
            ("https://example.com/%D8%A8%E2%80%8C%D8%A7", false),
            ("https://example.com/%E2%80", false),
            ("https://example.com/100%25", false),
        ] {
            let target = Target::parse(text, &Default::default()).unwrap();
            assert_eq!(flags(&target).contains(Flag::HiddenText), want, "{text:?}");
        }
    }
}
