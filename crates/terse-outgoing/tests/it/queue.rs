//! Limits on running and queued calls.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terse_core::{HttpClient as _, RequestLimits};
use terse_outgoing::{OutgoingClient, OutgoingSettings};

use crate::rig::{FakeResolver, LONG_DEADLINE, Server, kind, page, read_head, settings};

#[tokio::test]
async fn concurrent_calls_are_limited() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (here, peak) = (Arc::clone(&now), Arc::clone(&most));
    let server = Server::start(move |mut stream| {
        read_head(&stream);
        peak.fetch_max(here.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        here.fetch_sub(1, Ordering::SeqCst);
        let _ = stream.write_all(page("x").as_bytes());
    });
    let client = Arc::new(OutgoingClient::new(OutgoingSettings {
        max_concurrent: 2,
        ..settings(&[&server], FakeResolver::new(&[]))
    }));
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let (client, url) = (Arc::clone(&client), server.url("site.test"));
            tokio::spawn(async move { kind(client.get(&url, LONG_DEADLINE).await) })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), "ok");
    }
    assert!(most.load(Ordering::SeqCst) <= 2);
}

#[tokio::test]
async fn a_full_queue_is_busy_and_a_long_wait_too() {
    let (release, held) = sync_channel::<()>(0);
    let held = Mutex::new(held);
    let (began, begun) = sync_channel::<()>(8);
    let server = Server::start(move |mut stream| {
        read_head(&stream);
        let _ = began.send(());
        let _ = held.lock().unwrap().recv();
        let _ = stream.write_all(page("x").as_bytes());
    });
    let client = Arc::new(OutgoingClient::new(OutgoingSettings {
        max_concurrent: 1,
        max_queued: 1,
        ..settings(&[&server], FakeResolver::new(&[]))
    }));
    let call = |limits: RequestLimits| {
        let (client, url) = (Arc::clone(&client), server.url("site.test"));
        tokio::spawn(async move { kind(client.get(&url, limits).await) })
    };
    let running = call(LONG_DEADLINE);
    tokio::task::yield_now().await;
    tokio::task::spawn_blocking(move || begun.recv().map(|()| begun)).await.unwrap().unwrap();
    let queued = call(RequestLimits { timeout: Duration::from_millis(1), ..LONG_DEADLINE });
    tokio::task::yield_now().await;
    assert_eq!(kind(client.get(&server.url("site.test"), LONG_DEADLINE).await), "busy");
    std::thread::sleep(Duration::from_millis(5));
    drop(release);
    assert_eq!(running.await.unwrap(), "ok");
    // Its timeout passed in the queue, so the server is not blamed.
    assert_eq!(queued.await.unwrap(), "busy");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn slow_feeds_do_not_delay_pages() {
    let (release, held) = sync_channel::<()>(0);
    let held = Mutex::new(held);
    let (began, begun) = sync_channel::<()>(8);
    let lists = Server::start(move |mut stream| {
        read_head(&stream);
        let _ = began.send(());
        let _ = held.lock().unwrap().recv();
        let _ = stream.write_all(page("x").as_bytes());
    });
    let pages = Server::responding(page("x"));
    let client = Arc::new(OutgoingClient::new(OutgoingSettings {
        max_concurrent: 1,
        ..settings(&[&lists, &pages], FakeResolver::new(&[]))
    }));
    let (slow, url) = (Arc::clone(&client), lists.url("site.test"));
    let running = tokio::spawn(async move { kind(slow.get(&url, RequestLimits::FEED).await) });
    tokio::task::yield_now().await;
    tokio::task::spawn_blocking(move || begun.recv().map(|()| begun)).await.unwrap().unwrap();
    assert_eq!(kind(client.get(&pages.url("site.test"), LONG_DEADLINE).await), "ok");
    drop(release);
    assert_eq!(running.await.unwrap(), "ok");
}
