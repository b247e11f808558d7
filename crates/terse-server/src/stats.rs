//! Counters of the web plane.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;
use terse_core::metrics::{MetricValues, Metrics};
use terse_core::{CreateMetrics, CreateResult};

/// Counters of the web plane.
#[derive(Debug, Default)]
pub struct ApiStats {
    creates: [AtomicU64; CreateResult::ALL.len()],
    /// By route template and status class. Routes are few and fixed, and redirects do not come
    /// through here, so a lock is enough.
    requests: Mutex<BTreeMap<(Box<str>, u8), u64>>,
}

impl ApiStats {
    /// The number of attempts to create a link that had this result.
    pub fn creates(&self, outcome: CreateResult) -> u64 {
        self.creates[outcome as usize].load(Ordering::Relaxed)
    }

    /// Requests so far: route template (or `other`), status class (2 for 2xx), count.
    pub fn requests(&self) -> Vec<(Box<str>, u8, u64)> {
        let requests = self.requests.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        requests.iter().map(|((route, class), count)| (route.clone(), *class, *count)).collect()
    }

    /// Writes all counters.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let creates = CreateResult::ALL.map(|outcome| (outcome.as_str(), self.creates(outcome)));
        to.counters("terse_creates", "Create requests, by outcome", "outcome", creates);
        let requests = self.requests().into_iter().map(|(route, class, count)| {
            (vec![("route", route.into()), ("status", format!("{class}xx"))], count)
        });
        let help = "Requests to the API and pages, by route and class of status";
        to.add("terse_requests", help, MetricValues::Counters(requests.collect()));
    }

    pub(crate) fn count_request(&self, route: &str, status: StatusCode) {
        let class = u8::try_from(status.as_u16() / 100).unwrap_or_default();
        let mut requests = self.requests.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *requests.entry((route.into(), class)).or_default() += 1;
    }
}

impl CreateMetrics for ApiStats {
    fn count(&self, result: CreateResult) {
        self.creates[result as usize].fetch_add(1, Ordering::Relaxed);
    }
}
