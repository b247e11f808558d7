//! Codes and operations on links, with an in-memory store.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use terse_core::*;
use terse_testkit::MemoryStore;

fn wanted(target: &Target, attempt: u32) -> CodeRequest<'_> {
    CodeRequest { owner: OwnerId::ADMIN, target, attempt }
}

fn links(store: &Arc<dyn LinkStore>, codes: Arc<dyn CodeSource>) -> Links {
    let base = "https://go.example/".parse().unwrap();
    let rules = LinkPolicy {
        targets: TargetRules::default(),
        hosts: Hosts::new(&base, &[], vec![]).unwrap(),
        anonymous_create: true,
        anonymous_ttl: Duration::from_hours(8),
        grace: Duration::from_hours(24),
        keep_expired: Duration::from_hours(24),
        quarantine: Duration::ZERO,
        unwanted_aliases: Default::default(),
    };
    Links::new(
        Arc::clone(store),
        codes,
        Arc::new(NoRouteCache),
        Arc::new(NoScreening),
        rules,
        Clock::default(),
    )
}

fn request(target: &str) -> CreateLink {
    CreateLink { long_url: target.into(), ..CreateLink::default() }
}

fn memory() -> Arc<dyn LinkStore> {
    Arc::new(MemoryStore::new())
}

#[tokio::test]
async fn when_a_length_is_used_up_the_next_one_begins() {
    let store = memory();
    let capacity = Numbering::new(store.identity()).capacity(4);
    let source = NumberedCodes::new(Arc::clone(&store), 4, 4);
    let target = Target::from_stored("https://example.com/".into());
    let mut lengths = vec![source.next(wanted(&target, 0)).await.unwrap().as_str().len()];
    // The rest of the numbers of four characters are taken by another node.
    while store.lease(4, capacity, capacity, 0).await.is_ok() {}
    for _ in 0..20 {
        lengths.push(source.next(wanted(&target, 0)).await.unwrap().as_str().len());
    }
    let short = lengths.iter().filter(|&&length| length == 4).count();
    assert!(
        (1..=8).contains(&short) && lengths.is_sorted() && lengths.last() == Some(&5),
        "{lengths:?}"
    );
}

/// A process that starts on a store that was copied back must not meet the codes of the one before.
#[tokio::test]
async fn every_start_continues_at_a_random_distance_and_within_a_run_without_one() {
    let target = Target::from_stored("https://example.com/".into());
    let mut firsts = HashSet::new();
    for _ in 0..5 {
        let store = memory();
        let numbering = Numbering::new(store.identity());
        let source = NumberedCodes::new(Arc::clone(&store), 7, 10);
        let mut numbers = Vec::new();
        for _ in 0..50 {
            let code = source.next(wanted(&target, 0)).await.unwrap();
            numbers.push(numbering.number(code.as_str().as_bytes()).unwrap().1);
        }
        // Only unpresentable codes are left out.
        assert!(numbers.is_sorted() && numbers[49] - numbers[0] < 100, "{numbers:?}");
        assert!(numbers[0] <= 1 << 26, "{numbers:?}");
        firsts.insert(numbers[0]);
        // After a rise of the incarnation the next range begins at a random distance.
        store.raise_incarnation(1).await.unwrap();
        for _ in 0..30 {
            source.next(wanted(&target, 0)).await.unwrap();
        }
        let code = source.next(wanted(&target, 0)).await.unwrap();
        let later = numbering.number(code.as_str().as_bytes()).unwrap().1;
        assert!(later - numbers[49] > 1_000_000_000, "{later}");
    }
    assert!(firsts.len() > 1, "{firsts:?}");
}

#[tokio::test]
async fn no_code_is_offensive_reserved_or_given_twice() {
    let source = NumberedCodes::new(memory(), 4, 5000);
    let target = Target::from_stored("https://example.com/".into());
    let mut seen = HashSet::new();
    for _ in 0..50_000 {
        let code = source.next(wanted(&target, 0)).await.unwrap().to_string();
        let read = code
            .to_lowercase()
            .replace('0', "o")
            .replace('1', "i")
            .replace('5', "s")
            .replace('7', "t");
        assert!(
            !["shit", "fuck", "sex", "nazi"].iter().any(|word| read.contains(word))
                && !is_reserved(&code),
            "{code}"
        );
        assert!(seen.insert(code), "given twice");
    }
}

