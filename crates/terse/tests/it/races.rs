//! Concurrent requests.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::harness::TestTerse;

#[test]
fn of_200_clients_wanting_one_alias_exactly_one_gets_it() {
    let terse = TestTerse::start();
    for round in 0..10 {
        let (won, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let start = std::sync::Barrier::new(200);
        std::thread::scope(|scope| {
            for client in 0..200 {
                let (terse, won, lost, start) = (&terse, &won, &lost, &start);
                scope.spawn(move || {
                    let body = json!({
                        "long_url": format!("https://example.com/{client}"),
                        "alias": format!("race-{round}")
                    });
                    start.wait();
                    match terse.api("POST", "/urls", Some(body)).status {
                        201 => won.fetch_add(1, Ordering::Relaxed),
                        409 => lost.fetch_add(1, Ordering::Relaxed),
                        other => panic!("client {client} got {other}"),
                    };
                });
            }
        });
        assert_eq!((won.into_inner(), lost.into_inner()), (1, 199), "round {round}");
    }
}

#[test]
fn concurrent_identical_creates_of_one_owner_make_one_link() {
    let terse = TestTerse::start();
    let codes: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..50)
            .map(|_| scope.spawn(|| terse.create(json!({"long_url": "https://example.com/same"}))))
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(codes.iter().collect::<HashSet<_>>().len(), 1);
}

#[test]
fn every_created_code_is_new_and_resolves_at_once() {
    let terse = TestTerse::start();
    let codes: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..16)
            .map(|client| {
                let terse = &terse;
                scope.spawn(move || {
                    let mut codes = Vec::new();
                    for i in 0..100 {
                        let target = format!("https://example.com/{client}/{i}");
                        let code = terse.create(json!({"long_url": target}));
                        assert_eq!(terse.get(&format!("/{code}")).location(), Some(&*target));
                        codes.push(code);
                    }
                    codes
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(codes.iter().collect::<HashSet<_>>().len(), 1600);
}
