//! How much may be under way.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terse_outgoing::{Limits, Outgoing, OutgoingSettings};

use crate::rig::{Liar, PATIENT, Server, kind, page, read_head, settings};

#[tokio::test]
async fn no_more_run_at_once_than_was_set() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (here, peak) = (Arc::clone(&now), Arc::clone(&most));
    let server = Server::start(move |mut stream| {
        read_head(&stream);
        peak.fetch_max(here.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        here.fetch_sub(1, Ordering::SeqCst);
        let _ = stream.write_all(page("x").as_bytes());
    });
    let client = Arc::new(Outgoing::new(OutgoingSettings {
        at_once: 2,
        ..settings(&[&server], Liar::new(&[]))
    }));
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let (client, url) = (Arc::clone(&client), server.url("site.test"));
            tokio::spawn(async move { kind(client.get(&url, PATIENT).await) })
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
    let client = Arc::new(Outgoing::new(OutgoingSettings {
        at_once: 1,
        waiting: 1,
        ..settings(&[&server], Liar::new(&[]))
    }));
    let call = |limits: Limits| {
        let (client, url) = (Arc::clone(&client), server.url("site.test"));
        tokio::spawn(async move { kind(client.get(&url, limits).await) })
    };
    let running = call(PATIENT);
    tokio::task::yield_now().await;
    tokio::task::spawn_blocking(move || begun.recv().map(|()| begun)).await.unwrap().unwrap();
    let waiting = call(Limits { time: Duration::from_millis(1), ..PATIENT });
    tokio::task::yield_now().await;
    assert_eq!(kind(client.get(&server.url("site.test"), PATIENT).await), "busy");
    std::thread::sleep(Duration::from_millis(5));
    drop(release);
    assert_eq!(running.await.unwrap(), "ok");
    // Its time was over before its turn came: that is not the server's fault.
    assert_eq!(waiting.await.unwrap(), "busy");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn slow_lists_do_not_hold_up_pages() {
    let (release, held) = sync_channel::<()>(0);
    let held = Mutex::new(held);
    let (began, begun) = sync_channel::<()>(8);
    let lists = Server::start(move |mut stream| {
        read_head(&stream);
        let _ = began.send(());
        let _ = held.lock().unwrap().recv();
        let _ = stream.write_all(page("x").as_bytes());
    });
    let pages = Server::saying(page("x"));
    let client = Arc::new(Outgoing::new(OutgoingSettings {
        at_once: 1,
        ..settings(&[&lists, &pages], Liar::new(&[]))
    }));
    let (slow, url) = (Arc::clone(&client), lists.url("site.test"));
    let running = tokio::spawn(async move { kind(slow.get(&url, Limits::FEED).await) });
    tokio::task::yield_now().await;
    tokio::task::spawn_blocking(move || begun.recv().map(|()| begun)).await.unwrap().unwrap();
    assert_eq!(kind(client.get(&pages.url("site.test"), PATIENT).await), "ok");
    drop(release);
    assert_eq!(running.await.unwrap(), "ok");
}
