//! What is known of a span.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};

use crate::ids::{RemoteParent, SpanId, TraceId};

/// The most attributes of a span; spans of terse have fewer.
const MAX_ATTRIBUTES: usize = 16;

/// What a span is in its trace, as OpenTelemetry numbers it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum SpanKind {
    /// Work inside terse.
    #[default]
    Internal = 1,
    /// A request to terse.
    Server = 2,
    /// A request of terse to another server.
    Client = 3,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AttributeValue {
    Text(String),
    Int(i64),
    Bool(bool),
}

/// The fields of a span. Some have a meaning of their own, the others are attributes.
#[derive(Debug, Default)]
pub(crate) struct SpanFields {
    /// `span.name`, if it is more than the name in the source.
    pub(crate) name: Option<String>,
    /// `span.kind`: `server` or `client`.
    pub(crate) kind: SpanKind,
    /// `span.parent`: the `traceparent` of a request.
    pub(crate) parent: Option<RemoteParent>,
    /// `span.error`: what went wrong.
    pub(crate) error: Option<String>,
    pub(crate) attributes: Vec<(&'static str, AttributeValue)>,
}

impl SpanFields {
    fn text(&mut self, field: &Field, text: &str) {
        match field.name() {
            "span.name" => self.name = Some(text.to_owned()),
            "span.kind" => {
                self.kind = match text {
                    "server" => SpanKind::Server,
                    "client" => SpanKind::Client,
                    _ => SpanKind::Internal,
                };
            }
            "span.parent" => self.parent = RemoteParent::parse(text),
            "span.error" => self.error = Some(text.to_owned()),
            _ => self.set(field, AttributeValue::Text(text.to_owned())),
        }
    }

    fn set(&mut self, field: &Field, value: AttributeValue) {
        let name = field.name();
        if let Some((_, known)) = self.attributes.iter_mut().find(|(known, _)| *known == name) {
            *known = value;
        } else if self.attributes.len() < MAX_ATTRIBUTES {
            self.attributes.push((name, value));
        }
    }
}

impl Visit for SpanFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, AttributeValue::Int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, AttributeValue::Int(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, AttributeValue::Bool(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.text(field, &format!("{value:?}"));
    }
}

/// A sampled span that has not ended.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    pub(crate) trace: TraceId,
    pub(crate) id: SpanId,
    pub(crate) parent: Option<SpanId>,
    pub(crate) name: &'static str,
    pub(crate) fields: SpanFields,
    started: (SystemTime, Instant),
}

impl OpenSpan {
    pub(crate) fn begin(
        trace: TraceId,
        parent: Option<SpanId>,
        name: &'static str,
        fields: SpanFields,
    ) -> Self {
        let started = (SystemTime::now(), Instant::now());
        Self { trace, id: SpanId::random(), parent, name, fields, started }
    }

    pub(crate) fn end(self) -> FinishedSpan {
        let (wall, steady) = self.started;
        let started = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let Self { trace, id, parent, name, fields, .. } = self;
        FinishedSpan { trace, id, parent, name, fields, started, took: steady.elapsed() }
    }
}

/// A span to send.
#[derive(Debug)]
pub(crate) struct FinishedSpan {
    pub(crate) trace: TraceId,
    pub(crate) id: SpanId,
    pub(crate) parent: Option<SpanId>,
    pub(crate) name: &'static str,
    pub(crate) fields: SpanFields,
    /// Since 1970.
    pub(crate) started: Duration,
    pub(crate) took: Duration,
}
