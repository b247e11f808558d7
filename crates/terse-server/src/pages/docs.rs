//! The API documentation: renders the OpenAPI document as one HTML page.

use askama::Template;
use serde_json::Value;

use super::PageFrame;
use crate::http::problem::{self, Kind};

/// The media type of problems.
const PROBLEM: &str = "application/problem+json";

/// The `Content-Security-Policy` of the page: its forms call the API of this server.
pub(crate) const DOCS_CSP: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
    connect-src 'self'; img-src 'self' data:; form-action 'none'; base-uri 'none'; \
    frame-ancestors 'none'";

#[derive(Template)]
#[template(path = "docs.html")]
struct Docs {
    frame: PageFrame,
    about: String,
    groups: Vec<Group>,
    kinds: &'static [&'static Kind],
}

struct Group {
    name: String,
    about: String,
    calls: Vec<Call>,
}

struct Call {
    id: String,
    method: String,
    path: String,
    summary: String,
    about: String,
    key: &'static str,
    params: Vec<Param>,
    fields: Vec<Param>,
    curl: String,
    answers: Vec<Answer>,
    problems: Vec<Error>,
    /// The form that sends the call; `None` for an answer that does not end.
    try_it: Option<TryIt>,
}

/// An error that a call can return.
struct Error {
    status: String,
    code: String,
    about: String,
}

/// What the form of a call needs beside its parameters.
struct TryIt {
    needs_key: bool,
    /// An example of the body; `None` if the call has none.
    body: Option<String>,
}

struct Param {
    name: String,
    place: String,
    needed: bool,
    shape: String,
    about: String,
}

struct Answer {
    status: String,
    about: String,
    example: Option<String>,
}

/// Renders the page from the OpenAPI document that the server publishes.
pub(crate) fn docs_page(frame: PageFrame, document: &str) -> String {
    let document: Value = serde_json::from_str(document).unwrap_or_default();
    let mut groups: Vec<Group> = Vec::new();
    for tag in document["tags"].as_array().into_iter().flatten() {
        groups.push(Group {
            name: text(&tag["name"]),
            about: text(&tag["description"]),
            calls: Vec::new(),
        });
    }
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        // Methods in the order in which an owner uses them, not in the order of the document.
        for method in ["post", "get", "patch", "put", "delete"] {
            let Some(operation) = item.get(method) else { continue };
            let call = Call::new(&document, path, method, operation);
            if let Some(group) =
                groups.iter_mut().find(|group| operation["tags"][0] == group.name.as_str())
            {
                group.calls.push(call);
            }
        }
    }
    let about = text(&document["info"]["description"]);
    let docs = Docs { frame, about, groups, kinds: problem::ALL };
    docs.render().unwrap_or_else(|error| {
        tracing::error!(%error, "the documentation could not be rendered");
        String::new()
    })
}

impl Call {
    fn new(document: &Value, path: &str, method: &str, operation: &Value) -> Self {
        let params = operation["parameters"].as_array().into_iter().flatten().map(|param| Param {
            name: text(&param["name"]),
            place: text(&param["in"]),
            needed: param["required"] == true,
            shape: shape(&param["schema"]),
            about: text(&param["description"]),
        });
        let body = &operation["requestBody"]["content"]["application/json"];
        let schema = resolve(document, &body["schema"]);
        let example = if body["example"].is_null() { &schema["example"] } else { &body["example"] };
        let mut answers = Vec::new();
        let mut problems = Vec::new();
        for (status, answer) in operation["responses"].as_object().into_iter().flatten() {
            if let Some(kinds) = answer["content"][PROBLEM]["examples"].as_object() {
                problems.extend(kinds.iter().map(|(code, kind)| Error {
                    status: status.clone(),
                    code: code.clone(),
                    about: text(&kind["summary"]),
                }));
                continue;
            }
            let content = &answer["content"]["application/json"];
            let example = resolve(document, &content["schema"])["example"].clone();
            let example = (!example.is_null()).then(|| pretty(&example));
            let about = text(&answer["description"]);
            answers.push(Answer { status: status.clone(), about, example });
        }
        let security = operation["security"].as_array();
        let optional = security.is_some_and(|all| {
            all.iter().any(|one| one.as_object().is_some_and(serde_json::Map::is_empty))
        });
        let key = match (security.is_some(), optional) {
            (false, _) => "no key",
            (true, true) => "key optional",
            (true, false) => "key needed",
        };
        Self {
            id: text(&operation["operationId"]),
            method: method.to_uppercase(),
            path: path.to_owned(),
            summary: text(&operation["summary"]),
            about: text(&operation["description"]),
            key,
            params: params.collect(),
            fields: fields(schema),
            curl: curl(path, method, key != "no key", example),
            answers,
            problems,
            try_it: (!is_endless(operation)).then(|| TryIt {
                needs_key: key == "key needed",
                body: (!body.is_null()).then(|| match example {
                    Value::Null => String::new(),
                    example => pretty(example),
                }),
            }),
        }
    }
}

/// Whether an answer is a stream that does not end by itself.
fn is_endless(operation: &Value) -> bool {
    operation["responses"]["200"]["content"]["text/event-stream"].is_object()
}

/// The fields of a body, in the order of the schema.
fn fields(schema: &Value) -> Vec<Param> {
    let needed = |name: &str| {
        schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, property)| Param {
            name: name.clone(),
            place: "body".into(),
            needed: needed(name),
            shape: shape(property),
            about: text(&property["description"]),
        })
        .collect()
}

/// A short description of a schema.
fn shape(schema: &Value) -> String {
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(text).collect::<Vec<_>>().join(" or "),
        kind => text(kind),
    };
    let mut format = vec![kind];
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().filter(|value| !value.is_null()).map(plain).collect();
        format.push(format!("one of {}", values.join(", ")));
    }
    let (least, most) = (&schema["minimum"], &schema["maximum"]);
    match (least.is_null(), most.is_null()) {
        (false, false) => format.push(format!("{least} to {most}")),
        (false, true) => format.push(format!("from {least}")),
        _ => {}
    }
    if let Some(most) = schema["maxLength"].as_u64() {
        format.push(format!("at most {most} characters"));
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        format.push(format!("at most {most}"));
    }
    format.join(", ")
}

fn curl(path: &str, method: &str, key: bool, example: &Value) -> String {
    let path = path.replace("{code}", "spring-sale");
    let mut curl = String::from("curl");
    if method != "get" {
        curl.push_str(&format!(" -X {}", method.to_uppercase()));
    }
    curl.push_str(&format!(" \"$TERSE{path}\""));
    if key {
        curl.push_str(" \\\n  -H \"Authorization: Bearer $KEY\"");
    }
    if !example.is_null() {
        curl.push_str(&format!(
            " \\\n  -H 'Content-Type: application/json' \\\n  -d '{}'",
            pretty(example).replace('\n', "\n  ")
        ));
    }
    curl
}

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) {
        Some(path) => document.pointer(path).unwrap_or(schema),
        None => schema,
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The text of a description, without the backticks that mark code.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().replace('`', "")
}
