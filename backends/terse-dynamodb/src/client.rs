//! Requests to one table: each with a timeout, retries within a budget, and a bound on how many are
//! under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, ConfigBag, Credentials, Intercept, ProvideCredentials as _, Region,
    RuntimeComponents,
};
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_http_client::tls;
use terse_core::Timestamp;
use tokio::sync::Semaphore;

use crate::failure::{Failure, chain};
use crate::options::{DynamoOpenError, DynamoOptions};
use crate::retry::{Deadline, RetryPolicy, RetryTokens, repeated};

/// How long the search for credentials may take. It may ask the machine's metadata service.
const CREDENTIALS: Duration = Duration::from_secs(10);
/// A difference up to this is ignored: the time in answers has whole seconds.
const IGNORED_DIFFERENCE_MS: i64 = 2_000;

/// A table.
#[derive(Clone)]
pub(crate) struct Db {
    pub(crate) client: Client,
    pub(crate) table: String,
    limits: Arc<Limits>,
}

struct Limits {
    attempt_timeout: Duration,
    budget: Duration,
    in_flight: Semaphore,
    tokens: RetryTokens,
    clock: Arc<ServerClock>,
    units: Arc<ConsumedUnits>,
}

/// The capacity that the requests of a handle have consumed, in hundredths of units.
#[derive(Debug, Default)]
pub(crate) struct ConsumedUnits {
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
}

/// The region whose table a client uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TableRegion {
    /// The home region, which gets all writes.
    Home,
    /// The region of this node.
    Near,
}

impl Db {
    pub(crate) async fn connect(
        options: &DynamoOptions,
        region: TableRegion,
    ) -> Result<Self, DynamoOpenError> {
        let address = &options.address;
        let home = address.home.as_ref().filter(|_| region == TableRegion::Home);
        let (region, endpoint, table) = match home {
            Some(home) => (Some(&home.region), home.endpoint.as_ref(), home.table.as_ref()),
            None => (address.region.as_ref(), address.endpoint.as_ref(), None),
        };
        let http = aws_smithy_http_client::Builder::new()
            .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring))
            .build_https();
        let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(http.clone());
        if let Some(region) = region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some((key, secret)) = &options.credentials {
            let fixed = Credentials::new(key.clone(), secret.clone(), None, None, "options");
            loader = loader.credentials_provider(fixed);
        }
        let shared = loader.load().await;
        if shared.region().is_none() {
            return Err(DynamoOpenError::NoRegion);
        }
        check_credentials(&shared).await?;
        let clock = Arc::new(ServerClock::default());
        let mut config = aws_sdk_dynamodb::config::Builder::from(&shared)
            .http_client(http)
            // This crate repeats requests itself: it knows which may be repeated.
            .retry_config(RetryConfig::disabled())
            .interceptor(ReadServerTime(Arc::clone(&clock)));
        if let Some(endpoint) = endpoint {
            config = config.endpoint_url(endpoint.clone());
        }
        let limits = Limits {
            attempt_timeout: options.attempt_timeout,
            budget: options.budget,
            in_flight: Semaphore::new(options.max_in_flight.max(1)),
            tokens: RetryTokens::default(),
            clock,
            units: Arc::default(),
        };
        Ok(Self {
            client: Client::from_conf(config.build()),
            table: table.unwrap_or(&address.table).clone(),
            limits: Arc::new(limits),
        })
    }

    /// The time of the server, as far as its answers tell.
    pub(crate) fn now(&self) -> Timestamp {
        self.limits.clock.now()
    }

    /// How far the server's clock is ahead of this machine's, in milliseconds.
    pub(crate) fn clock_ahead_ms(&self) -> i64 {
        self.limits.clock.ahead_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn units(&self) -> &ConsumedUnits {
        &self.limits.units
    }

    /// How long one request may take, with its retries.
    pub(crate) fn budget(&self) -> Duration {
        self.limits.budget
    }

    /// The time that one request may take from now on.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.limits.budget)
    }

    /// How many requests are under way, and how many may be.
    pub(crate) fn free_requests(&self) -> usize {
        self.limits.in_flight.available_permits()
    }

    /// Sends a request, and repeats it where that is safe.
    pub(crate) async fn send<T, F>(
        &self,
        deadline: Deadline,
        policy: RetryPolicy,
        attempt: impl FnMut() -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let limits = &*self.limits;
        let permit = tokio::time::timeout_at(deadline.end(), limits.in_flight.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(Failure::Throttled("too many requests are under way".into()));
        };
        repeated(&limits.tokens, deadline, limits.attempt_timeout, policy, attempt).await
    }
}

/// Looks for credentials once, so that a start without them says so: requests would only time out.
async fn check_credentials(shared: &aws_config::SdkConfig) -> Result<(), DynamoOpenError> {
    let none = |why: String| DynamoOpenError::NoCredentials(why);
    let provider = shared.credentials_provider();
    let provider = provider.ok_or_else(|| none("there is no provider".into()))?;
    match tokio::time::timeout(CREDENTIALS, provider.provide_credentials()).await {
        Ok(found) => found.map(drop).map_err(|error| none(chain(&error))),
        Err(_) => Err(none(format!("none were found within {} s", CREDENTIALS.as_secs()))),
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("table", &self.table).finish_non_exhaustive()
    }
}

/// The difference between the server's clock and this machine's. Times that nodes compare with each
/// other follow the server's clock where the difference is large.
#[derive(Debug, Default)]
struct ServerClock {
    ahead_ms: AtomicI64,
}

impl ServerClock {
    fn now(&self) -> Timestamp {
        let ahead = self.ahead_ms.load(Ordering::Relaxed);
        let ahead = if ahead.abs() > IGNORED_DIFFERENCE_MS { ahead } else { 0 };
        Timestamp::from_ms(local_ms() + ahead)
    }

    fn saw(&self, server: SystemTime) {
        let server = server.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ahead = i64::try_from(server.as_millis()).unwrap_or(i64::MAX) - local_ms();
        self.ahead_ms.store(ahead, Ordering::Relaxed);
    }
}

fn local_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

#[derive(Debug)]
struct ReadServerTime(Arc<ServerClock>);

impl Intercept for ReadServerTime {
    fn name(&self) -> &'static str {
        "ReadServerTime"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        if let Some(time) = date.and_then(|date| httpdate::parse_http_date(date).ok()) {
            self.0.saw(time);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_difference_to_the_servers_clock_is_corrected() {
        let clock = ServerClock::default();
        for (ahead, corrected) in [(0_i64, false), (1, false), (3600, true), (-3600, true)] {
            let server = match u64::try_from(ahead) {
                Ok(ahead) => SystemTime::now() + Duration::from_secs(ahead),
                Err(_) => SystemTime::now() - Duration::from_secs(ahead.unsigned_abs()),
            };
            clock.saw(server);
            let off = (clock.now().as_ms() - local_ms() - ahead * 1000).abs() < 500;
            assert_eq!(off, corrected || ahead == 0, "{ahead}");
        }
    }
}
