//! The end of an account, and of everything that was its owner's.
//!
//! An erasure is many steps in several stores, and may be cut off after any of them. So the first
//! one makes the account known as being erased, durably, and closes it; the last one erases it. All
//! between them can be done again, and whoever comes upon an account in between goes on: the one
//! who was asked, or the next start.

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

/// How many links are read at once, and how many of them are on their way to the store together.
const PAGE: usize = 500;
const TOGETHER: usize = 64;

/// What kept an erasure from its end. It can be done again.
#[derive(Debug, thiserror::Error)]
pub enum ErasureError {
    /// The links could not be erased.
    #[error("erasing links: {0}")]
    Links(#[from] LinkError),
    /// The clicks could not be forgotten.
    #[error("forgetting clicks: {0}")]
    Clicks(#[from] StoreError),
    /// The account could not be erased.
    #[error("erasing the account: {0}")]
    Registry(#[from] RegistryError),
}

/// How long a request waits for an erasure; a large one goes on by itself.
const REQUEST_WAIT: Duration = Duration::from_secs(10);
/// How many erasures run at once. Further ones are begun, and left to the next round of jobs.
const AT_ONCE: usize = 4;

/// Erases accounts.
#[derive(Clone)]
pub struct Erasures {
    links: Arc<Links>,
    clicks: Arc<dyn ClickStore>,
    registry: Arc<dyn Registry>,
    running: Arc<Semaphore>,
}

/// How far an erasure is when its request is answered. The account is closed in any case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Erased {
    /// Everything is gone.
    Done,
    /// The rest is still being erased.
    UnderWay,
}

impl Erasures {
    /// From the stores that know something of owners.
    pub fn new(
        links: Arc<Links>,
        clicks: Arc<dyn ClickStore>,
        registry: Arc<dyn Registry>,
    ) -> Self {
        let running = Arc::new(Semaphore::new(AT_ONCE));
        Self { links, clicks, registry, running }
    }

    /// Closes an account at once, and erases it. A large one takes longer than a request waits: it
    /// goes on, and if this process ends, the next one finishes it. So nothing need join the task.
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

    /// Closes an account for good, if it is still as it was seen. From now on the erasure will be
    /// finished, whatever happens.
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

    /// Takes an account that is closed to its end.
    async fn end(&self, id: OwnerId, by: Attribution) -> Result<(), ErasureError> {
        self.erase_links(id).await?;
        self.clicks.erase_owner(id, self.links.now()).await?;
        match self.registry.erase_account(id, by).await {
            // Somebody else was faster.
            Ok(()) | Err(RegistryError::Missing) => {}
            Err(error) => return Err(error.into()),
        }
        // A link may have been on its way to the store when the account was closed.
        self.erase_links(id).await?;
        Ok(())
    }

    /// Finishes all erasures that were begun, and says how many. To be called at the start, and now
    /// and then.
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

    /// Erases what an owner has made: what is there, and what they had deleted themselves.
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
