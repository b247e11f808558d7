//! Erases an account and everything that belongs to its owner.
//!
//! An erasure takes many steps in several stores and may be interrupted after any of them. The
//! first step durably marks the account as being erased and closes it; the last step erases it. All
//! steps between are idempotent: the request's task or the erasure job repeats them until the last
//! one succeeds. An erasure is done when nothing of it is left in the files of the stores either.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::RefreshHook;
use crate::clicks::ClickStore;
use crate::link::{Link, LinkStatus, OwnerId};
use crate::links::{LinkError, Links, for_each_link};
use crate::registry::{
    Account, AccountChange, Actor, Attribution, ConditionalAccountChange, Registry, RegistryError,
    Suspension,
};
use crate::store::{Cursor, ListQuery, Sort, StoreError};

/// The number of links per page, and the largest number of link erasures in flight to the store.
const PAGE: usize = 500;
const MAX_CONCURRENT: usize = 64;
/// How long a request waits for its erasure. A larger one continues in the background. Clients and
/// load balancers often give up after five to ten seconds, and the registry's refresh may take two.
const REQUEST_WAIT: Duration = Duration::from_secs(3);
/// The largest number of erasures that run at once. The erasure job finishes further ones.
const AT_ONCE: usize = 4;

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

/// The progress of an erasure when its request is answered. The account is closed in any case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErasureProgress {
    /// Everything is erased.
    Done,
    /// The rest is still being erased.
    UnderWay,
}

/// Erases accounts.
#[derive(Clone)]
pub struct Erasures {
    links: Arc<Links>,
    clicks: Arc<dyn ClickStore>,
    registry: Arc<dyn Registry>,
    running: Arc<Semaphore>,
    /// Whether something erased may still be in the files of the stores. A new process finds out by
    /// scrubbing once.
    is_to_scrub: Arc<AtomicBool>,
}

/// The erasure of one account that is closed, batch by batch.
pub struct Erasure {
    erasures: Erasures,
    owner: OwnerId,
    by: Attribution,
    step: Step,
    /// Whether the account itself is erased. A request may have stored a link while the account was
    /// being closed, so the links are erased once more after it.
    is_account_erased: bool,
}

/// What the next batch does.
enum Step {
    /// Erases a page of the links that were not deleted, or of those that were.
    Links {
        status: Option<LinkStatus>,
        after: Option<Cursor>,
    },
    /// Purges the links that were erased.
    Purge {
        status: Option<LinkStatus>,
    },
    Clicks,
    Account,
    /// Waits until nothing of it is left in the files of the stores.
    Scrub,
    Done,
}

impl Erasures {
    /// From the stores that hold data of owners.
    pub fn new(
        links: Arc<Links>,
        clicks: Arc<dyn ClickStore>,
        registry: Arc<dyn Registry>,
    ) -> Self {
        let running = Arc::new(Semaphore::new(AT_ONCE));
        Self { links, clicks, registry, running, is_to_scrub: Arc::new(AtomicBool::new(true)) }
    }

