//! Where a domain sends those whom no link of it is for, ready to be copied like the canned
//! answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::Response;
use terse_core::registry::DomainConfig;
use terse_core::{Screening, Target};

use crate::error_responses::{Failure, Ready};
use crate::redirector::Redirector;

/// What led nowhere.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Way {
    /// No code at all.
    Root,
    /// A code that no link has.
    NotFound,
    /// A link that is over.
    Expired,
}

impl Way {
    const ALL: [Self; 3] = [Self::Root, Self::NotFound, Self::Expired];

    fn of(failure: Failure) -> Option<Self> {
        match failure {
            Failure::NotFound => Some(Self::NotFound),
            Failure::Gone => Some(Self::Expired),
            _ => None,
        }
    }

    fn target(self, place: &DomainConfig) -> Option<&Target> {
        match self {
            Self::Root => place.root.as_ref(),
            Self::NotFound => place.not_found.as_ref(),
            Self::Expired => place.expired.as_ref(),
        }
    }
}

/// By the number of the domain. Read without a lock, and not at all where there are none.
#[derive(Default)]
pub(crate) struct Fallbacks {
    any: AtomicBool,
    /// As they were told: what may be followed of them is for the screen to say, and it may say
    /// otherwise later.
    told: Mutex<Vec<(u16, DomainConfig)>>,
    ready: papaya::HashMap<(u16, Way), Ready, foldhash::fast::RandomState>,
}

impl Fallbacks {
    /// Appends where a visitor is sent instead of this failure; `false` if nowhere.
    pub(crate) fn write(
        &self,
        domain: u16,
        failure: Failure,
        date: &[u8],
        close: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        self.with(domain, Way::of(failure), |ready| ready.write(date, close, out)).is_some()
    }

    /// The same as a response.
    pub(crate) fn response(&self, domain: u16, failure: Failure) -> Option<Response<Bytes>> {
        self.with(domain, Way::of(failure), Ready::response)
    }

    fn with<T>(&self, domain: u16, way: Option<Way>, give: impl FnOnce(&Ready) -> T) -> Option<T> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        self.ready.pin().get(&(domain, way?)).map(give)
    }

    /// Takes what is told, if anything is, and makes ready what the screen does not block.
    fn replace(&self, places: Option<Vec<(u16, DomainConfig)>>, screen: &dyn Screening) {
        // Held to the end, so that of two who come at once the later one has the last word.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        *told = places.unwrap_or_else(|| std::mem::take(&mut *told));
        let ways = told
            .iter()
            .flat_map(|(domain, place)| Way::ALL.map(|way| ((*domain, way), way.target(place))));
        let open = ways.filter_map(|(name, target)| {
            Some((name, target.filter(|target| !screen.blocks(target))?))
        });
        let open: HashMap<_, _> = open.collect();
        let ready = self.ready.pin();
        ready.retain(|name, _| open.contains_key(name));
        for (name, target) in open {
            if let Some(answer) = Ready::elsewhere(target.as_str()) {
                ready.insert(name, answer);
            }
        }
        self.any.store(!ready.is_empty(), Ordering::Relaxed);
    }

    /// The screen may think otherwise of where they lead.
    pub(crate) fn rescreen(&self, screen: &dyn Screening) {
        self.replace(None, screen);
    }
}

impl Redirector {
    /// Answers for these domains besides those of the settings from now on, and for no others that
    /// were added before; and sends those whom no link is for where they say, unless the screen
    /// blocks that.
    pub fn set_domains(&self, places: &[DomainConfig]) {
        // First where they lead: a domain is not open before its fallbacks are there.
        let numbered = self.hosts.reserve(places.iter().map(|place| &place.domain));
        let numbered: Vec<_> = places
            .iter()
            .zip(numbered)
            .filter_map(|(place, number)| Some((number?, place.clone())))
            .collect();
        self.fallbacks.replace(Some(numbered.clone()), &*self.screen);
        self.hosts.set_added(numbered.iter().map(|(number, place)| (*number, &place.domain)));
    }

    /// Where the root of a domain leads, if not to our own page.
    pub fn root(&self, domain: u16) -> Option<Response<Bytes>> {
        self.fallbacks.with(domain, Some(Way::Root), Ready::response)
    }
}
