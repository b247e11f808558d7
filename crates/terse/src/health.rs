//! `/livez`, `/readyz` and `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{StatusCode, header};
use prometheus_client::registry::Registry;
use terse_core::LinkStore;

/// Longer than a healthy store takes.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The state of the health and metrics endpoints.
#[derive(Clone)]
pub(crate) struct HealthEndpoints {
    /// The store that `/readyz` checks.
    pub(crate) store: Arc<dyn LinkStore>,
    /// Whether the server has begun to stop.
    pub(crate) draining: Arc<AtomicBool>,
    /// The registry of all metrics.
    pub(crate) registry: Arc<Registry>,
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

/// The node is ready unless it is stopping. A failing store is reported but does not make the node
/// unready: it still serves cached links, and no other node could do better.
async fn ready(State(health): State<HealthEndpoints>) -> impl IntoResponse {
    if health.draining.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
    }
    match tokio::time::timeout(TIMEOUT, health.store.check()).await {
        Ok(Ok(())) => (StatusCode::OK, "ready\n"),
        _ => (StatusCode::OK, "ready, but the store cannot be written to\n"),
    }
}

async fn metrics(State(health): State<HealthEndpoints>) -> impl IntoResponse {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &health.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
