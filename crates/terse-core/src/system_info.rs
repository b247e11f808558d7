//! Figures and settings of the running server, for the page System.

use crate::metrics::{MetricValues, Metrics};
use crate::principal::{AccessError, Principal};
use crate::registry::Role;
use crate::time::Timestamp;

/// A file or folder of the server, and its size in bytes.
pub type StoredSize = (String, u64);

/// A setting of the server.
#[derive(Clone, Debug)]
pub struct SettingInForce {
    /// Its name, such as `clicks.flush`.
    pub name: String,
    /// Its value, secrets hidden; empty if it is not set.
    pub value: String,
    /// Whether it differs from its default.
    pub is_changed: bool,
}

/// What the process knows of itself. The binary implements it: only the binary knows the settings,
/// the files and all counters.
pub trait SystemInfo: Send + Sync {
    /// The counters that `/metrics` shows.
    fn metrics(&self) -> Metrics;

    /// The sizes of the stores. Blocks on the disk.
    fn sizes(&self) -> Vec<StoredSize>;

    /// The settings in force.
    fn settings(&self) -> Vec<SettingInForce>;
}

/// What the page shows.
#[derive(Clone, Debug, Default)]
pub struct SystemReport {
    /// The sizes of the stores.
    pub sizes: Vec<StoredSize>,
    /// Free and total bytes of the disk.
    pub disk: Option<(u64, u64)>,
    /// Of all cache lookups since the start, how many found the link, in thousandths.
    pub cache_hits: Option<u64>,
    /// Links in the cache.
    pub cached_links: Option<u64>,
    /// Bytes of clicks that are in the journal and not counted yet.
    pub journal_waiting: Option<u64>,
    /// What waits, by the name of the queue.
    pub queues: Vec<(&'static str, u64)>,
    /// When a backup last succeeded.
    pub last_backup: Option<Timestamp>,
    /// The settings in force.
    pub settings: Vec<SettingInForce>,
}

/// Reads the figures and settings. Only for admins. Blocks on the disk.
pub fn system_report(
    principal: &Principal,
    info: &dyn SystemInfo,
) -> Result<SystemReport, AccessError> {
    principal.require(Role::Admin)?;
    let metrics = info.metrics();
    let value = |name: &str, label: Option<&str>| value_of(&metrics, name, label);
    let whole = |name: &str| value(name, None).map(|value| value as u64);
    let lookups = |result: &str| value("terse_cache", Some(result)).unwrap_or_default();
    let (hits, misses) = (lookups("hit"), lookups("miss") + lookups("stale"));
    let cache_hits = (hits + misses > 0.0).then(|| (hits / (hits + misses) * 1000.0) as u64);
    let queues = [("terse_store_queue", "Writes of links"), ("terse_mails_waiting", "Mails")];
    let queues = queues.into_iter().filter_map(|(name, label)| Some((label, whole(name)?)));
    let backup = value("terse_last_backup_timestamp_seconds", None).filter(|at| *at > 0.0);
    Ok(SystemReport {
        sizes: info.sizes(),
        disk: whole("terse_disk_free_bytes").zip(whole("terse_disk_size_bytes")),
        cache_hits,
        cached_links: whole("terse_cache_routes"),
        journal_waiting: whole("terse_journal_waiting_bytes"),
        queues: queues.collect(),
        last_backup: backup.map(|at| Timestamp::from_ms((at * 1000.0) as i64)),
        settings: info.settings(),
    })
}

/// The value of a metric, of the one with this label if it is given, else of the first.
fn value_of(metrics: &Metrics, name: &str, label: Option<&str>) -> Option<f64> {
    let family = metrics.families().iter().find(|family| family.name == name)?;
    let fits = |labels: &[(&'static str, String)]| {
        label.is_none_or(|wanted| labels.iter().any(|(_, is)| is == wanted))
    };
    match &family.values {
        MetricValues::Counters(values) => {
            values.iter().find(|(labels, _)| fits(labels)).map(|(_, value)| *value as f64)
        }
        MetricValues::Gauges(values) => {
            values.iter().find(|(labels, _)| fits(labels)).map(|(_, value)| *value)
        }
        MetricValues::Histogram { .. } => None,
    }
}

/// Knows nothing: for commands and tests.
#[derive(Clone, Copy, Debug)]
pub struct NoSystemInfo;

impl SystemInfo for NoSystemInfo {
    fn metrics(&self) -> Metrics {
        Metrics::default()
    }

    fn sizes(&self) -> Vec<StoredSize> {
        Vec::new()
    }

    fn settings(&self) -> Vec<SettingInForce> {
        Vec::new()
    }
}
