//! Stops deletions by age while the clock is in doubt, or when too much would be deleted at once.
//!
//! Every job that deletes by age asks the guard for the time and deletes by that time. While the
//! system time is not trusted, the guard returns none. An implausible time and a purge of too many
//! links raise an alarm in the registry, which waits for an operator (`terse doctor --confirm`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use terse_core::job::JobContext;
use terse_core::registry::{AlarmKind, AlarmState, Registry, RegistryError, RemovalAlarm};
use terse_core::{BoxError, Clock, ClockGuard, ClockProblem, Links, Notices, Timestamp};

/// The topic of the notices.
const TOPIC: &str = "removals";
/// The name of the last trusted time in the registry.
const PROGRESS: &str = "clock";
/// How often the registry keeps the last trusted time.
const KEEP_INTERVAL: Duration = Duration::from_mins(5);

/// Deleting the data of up to this much time never needs a confirmation.
const NEVER_TOO_LONG: Duration = Duration::from_hours(7 * 24);

/// What is deleted when it is old enough, other than links.
pub struct RetentionKind {
    kind: AlarmKind,
    /// Where the registry keeps how far the last round went.
    progress: &'static str,
    /// The name in messages.
    name: &'static str,
    fate: &'static str,
}

impl RetentionKind {
    /// Single clicks.
    pub const CLICKS: Self = Self {
        kind: AlarmKind::Clicks,
        progress: "click retention",
        name: "the single clicks",
        fate: "deleted",
    };
    /// Aliases in quarantine.
    pub const ALIASES: Self = Self {
        kind: AlarmKind::Aliases,
        progress: "alias quarantine",
        name: "the reserved aliases",
        fate: "released",
    };
}

/// Shared by all jobs that delete by age.
pub struct RemovalGuard {
    links: Arc<Links>,
    registry: Arc<dyn Registry>,
    clock: Clock,
    notices: Arc<Notices>,
    max_percent: u8,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clock: ClockGuard,
    /// The newest time that the stores know; `None` before it was read.
    newest: Option<Option<Timestamp>>,
    /// When the guard last wrote the trusted time to the registry, by the monotonic clock.
    kept: Option<Duration>,
}

impl RemovalGuard {
    /// A purge may delete `max_percent` of all links at once.
    pub fn new(
        links: Arc<Links>,
        registry: Arc<dyn Registry>,
        clock: Clock,
        notices: Arc<Notices>,
        max_percent: u8,
    ) -> Self {
        Self { links, registry, clock, notices, max_percent, state: Mutex::default() }
    }

    /// The time by which to delete. `None` while the system time is not trusted: delete nothing.
    /// Jobs ask before each batch.
    pub async fn time(&self, context: &JobContext) -> Result<Option<Timestamp>, BoxError> {
        if self.lock().newest.is_none() {
            self.read_newest().await?;
        }
        let mut checked = self.check_clock();
        if matches!(checked, (_, Err(ClockProblem::Implausible { .. }))) {
            // A newer write may make it plausible.
            self.read_newest().await?;
            checked = self.check_clock();
        }
        match checked {
            (now, Ok(())) => {
                self.keep(context, now).await?;
                self.end_alarm(context, AlarmKind::Clock).await?;
                Ok(Some(now))
            }
            (_, Err(doubt @ ClockProblem::Jumped { .. })) => {
                let text = format!(
                    "{doubt}: nothing is deleted by age until it has been steady for an hour"
                );
                tracing::warn!("{text}");
                self.notices.set(TOPIC, Some(text));
                Ok(None)
            }
            (now, Err(doubt @ ClockProblem::Implausible { .. })) => {
                if !self.alarm(context, AlarmKind::Clock, &doubt.to_string()).await? {
                    return Ok(None);
                }
                self.lock().clock.accept(now, self.clock.steady());
                self.keep(context, now).await?;
                Ok(Some(now))
            }
        }
    }

    /// Whether the links that are due at `now` may be purged. `false` raises an alarm.
    pub async fn may_purge(&self, context: &JobContext, now: Timestamp) -> Result<bool, BoxError> {
        match self.links.is_purge_too_large(now, self.max_percent).await? {
            None => {
                self.end_alarm(context, AlarmKind::Share).await?;
                Ok(true)
            }
            Some((due, all)) => {
                let why = format!(
                    "{due} of {all} links would be deleted for good, more than \
                     links.max_purge_percent = {}",
                    self.max_percent
                );
                self.alarm(context, AlarmKind::Share, &why).await
            }
        }
    }

