//! The jobs: every node follows the registry, and one node orders certificates.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use instant_acme::Account;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::registry::{AcmeRecordKind, FencingToken, RegistryError};
use terse_core::{BoxError, DomainChecks, HttpExchange, Notices, Secret, Timestamp};

use super::challenges::ChallengeKind;
use super::client::{AcmeClient, AcmeSettings, OpenOrder};
use super::diagnosis::{FailureKind, OrderFailure};
use super::node::AcmeCertificates;
use super::records::{CertificateRecord, OrderRecord, encode};
use super::schedule::{OrderLimit, pause_after, pause_unreached};
use crate::certificate::Certificate;

/// How often a node compares the registry with what it knows.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// How often the orders look for hosts without a certificate.
const ORDER_INTERVAL: Duration = Duration::from_secs(10);
/// How long one order may take.
const ORDER_TIMEOUT: Duration = Duration::from_mins(3);
/// How long all nodes of a fleet may take to know the answer to a challenge.
const SETTLE_TIME: Duration = Duration::from_secs(3);
/// The pause of all orders after the authority said that there were too many.
const RATE_LIMIT_PAUSE: Duration = Duration::from_hours(1);

/// After a start, a host whose order failed is tried once more if the failure was this long ago.
/// With frequent restarts that makes four checks an hour; Let's Encrypt allows five that fail.
const RETRY_AT_START: Duration = Duration::from_mins(15);

/// Follows the registry's records about certificates, on every node.
#[derive(Debug)]
pub struct CertificateSync {
    /// Where they are put to use.
    pub node: Arc<AcmeCertificates>,
    /// Where failures are shown.
    pub notices: Arc<Notices>,
}

#[async_trait]
impl Job for CertificateSync {
    fn name(&self) -> &'static str {
        "certificate sync"
    }

    fn interval(&self) -> Duration {
        SYNC_INTERVAL
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        self.node.refresh().await?;
        self.node.note_waiting();
        self.notices.set("acme", self.node.notice());
        Ok(NextRun::Interval)
    }
}

/// Orders certificates for hosts without one, and renews them, one host after the other: a host
/// that fails waits, and the others go on.
pub struct CertificateOrders {
    node: Arc<AcmeCertificates>,
    client: AcmeClient,
    checks: DomainChecks,
    /// Whether other nodes must know the answers to challenges, too.
    is_shared: bool,
    limit: OrderLimit,
    /// When the authority allows orders again, by the steady clock.
    paused_until: Duration,
    /// How many times in a row the authority could not be reached.
    unreached: u32,
    /// In the next run, hosts whose order failed wait no longer than this.
    retry_after: Option<Duration>,
}

/// Why an order did not end.
pub(super) enum Stopped {
    /// The host or the authority; tried again later.
    Failed(OrderFailure),
    /// The registry: the whole run failed.
    Registry(BoxError),
}

impl From<OrderFailure> for Stopped {
    fn from(failure: OrderFailure) -> Self {
        Self::Failed(failure)
    }
}

impl From<RegistryError> for Stopped {
    fn from(error: RegistryError) -> Self {
        Self::Registry(error.into())
    }
}

impl CertificateOrders {
    /// Orders through this client, which is guarded. `checks` tells what DNS says about a host
    /// whose order failed.
    pub fn new(
        node: Arc<AcmeCertificates>,
        http: Arc<dyn HttpExchange>,
        settings: AcmeSettings,
        checks: DomainChecks,
        is_shared: bool,
    ) -> Self {
        let client = AcmeClient::new(http, settings);
        let (limit, paused_until) = (OrderLimit::default(), Duration::ZERO);
        let (unreached, retry_after) = (0, Some(RETRY_AT_START));
        Self { node, client, checks, is_shared, limit, paused_until, unreached, retry_after }
    }

    async fn put(
        &self,
        token: FencingToken,
        kind: AcmeRecordKind,
        name: &str,
        value: Option<&Secret>,
    ) -> Result<(), RegistryError> {
        self.node.registry().put_acme_record(token, kind, name, value).await?;
        self.node.refresh().await
    }

