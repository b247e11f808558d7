//! Traces of the control plane, sent to an OpenTelemetry collector (OTLP over HTTP, JSON).
//!
//! Components mark what they do with spans of `tracing`, of the target
//! [`TRACE_TARGET`](terse_core::TRACE_TARGET): a request of the API, a call of the store, a run of
//! a job. [`TraceLayer`] chooses some of them, and [`TraceExport`], a job, sends them. Redirects
//! have no spans. If traces are off, there is no layer and no job, and a span costs the check of
//! one flag.
//!
//! The crates of OpenTelemetry do the same and much more; they would bring some thirty crates
//! (protobuf, tonic, a second set of HTTP types) for these few kinds of spans.

mod export;
mod ids;
mod layer;
mod otlp;
mod span;

pub use export::{TraceExport, TraceExportSettings};
pub use ids::TraceId;
pub use layer::{SpanQueue, TraceLayer, current_trace_id};