    /// Closes an account at once and erases it. A large erasure outlives the request. If the
    /// process ends, the erasure job finishes it after the next start, so nothing joins the task.
    pub async fn erase(
        &self,
        refresh: &dyn RefreshHook,
        account: &Account,
        by: Attribution,
    ) -> Result<ErasureProgress, RegistryError> {
        self.begin(account, by.clone()).await?;
        refresh.refresh().await;
        let Ok(turn) = Arc::clone(&self.running).try_acquire_owned() else {
            return Ok(ErasureProgress::UnderWay);
        };
        let mut erasure = self.erasure(account.id, by);
        let task = tokio::spawn(async move {
            let _turn = turn;
            while erasure.next_batch().await? {}
            Ok::<_, ErasureError>(())
        });
        match tokio::time::timeout(REQUEST_WAIT, task).await {
            Ok(Ok(Ok(()))) => Ok(ErasureProgress::Done),
            // The erasure job tries again, and reports what fails then.
            _ => Ok(ErasureProgress::UnderWay),
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
        let change =
            ConditionalAccountChange { id: account.id, change, expected: Some(account.revision) };
        self.registry.change_account(change, by).await.map(|_| ())
    }

    /// The erasures that were begun and not finished. The erasure job finishes them.
    pub async fn unfinished(&self) -> Result<Vec<Erasure>, RegistryError> {
        let mut unfinished = Vec::new();
        for id in self.registry.suspended().await? {
            let suspended = self.registry.account(id).await?.and_then(|account| account.suspended);
            if suspended.as_ref().is_some_and(Suspension::is_erasure) {
                let why = Some("continuing an erasure that was interrupted".to_owned());
                let by = Attribution { actor: Actor::Terse, at: self.links.now(), why };
                unfinished.push(self.erasure(id, by));
            }
        }
        Ok(unfinished)
    }

    /// Removes what was erased from the files of the stores too, if some may be left there. The
    /// erasure job repeats it after a failure, and once after a start: a process may have ended
    /// between the last two steps of an erasure.
    pub async fn scrub(&self) -> Result<(), ErasureError> {
        if self.is_to_scrub.swap(false, Ordering::AcqRel)
            && let Err(error) = self.scrub_all().await
        {
            self.is_to_scrub.store(true, Ordering::Release);
            return Err(error);
        }
        Ok(())
    }

    async fn scrub_all(&self) -> Result<(), ErasureError> {
        self.links.scrub().await?;
        self.clicks.scrub().await?;
        Ok(self.registry.scrub().await?)
    }

    fn erasure(&self, owner: OwnerId, by: Attribution) -> Erasure {
        let step = Step::Links { status: None, after: None };
        Erasure { erasures: self.clone(), owner, by, step, is_account_erased: false }
    }

    /// Erases one page of links and returns where the next begins.
    async fn erase_links(
        &self,
        owner: OwnerId,
        status: Option<LinkStatus>,
        after: Option<Cursor>,
    ) -> Result<Option<Cursor>, LinkError> {
        let all = ListQuery::all(Sort::Oldest, PAGE, self.links.now());
        let query = ListQuery { owner: Some(owner), status, after, ..all };
        let page = self.links.list_for_job(query).await?.page;
        for_each_link(page.links, MAX_CONCURRENT, |link| {
            erase_one(Arc::clone(&self.links), owner, link)
        })
        .await?;
        Ok(page.next)
    }
}

impl Erasure {
    /// Erases the next batch. `false` once everything is erased.
    pub async fn next_batch(&mut self) -> Result<bool, ErasureError> {
        let Erasures { links, clicks, registry, .. } = &self.erasures;
        self.step = match &self.step {
            Step::Links { status, after } => {
                let (status, after) = (*status, after.clone());
                match self.erasures.erase_links(self.owner, status, after).await? {
                    Some(next) => Step::Links { status, after: Some(next) },
                    None => Step::Purge { status },
                }
            }
            Step::Purge { status } => match (links.purge_erased(PAGE).await?, status) {
                (1.., status) => Step::Purge { status: *status },
                (0, None) => Step::Links { status: Some(LinkStatus::Deleted), after: None },
                (0, Some(_)) if self.is_account_erased => Step::Scrub,
                (0, Some(_)) => Step::Clicks,
            },
            Step::Clicks => {
                clicks.erase_owner(self.owner, links.now()).await?;
                Step::Account
            }
            Step::Account => {
                match registry.erase_account(self.owner, self.by.clone()).await {
                    // Another task or node erased it first.
                    Ok(()) | Err(RegistryError::Missing) => {}
                    Err(error) => return Err(error.into()),
                }
                self.is_account_erased = true;
                self.erasures.is_to_scrub.store(true, Ordering::Release);
                Step::Links { status: None, after: None }
            }
            Step::Scrub => {
                self.erasures.scrub().await?;
                Step::Done
            }
            Step::Done => Step::Done,
        };
        Ok(!matches!(self.step, Step::Done))
    }
}

/// In a task of its own: several run at once.
async fn erase_one(links: Arc<Links>, owner: OwnerId, link: Link) -> Result<(), LinkError> {
    links.erase(owner, &link.key).await
}

impl std::fmt::Debug for Erasures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Erasures")
    }
}

impl std::fmt::Debug for Erasure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Erasure").field("owner", &self.owner).finish_non_exhaustive()
    }
}
