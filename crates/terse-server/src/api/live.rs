//! Streams the clicks of a link as they arrive.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use terse_core::LinkError;
use terse_core::clicks::{Click, LinkId, LiveSubscription, OwnVisitor};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::click_rows::LiveClick;
use super::links::readable;
use super::streamed::{self, Sender};
use crate::describe;
use crate::http::extract::{Authenticated, Name, Peer};
use crate::http::own_visitor::own_visitor;
use crate::http::params::Params;
use crate::http::principal::reader_of;
use crate::http::problem::{Problem, STORE_UNAVAILABLE};
use crate::http::state::{App, Web};
use terse_core::Principal;

/// The interval of comments while there are no clicks, so that no proxy closes the connection as
/// idle.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Sent at once, so that the client sees the stream open: the reconnection delay in milliseconds.
const BEGIN: &[u8] = b"retry: 2000\n\n";
/// How often the stream checks that the client may still read: its key, its session or the link may
/// have ended.
const ACCESS_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// How long the stream waits for a client to read its end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The largest number of clicks per portion.
const TOGETHER: usize = 64;

/// Watch the clicks of a link
///
/// Server-sent events: `click` with `at`, `country`, `city`, `device`, `browser`,
/// `operating_system`, `language`, `referrer`, `bot`, `repeat` and `own` (it came from your address
/// and user agent) as JSON, from now on, as they are counted. A client that reads too slowly misses
/// some. The stream ends when the server stops; connect again.
#[describe::path(get, path = "/api/v1/urls/{code}/live", operation_id = "watch_link", tag = "Clicks",
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "Events, until the client leaves or the server \
        stops", body = String, content_type = "text/event-stream",
            headers(("X-Accel-Buffering" = String, description = "Always `no`: proxies pass \
                events on at once"))),
        super::answers::GetProblems),
    security(("key" = [])))]
pub(super) async fn watch_link(
    State(state): Web,
    Authenticated(caller): Authenticated,
    params: Params,
    Name(code): Name,
    Peer(address): Peer,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let link = readable(&state, caller, params, &code).await?;
    let watch = state.live.watch(LinkId::of(&link));
    let watch = watch.ok_or_else(|| {
        Problem::new(&STORE_UNAVAILABLE, "too many are watching; try again later")
    })?;
    let (sender, body) = streamed::body();
    let stop = state.stop.clone();
    tokio::spawn(tell(
        watch,
        sender,
        ClickWatcher { state, address, headers, link: LinkId::of(&link) },
        stop,
    ));
    Ok(([(header::CONTENT_TYPE, "text/event-stream"), (X_ACCEL_BUFFERING, "no")], body)
        .into_response())
}

const X_ACCEL_BUFFERING: header::HeaderName = header::HeaderName::from_static("x-accel-buffering");

/// A client that watches a link, with the headers that hold its credential.
struct ClickWatcher {
    state: Arc<App>,
    address: IpAddr,
    headers: HeaderMap,
    link: LinkId,
}

impl ClickWatcher {
    /// The client as a visitor of links.
    async fn as_visitor(&self) -> OwnVisitor {
        own_visitor(&self.state, self.address, &self.headers).await
    }

    /// Whether the client may still read. While the registry or the store fails, the stream
    /// continues.
    async fn may_read(&self) -> bool {
        let Self { state, headers, link, .. } = self;
        let principal = reader_of(state, headers).await;
        let principal =
            principal.and_then(|principal| Ok(principal.known().and_then(Principal::may_read)?));
        let caller = match principal {
            Ok(principal) => principal.caller,
            Err(problem) => return problem.status() >= 500,
        };
        match state.links.get(caller, &link.key).await {
            Ok(found) => found.deleted_at.is_none() && LinkId::of(&found) == *link,
            Err(error) => !matches!(error, LinkError::NotFound),
        }
    }
}

async fn tell(
    mut watch: LiveSubscription,
    sender: Sender,
    watcher: ClickWatcher,
    mut stop: watch::Receiver<bool>,
) {
    let talk = async {
        let mut again = interval_at(Instant::now() + ACCESS_CHECK_INTERVAL, ACCESS_CHECK_INTERVAL);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut next = Bytes::from_static(BEGIN);
        let mut own = watcher.as_visitor().await;
        while sender.send(next).await {
            let mut clicks = Vec::new();
            let mut silence = pin!(sleep(KEEP_ALIVE));
            next = loop {
                tokio::select! {
                    // Polled first, since a busy link would otherwise starve this branch.
                    biased;
                    _ = again.tick() => if !watcher.may_read().await {
                        return;
                    },
                    count = watch.recv_many(&mut clicks, TOGETHER) => {
                        if count == 0 {
                            return;
                        }
                        if own.is_old(watcher.state.links.now()) {
                            own = watcher.as_visitor().await;
                        }
                        let events = clicks.iter().flat_map(|click| event(click, own.made(click)));
                        break events.collect();
                    }
                    () = &mut silence => break Bytes::from_static(b": nothing new\n\n"),
                    () = sender.closed() => return,
                }
            };
        }
    };
    tokio::select! {
        () = talk => {}
        // The server stops or is gone.
        _ = stop.wait_for(|stop| *stop) => {}
    }
    // Does not wait for a client that does not read.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, sender.end()).await;
}

/// Compact JSON has no line breaks, so one `data` line holds all of it.
fn event(click: &Click, own: bool) -> Vec<u8> {
    let mut event = b"event: click\ndata: ".to_vec();
    if serde_json::to_writer(&mut event, &LiveClick::new(click, own)).is_err() {
        return Vec::new();
    }
    event.extend_from_slice(b"\n\n");
    event
}