    /// Removes what interrupted orders and removed domains have left.
    async fn remove_leftovers(&self, token: FencingToken) -> Result<(), RegistryError> {
        let (known, hosts) = (self.node.known(), self.node.ordered_hosts());
        for host in &known.challenges {
            self.put(token, AcmeRecordKind::Challenge, host, None).await?;
        }
        for host in known.orders.keys().filter(|host| !hosts.contains(host)) {
            self.put(token, AcmeRecordKind::Order, host, None).await?;
        }
        let now = self.node.clock.now().as_ms() / 1000;
        for (host, certificate) in &known.certificates {
            // A domain that comes back soon has its certificate.
            if !hosts.contains(host) && certificate.not_after() < now {
                self.put(token, AcmeRecordKind::Certificate, host, None).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn account(&mut self, token: FencingToken) -> Result<Account, Stopped> {
        let known = self.node.known();
        let (account, new) = self.client.account(known.account.as_ref()).await?;
        if let Some(new) = new {
            let directory = self.client.settings.directory.clone();
            tracing::info!(directory, "made an account at the certificate authority");
            self.put(token, AcmeRecordKind::Account, &directory, Some(&new)).await?;
        }
        self.client.keep_account(account.clone());
        Ok(account)
    }

    /// Gets a certificate for a host and stores it.
    async fn order(
        &mut self,
        token: FencingToken,
        host: &str,
        kind: ChallengeKind,
    ) -> Result<(), Stopped> {
        let account = self.account(token).await?;
        let (order, answer) = OpenOrder::begin(&account, host, kind).await?;
        let has_answer = answer.is_some();
        if let Some(answer) = answer {
            let answer = encode(&answer).map_err(Stopped::Registry)?;
            self.put(token, AcmeRecordKind::Challenge, host, Some(&answer)).await?;
            if self.is_shared {
                tokio::time::sleep(SETTLE_TIME).await;
            }
        }
        let finished = order.finish().await;
        if has_answer {
            self.put(token, AcmeRecordKind::Challenge, host, None).await?;
        }
        let certificate = finished?;
        check(host, &certificate)?;
        let certificate = encode(&certificate).map_err(Stopped::Registry)?;
        self.put(token, AcmeRecordKind::Certificate, host, Some(&certificate)).await?;
        if self.node.known().orders.contains_key(host) {
            self.put(token, AcmeRecordKind::Order, host, None).await?;
        }
        Ok(())
    }

    /// Records why an order failed, and when the next one is due.
    async fn record_failure(
        &mut self,
        token: FencingToken,
        host: &str,
        kind: ChallengeKind,
        failure: &OrderFailure,
    ) -> Result<(), BoxError> {
        let problem = failure.explain(host, kind, &self.checks).await;
        let known = self.node.known();
        let before = known.orders.get(host).map_or(0, |order| order.failures);
        let (mut failures, now) = (before.saturating_add(1), self.node.clock.now());
        let mut pause = pause_after(failures);
        if failure.kind != FailureKind::NoAuthority {
            self.unreached = 0;
        }
        match failure.kind {
            // It says nothing about the host, and all others would fail, too.
            FailureKind::NoAuthority => {
                self.unreached = self.unreached.saturating_add(1);
                (failures, pause) = (before, pause_unreached(self.unreached));
                self.paused_until = self.node.clock.steady() + pause;
            }
            FailureKind::RateLimited => {
                pause = pause.max(RATE_LIMIT_PAUSE);
                self.paused_until = self.node.clock.steady() + RATE_LIMIT_PAUSE;
            }
            FailureKind::NoAccount => {
                self.client.forget_account();
                let directory = self.client.settings.directory.clone();
                self.put(token, AcmeRecordKind::Account, &directory, None).await?;
            }
            _ => {}
        }
        let next = now.checked_add(pause).unwrap_or(Timestamp::MAX);
        let next = Timestamp::from_ms(next.as_ms() / 1000 * 1000);
        tracing::warn!(host, problem, next_try = %next, "a certificate could not be ordered");
        let record =
            OrderRecord { failures, tried_at: now.as_ms(), next_at: next.as_ms(), problem };
        self.put(token, AcmeRecordKind::Order, host, Some(&encode(&record)?)).await?;
        Ok(())
    }
}

/// Refuses a certificate that could not be used.
fn check(host: &str, certificate: &CertificateRecord) -> Result<(), OrderFailure> {
    let read = Certificate::parse(certificate.chain.as_bytes(), certificate.key.as_bytes());
    match read.is_ok_and(|read| read.names().iter().any(|name| name == host)) {
        true => Ok(()),
        false => Err(OrderFailure::other("its certificate cannot be used".to_owned())),
    }
}

#[async_trait]
impl Job for CertificateOrders {
    fn name(&self) -> &'static str {
        "certificate orders"
    }

    fn interval(&self) -> Duration {
        ORDER_INTERVAL
    }

    fn needs_lease(&self) -> bool {
        true
    }

    async fn wake(&mut self) {
        self.node.wanted.notified().await;
    }

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        let token = context.token().ok_or("the orders of certificates need the lease")?;
        self.node.refresh().await?;
        self.remove_leftovers(token).await?;
        for host in self.node.due(self.retry_after.take()) {
            let steady = self.node.clock.steady();
            if steady < self.paused_until || !self.limit.take(steady) {
                break;
            }
            context.check_lease().await?;
            let known = self.node.known();
            let failures = known.orders.get(&host).map_or(0, |order| order.failures);
            let chosen = self.client.settings.challenge;
            let kind = chosen.unwrap_or(ChallengeKind::alternate(failures));
            let order = tokio::time::timeout(ORDER_TIMEOUT, self.order(token, &host, kind)).await;
            let failure = match order {
                Ok(Ok(())) => {
                    self.unreached = 0;
                    tracing::info!(host, "a new certificate is in use");
                    continue;
                }
                Ok(Err(Stopped::Registry(error))) => return Err(error),
                Ok(Err(Stopped::Failed(failure))) => failure,
                Err(_) => OrderFailure::other("the order took too long".to_owned()),
            };
            self.record_failure(token, &host, kind, &failure).await?;
        }
        Ok(NextRun::Interval)
    }
}
