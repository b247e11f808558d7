//! Versions: one version has one content, through every writer and every handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use terse_core::registry::{RegistrySnapshot, RegistryVersion};
use tokio::sync::Barrier;

use super::domains::{blocked, domain_config};
use super::{RegistryHandle, add, by, change, reinstate, suspend};

/// The number of changes per writer.
const CHANGES: usize = 60;

pub async fn a_snapshot_has_all_of_its_version(store: RegistryHandle) {
    let empty = store.snapshot().await.unwrap();
    assert!(empty.suspended.is_empty() && empty.domains.is_empty());
    assert!(empty.blocked_hosts.is_empty());
    let ann = add(&store, "ann").await.id;
    assert_eq!(store.snapshot().await.unwrap(), empty, "an account alone concerns no visitor");
    change(&store, ann, suspend()).await.unwrap();
    store.put_domain(domain_config("a.example"), by()).await.unwrap();
    store.block_host(blocked("evil.example"), by()).await.unwrap();
    let full = store.snapshot().await.unwrap();
    assert_eq!(full.version, store.version().await.unwrap());
    assert_eq!(full.version.incarnation, empty.version.incarnation);
    assert_eq!(full.suspended, [ann]);
    assert_eq!(full.domains, [domain_config("a.example")]);
    assert_eq!(full.blocked_hosts, [blocked("evil.example")]);
}

/// Two nodes change the registry while readers follow it by versions alone, as the redirect plane
/// does. If a version became visible without its content, or content without its version, a reader
/// would meet two contents of one version and keep the wrong one.
pub async fn a_reader_of_versions_misses_no_change(one: RegistryHandle, other: RegistryHandle) {
    let ann = add(&one, "ann").await.id;
    let writing = Arc::new(AtomicUsize::new(2));
    let start = Arc::new(Barrier::new(4));
    let writer = |name: &'static str, store: RegistryHandle| {
        let (writing, start) = (Arc::clone(&writing), Arc::clone(&start));
        async move {
            start.wait().await;
            for n in 0..CHANGES {
                match n % 3 {
                    0 => store.block_host(blocked(&format!("{name}{n}.example")), by()).await,
                    1 => store.put_domain(domain_config(&format!("{name}{n}.example")), by()).await,
                    _ => {
                        let what = if n % 2 == 0 { suspend() } else { reinstate() };
                        change(&store, ann, what).await.map(|_| ())
                    }
                }
                .unwrap();
                tokio::task::yield_now().await;
            }
            writing.fetch_sub(1, Ordering::SeqCst);
        }
    };
    let reader = |store: RegistryHandle| {
        let (writing, start) = (Arc::clone(&writing), Arc::clone(&start));
        async move {
            let mut seen: Vec<RegistrySnapshot> = Vec::new();
            let mut known = store.snapshot().await.unwrap();
            start.wait().await;
            loop {
                let last_round = writing.load(Ordering::SeqCst) == 0;
                if store.version().await.unwrap() != known.version {
                    known = store.snapshot().await.unwrap();
                }
                let now = store.snapshot().await.unwrap();
                match seen.iter().find(|earlier| earlier.version == now.version) {
                    Some(earlier) => assert_eq!(*earlier, now, "two contents of one version"),
                    None => seen.push(now),
                }
                if last_round {
                    return known;
                }
                tokio::task::yield_now().await;
            }
        }
    };
    let writers = [
        tokio::spawn(writer("one", Arc::clone(&one))),
        tokio::spawn(writer("other", Arc::clone(&other))),
    ];
    let readers = [tokio::spawn(reader(Arc::clone(&one))), tokio::spawn(reader(other))];
    for writer in writers {
        writer.await.unwrap();
    }
    let last = one.snapshot().await.unwrap();
    assert_eq!(last.domains.len() + last.blocked_hosts.len(), 2 * 2 * CHANGES / 3);
    for reader in readers {
        assert_eq!(
            reader.await.unwrap(),
            last,
            "a reader that compares versions ends with the last content"
        );
    }
}

pub async fn a_change_through_one_handle_is_a_version_of_the_other(
    one: RegistryHandle,
    other: RegistryHandle,
) {
    let mut versions: Vec<RegistryVersion> = vec![one.version().await.unwrap()];
    for (n, store) in [&one, &other, &one].into_iter().enumerate() {
        store.block_host(blocked(&format!("evil{n}.example")), by()).await.unwrap();
        let (a, b) = (one.version().await.unwrap(), other.version().await.unwrap());
        assert_eq!(a, b);
        assert!(!versions.contains(&a), "{a:?} stood for another content before");
        versions.push(a);
    }
}
