//! The spans of traces.

/// The target of spans (of the crate `tracing`) that belong to traces of the control plane.
/// Redirects have none: spans cost time.
///
/// `span.name` replaces the name of the source, `span.kind` is `server` or `client`, `span.parent`
/// the `traceparent` of a request, and `span.error` says what failed. Other fields are attributes.
/// They contain no paths, targets, addresses or keys.
pub const TRACE_TARGET: &str = "traces";
