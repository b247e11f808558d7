//! Storages, clicks and the job, for the tests.

use std::sync::Arc;
use std::time::Duration;

use terse_archive::{
    Archive, ArchiveCounts, ArchiveJob, ArchiveJobParts, ArchiveQuery, S3Options, Storage,
    StorageUrl,
};
use terse_core::clicks::{Click, ClickStore, ClickTarget, LinkId, Unit};
use terse_core::job::{Job as _, JobContext};
use terse_core::registry::{JobLease as _, NodeId};
use terse_core::{BoxError, Clock, OwnerId, Secret, Timestamp};
use terse_testkit::{MemoryClickStore, MemoryRegistry, S3Server, key, timestamp};

pub(crate) const HOUR: i64 = Unit::Hour.ms();
pub(crate) const DAY: i64 = Unit::Day.ms();
const LEASE: &str = "jobs";

pub(crate) fn folder(dir: &tempfile::TempDir) -> Storage {
    let url = StorageUrl::parse(&format!("file://{}", dir.path().display())).unwrap();
    Storage::open(&url, &S3Options::default()).unwrap()
}

/// A new bucket, in which all names begin with `some/prefix`.
pub(crate) fn s3() -> Storage {
    s3_of(S3Server::shared())
}

/// The same on this server.
pub(crate) fn s3_of(server: &S3Server) -> Storage {
    let url = StorageUrl::parse(&format!("s3://{}/some/prefix", server.bucket())).unwrap();
    Storage::open(&url, &s3_options(server, S3Server::SECRET_ACCESS_KEY)).unwrap()
}

pub(crate) fn s3_options(server: &S3Server, secret: &str) -> S3Options {
    S3Options {
        endpoint: Some(server.endpoint()),
        region: Some("us-east-1".into()),
        access_key_id: Some(S3Server::ACCESS_KEY_ID.into()),
        secret_access_key: Some(Secret::new(secret)),
        virtual_hosts: false,
        conditional_writes: S3Server::has_conditional_writes(),
        roots: None,
    }
}

pub(crate) fn link(code: &str) -> LinkId {
    LinkId { key: key(code), created_at: timestamp(-DAY) }
}

/// A click with an owner and some values, `ms` after the beginning of a year.
pub(crate) fn click(code: &str, owner: u64, ms: i64) -> Click {
    Click {
        city: Some("Łódź, PL".into()),
        visitor: (ms % 2 == 0).then_some(u64::MAX - ms.unsigned_abs()),
        took_nanos: ms.unsigned_abs() * 3,
        ..Click::bare(timestamp(ms), ClickTarget::Link(link(code), OwnerId(owner)))
    }
}

/// A click store, a registry and a storage, at a time that tests move.
pub(crate) struct Site {
    pub(crate) clicks: Arc<dyn ClickStore>,
    pub(crate) registry: MemoryRegistry,
    pub(crate) storage: Storage,
    pub(crate) clock: Clock,
    pub(crate) counts: Arc<ArchiveCounts>,
    pub(crate) keep: Option<Duration>,
}

impl Site {
    /// It is `ms` after the beginning of a year.
    pub(crate) fn new(storage: Storage, ms: i64) -> Self {
        Self {
            clicks: Arc::new(MemoryClickStore::new()),
            registry: MemoryRegistry::new(),
            storage,
            clock: Clock::frozen(timestamp(ms)),
            counts: Arc::default(),
            keep: None,
        }
    }

    pub(crate) async fn add(&self, clicks: Vec<Click>) {
        terse_testkit::add_clicks(&*self.clicks, clicks).await;
    }

    pub(crate) fn job(&self) -> ArchiveJob {
        ArchiveJob::new(ArchiveJobParts {
            clicks: Arc::clone(&self.clicks),
            registry: Arc::new(self.registry.another_handle()),
            storage: self.storage.clone(),
            keep_raw: Duration::from_hours(30 * 24),
            keep: self.keep,
            clock: self.clock.clone(),
            counts: Arc::clone(&self.counts),
        })
    }

    /// A lease for a node. It takes the lease from every other node.
    pub(crate) async fn lease(&self, node: &str) -> JobContext {
        let node = NodeId::parse(node).unwrap();
        let ttl = Duration::ZERO;
        let lease = self.registry.acquire_lease(LEASE, &node, ttl).await.unwrap().unwrap();
        JobContext::leased(Arc::new(self.registry.another_handle()), lease.token)
    }

    pub(crate) async fn run(&self) {
        self.try_run().await.unwrap();
    }

    pub(crate) async fn try_run(&self) -> Result<(), BoxError> {
        let context = self.lease("node-1").await;
        self.job().run(&context).await.map(drop)
    }

    pub(crate) fn archive(&self) -> Archive {
        Archive::new(self.storage.clone())
    }

    /// The names of all files.
    pub(crate) async fn names(&self) -> Vec<String> {
        let files = self.archive().files(&ArchiveQuery::default()).await.unwrap();
        files.into_iter().map(|file| file.name).collect()
    }

    /// The content of all files.
    pub(crate) async fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        for name in self.names().await {
            let content = self.storage.get(&name).await.unwrap().to_vec();
            all.push((name, content));
        }
        all
    }

    /// All clicks that a query finds.
    pub(crate) async fn query(&self, query: &ArchiveQuery) -> Vec<Click> {
        let mut found = Vec::new();
        for file in self.archive().files(query).await.unwrap() {
            found.extend(self.archive().read(&file, query).await.unwrap());
        }
        found
    }

    pub(crate) async fn all(&self) -> Vec<Click> {
        self.query(&ArchiveQuery::default()).await
    }
}

/// Clicks in an order that depends on them alone.
pub(crate) fn sorted(mut clicks: Vec<Click>) -> Vec<Click> {
    clicks.sort_by_key(|click| (click.at, click.took_nanos, format!("{:?}", click.target)));
    clicks
}

pub(crate) fn at(ms: i64) -> Option<Timestamp> {
    Some(timestamp(ms))
}