#[tokio::test]
async fn a_hashed_code_follows_from_target_owner_and_attempt() {
    let identity =
        |secret| StoreIdentity::from_stored([secret; 32], Alphabet::Base62, CodeHash::Hmac);
    let source = HashedCodes::new(&identity(1), 7);
    let (one, two) = (
        Target::from_stored("https://a.example/".into()),
        Target::from_stored("https://b.example/".into()),
    );
    let code = source.next(wanted(&one, 0)).await.unwrap();
    assert_eq!(code, source.next(wanted(&one, 0)).await.unwrap());
    assert_ne!(code, source.next(wanted(&one, 1)).await.unwrap());
    assert_ne!(code, source.next(wanted(&two, 0)).await.unwrap());
    let other_store = HashedCodes::new(&identity(2), 7);
    assert_ne!(code, other_store.next(wanted(&one, 0)).await.unwrap(), "the secret decides");
    // A store from before codes were keyed keeps its function.
    for secret in [1, 2] {
        let old = StoreIdentity::from_stored([secret; 32], Alphabet::Base62, CodeHash::Sha256);
        let code = HashedCodes::new(&old, 7).next(wanted(&one, 0)).await.unwrap();
        assert_eq!(code.as_str(), "QOH18dY");
    }
}

#[tokio::test]
async fn every_strategy_makes_links_and_goes_on_when_a_code_is_taken() {
    for strategy in 0..4 {
        let store = memory();
        let codes: Arc<dyn CodeSource> = match strategy {
            0 => Arc::new(NumberedCodes::new(Arc::clone(&store), 7, 10)),
            1 => Arc::new(RandomCodes::new(Alphabet::Base58, 7)),
            2 => Arc::new(HashedCodes::new(store.identity(), 7)),
            _ => Arc::new(SnowflakeCodes::new(Alphabet::Base62, 1, Clock::default())),
        };
        let links = links(&store, codes);
        let mut seen = HashSet::new();
        for i in 0..50 {
            // Each target twice without reuse: for `hash` the second code is taken.
            let request = CreateLink {
                reuse: Some(false),
                ..request(&format!("https://example.com/{}", i / 2))
            };
            let created = links.create(Caller::OPERATOR, request, None).await.unwrap();
            assert!(
                created.new && seen.insert(created.link.key.code.clone()),
                "strategy {strategy}"
            );
        }
    }
}

/// The same code three times, then another, as when an alias has the generated code.
struct Stubborn;

#[async_trait::async_trait]
impl CodeSource for Stubborn {
    async fn next(&self, wanted: CodeRequest<'_>) -> Result<Code, CodeSourceError> {
        Ok(Code::parse(if wanted.attempt < 3 { "taken12" } else { "free123" }).unwrap())
    }
}

#[tokio::test]
async fn meeting_an_alias_costs_one_more_code_and_not_the_link() {
    let links = links(&memory(), Arc::new(Stubborn));
    let alias =
        CreateLink { custom_alias: Some("taken12".into()), ..request("https://example.com/a") };
    links.create(Caller::OPERATOR, alias, None).await.unwrap();
    let created =
        links.create(Caller::OPERATOR, request("https://example.com/b"), None).await.unwrap();
    assert_eq!(created.link.key.code.as_str(), "free123");
}

#[tokio::test]
async fn a_patched_link_is_no_longer_given_back_for_its_target() {
    let links = links(&memory(), Arc::new(RandomCodes::new(Alphabet::Base62, 7)));
    let create = || links.create(Caller::OPERATOR, request("https://example.com/"), None);
    let first = create().await.unwrap().link;
    let same = create().await.unwrap();
    assert!(!same.new && same.link.key == first.key);
    let titled = LinkPatch { title: PatchField::Set("Mine".into()), ..LinkPatch::default() };
    links.patch(Caller::OPERATOR, &first.key, &titled, None).await.unwrap();
    assert!(!create().await.unwrap().new, "a title changes nothing about where it leads");
    let ending = LinkPatch { ttl: Some(60), ..LinkPatch::default() };
    assert_eq!(
        links.patch(Caller::OPERATOR, &first.key, &ending, None).await.unwrap().revision,
        Revision(3)
    );
    assert!(create().await.unwrap().new);
    // Of two updates of the same revision, one fails.
    let late = links.patch(Caller::OPERATOR, &first.key, &ending, Some(Revision(1))).await;
    assert!(matches!(late, Err(LinkError::Conflict)), "{late:?}");
}

#[tokio::test]
async fn only_owner_and_operator_may_touch_a_link() {
    let links = links(&memory(), Arc::new(RandomCodes::new(Alphabet::Base62, 7)));
    let (mine, other) = (Caller::Owner(OwnerId(7)), Caller::Owner(OwnerId(8)));
    let link = links.create(mine, request("https://example.com/"), None).await.unwrap().link;
    assert!(matches!(links.get(other, &link.key).await, Err(LinkError::NotFound)));
    assert!(matches!(links.delete(other, &link.key).await, Err(LinkError::NotFound)));
    assert!(matches!(links.delete(Caller::Anonymous, &link.key).await, Err(LinkError::KeyNeeded)));
    links.delete(mine, &link.key).await.unwrap();
    assert!(matches!(
        links.patch(mine, &link.key, &LinkPatch::default(), None).await,
        Err(LinkError::NotFound)
    ));
    assert_eq!(links.restore(Caller::OPERATOR, &link.key).await.unwrap().deleted_at, None);
}

