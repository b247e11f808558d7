//! The header fields for a CDN in front of the nodes: how long its edges may keep an answer, and
//! the tags by which a change of the link removes it there.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use terse_core::{Answered, Link, ModerationStatus, OwnerTags, Timestamp, code_tag, link_tag};

use crate::settings::RedirectSettings;

/// How long edges keep that a code has no link. As long as nodes do: a generated code that was
/// asked for before it existed is not purged.
const MISSING_SECONDS: u64 = 5;

/// What edge caches may keep.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EdgeSettings {
    /// How long they keep a redirect.
    pub ttl: Duration,
    /// Whether the CDN reads `Cache-Control` only. Redirects then carry `s-maxage` there.
    pub reads_cache_control_only: bool,
    /// Whether the CDN keeps an answer per `Accept` and `Accept-Language`, as `Vary` asks for, so
    /// that it may keep pages for codes without a link.
    pub obeys_vary: bool,
    /// The tags of owners.
    pub owner_tags: OwnerTags,
}

/// For how many seconds edges may keep the redirect of a link. `None` if a visit must reach a node:
/// clicks are limited, rules choose the target, preview fetchers get another answer, or a warning
/// or a password comes first. Never past the link's expiry, also if the prepared answer is sent at
/// the end of its time in memory.
pub(crate) fn seconds(link: &Link, now: Timestamp, settings: &RedirectSettings) -> Option<i64> {
    let edge = settings.edge?;
    let per_visit = link.max_clicks.is_some()
        || link.rules.is_some()
        || link.preview.is_some()
        || link.password.is_some();
    if per_visit || link.moderation != ModerationStatus::Clear {
        return None;
    }
    let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    // While the store is away, the answer is sent for as long again as links may be stale.
    let in_memory = ms(settings.cache_ttl).saturating_add(ms(settings.max_stale));
    let left = link
        .expires_at
        .map_or(i64::MAX, |end| (end.as_ms() - now.as_ms()).saturating_sub(in_memory));
    let seconds = ms(edge.ttl).min(left) / 1000;
    (seconds > 0).then_some(seconds)
}

/// The fields of a redirect that edges may keep.
pub(crate) fn each_field(
    link: &Link,
    seconds: i64,
    settings: &RedirectSettings,
    mut put: impl FnMut(&'static str, &str),
) {
    let Some(edge) = &settings.edge else { return };
    put("cdn-cache-control", &format!("max-age={seconds}"));
    let (link, owner) = (link_tag(&link.key), edge.owner_tags.tag(link.owner));
    put("surrogate-key", &format!("{link} {owner}"));
    put("cache-tag", &format!("{link},{owner}"));
}

/// The fields of the answer for a code without a link; none if edges may not keep it.
fn missing_fields(
    answered: Answered,
    domain: &str,
    code: &str,
    settings: &RedirectSettings,
) -> Option<[(&'static str, String); 3]> {
    let is_missing = matches!(answered, Answered::NotFound | Answered::NeverIssued);
    settings.edge.filter(|edge| edge.obeys_vary && is_missing)?;
    let tag = code_tag(domain, code);
    Some([
        ("cdn-cache-control", format!("max-age={MISSING_SECONDS}")),
        ("surrogate-key", tag.clone()),
        ("cache-tag", tag),
    ])
}

/// The lines to add to the head of the answer for a code without a link.
pub(crate) fn missing_lines(
    answered: Answered,
    domain: &str,
    code: &str,
    settings: &RedirectSettings,
) -> Option<Vec<u8>> {
    let fields = missing_fields(answered, domain, code, settings)?;
    Some(fields.map(|(name, value)| format!("{name}: {value}\r\n")).concat().into_bytes())
}

/// The same for hyper.
pub(crate) fn tag_missing(
    response: &mut Response<Bytes>,
    answered: Answered,
    domain: &str,
    code: &str,
    settings: &RedirectSettings,
) {
    if response.status() != StatusCode::NOT_FOUND {
        return;
    }
    for (name, value) in missing_fields(answered, domain, code, settings).into_iter().flatten() {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
}
