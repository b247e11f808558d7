//! The connection that everything here shares, and the breaker in front of it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use redis::{FromRedisValue as _, RedisError, RedisResult, Value};
use terse_core::LogLimit;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::connection::{CONNECT_TIMEOUT, Connection, connect};
use crate::target::RedisUrl;

/// The longest time that a call waits for Redis.
pub const TIMEOUT: Duration = Duration::from_millis(50);
/// The longest time that a probe waits.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a server that answers is probed.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The waits between attempts to reach one that does not.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(2);
/// If Redis fails again this soon, the wait before it is used again grows as if it had not
/// answered.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// After this many probes without an answer, the client reconnects.
const FAILED_PROBES: u32 = 2;

/// Redis could not be reached when terse started.
#[derive(Debug, thiserror::Error)]
#[error("Redis at {url} cannot be used")]
pub struct RedisOpenError {
    url: String,
    #[source]
    source: RedisError,
}

/// Redis does not answer now. The caller continues without it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RedisUnavailable;

/// A connection to Redis that renews itself.
///
/// A call that fails, or that is not answered within [`TIMEOUT`], opens the breaker: further calls
/// return at once, until a task in the background has got an answer. The users of this client watch
/// `Redis::epochs`: a new epoch begins whenever writes may have been lost, because a call failed or
/// because other servers answer than before.
pub struct Redis {
    state: Arc<State>,
    keeper: JoinHandle<()>,
}

struct State {
    url: RedisUrl,
    /// The longest time that a call waits.
    call_timeout: Duration,
    connection: RwLock<Option<Connection>>,
    is_up: AtomicBool,
    /// How far Redis' clock is ahead of the steady clock of this process, in milliseconds.
    ahead_ms: AtomicI64,
    started: Instant,
    trips: AtomicU64,
    tripped: Notify,
    epochs: watch::Sender<u64>,
    log: LogLimit,
    log_in_use: LogLimit,
}

impl Redis {
    /// Connects, or says why not.
    pub async fn open(url: RedisUrl) -> Result<Self, RedisOpenError> {
        Self::open_with_timeout(url, TIMEOUT).await
    }

    /// The same with another timeout, for tests on busy machines.
    #[doc(hidden)]
    pub async fn open_with_timeout(
        url: RedisUrl,
        call_timeout: Duration,
    ) -> Result<Self, RedisOpenError> {
        let state = Arc::new(State {
            connection: RwLock::new(None),
            is_up: AtomicBool::new(false),
            ahead_ms: AtomicI64::new(0),
            started: Instant::now(),
            trips: AtomicU64::new(0),
            tripped: Notify::new(),
            epochs: watch::channel(0).0,
            log: LogLimit::default(),
            log_in_use: LogLimit::default(),
            call_timeout,
            url,
        });
        let failed = |source| RedisOpenError { url: state.url.to_string(), source };
        let connection = state.connect().await.map_err(failed)?;
        let seen = state.probe(connection).await.map_err(failed)?;
        state.begin_epoch();
        let keeper = tokio::spawn(keep(Arc::clone(&state), seen));
        Ok(Self { state, keeper })
    }

    /// Whether Redis answers.
    pub fn is_up(&self) -> bool {
        self.state.is_up.load(Ordering::Acquire)
    }

    /// How often the breaker has opened.
    pub fn trips(&self) -> u64 {
        self.state.trips.load(Ordering::Relaxed)
    }

    /// The longest time that a call waits.
    pub(crate) fn call_timeout(&self) -> Duration {
        self.state.call_timeout
    }

    pub(crate) fn url(&self) -> &RedisUrl {
        &self.state.url
    }

    /// The number of the current epoch, and its changes.
    pub(crate) fn epochs(&self) -> watch::Receiver<u64> {
        self.state.epochs.subscribe()
    }

    pub(crate) fn epoch(&self) -> u64 {
        *self.state.epochs.borrow()
    }

    /// The time of Redis' clock in milliseconds, as far as this process knows it.
    pub(crate) fn now_ms(&self) -> i64 {
        self.state.steady_ms() + self.state.ahead_ms.load(Ordering::Relaxed)
    }

    /// Calls Redis. A refusal of the server (such as no memory) is an error like any other, but
    /// leaves the breaker closed.
    pub(crate) async fn call<T>(
        &self,
        work: impl AsyncFnOnce(&mut Connection) -> RedisResult<T>,
    ) -> Result<T, RedisUnavailable> {
        self.call_within(self.state.call_timeout, work).await
    }

    /// The same with another bound, for work that no visitor waits for.
    pub(crate) async fn call_within<T>(
        &self,
        call_timeout: Duration,
        work: impl AsyncFnOnce(&mut Connection) -> RedisResult<T>,
    ) -> Result<T, RedisUnavailable> {
        let Some(mut connection) = self.state.connection() else { return Err(RedisUnavailable) };
        match timeout(call_timeout, work(&mut connection)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if is_refusal(&error) => self.state.warn(&error.to_string()),
            Ok(Err(error)) => self.state.trip(&error.to_string()),
            Err(_) => self.state.trip("no answer in time"),
        }
        Err(RedisUnavailable)
    }