/// Numbers keep coming from the range in hand while the store does not answer.
#[tokio::test(flavor = "current_thread")]
async fn a_range_is_refilled_ahead_and_a_caller_waits_only_when_it_is_empty() {
    let store = Arc::new(MemoryStore::new());
    let source = NumberedCodes::new(store.clone(), 7, 10);
    let target = Target::from_stored("https://example.com/".into());
    let mut codes = HashSet::new();
    codes.insert(source.next(wanted(&target, 0)).await.unwrap());
    assert_eq!(store.leases(), 1);
    store.stall_leases(true);
    for _ in 1..10 {
        codes.insert(source.next(wanted(&target, 0)).await.unwrap());
        tokio::task::yield_now().await;
    }
    assert_eq!((codes.len(), store.leases()), (10, 2), "one refill at a time, from the half on");
    // The range is empty: callers wait, all of them for the same refill.
    let mut waiting: Vec<_> = (0..3).map(|_| source.next(wanted(&target, 0))).collect();
    for _ in 0..100 {
        for caller in &mut waiting {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(caller.as_mut().poll(&mut context).is_pending());
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(store.leases(), 2);
    store.stall_leases(false);
    for caller in waiting {
        codes.insert(caller.await.unwrap());
    }
    assert_eq!((codes.len(), store.leases()), (13, 2));
}

#[tokio::test(flavor = "current_thread")]
async fn a_failed_refill_fails_the_waiting_callers_and_is_repeated() {
    let store = Arc::new(MemoryStore::new());
    let source = NumberedCodes::new(store.clone(), 7, 10);
    let target = Target::from_stored("https://example.com/".into());
    store.fail(true);
    let failed = source.next(wanted(&target, 0)).await;
    assert!(
        matches!(failed, Err(CodeSourceError::Store(StoreError::Unavailable(_)))),
        "{failed:?}"
    );
    store.fail(false);
    source.next(wanted(&target, 0)).await.unwrap();
    // With half of a range left, callers do not wait for the refill.
    store.fail(true);
    for _ in 1..10 {
        source.next(wanted(&target, 0)).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(source.next(wanted(&target, 0)).await.is_err());
    store.fail(false);
    source.next(wanted(&target, 0)).await.unwrap();
}

/// A node that knows of more numbers than the store says so when it leases.
#[tokio::test(flavor = "current_thread")]
async fn a_store_that_went_back_in_time_gives_no_number_twice() {
    let now = Arc::new(MemoryStore::new());
    let source = NumberedCodes::new(now.clone(), 7, 10);
    let target = Target::from_stored("https://example.com/".into());
    let mut codes = HashSet::new();
    for n in 0..40 {
        if n == 20 {
            now.forget_leases();
        }
        assert!(codes.insert(source.next(wanted(&target, 0)).await.unwrap()));
        tokio::task::yield_now().await;
    }
    assert_eq!(now.incarnation().await.unwrap(), 2);
}

/// A follower that missed rows forgets everything.
#[tokio::test(flavor = "current_thread")]
async fn a_follower_forgets_everything_after_a_gap() {
    #[derive(Default)]
    struct Emptied(std::sync::atomic::AtomicUsize);
    impl RouteCache for Emptied {
        fn forget(&self, _: &LinkKey) {}

        fn forget_all(&self) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let (store, cache) = (Arc::new(MemoryStore::new()), Arc::new(Emptied::default()));
    let mut follower = ChangeFollower::new(store.clone(), cache.clone());
    let emptied = || cache.0.load(std::sync::atomic::Ordering::Relaxed);
    follower.poll().await.unwrap();
    assert_eq!(emptied(), 1);
    for code in ["one", "two"] {
        let link = terse_testkit::alias(code, "https://example.com/");
        store.insert(Insert::new(link, None)).await.unwrap();
    }
    store.fail(true);
    assert!(follower.poll().await.is_err());
    store.fail(false);
    assert_eq!((follower.poll().await.unwrap(), emptied()), (2, 1), "where it stopped");
    let link = terse_testkit::alias("three", "https://example.com/");
    store.insert(Insert::new(link, None)).await.unwrap();
    store.prune_changes();
    assert_eq!((follower.poll().await.unwrap(), emptied()), (0, 2));
    assert_eq!((follower.poll().await.unwrap(), emptied()), (0, 2));
}
