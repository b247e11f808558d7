//! The body of a request to a collector: OTLP over HTTP, as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::span::{AttributeValue, FinishedSpan};

/// The number of a status that is an error.
const ERROR: u8 = 2;

/// The spans as one `ExportTraceServiceRequest`, from this node of the service.
pub(crate) fn body(spans: &[FinishedSpan], version: &str, node: &str) -> Vec<u8> {
    let resource =
        [("service.name", "terse"), ("service.version", version), ("service.instance.id", node)];
    let resource: Vec<_> = resource.iter().map(|(key, value)| text(key, value)).collect();
    let spans: Vec<_> = spans.iter().map(span).collect();
    let scope = json!({ "name": "terse", "version": version });
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": scope, "spans": spans }],
    }] })
    .to_string()
    .into_bytes()
}

fn span(span: &FinishedSpan) -> Value {
    let fields = &span.fields;
    let attributes: Vec<_> =
        fields.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    // 64-bit numbers are text in OTLP's JSON.
    let nanos = |time: Duration| time.as_nanos().to_string();
    let mut json = json!({
        "traceId": span.trace.to_string(),
        "spanId": span.id.to_string(),
        "name": fields.name.as_deref().unwrap_or(span.name),
        "kind": fields.kind as u8,
        "startTimeUnixNano": nanos(span.started),
        "endTimeUnixNano": nanos(span.started + span.took),
        "attributes": attributes,
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = parent.to_string().into();
    }
    if let Some(error) = &fields.error {
        json["status"] = json!({ "code": ERROR, "message": error });
    }
    json
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn attribute(key: &str, value: &AttributeValue) -> Value {
    match value {
        AttributeValue::Text(value) => text(key, value),
        AttributeValue::Int(value) => {
            json!({ "key": key, "value": { "intValue": value.to_string() } })
        }
        AttributeValue::Bool(value) => json!({ "key": key, "value": { "boolValue": value } }),
    }
}
