//! The door for the rest of the house: asynchronous, bounded.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::answer::{Fetched, Posted, Validators};
use crate::error::OutgoingError;
use crate::exchange::Exchange;
use crate::pool::Pool;
use crate::remote_addr::RemoteAddr;
use crate::settings::{Limits, OutgoingSettings};

/// The longest body that is posted.
const MAX_POST_SIZE: usize = 1 << 20;
/// Calls that may take longer run apart,
const LONG: Duration = Duration::from_secs(10);
/// and few of them at once.
const LONG_AT_ONCE: usize = 2;
/// Headers a caller may not set: they say who we are and how the message is framed, which is not
/// theirs to say.
const OURS: &[HeaderName] = &[
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

/// The client. One for the whole process, so that its bounds are the process's bounds.
pub struct Outgoing {
    exchange: Arc<Exchange>,
    settings: OutgoingSettings,
    /// For calls that end soon, and for those that may not: a few slow lists must not hold up every
    /// title.
    short: OnceLock<Pool>,
    long: OnceLock<Pool>,
}

impl Outgoing {
    /// Starts nothing yet: the threads come with the first call.
    pub fn new(settings: OutgoingSettings) -> Self {
        Self {
            exchange: Arc::new(Exchange::new(&settings)),
            settings,
            short: OnceLock::new(),
            long: OnceLock::new(),
        }
    }

    /// Gets a document. Any status is an answer; following redirects, compression and so on are not
    /// the caller's business.
    pub async fn get(&self, url: &str, limits: Limits) -> Result<Fetched, OutgoingError> {
        self.get_if_changed(url, limits, &Validators::default()).await
    }

    /// Gets a document unless it is the one we have: then the answer [is
    /// unchanged](Fetched::is_unchanged) and has no body.
    pub async fn get_if_changed(
        &self,
        url: &str,
        limits: Limits,
        known: &Validators,
    ) -> Result<Fetched, OutgoingError> {
        let place = RemoteAddr::parse(url, &self.exchange.policy)?;
        let (exchange, known) = (Arc::clone(&self.exchange), known.clone());
        self.run(limits.time, move |deadline| exchange.get(place, limits, &known, deadline)).await
    }

    /// Posts a body. Redirects are not followed: what is signed for one receiver is for no other.
    /// Trying again is the caller's task, who alone knows whether that is safe.
    pub async fn post(
        &self,
        url: &str,
        content_type: &str,
        body: Vec<u8>,
        headers: &[(&str, &str)],
    ) -> Result<Posted, OutgoingError> {
        let place = RemoteAddr::parse(url, &self.exchange.policy)?;
        if body.len() > MAX_POST_SIZE {
            return Err(OutgoingError::NotAllowed("at most 1 MiB is posted"));
        }
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            match (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
                (Ok(name), Ok(value)) if !OURS.contains(&name) => all.insert(name, value),
                _ => return Err(OutgoingError::NotAllowed("a header that cannot be sent")),
            };
        }
        match HeaderValue::from_str(content_type) {
            Ok(value) => all.insert(header::CONTENT_TYPE, value),
            Err(_) => return Err(OutgoingError::NotAllowed("a content type that cannot be sent")),
        };
        let exchange = Arc::clone(&self.exchange);
        self.run(self.settings.post_time, move |deadline| {
            exchange.post(&place, &all, &body, deadline)
        })
        .await
    }

    /// On a thread of ours. A call waits at most its own time for its turn, and the deadline counts
    /// from then, so that the other side is not blamed for our queue. A caller that has gone away
    /// before its turn costs nothing.
    async fn run<T: Send + 'static>(
        &self,
        time: Duration,
        work: impl FnOnce(Instant) -> Result<T, OutgoingError> + Send + 'static,
    ) -> Result<T, OutgoingError> {
        let waiting = self.settings.waiting;
        let pool = match time > LONG {
            true => self.long.get_or_init(|| Pool::start(LONG_AT_ONCE, waiting)),
            false => self.short.get_or_init(|| Pool::start(self.settings.at_once, waiting)),
        };
        let (sender, receiver) = oneshot::channel();
        let offered = Instant::now();
        let job = move || {
            if sender.is_closed() {
                return;
            }
            let begun = Instant::now();
            let answer =
                if begun - offered > time { Err(OutgoingError::Busy) } else { work(begun + time) };
            let _ = sender.send(answer);
        };
        if !pool.offer(Box::new(job)) {
            return Err(OutgoingError::Busy);
        }
        // Waiting and running end by themselves; a little more than both is for a resolver that
        // overstays.
        match tokio::time::timeout(2 * time + Duration::from_secs(1), receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(OutgoingError::Busy),
        }
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("settings", &self.settings).finish_non_exhaustive()
    }
}
