//! `/livez`, `/readyz` and `/metrics`.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{HeaderMap, StatusCode, header};
use terse_core::{LinkStore, Notices};

use crate::exposition::Exposition;
use crate::format::Format;

/// Longer than a healthy store takes.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Whether links that are not in memory can be read.
pub type LinkProbe = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync>;

/// The state of the health and metrics endpoints.
#[derive(Clone)]
pub struct HealthEndpoints {
    /// The store that `/readyz` checks.
    pub store: Arc<dyn LinkStore>,
    /// Whether links that are not in memory can be read.
    pub reads_links: LinkProbe,
    /// Whether the server has begun to stop.
    pub draining: Arc<AtomicBool>,
    /// All metrics.
    pub metrics: Arc<Exposition>,
    /// What an operator must know.
    pub notices: Arc<Notices>,
}

impl HealthEndpoints {
    /// The routes.
    pub fn router(self) -> Router {
        Router::new()
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .with_state(self)
    }
}

/// The node is ready unless it is stopping. A failing store makes it degraded but not unready: it
/// still serves cached links, and no other node could do better. Further lines are notices to the
/// operator.
async fn ready(State(health): State<HealthEndpoints>) -> impl IntoResponse {
    if health.draining.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned());
    }
    let text = match tokio::time::timeout(TIMEOUT, health.store.check()).await {
        Ok(Ok(())) if (health.reads_links)().await => "ready\n",
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
    match format.encode(&health.metrics.registry) {
        Ok(text) => {
            let fields = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
            (fields, text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
