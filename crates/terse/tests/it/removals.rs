//! A deletion of too much waits for the operator, in the running binary.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::KEY;
use crate::process::{Served, command, folder};

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_purge_of_too_many_links_waits_for_the_doctor() {
    let (_temp, data) = folder();
    let settings = [
        &*format!("admin_key={KEY}"),
        "links.grace=0s",
        "links.keep_expired=0s",
        "links.reap_every=1s",
        "links.max_purge_percent=10",
    ];
    let served = Served::start(&data, &settings);
    let bulk = |links: Vec<Value>| {
        let mut answer = ureq::post(format!("{}/api/v1/urls/bulk", served.url))
            .header("authorization", format!("Bearer {KEY}"))
            .send_json(Value::from(links))
            .expect("an answer");
        answer.body_mut().read_to_string().unwrap()
    };
    let link = |n: u32, ttl: Option<u32>| match ttl {
        Some(ttl) => json!({"long_url": format!("https://example.com/{n}"),
            "custom_alias": format!("brief-{n}"), "ttl": ttl}),
        None => json!({"long_url": format!("https://example.com/{n}"),
            "custom_alias": format!("lasting-{n}")}),
    };
    bulk((0..150).map(|n| link(n, Some(2))).collect());
    bulk((0..100).map(|n| link(n, None)).collect());
    let ready = || served.get("/readyz").2;
    wait_for("the alarm", || ready().contains("terse doctor --confirm 1"));
    assert!(ready().contains("150 of 250 links"), "{}", ready());
    assert_eq!(served.get("/brief-0").0, 410, "expired, and not deleted");
    let doctor = command(&data).arg("doctor").output().expect("the doctor");
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(!doctor.status.success() && said.contains("150 of 250 links"), "{said}");
    let other = command(&data).args(["doctor", "--confirm", "7"]).output().expect("the doctor");
    assert!(!other.status.success(), "another number");
    let confirmed = command(&data).args(["doctor", "--confirm", "1"]).output().expect("the doctor");
    assert!(confirmed.status.success(), "{confirmed:?}");
    wait_for("the purge", || served.get("/brief-0").0 == 404);
    wait_for("the end of the alarm", || ready() == "ready\n");
    assert_eq!(served.get("/lasting-0").0, 302);
}
