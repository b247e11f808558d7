//! What an operator must know about the state of this process, beyond errors of single requests.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::metrics::Metrics;

/// Current notices by their topic, for `/readyz` and metrics.
#[derive(Debug, Default)]
pub struct Notices(Mutex<BTreeMap<&'static str, String>>);

impl Notices {
    /// Sets the notice of a topic, or removes it.
    pub fn set(&self, topic: &'static str, text: Option<String>) {
        let mut notices = self.lock();
        match text {
            Some(text) => drop(notices.insert(topic, text)),
            None => drop(notices.remove(topic)),
        }
    }

    /// All current notices, by topic.
    pub fn all(&self) -> Vec<(&'static str, String)> {
        self.lock().iter().map(|(topic, text)| (*topic, text.clone())).collect()
    }

    /// Writes how many there are.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let help = "Notices to the operator; /readyz shows them";
        to.gauge("terse_notices", help, self.lock().len() as f64);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
