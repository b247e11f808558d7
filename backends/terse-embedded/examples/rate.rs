//! How many links a second, and how many bytes a link: `cargo run --release -p terse-embedded
//! --example rate [links] [callers]`.
#![allow(clippy::unwrap_used, reason = "a measurement, not a program")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use terse_core::{Insert, LinkReader as _, LinkStore, Numbering};
use terse_embedded::{EmbeddedLinks, EmbeddedOptions};
use terse_testkit::{generated, timestamp};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().unwrap());
    let links = args.next().unwrap_or(100_000);
    let callers = args.next().unwrap_or(64);
    let folder = tempfile::tempdir_in(".").unwrap();
    let store = Arc::new(
        EmbeddedLinks::open(EmbeddedOptions::new(folder.path().join("terse.db"))).unwrap(),
    );
    let numbering = Arc::new(Numbering::new(store.identity()));
    store.lease(7, links, numbering.capacity(7), 0).await.unwrap();

    let start = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (store, numbering) = (store.clone(), numbering.clone());
            tokio::spawn(async move {
                let mut worst = Duration::ZERO;
                for n in (caller..links).step_by(callers as usize) {
                    let code = numbering.code(7, n);
                    let mut link = generated(
                        code.as_str(),
                        &format!("https://example.com/some/typical/path/that/is/long?{n:010}"),
                    );
                    link.reusable = true;
                    link.created_at = timestamp(n as i64 / 10);
                    link.updated_at = link.created_at;
                    let begun = Instant::now();
                    store.insert(Insert::new(link, None)).await.unwrap();
                    worst = worst.max(begun.elapsed());
                }
                worst
            })
        })
        .collect();
    let mut worst = Duration::ZERO;
    for task in tasks {
        worst = worst.max(task.await.unwrap());
    }
    let took = start.elapsed();
    println!(
        "{links} links, {callers} callers: {:.0} creates/s, worst {worst:?}",
        links as f64 / took.as_secs_f64()
    );

    let start = Instant::now();
    let lookups = links * 2;
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (store, numbering) = (store.clone(), numbering.clone());
            tokio::spawn(async move {
                for n in (caller..lookups).step_by(callers as usize) {
                    let key = terse_core::LinkKey {
                        code: numbering.code(7, n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % links),
                        domain: terse_core::Domain::primary(),
                    };
                    assert!(store.get(&key).await.unwrap().is_some());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    println!("{:.0} lookups/s", lookups as f64 / start.elapsed().as_secs_f64());

    let start = Instant::now();
    let tasks: Vec<_> = (0..4)
        .map(|caller| {
            let (store, numbering) = (store.clone(), numbering.clone());
            tokio::spawn(async move {
                for trip in (caller..lookups / 64).step_by(4) {
                    let keys: Vec<_> = (trip * 64..(trip + 1) * 64)
                        .map(|n| terse_core::LinkKey {
                            code: numbering.code(7, n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % links),
                            domain: terse_core::Domain::primary(),
                        })
                        .collect();
                    assert!(
                        store
                            .get_many(&keys)
                            .await
                            .iter()
                            .all(|found| matches!(found, Ok(Some(_))))
                    );
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    println!("{:.0} lookups/s, 64 a trip", lookups as f64 / start.elapsed().as_secs_f64());

    store.close();
    println!("{:.0} bytes a link", store.disk_size() as f64 / links as f64);
    let conn = rusqlite::Connection::open(folder.path().join("terse.db")).unwrap();
    let mut sizes = conn
        .prepare(
            "SELECT name, sum(pgsize), sum(payload), sum(unused) FROM dbstat GROUP BY name HAVING \
             count(*) > 1 ORDER BY 2 DESC",
        )
        .unwrap();
    let mut rows = sizes.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let a_link = |column| row.get::<_, i64>(column).unwrap() as f64 / links as f64;
        println!(
            "  {:16} {:5.1}, payload {:5.1}, unused {:5.1}",
            row.get::<_, String>(0).unwrap(),
            a_link(1),
            a_link(2),
            a_link(3)
        );
    }
}
