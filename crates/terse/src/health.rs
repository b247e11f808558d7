//! `/livez`, `/readyz` and `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{HeaderMap, StatusCode, header};
use prometheus_client::registry::Registry;
use terse_core::{LinkStore, Notices};
use terse_redirect::Redirector;

use crate::metrics::Format;

/// Longer than a healthy store takes.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The state of the health and metrics endpoints.
#[derive(Clone)]
pub(crate) struct HealthEndpoints {
    /// The store that `/readyz` checks.
    pub(crate) store: Arc<dyn LinkStore>,
    /// Whether links that are not in memory can be read.
    pub(crate) redirector: Arc<Redirector>,
    /// Whether the server has begun to stop.
    pub(crate) draining: Arc<AtomicBool>,
    /// The registry of all metrics.
    pub(crate) registry: Arc<Registry>,
    /// What an operator must know.
    pub(crate) notices: Arc<Notices>,
}

impl HealthEndpoints {
    /// The routes.
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .with_state(self)
    }
}

/// The node is ready unless it is stopping. A failing store makes it degraded but not unready: it
/// still serves cached links, and no other node could do better. Further lines tell what an
/// operator must know.
async fn ready(State(health): State<HealthEndpoints>) -> impl IntoResponse {
    if health.draining.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned());
    }
    let text = match tokio::time::timeout(TIMEOUT, health.store.check()).await {
        Ok(Ok(())) if health.redirector.reads_links().await => "ready\n",
        Ok(Ok(())) => "degraded: links that are not in memory cannot be read\n",
        _ => "degraded: the store cannot be written to\n",
    };
    let mut text = text.to_owned();
    for (topic, notice) in health.notices.all() {
        text += &format!("{topic}: {notice}\n");
    }
    (StatusCode::OK, text)
}

/// All metrics, in the format that the client prefers.
async fn metrics(State(health): State<HealthEndpoints>, headers: HeaderMap) -> impl IntoResponse {
    let format = Format::negotiate(&headers);
    match format.encode(&health.registry) {
        Ok(text) => {
            let fields = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
            (fields, text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
