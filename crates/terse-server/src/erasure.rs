//! Erases an account and everything that belongs to its owner.
//!
//! An erasure takes many steps in several stores and may be interrupted after any of them. The
//! first step durably marks the account as being erased and closes it; the last step erases it. All
//! steps between are idempotent: the request's task or the erasure job repeats them until the last
//! one succeeds.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use terse_core::accounts::RefreshHook;
use terse_core::clicks::ClickStore;
use terse_core::registry::{
    Account, AccountChange, Actor, Attribution, ChangeAccount, Registry, RegistryError, Suspension,
};
use terse_core::{Caller, Link, LinkError, Links, ListQuery, OwnerId, Sort, Status, StoreError};
use tokio::sync::Semaphore;

/// The number of links per page, and the largest number of link erasures in flight to the store.
const PAGE: usize = 500;
const TOGETHER: usize = 64;

/// Why an erasure did not finish. It can be repeated.
#[derive(Debug, thiserror::Error)]
pub enum ErasureError {
    /// The links could not be erased.
    #[error("erasing links: {0}")]
    Links(#[from] LinkError),
    /// The clicks could not be erased.
    #[error("erasing clicks: {0}")]
    Clicks(#[from] StoreError),
    /// The account could not be erased.
    #[error("erasing the account: {0}")]
    Registry(#[from] RegistryError),
}

/// How long a request waits for its erasure. A larger one continues in the background.
const REQUEST_WAIT: Duration = Duration::from_secs(10);
/// The largest number of erasures that run at once. The erasure job finishes further ones.
const AT_ONCE: usize = 4;

/// Erases accounts.
#[derive(Clone)]
pub struct Erasures {
    links: Arc<Links>,
    clicks: Arc<dyn ClickStore>,
    registry: Arc<dyn Registry>,
    running: Arc<Semaphore>,
}

/// The progress of an erasure when its request is answered. The account is closed in any case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Erased {
    /// Everything is erased.
    Done,
    /// The rest is still being erased.
    UnderWay,
}

impl Erasures {
    /// From the stores that hold data of owners.
    pub fn new(
        links: Arc<Links>,
        clicks: Arc<dyn ClickStore>,
        registry: Arc<dyn Registry>,
    ) -> Self {
        let running = Arc::new(Semaphore::new(AT_ONCE));
        Self { links, clicks, registry, running }
    }

    /// Closes an account at once and erases it. A large erasure outlives the request. If the
    /// process ends, the erasure job finishes it after the next start, so nothing joins the task.
    pub(crate) async fn erase(
        &self,
        refresh: &dyn RefreshHook,
        account: &Account,
        by: Attribution,
    ) -> Result<Erased, RegistryError> {
        self.begin(account, by.clone()).await?;
        refresh.refresh().await;
        let Ok(turn) = Arc::clone(&self.running).try_acquire_owned() else {
            return Ok(Erased::UnderWay);
        };
        let (erasures, id) = (self.clone(), account.id);
        let task = tokio::spawn(async move {
            let _turn = turn;
            let ended = erasures.end(id, by).await;
            if let Err(error) = &ended {
                tracing::error!(%error, owner = id.0, "could not erase an account; trying again \
                    later");
            }
            ended.is_ok()
        });
        match tokio::time::timeout(REQUEST_WAIT, task).await {
            Ok(Ok(true)) => Ok(Erased::Done),
            _ => Ok(Erased::UnderWay),
        }
    }

    /// Closes an account for good, if its revision is unchanged. From here on the erasure job
    /// finishes the erasure after any failure.
    async fn begin(&self, account: &Account, by: Attribution) -> Result<(), RegistryError> {
        if account.suspended.as_ref().is_some_and(Suspension::is_erasure) {
            return Ok(());
        }
        let change = AccountChange {
            password: Some(None),
            identity: Some(None),
            suspended: Some(Some(Suspension::of_erasure(by.at))),
            ..AccountChange::default()
        };
        self.registry
            .change_account(
                ChangeAccount { id: account.id, change, expected: Some(account.revision) },
                by,
            )
            .await
            .map(|_| ())
    }

    /// Erases an account that is closed.
    async fn end(&self, id: OwnerId, by: Attribution) -> Result<(), ErasureError> {
        self.erase_links(id).await?;
        self.clicks.erase_owner(id, self.links.now()).await?;
        match self.registry.erase_account(id, by).await {
            // Another task or node erased it first.
            Ok(()) | Err(RegistryError::Missing) => {}
            Err(error) => return Err(error.into()),
        }
        // A request may have stored a link while the account was being closed.
        self.erase_links(id).await?;
        Ok(())
    }

    /// Finishes all erasures that were begun and returns their number. The erasure job calls it at
    /// the start and at intervals.
    pub async fn finish(&self) -> Result<usize, ErasureError> {
        let mut finished = 0;
        for id in self.registry.suspended().await? {
            let suspended = self.registry.account(id).await?.and_then(|account| account.suspended);
            if suspended.as_ref().is_some_and(Suspension::is_erasure) {
                let why = Some("finishing what was begun".to_owned());
                self.end(id, Attribution { actor: Actor::Terse, at: self.links.now(), why })
                    .await?;
                finished += 1;
            }
        }
        Ok(finished)
    }

    /// Erases all links of an owner, including those that the owner deleted.
    async fn erase_links(&self, owner: OwnerId) -> Result<(), LinkError> {
        for status in [None, Some(Status::Deleted)] {
            let mut after = None;
            loop {
                let query = ListQuery {
                    status,
                    after,
                    ..ListQuery::all(Sort::Oldest, PAGE, self.links.now())
                };
                let page = self.links.list(Caller::Owner(owner), query).await?.page;
                let erasing: Vec<_> = page
                    .links
                    .into_iter()
                    .map(|link| erase_one(Arc::clone(&self.links), owner, link))
                    .collect();
                stream::iter(erasing).buffer_unordered(TOGETHER).try_collect::<()>().await?;
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            while self.links.purge_erased(PAGE).await? > 0 {}
        }
        Ok(())
    }
}

async fn erase_one(links: Arc<Links>, owner: OwnerId, link: Link) -> Result<(), LinkError> {
    links.erase(owner, &link.key).await
}

impl std::fmt::Debug for Erasures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Erasures")
    }
}
