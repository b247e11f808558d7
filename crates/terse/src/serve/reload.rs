//! SIGHUP: terse reads its settings again, applies those that can change while it runs, and names
//! the others.

use std::sync::Arc;

use anyhow::Context as _;
use terse_core::limits::RateLimits;
use terse_core::{JobBoard, Principal};
use tokio::signal::unix::{SignalKind, signal};

use super::system_info::ServerInfo;
use super::web::limit_settings;
use crate::config::{Config, LimitsConfig};
use crate::logging::SetLevel;

/// The settings that take effect at once. The other limits are in tables of the serving threads.
const APPLIED: [&str; 8] = [
    "log.level",
    "limits.create_per_ip",
    "limits.create_per_key",
    "limits.create_per_account",
    "limits.create_per_ip_with_key",
    "limits.password_attempts_per_ip",
    "limits.sign_in_per_ip",
    "limits.report_per_ip",
];
/// Jobs that read files again which settings name.
const FILE_JOBS: [&str; 2] = ["blocklist files", "certificates"];

/// How to read the settings again, and what to do with them.
pub struct Reload {
    /// Reads them as at the start: file, environment and flags.
    pub load: Box<dyn Fn() -> anyhow::Result<Config> + Send + Sync>,
    /// Applies `log.level`.
    pub set_log_level: SetLevel,
}

/// The parts of a running server that follow settings.
pub(super) struct Reloaded {
    /// Runs the jobs that read files.
    pub(super) jobs: Arc<JobBoard>,
    /// The limits of the API and the pages.
    pub(super) limits: RateLimits,
    /// Shows the settings to admins.
    pub(super) info: Arc<ServerInfo>,
}

impl Reloaded {
    /// Takes over the settings that are applied; the others stay as they are.
    fn take_over(&self, config: &mut Config, new: &Config) {
        config.log.level.clone_from(&new.log.level);
        let old = &config.limits;
        config.limits = LimitsConfig {
            redirect_per_ip: old.redirect_per_ip,
            redirect_per_code: old.redirect_per_code,
            guesses_per_ip: old.guesses_per_ip,
            ..new.limits.clone()
        };
        self.limits.set(limit_settings(&config.limits));
        self.info.set_config(config);
    }

    /// Runs the jobs that read files, and returns their names. A node without such files has no
    /// such job.
    fn read_files(&self) -> Vec<&'static str> {
        let runs = |name: &&str| self.jobs.run_now(&Principal::OPERATOR, name).is_ok();
        FILE_JOBS.into_iter().filter(runs).collect()
    }
}

/// Waits for SIGHUP, again and again. Without this, the signal would end the process.
pub(super) async fn follow_signals(
    mut config: Config,
    reload: Reload,
    reloaded: Reloaded,
) -> anyhow::Result<()> {
    let mut hangup = signal(SignalKind::hangup()).context("listening for SIGHUP")?;
    let reload = Arc::new(reload);
    while hangup.recv().await.is_some() {
        let reading = Arc::clone(&reload);
        match tokio::task::spawn_blocking(move || (reading.load)()).await? {
            Ok(new) => {
                apply(&config, &new, &reload);
                reloaded.take_over(&mut config, &new);
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "the settings cannot be read again; nothing has changed");
            }
        }
        let jobs = reloaded.read_files().join(", ");
        tracing::info!(jobs, "these jobs read changed files now");
    }
    Ok(())
}

fn apply(old: &Config, new: &Config, reload: &Reload) {
    let changed = new.changed_since(old);
    let is_applied = |name: &&String| APPLIED.contains(&name.as_str());
    let (applied, others): (Vec<&String>, Vec<&String>) = changed.iter().partition(is_applied);
    if old.log.level != new.log.level
        && let Err(error) = (reload.set_log_level)(&new.log.level)
    {
        tracing::error!(error = format!("{error:#}"), "log.level stays as it was");
    }
    let joined =
        |names: &[&String]| names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    tracing::info!(applied = joined(&applied), "read the settings again");
    if !others.is_empty() {
        tracing::warn!(
            settings = joined(&others),
            "these settings have changed and take effect at the next start"
        );
    }
}
