//! Requests on the fast path.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use terse_core::{Clock, Hosts, Insert, LinkStore as _};
use terse_redirect::fast_path::{FastPathResult, LinkRequest, RequestTime, answer};
use terse_redirect::{
    ClientAddr, ClockReading, FailurePages, RedirectSettings, Redirector, VisitMethod, Visitor,
    VisitorHeaders,
};
use terse_testkit::MemoryStore;

use crate::input::fuzz;

const TARGET: &str = "https://example.com/there?a=b";

/// A redirector that has `abc1234` in memory, and knows that `nosuch9` is missing.
pub(crate) fn redirector(settings: RedirectSettings) -> Arc<Redirector> {
    let store = Arc::new(MemoryStore::new());
    let hosts = Hosts::new(&"http://go.example/".parse().unwrap(), &[], vec![]).unwrap();
    let pages = FailurePages::default();
    let redirector = Arc::new(Redirector::new(
        store.clone(),
        store.clone(),
        hosts,
        80,
        &pages,
        settings,
        Clock::default(),
    ));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let link = terse_testkit::alias("abc1234", TARGET);
        store.insert(Insert::new(link, None)).await.unwrap();
        for code in ["abc1234", "nosuch9"] {
            let visitor = Visitor {
                domain: 0,
                code,
                query: None,
                html: false,
                method: VisitMethod::Get,
                past_warning: false,
                password: None,
                headers: VisitorHeaders::default(),
            };
            redirector.answer_uncounted(visitor).await;
        }
    });
    redirector
}

#[test]
fn fast_path() {
    let redirector = redirector(RedirectSettings { threads: 1, ..RedirectSettings::default() });
    let peer = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7));
    let client = ClientAddr::new(peer, &RedirectSettings::default().proxies);
    let clock = Clock::default();
    let redirector = std::panic::AssertUnwindSafe(redirector);
    fuzz("fast_path", |bytes| {
        let run = |bytes: &[u8]| {
            let now = ClockReading {
                wall_ms: clock.now().as_ms(),
                steady_ms: clock.steady_micros() / 1000,
            };
            let (mut request, mut out) = (LinkRequest::default(), Vec::new());
            let time = RequestTime { now, date: b"date: now\r\n", closing: false };
            let step = answer(bytes, &redirector, &client, time, None, &mut request, &mut out);
            let used = match step {
                FastPathResult::Answered(answered) => Some(answered.used),
                FastPathResult::Incomplete | FastPathResult::Miss(_) | FastPathResult::HandOver => {
                    None
                }
            };
            (used, out)
        };
        let (used, out) = run(bytes);
        let Some(used) = used else {
            assert!(out.is_empty(), "nothing is sent before the request is answered");
            return false;
        };
        assert!(used <= bytes.len() && bytes[..used].ends_with(b"\n"), "a whole head");
        assert!(bytes.starts_with(b"GET /") || bytes.trim_ascii_start().starts_with(b"GET /"));
        // What follows the request does not matter.
        assert_eq!(run(&bytes[..used]), (Some(used), out.clone()));
        // Nothing but our own lines is in the head.
        let text = String::from_utf8(out).expect("our answers are ASCII here");
        let (head, _) = text.split_once("\r\n\r\n").expect("a whole head");
        let status = head.get(9..12).unwrap();
        assert!(head.starts_with("HTTP/1.1 ") && ["302", "404"].contains(&status), "{head}");
        let lines: Vec<_> = head.split("\r\n").collect();
        let location = lines.iter().find_map(|line| line.strip_prefix("location: "));
        assert_eq!(location, (status == "302").then_some(TARGET), "{head}");
        assert!(lines[1..].iter().all(|line| line.contains(": ") && !line.contains('\n')));
        true
    });
}
