//! `traces.*`: spans of the control plane, as a collector receives them.

use serde_json::{Value, json};
use terse_testkit::wait_until;

use crate::process::{Served, folder};
use crate::receiver::Receiver;

const KEY: &str = "0123456789abcdef";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// The spans that a collector gets, up to the batch with one of this name.
fn spans(collector: &Receiver, until: &str) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    while !all.iter().any(|span| span["name"] == until) {
        let got = collector.next();
        assert_eq!(got.line, "POST /v1/traces HTTP/1.1");
        assert_eq!(got.header("content-type"), "application/json");
        assert_eq!(got.header("authorization"), "Bearer collector");
        let body = got.json();
        let resource = &body["resourceSpans"][0];
        assert_eq!(attribute(&resource["resource"], "service.name"), "terse");
        assert_eq!(attribute(&resource["resource"], "service.version"), env!("CARGO_PKG_VERSION"));
        for span in resource["scopeSpans"][0]["spans"].as_array().expect("spans") {
            let of = |side: &str| span[side].as_str().expect("a time").parse::<u64>().expect("ns");
            assert!(of("startTimeUnixNano") <= of("endTimeUnixNano"));
            all.push(span.clone());
        }
    }
    all
}

fn named<'a>(all: &'a [Value], name: &str) -> &'a Value {
    all.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("no {name} in {all:?}"))
}

fn attribute<'a>(of: &'a Value, key: &str) -> &'a str {
    let all = of["attributes"].as_array().expect("attributes");
    let found = all.iter().find(|attribute| attribute["key"] == key);
    let value = &found.unwrap_or_else(|| panic!("no {key} in {all:?}"))["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str()).expect("a value")
}

fn create(served: &Served, alias: &str, parent: &str) -> String {
    let answer = ureq::post(format!("{}/api/v1/urls", served.url))
        .header("authorization", format!("Bearer {KEY}"))
        .header("traceparent", parent)
        .send_json(json!({"long_url": "https://example.com/", "custom_alias": alias}))
        .expect("a link");
    answer.headers()["x-request-id"].to_str().expect("text").to_owned()
}

#[test]
fn a_request_its_store_calls_and_its_log_lines_have_one_trace() {
    let collector = Receiver::responding(200);
    let (_temp, data) = folder();
    let url = format!("traces.url={}", collector.url("/v1/traces"));
    let (key, secret) =
        (format!("admin_key={KEY}"), "traces.authorization=Bearer collector".to_owned());
    // Nothing by chance: the proxy on this machine decides.
    let settings = [
        url.as_str(),
        &key,
        &secret,
        "traces.sample=0%",
        "trusted_proxies=127.0.0.1",
        "log.requests=all",
        "log.format=json",
        "shutdown.drain_delay=100ms",
    ];
    let served = Served::start(&data, &settings);
    create(&served, "unsampled", &format!("00-{TRACE}-b7ad6b7169203331-00"));
    let id = create(&served, "sampled1", &format!("00-{TRACE}-b7ad6b7169203331-01"));
    assert_eq!(served.get("/sampled1").0, 302);
    let all = spans(&collector, "POST /api/v1/urls");
    let request = named(&all, "POST /api/v1/urls");
    assert_eq!((&request["traceId"], &request["kind"]), (&TRACE.into(), &2.into()));
    assert_eq!(request["parentSpanId"], "b7ad6b7169203331");
    assert_eq!(attribute(request, "http.route"), "/api/v1/urls");
    assert_eq!(attribute(request, "http.response.status_code"), "201");
    assert_eq!(attribute(request, "terse.request_id"), id);
    assert_eq!(request["status"], Value::Null);
    let insert = named(&all, "store insert");
    assert_eq!(insert["parentSpanId"], request["spanId"]);
    assert_eq!(insert["traceId"], TRACE);
    assert!(!format!("{all:?}").contains("sampled1"), "{all:?}");

    let sent = format!("terse_trace_spans_total{{result=\"sent\"}} {}\n", all.len());
    wait_until("the spans are counted", || served.get("/metrics").2.contains(&sent));
    served.terminate();
    let (status, log) = served.wait();
    assert!(status.success());
    let lines: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|line: &Value| line["route"] == "/api/v1/urls")
        .collect();
    let traces: Vec<_> = lines.iter().map(|line| line["trace_id"].as_str()).collect();
    assert_eq!(traces, [None, Some(TRACE)], "{log}");
    assert_eq!(lines[1]["request_id"], id);
    assert_eq!(collector.waiting(), 0, "redirects and the unsampled request have no spans");
}

#[test]
fn visitors_do_not_choose_what_is_traced_and_what_waits_is_sent_at_the_end() {
    // The first attempt fails, and is repeated.
    let collector = Receiver::start("127.0.0.1:0", |n| {
        Some(crate::receiver::status_line(if n == 0 { 503 } else { 200 }))
    });
    let (_temp, data) = folder();
    let url = format!("traces.url={}", collector.url("/v1/traces"));
    let (key, secret) = (format!("admin_key={KEY}"), "traces.authorization=Bearer collector");
    let settings = [&url, &key, secret, "traces.sample=100%", "shutdown.drain_delay=100ms"];
    let served = Served::start(&data, &settings);
    create(&served, "claimed1", &format!("00-{TRACE}-b7ad6b7169203331-01"));
    served.terminate();
    assert!(served.wait().0.success());
    let all = spans(&collector, "POST /api/v1/urls");
    let request = named(&all, "POST /api/v1/urls");
    assert_ne!(request["traceId"], TRACE);
    assert_eq!(request["parentSpanId"], Value::Null);
    let is_job = |span: &&Value| span["name"].as_str().is_some_and(|name| name.starts_with("job "));
    let jobs: Vec<_> = all.iter().filter(is_job).collect();
    assert!(jobs.iter().all(|job| job["traceId"] != request["traceId"]));
    assert!(jobs.iter().all(|job| job["name"] != "job trace export"));
    assert!(!jobs.is_empty());
}
