//! The public, asynchronous client with bounded concurrency.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use terse_core::{
    ExchangeMethod, ExchangeRequest, ExchangeResponse, GetResponse, HttpClient, HttpExchange,
    OutgoingError, PostResponse, RequestLimits, Validators,
};
use tokio::sync::oneshot;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::blocking_client::BlockingClient;
use crate::pool::Pool;
use crate::request_url::RequestUrl;
use crate::settings::OutgoingSettings;

/// The maximum size of a POST body.
const MAX_POST_SIZE: usize = 1 << 20;
/// Calls with a longer timeout run on a separate pool.
const LONG_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of threads of that pool.
const MAX_CONCURRENT_LONG: usize = 2;
/// Headers that the client sets itself: they identify us or frame the message.
const RESERVED_HEADERS: &[HeaderName] = &[
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHORIZATION,
    header::REFERER,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::USER_AGENT,
];

/// The client. One per process, so that its limits hold for the whole process.
pub struct OutgoingClient {
    client: Arc<BlockingClient>,
    settings: OutgoingSettings,
    /// Separate pools for short and long calls, so that slow feeds do not delay page titles.
    short: OnceLock<Pool>,
    long: OnceLock<Pool>,
}

impl OutgoingClient {
    /// Starts no threads before the first call.
    pub fn new(settings: OutgoingSettings) -> Self {
        Self {
            client: Arc::new(BlockingClient::new(&settings)),
            settings,
            short: OnceLock::new(),
            long: OnceLock::new(),
        }
    }

    /// Sends one request and reads its response: a GET, or with a body (its content type and its
    /// bytes) a POST. A redirect is a response and is not followed, so that headers with
    /// credentials reach no other server.
    pub async fn call(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<(&str, Vec<u8>)>,
        limits: RequestLimits,
    ) -> Result<GetResponse, OutgoingError> {
        let target = RequestUrl::parse(url, &self.client.policy)?;
        let all = checked_headers(headers, body.as_ref().map(|(kind, body)| (*kind, &**body)))?;
        let (client, body) = (Arc::clone(&self.client), body.map(|(_, body)| body));
        self.run(limits.timeout, move |deadline| {
            client.call(&target, &all, body.as_deref(), limits, deadline)
        })
        .await
    }

    /// Runs a call on a pool thread. A call may be queued for at most its timeout; its deadline
    /// starts when it runs, so that time in the queue does not count against the server. A call
    /// whose caller is gone is skipped.
    async fn run<T: Send + 'static>(
        &self,
        timeout: Duration,
        work: impl FnOnce(Instant) -> Result<T, OutgoingError> + Send + 'static,
    ) -> Result<T, OutgoingError> {
        let max_queued = self.settings.max_queued;
        let pool = match timeout > LONG_TIMEOUT {
            true => self.long.get_or_init(|| Pool::start(MAX_CONCURRENT_LONG, max_queued)),
            false => {
                self.short.get_or_init(|| Pool::start(self.settings.max_concurrent, max_queued))
            }
        };
        let (sender, receiver) = oneshot::channel();
        let queued_at = Instant::now();
        let job = move || {
            if sender.is_closed() {
                return;
            }
            let started = Instant::now();
            let answer = if started - queued_at > timeout {
                Err(OutgoingError::Busy)
            } else {
                work(started + timeout)
            };
            let _ = sender.send(answer);
        };
        if !pool.try_submit(Box::new(job)) {
            return Err(OutgoingError::Busy);
        }
        // Queueing and running are both bounded by the timeout. The extra second is for a resolver
        // that exceeds its deadline.
        match tokio::time::timeout(2 * timeout + Duration::from_secs(1), receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(OutgoingError::Busy),
        }
    }
}

#[async_trait]
impl HttpClient for OutgoingClient {
    /// Gets a document unless it matches the validators. The response is then
    /// [unchanged](GetResponse::is_unchanged) and has no body.
    async fn get_if_changed(
        &self,
        url: &str,
        limits: RequestLimits,
        known: &Validators,
    ) -> Result<GetResponse, OutgoingError> {
        let target = RequestUrl::parse(url, &self.client.policy)?;
        let (client, known) = (Arc::clone(&self.client), known.clone());
        self.run(limits.timeout, move |deadline| client.get(target, limits, &known, deadline)).await
    }

    /// Posts a body. Redirects are not followed: a payload signed for one receiver is sent to no
    /// other. The caller decides whether a retry is safe.
    async fn post(
        &self,
        url: &str,
        content_type: &str,
        body: Vec<u8>,
        headers: &[(&str, &str)],
    ) -> Result<PostResponse, OutgoingError> {
        let target = RequestUrl::parse(url, &self.client.policy)?;
        let all = checked_headers(headers, Some((content_type, &body)))?;
        let client = Arc::clone(&self.client);
        self.run(self.settings.post_timeout, move |deadline| {
            client.post(&target, &all, &body, deadline)
        })
        .await
    }
}

#[async_trait]
impl HttpExchange for OutgoingClient {
    async fn exchange(
        &self,
        request: ExchangeRequest,
        limits: RequestLimits,
    ) -> Result<ExchangeResponse, OutgoingError> {
        let ExchangeRequest { url, method } = request;
        let target = RequestUrl::parse(&url, &self.client.policy)?;
        let headers = match &method {
            ExchangeMethod::Post(kind, body) => checked_headers(&[], Some((kind, body)))?,
            ExchangeMethod::Get | ExchangeMethod::Head => HeaderMap::new(),
        };
        let client = Arc::clone(&self.client);
        self.run(limits.timeout, move |deadline| {
            client.exchange(&target, &method, &headers, limits, deadline)
        })
        .await
    }
}

/// The headers of a caller, if it may set them, and the content type of a body that may be posted.
fn checked_headers(
    headers: &[(&str, &str)],
    body: Option<(&str, &[u8])>,
) -> Result<HeaderMap, OutgoingError> {
    let mut all = HeaderMap::new();
    for (name, value) in headers {
        match (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            (Ok(name), Ok(value)) if !RESERVED_HEADERS.contains(&name) => all.insert(name, value),
            _ => return Err(OutgoingError::NotAllowed("a header is invalid or reserved")),
        };
    }
    if let Some((content_type, body)) = body {
        if body.len() > MAX_POST_SIZE {
            return Err(OutgoingError::NotAllowed("the body must not exceed 1 MiB"));
        }
        match HeaderValue::from_str(content_type) {
            Ok(value) => all.insert(header::CONTENT_TYPE, value),
            Err(_) => return Err(OutgoingError::NotAllowed("the content type is invalid")),
        };
    }
    Ok(all)
}

impl fmt::Debug for OutgoingClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingClient").field("settings", &self.settings).finish_non_exhaustive()
    }
}
