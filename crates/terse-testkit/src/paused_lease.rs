//! A process that is paused in the middle of a job, while another takes its lease over.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::registry::{FencingToken, JobLease, Lease, NodeId, RegistryError};
use terse_core::{BoxError, Timestamp};
use tokio::sync::Notify;

use crate::MemoryRegistry;

const LEASE: &str = "jobs";
const TTL: Duration = Duration::from_secs(30);

/// A process's way to its lease. The process is paused at one of its checks.
pub struct PausedLease {
    registry: Arc<MemoryRegistry>,
    checks: AtomicUsize,
    at: usize,
    is_after: bool,
    paused: Notify,
    resumed: Notify,
}

impl PausedLease {
    /// The process is paused just before its check number `at`, counted from 0.
    pub fn before_check(registry: Arc<MemoryRegistry>, at: usize) -> Arc<Self> {
        Self::new(registry, at, false)
    }

    /// The process is paused just after its check number `at`, which has succeeded.
    pub fn after_check(registry: Arc<MemoryRegistry>, at: usize) -> Arc<Self> {
        Self::new(registry, at, true)
    }

    fn new(registry: Arc<MemoryRegistry>, at: usize, is_after: bool) -> Arc<Self> {
        let (checks, paused, resumed) = (AtomicUsize::new(0), Notify::new(), Notify::new());
        Arc::new(Self { registry, checks, at, is_after, paused, resumed })
    }

    /// Another process takes the lease over.
    pub async fn take_over(registry: &Arc<MemoryRegistry>) -> JobContext {
        // A restarted node takes its own lease at once; to the token it is another holder.
        let node = NodeId::parse("node").unwrap();
        let lease = registry.acquire_lease(LEASE, &node, TTL).await.unwrap().unwrap();
        JobContext::leased(Arc::clone(registry) as Arc<dyn JobLease>, lease.token)
    }

    /// Runs a job in the process. `meanwhile` happens while it is paused.
    pub async fn run(
        self: &Arc<Self>,
        job: &mut dyn Job,
        meanwhile: impl Future<Output = ()>,
    ) -> Result<NextRun, BoxError> {
        let token = Self::take_over(&self.registry).await.token().unwrap();
        let context = JobContext::leased(Arc::clone(self) as Arc<dyn JobLease>, token);
        let meanwhile = async {
            self.paused.notified().await;
            meanwhile.await;
            self.resumed.notify_one();
        };
        tokio::join!(job.run(&context), meanwhile).0
    }

    async fn pause(&self) {
        self.paused.notify_one();
        self.resumed.notified().await;
    }

    /// How often the process has checked its lease.
    pub fn checks(&self) -> usize {
        self.checks.load(Ordering::SeqCst)
    }
}

/// Runs a job in a process that is paused just before its check number `at`; meanwhile another
/// process takes the lease over. The job must stop there.
pub async fn run_paused(registry: &Arc<MemoryRegistry>, job: &mut dyn Job, at: usize) {
    let lease = PausedLease::before_check(Arc::clone(registry), at);
    let takeover = async { drop(PausedLease::take_over(registry).await) };
    let error = lease.run(job, takeover).await.unwrap_err();
    let is_fenced = matches!(error.downcast_ref(), Some(RegistryError::Fenced));
    assert!(is_fenced, "{}: {error}", job.name());
    assert_eq!(lease.checks(), at + 1, "{}", job.name());
}

#[async_trait]
impl JobLease for PausedLease {
    async fn acquire_lease(
        &self,
        lease: &'static str,
        node: &NodeId,
        ttl: Duration,
    ) -> Result<Option<Lease>, RegistryError> {
        self.registry.acquire_lease(lease, node, ttl).await
    }

    async fn renew_lease(
        &self,
        token: FencingToken,
        ttl: Duration,
    ) -> Result<Timestamp, RegistryError> {
        self.registry.renew_lease(token, ttl).await
    }

    async fn release_lease(&self, token: FencingToken) -> Result<(), RegistryError> {
        self.registry.release_lease(token).await
    }

    async fn check_lease(&self, token: FencingToken) -> Result<(), RegistryError> {
        let is_here = self.checks.fetch_add(1, Ordering::SeqCst) == self.at;
        if is_here && !self.is_after {
            self.pause().await;
        }
        self.registry.check_lease(token).await?;
        if is_here && self.is_after {
            self.pause().await;
        }
        Ok(())
    }
}