    /// Whether everything older than `before` may be deleted, of things that are kept for `keep`.
    /// `false` raises an alarm: since the last round the limit has moved over more than
    /// `max_percent` of that time, as after a wrong clock or a mistyped setting. A week is never
    /// too much, and time before the first link does not count.
    pub async fn may_advance(
        &self,
        context: &JobContext,
        what: &RetentionKind,
        before: Timestamp,
        keep: Duration,
    ) -> Result<bool, BoxError> {
        let last = self.registry.job_progress(what.progress).await?;
        let last = last.and_then(|last| Some(i64::from_be_bytes(last.try_into().ok()?)));
        let advanced = match last.map(Timestamp::from_ms) {
            None => Duration::ZERO,
            Some(last) => {
                let oldest = self.links.oldest_write().await?.unwrap_or(before);
                let ms = before.as_ms().saturating_sub(last.max(oldest).as_ms());
                Duration::from_millis(u64::try_from(ms).unwrap_or(0))
            }
        };
        let most = (keep / 100 * u32::from(self.max_percent)).max(NEVER_TOO_LONG);
        if advanced <= most || self.max_percent >= 100 {
            self.end_alarm(context, what.kind).await?;
            return Ok(true);
        }
        let why = format!(
            "{} of {} days would be {} at once, more than links.max_purge_percent = {} of the time \
             they are kept",
            what.name,
            advanced.as_secs() / 86_400,
            what.fate,
            self.max_percent
        );
        self.alarm(context, what.kind, &why).await
    }

    /// Notes that everything older than `before` was deleted.
    pub async fn advanced(
        &self,
        context: &JobContext,
        what: &RetentionKind,
        before: Timestamp,
    ) -> Result<(), BoxError> {
        let Some(token) = context.token() else { return Ok(()) };
        let progress = before.as_ms().to_be_bytes();
        Ok(self.registry.put_job_progress(token, what.progress, &progress).await?)
    }

    fn check_clock(&self) -> (Timestamp, Result<(), ClockProblem>) {
        let (now, steady) = (self.clock.now(), self.clock.steady());
        let mut state = self.lock();
        let newest = state.newest.flatten();
        (now, state.clock.check(now, steady, newest))
    }

    /// The newest of the last write and the last trusted time.
    async fn read_newest(&self) -> Result<(), BoxError> {
        let written = self.links.newest_write().await?;
        let kept = self.registry.job_progress(PROGRESS).await?;
        let kept = kept.and_then(|kept| Some(i64::from_be_bytes(kept.try_into().ok()?)));
        self.lock().newest = Some(written.max(kept.map(Timestamp::from_ms)));
        Ok(())
    }

    /// Keeps the trusted time for the next process.
    async fn keep(&self, context: &JobContext, now: Timestamp) -> Result<(), RegistryError> {
        let Some(token) = context.token() else { return Ok(()) };
        let steady = self.clock.steady();
        let is_recent = |kept: Duration| steady.saturating_sub(kept) < KEEP_INTERVAL;
        if self.lock().kept.is_some_and(is_recent) {
            return Ok(());
        }
        let progress = now.as_ms().to_be_bytes();
        self.registry.put_job_progress(token, PROGRESS, &progress).await?;
        self.lock().kept = Some(steady);
        Ok(())
    }

    /// Raises an alarm, or repeats the one that waits. `true` if an operator has confirmed it; the
    /// confirmation is used up.
    async fn alarm(
        &self,
        context: &JobContext,
        kind: AlarmKind,
        why: &str,
    ) -> Result<bool, BoxError> {
        let token = context.token().ok_or("a job that deletes needs the lease")?;
        let latest = self.registry.removal_alarm().await?;
        let last_round = latest.as_ref().map_or(0, |latest| latest.round);
        let alarm = match latest {
            Some(latest) if latest.kind == kind && latest.state == AlarmState::Confirmed => {
                let over = RemovalAlarm { state: AlarmState::Over, ..latest };
                self.registry.put_removal_alarm(token, over).await?;
                self.notices.set(TOPIC, None);
                return Ok(true);
            }
            Some(latest) if latest.kind == kind && latest.state == AlarmState::Waiting => latest,
            // One alarm at a time: another number each round could never be confirmed.
            Some(latest) if latest.state == AlarmState::Waiting && kind != AlarmKind::Clock => {
                tracing::error!(waiting = latest.round, "nothing is deleted by age: {why}");
                return Ok(false);
            }
            _ => {
                let (round, why, state) = (last_round + 1, why.to_owned(), AlarmState::Waiting);
                let alarm = RemovalAlarm { round, kind, why, state };
                self.registry.put_removal_alarm(token, alarm.clone()).await?;
                alarm
            }
        };
        let text = format!(
            "nothing is deleted by age: {why}. If this is right, run `terse doctor --confirm {}`",
            alarm.round
        );
        tracing::error!(round = alarm.round, "{text}");
        self.notices.set(TOPIC, Some(text));
        Ok(false)
    }

    /// Ends an alarm whose reason is gone.
    async fn end_alarm(&self, context: &JobContext, kind: AlarmKind) -> Result<(), RegistryError> {
        let is_raised = self.notices.all().iter().any(|(topic, _)| *topic == TOPIC);
        let Some(token) = context.token().filter(|_| is_raised) else { return Ok(()) };
        let latest = self.registry.removal_alarm().await?;
        match latest.filter(|latest| latest.state == AlarmState::Waiting) {
            Some(latest) if latest.kind != kind => return Ok(()),
            Some(latest) => {
                let over = RemovalAlarm { state: AlarmState::Over, ..latest };
                self.registry.put_removal_alarm(token, over).await?;
            }
            None => {}
        }
        self.notices.set(TOPIC, None);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
