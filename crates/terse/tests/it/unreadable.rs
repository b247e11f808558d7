//! Links that cannot be read from the disk.

use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::KEY;
use crate::process::{Served, folder};

/// The pages with rows of the links table.
fn leaves(db: &Path) -> Vec<usize> {
    let conn = Connection::open(db).expect("the links file");
    let mut statement = conn
        .prepare("SELECT pageno FROM dbstat WHERE name = 'links' AND pagetype = 'leaf'")
        .expect("SQLite counts pages");
    let pages = statement.query_map([], |row| row.get::<_, i64>(0)).expect("pages");
    pages.map(|page| usize::try_from(page.expect("a page")).expect("a number")).collect()
}

#[test]
fn cold_links_that_cannot_be_read_make_readyz_degraded() {
    let (_temp, data) = folder();
    let db = data.join("terse.db");
    let start = || Served::start(&data, &[&format!("admin_key={KEY}")]);
    let stop = |served: Served| {
        served.terminate();
        served.wait();
    };
    let served = start();
    let links: Vec<Value> =
        (0..900).map(|n| json!({"long_url": format!("https://example.com/{n}")})).collect();
    let made: Value = ureq::post(format!("{}/api/v1/urls/bulk", served.url))
        .header("authorization", format!("Bearer {KEY}"))
        .send_json(links)
        .and_then(|mut answer| answer.body_mut().read_json())
        .expect("links");
    let made = made["results"].as_array().expect("results").clone();
    let codes: Vec<&str> =
        made.iter().map(|one| one["link"]["short_code"].as_str().expect("a code")).collect();
    stop(served);

    let whole = std::fs::read(&db).expect("the links file");
    let leaves = leaves(&db);
    assert!(leaves.len() > 4, "{leaves:?}");
    let page = leaves[leaves.len() / 2];
    let mut damaged = whole.clone();
    damaged[(page - 1) * 4096..page * 4096].fill(0);
    std::fs::write(&db, damaged).expect("written");
    let served = start();
    assert_eq!(served.get("/readyz").2, "ready\n", "no link was asked for");
    let statuses: Vec<u16> = codes.iter().map(|code| served.get(&format!("/{code}")).0).collect();
    let count = |status: u16| statuses.iter().filter(|have| **have == status).count();
    assert!(count(503) > 0 && count(302) > 0, "{} and {}", count(503), count(302));
    assert_eq!(count(503) + count(302), codes.len(), "a link is never said to be missing");
    // The check concerns links that are not in memory: the last one could not be read.
    let unread = codes[statuses.iter().position(|status| *status == 503).expect("one")];
    assert_eq!(served.get(&format!("/{unread}")).0, 503);
    let (status, _, text) = served.get("/readyz");
    assert_eq!(
        (status, text.as_str()),
        (200, "degraded: links that are not in memory cannot be read\n")
    );
    stop(served);

    std::fs::write(&db, whole).expect("written");
    let served = start();
    assert_eq!(served.get(&format!("/{unread}")).0, 302);
    assert_eq!(served.get("/readyz").2, "ready\n");
}
