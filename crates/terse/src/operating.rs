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

/// Longer than a healthy store ever takes.
const PATIENCE: Duration = Duration::from_secs(1);

/// What those who watch over the server want to know.
#[derive(Clone)]
pub(crate) struct Operating {
    /// The store, whose health decides readiness.
    pub(crate) store: Arc<dyn LinkStore>,
    /// Whether the server has begun to stop.
    pub(crate) draining: Arc<AtomicBool>,
    /// Everything that is counted.
    pub(crate) registry: Arc<Registry>,
}

impl Operating {
    /// The routes.
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .with_state(self)
    }
}

/// Can serve: not stopping. A store that is away is told, but does not take the machine out: what it remembers it serves, and
/// no other machine could do better.
async fn ready(State(operating): State<Operating>) -> impl IntoResponse {
    if operating.draining.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
    }
    match tokio::time::timeout(PATIENCE, operating.store.check()).await {
        Ok(Ok(())) => (StatusCode::OK, "ready\n"),
        _ => (StatusCode::OK, "ready, but the store cannot be written to\n"),
    }
}

async fn metrics(State(operating): State<Operating>) -> impl IntoResponse {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &operating.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
