//! Fallback redirects of a domain: for its root, for unknown codes and for expired links. They are
//! prepared like the error responses and take their place.

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
    root: Option<PreparedResponse>,
    not_found: Option<PreparedResponse>,
    expired: Option<PreparedResponse>,
}

impl DomainFallbacks {
    /// Prepares the fallbacks of a domain, without those whose target the screen blocks.
    fn new(config: &DomainConfig, screen: &dyn Screening) -> Self {
        let prepare = |target: &Option<Target>| {
            let target = target.as_ref().filter(|target| !screen.blocks(target))?;
            PreparedResponse::redirect_to(target.as_str())
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

    fn instead_of(&self, answered: Answered) -> Option<&PreparedResponse> {
        match answered {
            Answered::NotFound | Answered::NeverIssued => self.not_found.as_ref(),
            Answered::Gone => self.expired.as_ref(),
            _ => None,
        }
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
        date: &[u8],
        close: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let write = |domain: &DomainFallbacks| {
            domain.instead_of(answered).map(|fallback| fallback.write(date, close, out))
        };
        self.with(domain, write).is_some()
    }

    /// The fallback for an answer, for hyper.
    pub(crate) fn response(&self, domain: u16, answered: Answered) -> Option<Response<Bytes>> {
        self.with(domain, |domain| domain.instead_of(answered).map(PreparedResponse::response))
    }

    fn root(&self, domain: u16) -> Option<Response<Bytes>> {
        self.with(domain, |domain| domain.root.as_ref().map(PreparedResponse::response))
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