    /// Opens the breaker: something that Redis must hold could not be written.
    pub(crate) fn trip(&self, why: &str) {
        self.state.trip(why);
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Whether the server answered, but refused this one command.
fn is_refusal(error: &RedisError) -> bool {
    matches!(error.code(), Some("OOM" | "WRONGTYPE" | "NOPERM" | "ERR" | "MISCONF" | "NOREPLICAS"))
}

impl State {
    fn connection(&self) -> Option<Connection> {
        if !self.is_up.load(Ordering::Acquire) {
            return None;
        }
        self.connection.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn steady_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn trip(&self, why: &str) {
        if self.is_up.swap(false, Ordering::AcqRel) {
            self.trips.fetch_add(1, Ordering::Relaxed);
            self.warn(why);
            self.tripped.notify_one();
        }
    }

    fn warn(&self, reason: &str) {
        if let Some(suppressed) = self.log.admit(self.started.elapsed()) {
            tracing::warn!(reason, suppressed, redis = %self.url, "Redis is not used for now");
        }
    }

    fn say_in_use(&self) {
        if let Some(suppressed) = self.log_in_use.admit(self.started.elapsed()) {
            tracing::info!(suppressed, redis = %self.url, "Redis is in use again");
        }
    }

    fn begin_epoch(&self) {
        self.epochs.send_modify(|epoch| *epoch += 1);
        self.is_up.store(true, Ordering::Release);
    }

    async fn connect(&self) -> RedisResult<Connection> {
        let connected = timeout(CONNECT_TIMEOUT, connect(&self.url)).await;
        let connection = connected.map_err(|_| no_answer())??;
        let mut current = self.connection.write().unwrap_or_else(PoisonError::into_inner);
        *current = Some(connection.clone());
        Ok(connection)
    }

    /// Asks Redis for its time and for the run ids of its servers. Another run id means another
    /// server, or the same one with an older copy of its data.
    async fn probe(&self, mut connection: Connection) -> RedisResult<Vec<String>> {
        let probed = timeout(PROBE_TIMEOUT, async {
            let asked = self.steady_ms();
            let (seconds, micros): (i64, i64) =
                redis::cmd("TIME").query_async(&mut connection).await?;
            let between = i64::midpoint(asked, self.steady_ms());
            let info: Value = redis::cmd("INFO").arg("server").query_async(&mut connection).await?;
            let mut servers = Vec::new();
            run_ids(&info, &mut servers);
            servers.sort_unstable();
            if let Connection::One(_) = connection {
                let role: Vec<Value> = redis::cmd("ROLE").query_async(&mut connection).await?;
                let role = role.into_iter().next().map(String::from_redis_value);
                if !matches!(&role, Some(Ok(role)) if role == "master") {
                    let kind = redis::ErrorKind::UnexpectedReturnType;
                    return Err(RedisError::from((kind, "the server is a replica")));
                }
            }
            self.ahead_ms.store(seconds * 1000 + micros / 1000 - between, Ordering::Relaxed);
            Ok(servers)
        });
        probed.await.map_err(|_| no_answer())?
    }
}

fn no_answer() -> RedisError {
    RedisError::from((redis::ErrorKind::Io, "no answer in time"))
}

/// Finds the run ids in the answer of one server, or of all.
fn run_ids(answer: &Value, found: &mut Vec<String>) {
    match answer {
        Value::Map(nodes) => nodes.iter().for_each(|(_, answer)| run_ids(answer, found)),
        Value::Array(parts) => parts.iter().for_each(|part| run_ids(part, found)),
        other => {
            let text = String::from_redis_value_ref(other).unwrap_or_default();
            let ids = text.lines().filter_map(|line| line.strip_prefix("run_id:"));
            found.extend(ids.map(|id| id.trim().to_owned()));
        }
    }
}

/// Probes the connection, renews it, and closes the breaker when Redis answers again.
async fn keep(state: Arc<State>, mut servers: Vec<String>) {
    let (mut failures, mut wait, mut in_use_since) = (0, FIRST_RETRY, Instant::now());
    loop {
        if state.is_up.load(Ordering::Acquire) {
            // A trip ends the wait, and another one begins before Redis is used again.
            if timeout(PROBE_INTERVAL, state.tripped.notified()).await.is_ok() {
                continue;
            }
        } else {
            let jitter = getrandom::u32().unwrap_or_default() % 50;
            tokio::time::sleep(wait + wait * jitter / 100).await;
        }
        let current = state.connection.read().unwrap_or_else(PoisonError::into_inner).clone();
        let connection = match current.filter(|_| failures < FAILED_PROBES) {
            Some(connection) => Ok(connection),
            None => state.connect().await,
        };
        let probed = match connection {
            Ok(connection) => state.probe(connection).await,
            Err(error) => Err(error),
        };
        match probed {
            Ok(seen) => {
                let are_others = seen != servers;
                let was_stable = in_use_since.elapsed() >= STABLE_AFTER;
                if are_others || !state.is_up.load(Ordering::Acquire) {
                    servers = seen;
                    state.begin_epoch();
                    state.say_in_use();
                    wait = if was_stable { FIRST_RETRY } else { (wait * 2).min(LAST_RETRY) };
                    in_use_since = Instant::now();
                } else if was_stable {
                    wait = FIRST_RETRY;
                }
                failures = 0;
            }
            Err(error) => {
                state.trip(&error.to_string());
                failures += 1;
                wait = (wait * 2).min(LAST_RETRY);
            }
        }
    }
}
