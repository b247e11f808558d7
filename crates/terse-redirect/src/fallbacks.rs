//! Fallback redirects of a domain: for its root, for unknown codes and for expired links. They are
//! prepared like the error responses and take their place.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::Response;
use terse_core::registry::DomainConfig;
use terse_core::{Answered, Screening, Target};

use crate::error_responses::PreparedResponse;
use crate::redirector::Redirector;

/// The fallbacks of one domain.
struct DomainFallbacks {
    root: Option<Fallback>,
    not_found: Option<Fallback>,
    expired: Option<Fallback>,
}

/// A fallback target: the same for all requests, or with the requested code and the error in it.
enum Fallback {
    Same(PreparedResponse),
    FilledIn(Vec<Part>),
}

/// A part of a fallback target.
enum Part {
    Text(Box<str>),
    Code,
    Error,
}

impl Fallback {
    /// `None` if the target cannot be a location.
    fn new(target: &str) -> Option<Self> {
        let parts = parts_of(target);
        if parts.iter().all(|part| matches!(part, Part::Text(_))) {
            return PreparedResponse::redirect_to(target).map(Self::Same);
        }
        Some(Self::FilledIn(parts))
    }

    /// The response to a request for a code. Codes and errors need no escaping: they consist of
    /// letters, digits, hyphens and underscores.
    fn response(&self, code: &str, error: &str) -> Option<Cow<'_, PreparedResponse>> {
        match self {
            Self::Same(response) => Some(Cow::Borrowed(response)),
            Self::FilledIn(parts) => {
                let location: String = parts
                    .iter()
                    .map(|part| match part {
                        Part::Text(text) => &**text,
                        Part::Code => code,
                        Part::Error => error,
                    })
                    .collect();
                PreparedResponse::redirect_to(&location).map(Cow::Owned)
            }
        }
    }
}

/// Finds `{code}` and `{error}` in a target. In a path their braces are escaped.
fn parts_of(target: &str) -> Vec<Part> {
    const PLACES: [(&str, Part); 4] = [
        ("{code}", Part::Code),
        ("%7Bcode%7D", Part::Code),
        ("{error}", Part::Error),
        ("%7Berror%7D", Part::Error),
    ];
    let (mut parts, mut rest) = (Vec::new(), target);
    loop {
        let first = PLACES
            .iter()
            .filter_map(|(name, part)| Some((rest.find(name)?, name.len(), part)))
            .min_by_key(|(at, ..)| *at);
        let Some((at, len, part)) = first else { break };
        parts.push(Part::Text(rest[..at].into()));
        parts.push(match part {
            Part::Error => Part::Error,
            _ => Part::Code,
        });
        rest = &rest[at + len..];
    }
    parts.push(Part::Text(rest.into()));
    parts
}

impl DomainFallbacks {
    /// Prepares the fallbacks of a domain, without those whose target the screen blocks.
    fn new(config: &DomainConfig, screen: &dyn Screening) -> Self {
        let prepare = |target: &Option<Target>| {
            let target = target.as_ref().filter(|target| !screen.blocks(target))?;
            Fallback::new(target.as_str())
        };
        Self {
            root: prepare(&config.root),
            not_found: prepare(&config.not_found),
            expired: prepare(&config.expired),
        }
    }

    fn is_empty(&self) -> bool {
        self.root.is_none() && self.not_found.is_none() && self.expired.is_none()
    }

    fn instead_of(&self, answered: Answered, code: &str) -> Option<Cow<'_, PreparedResponse>> {
        let fallback = match answered {
            Answered::NotFound | Answered::NeverIssued => self.not_found.as_ref(),
            Answered::Gone | Answered::UsedUp => self.expired.as_ref(),
            _ => None,
        };
        fallback?.response(code, answered.as_str())
    }
}

/// The fallbacks of all domains. Serving threads read them without a lock, and skip the map while
/// no domain has any.
#[derive(Default)]
pub(crate) struct Fallbacks {
    any: AtomicBool,
    /// All configured fallbacks, also those that the screen blocks now: a later version of the
    /// screen may allow them.
    configured: Mutex<Vec<(u16, DomainConfig)>>,
    /// By the number of the domain.
    prepared: papaya::HashMap<u16, DomainFallbacks, foldhash::fast::RandomState>,
}

impl Fallbacks {
    /// Appends the fallback for an answer; `false` if the domain has none.
    pub(crate) fn write(
        &self,
        domain: u16,
        answered: Answered,
        code: &str,
        (date, close): (&[u8], bool),
        out: &mut Vec<u8>,
    ) -> bool {
        let write = |domain: &DomainFallbacks| {
            domain.instead_of(answered, code).map(|fallback| fallback.write(date, close, out))
        };
        self.with(domain, write).is_some()
    }

    /// The fallback for an answer, for hyper.
    pub(crate) fn response(
        &self,
        domain: u16,
        answered: Answered,
        code: &str,
    ) -> Option<Response<Bytes>> {
        self.with(domain, |domain| Some(domain.instead_of(answered, code)?.response()))
    }

    fn root(&self, domain: u16) -> Option<Response<Bytes>> {
        // A root has no code and no error; their places stay empty.
        let root =
            |domain: &DomainFallbacks| Some(domain.root.as_ref()?.response("", "")?.response());
        self.with(domain, root)
    }

    fn with<T>(&self, domain: u16, read: impl FnOnce(&DomainFallbacks) -> Option<T>) -> Option<T> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        self.prepared.pin().get(&domain).and_then(read)
    }

    /// Takes a new configuration and prepares its fallbacks.
    fn configure(&self, domains: Vec<(u16, DomainConfig)>, screen: &dyn Screening) {
        // The lock is held until all fallbacks are prepared: of two calls at the same time the
        // later configuration stays.
        let mut configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        *configured = domains;
        self.prepare(&configured, screen);
    }

    /// Prepares the fallbacks again, because the screen may block other targets than before.
    pub(crate) fn rescreen(&self, screen: &dyn Screening) {
        let configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        self.prepare(&configured, screen);
    }

    fn prepare(&self, configured: &[(u16, DomainConfig)], screen: &dyn Screening) {
        let prepared = self.prepared.pin();
        prepared.retain(|number, _| configured.iter().any(|(have, _)| have == number));
        for (number, config) in configured {
            let fallbacks = DomainFallbacks::new(config, screen);
            if fallbacks.is_empty() {
                prepared.remove(number);
            } else {
                prepared.insert(*number, fallbacks);
            }
        }
        self.any.store(!prepared.is_empty(), Ordering::Relaxed);
    }
}

impl Redirector {
    /// Replaces the domains that were added at run time. From now on the redirector answers for
    /// these domains and those of the settings. Requests that no link answers are redirected to the
    /// fallbacks of their domain, unless the screen blocks these.
    pub fn set_domains(&self, domains: &[DomainConfig]) {
        // The fallbacks come first: when a domain is open, its fallbacks are in place.
        let numbers = self.hosts.reserve(domains.iter().map(|config| &config.domain));
        let numbered: Vec<_> = domains
            .iter()
            .zip(numbers)
            .filter_map(|(config, number)| Some((number?, config.clone())))
            .collect();
        self.fallbacks.configure(numbered.clone(), &*self.screen);
        self.hosts.set_added(numbered.iter().map(|(number, config)| (*number, &config.domain)));
    }

    /// The fallback of a domain's root; `None` for our own page.
    pub fn root(&self, domain: u16) -> Option<Response<Bytes>> {
        self.fallbacks.root(domain)
    }
}
