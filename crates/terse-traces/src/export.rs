//! The job that sends spans to the collector.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::metrics::Metrics;
use terse_core::{BoxError, HttpClient, Secret};

use crate::layer::{BATCH, SpanCounts, SpanQueue};
use crate::otlp;
use crate::span::FinishedSpan;

/// How long spans wait for others.
const INTERVAL: Duration = Duration::from_secs(5);

/// Where spans go.
pub struct TraceExportSettings {
    /// The URL of the collector, with its path: usually `/v1/traces`.
    pub url: String,
    /// The value of `Authorization`, if the collector wants one.
    pub authorization: Option<Secret>,
    /// The version of terse.
    pub version: &'static str,
    /// Names this node.
    pub node: String,
}

/// Sends the spans of the queue, every few seconds or when there are many. While the collector does
/// not answer, it repeats one batch with growing pauses; the queue fills up, and further spans are
/// dropped.
pub struct TraceExport {
    settings: TraceExportSettings,
    client: Arc<dyn HttpClient>,
    queue: SpanQueue,
    /// Spans that are being sent.
    batch: Vec<FinishedSpan>,
}

impl TraceExport {
    /// Sends to the collector of the settings.
    pub fn new(
        settings: TraceExportSettings,
        client: Arc<dyn HttpClient>,
        queue: SpanQueue,
    ) -> Self {
        Self { settings, client, queue, batch: Vec::new() }
    }

    /// Writes what became of the spans.
    pub fn metrics(&self) -> impl Fn(&mut Metrics) + Send + Sync + use<> {
        let counts: Arc<SpanCounts> = Arc::clone(&self.queue.counts);
        move |to| {
            let values = [("sent", &counts.sent), ("dropped", &counts.dropped)];
            let values = values.map(|(what, count)| (what, count.load(Ordering::Relaxed)));
            to.counters("terse_trace_spans", "Spans of sampled traces", "result", values);
        }
    }

    /// Sends one batch. Returns whether there was one.
    async fn send(&mut self) -> Result<bool, BoxError> {
        while self.batch.len() < BATCH {
            let Ok(span) = self.queue.spans.try_recv() else { break };
            self.batch.push(span);
            self.queue.counts.taken(1);
        }
        if self.batch.is_empty() {
            return Ok(false);
        }
        let TraceExportSettings { url, authorization, version, node } = &self.settings;
        let body = otlp::body(&self.batch, version, node);
        let headers: Vec<_> =
            authorization.iter().map(|secret| ("authorization", secret.reveal())).collect();
        let answer = self.client.post(url, "application/json", body, &headers).await?;
        let count = self.batch.len() as u64;
        match answer.status {
            200..=299 => {
                self.queue.counts.sent.fetch_add(count, Ordering::Relaxed);
                self.batch.clear();
                Ok(true)
            }
            // The answers after which OTLP wants the same again.
            429 | 502..=504 => Err(format!("the collector answers {}", answer.status).into()),
            status => {
                self.queue.counts.dropped.fetch_add(count, Ordering::Relaxed);
                self.batch.clear();
                Err(format!("the collector refuses spans: it answers {status}").into())
            }
        }
    }
}

#[async_trait]
impl Job for TraceExport {
    fn name(&self) -> &'static str {
        "trace export"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    /// Its spans would be what it sends next.
    fn is_traced(&self) -> bool {
        false
    }

    async fn wake(&mut self) {
        self.queue.counts.enough.notified().await;
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        while self.send().await? {}
        Ok(NextRun::Interval)
    }

    /// Sends what waits, with one more attempt if the collector does not take it.
    async fn finish(&mut self) {
        for _ in 0..2 {
            while let Ok(true) = self.send().await {}
        }
    }
}
