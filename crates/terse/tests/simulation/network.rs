//! The way from one node to the store: it can be slow, gone, or lose answers.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::*;
use terse_testkit::MemoryStore;
use tokio::time::sleep;

use crate::dice::Dice;

/// What happens to calls of the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Weather {
    /// A few milliseconds each.
    Fine,
    /// Up to two seconds each: longer than a visitor waits.
    Slow,
    /// One in three fails, half of these after the store has done its work.
    Flaky,
    /// None arrives.
    Down,
}

impl Weather {
    pub(crate) const ALL: [Self; 4] = [Self::Fine, Self::Slow, Self::Flaky, Self::Down];
}

/// The store as one node reaches it.
pub(crate) struct SimStore {
    store: Arc<MemoryStore>,
    dice: Arc<Dice>,
    weather: AtomicU8,
}

impl SimStore {
    pub(crate) fn new(store: Arc<MemoryStore>, dice: Arc<Dice>) -> Self {
        Self { store, dice, weather: AtomicU8::new(Weather::Fine as u8) }
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.weather.store(weather as u8, Ordering::Relaxed);
    }

    fn weather(&self) -> Weather {
        Weather::ALL[usize::from(self.weather.load(Ordering::Relaxed))]
    }

    /// On the way to the store. A call that fails here was not done.
    async fn before(&self) -> Result<(), StoreError> {
        let wait = if self.weather() == Weather::Slow { 2000 } else { 4 };
        sleep(self.dice.ms(wait)).await;
        match self.weather() {
            Weather::Down => Err(lost()),
            Weather::Flaky if self.dice.percent(16) => Err(lost()),
            _ => Ok(()),
        }
    }

    /// On the way back. A call that fails here was done.
    async fn after(&self) -> Result<(), StoreError> {
        sleep(self.dice.ms(4)).await;
        match self.weather() {
            Weather::Down => Err(lost()),
            Weather::Flaky if self.dice.percent(16) => Err(lost()),
            _ => Ok(()),
        }
    }
}

pub(crate) fn lost() -> StoreError {
    StoreError::Unavailable("lost on the way".into())
}

macro_rules! over_the_network {
    ($(impl $trait:ident {
        $({ $($plain:tt)* })?
        $(fn $name:ident($($argument:ident: $kind:ty),*) -> $out:ty;)*
    })*) => {$(
        #[async_trait]
        impl $trait for SimStore {
            $($($plain)*)?
            $(async fn $name(&self, $($argument: $kind),*) -> Result<$out, StoreError> {
                self.before().await?;
                let answer = self.store.$name($($argument),*).await;
                self.after().await?;
                answer
            })*
        }
    )*};
}

over_the_network! {
    impl LinkReader {
        {
            fn surely_absent(&self, domain: &Domain, code: &str) -> AbsenceCertainty {
                self.store.surely_absent(domain, code)
            }
        }
        fn get(key: &LinkKey) -> Option<Link>;
        fn get_folded(key: &LinkKey) -> Option<Link>;
    }
    impl ClickSpender {
        fn spend(key: &LinkKey) -> ClickSpend;
    }
    impl ChangeFeed {
        fn last_change() -> ChangeCursor;
        fn changes(after: ChangeCursor, limit: usize) -> ChangePage;
        fn announce(key: &LinkKey) -> ();
    }
    impl Outbox {
        fn outbox(after: Option<u64>, limit: usize) -> OutboxPage;
        fn outbox_done(positions: &[u64]) -> ();
    }
    impl LinkStore {
        {
            fn identity(&self) -> &StoreIdentity {
                self.store.identity()
            }

            /// With a distance from the seed: the service takes a random one, on which its codes
            /// depend, and on these the times at which cached links are refreshed.
            async fn lease_ahead(&self, lease: CodeLease) -> Result<Range<u64>, StoreError> {
                let skip = if lease.skip == 0 { 0 } else { self.dice.below(1 << 26) };
                self.before().await?;
                let range = self.store.lease_ahead(CodeLease { skip, ..lease }).await;
                self.after().await?;
                range
            }
        }
        fn insert(insert: Insert) -> Inserted;
        fn preview_insert(insert: &Insert) -> Inserted;
        fn answered(request: &IdempotencyKey) -> Option<Inserted>;
        fn update(link: &Link, expected: Revision, events: &[OutboxEvent]) -> Updated;
        fn confirm() -> ();
        fn history(key: &LinkKey, limit: usize) -> Vec<LinkVersion>;
        fn forget_history(key: &LinkKey) -> ();
        fn list(query: &ListQuery) -> LinkPage;
        fn tags(owner: OwnerId, limit: usize) -> Vec<TagCount>;
        fn incarnation() -> u64;
        fn raise_incarnation(seen: u64) -> u64;
        fn mark_expired(now: Timestamp, limit: usize, subscribers: &[OwnerId]) -> Vec<LinkKey>;
        fn purge(
            before: PurgeBefore, limit: usize, quarantine_until: Option<Timestamp>
        ) -> Vec<LinkKey>;
        fn count_purgeable(before: PurgeBefore) -> u64;
        fn count_links() -> u64;
        fn release(now: Timestamp, limit: usize) -> usize;
        fn forget_requests(before: Timestamp, limit: usize) -> usize;
        fn scrub() -> ();
        fn check() -> ();
    }
}

/// How long a fault may still be felt after it has ended: routes that were served past their time,
/// a look-up that waits for its timeout, the next poll of the change feed.
pub(crate) const AFTER_FAULT: Duration = Duration::from_secs(10);
