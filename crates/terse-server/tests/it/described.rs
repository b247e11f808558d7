use serde_json::Value;
use terse_core::accounts::{MAX_KEY_NAME, MAX_PLAN_LEN, MAX_REASON, MAX_TIME_ZONE};
use terse_core::moderation::MAX_REPORT_TEXT;
use terse_core::registry::{AccountName, MAX_RECEIVER_URL};
use terse_core::rules::{MAX_QUERY_NAME, MAX_QUERY_VALUE};
use terse_core::{
    Code, Domain, EmailAddress, MAX_PASSWORD_LEN, MAX_PREVIEW_DESCRIPTION, MAX_PREVIEW_IMAGE_URL,
    MAX_PREVIEW_TITLE, MAX_SEARCH_LENGTH, Notes, Tags, Target, Title,
};

use crate::web::Web;

/// The OpenAPI document is a promise: a change of it is reviewed like any other. `UPDATE=1 cargo
/// test --all-features` rewrites it.
#[cfg(feature = "openapi")]
#[test]
fn the_description_is_as_it_was_reviewed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let now = terse_server::openapi().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    let reviewed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        now == reviewed,
        "the description changed: run with UPDATE=1 and review the difference"
    );
}

/// The longest texts that the core accepts, by schema or place, and property.
const LENGTHS: [(&str, usize); 37] = [
    ("CreateUser.name", AccountName::MAX),
    ("PatchUser.name", AccountName::MAX),
    ("User.name", AccountName::MAX),
    ("PatchAccount.name", AccountName::MAX),
    ("EraseAccount.confirm", AccountName::MAX),
    ("parameters.name", AccountName::MAX),
    ("CreateKey.name", MAX_KEY_NAME),
    ("RenameTag.name", Tags::MAX_LENGTH),
    ("query.name", MAX_QUERY_NAME),
    ("query.value", MAX_QUERY_VALUE),
    ("preview.title", MAX_PREVIEW_TITLE),
    ("preview.description", MAX_PREVIEW_DESCRIPTION),
    ("preview.image_url", MAX_PREVIEW_IMAGE_URL),
    ("title", Title::MAX),
    ("notes", Notes::MAX),
    ("tag", Tags::MAX_LENGTH),
    ("tags", Tags::MAX_LENGTH),
    ("long_url", Target::MAX),
    ("to.url", Target::MAX),
    ("Rule.to", Target::MAX),
    ("root", Target::MAX),
    ("not_found", Target::MAX),
    ("expired", Target::MAX),
    ("CreateWebhook.url", MAX_RECEIVER_URL),
    ("PatchWebhook.url", MAX_RECEIVER_URL),
    ("custom_alias", Code::MAX),
    ("short_code", Code::MAX),
    ("domain", Domain::MAX),
    ("host", Domain::MAX),
    ("password", MAX_PASSWORD_LEN),
    ("current_password", MAX_PASSWORD_LEN),
    ("email", EmailAddress::MAX),
    ("plan", MAX_PLAN_LEN),
    ("text", MAX_REPORT_TEXT),
    ("why", MAX_REASON),
    ("q", MAX_SEARCH_LENGTH),
    ("tz", MAX_TIME_ZONE),
];

/// Parameters whose length only the API bounds; no type of the core stands behind them.
const ONLY_HERE: [&str; 11] = [
    "Idempotency-Key",
    "accept_language",
    "action",
    "address",
    "cursor",
    "from",
    "parameters.to",
    "query",
    "subject",
    "user_agent",
    "visitor_id",
];

#[test]
fn every_length_in_the_description_is_a_constant_of_the_core() {
    let document = serde_json::from_str::<Value>(terse_server::OPENAPI).unwrap();
    let mut described = Vec::new();
    lengths(&document, &mut Vec::new(), &mut described);
    for (place, length) in &described {
        let last = place.rsplit('.').next().unwrap();
        if ONLY_HERE.iter().any(|name| [last, place].contains(name)) {
            continue;
        }
        let by_place = LENGTHS.iter().find(|(name, _)| name == place);
        let constant = by_place.or_else(|| LENGTHS.iter().find(|(name, _)| *name == last));
        let (_, expected) = constant.unwrap_or_else(|| panic!("no constant for {place}"));
        assert_eq!(length, expected, "{place}");
    }
    for (name, _) in LENGTHS {
        let is_used = |place: &str| place == name || place.ends_with(&format!(".{name}"));
        assert!(described.iter().any(|(place, _)| is_used(place)), "{name} is not described");
    }
}

/// Collects every `maxLength` as its schema or place, its property, and the length.
fn lengths<'a>(value: &'a Value, path: &mut Vec<&'a str>, found: &mut Vec<(String, usize)>) {
    match value {
        Value::Object(fields) => {
            if let Some(length) = fields.get("maxLength").and_then(Value::as_u64) {
                let place = path[path.len() - 2..].join(".");
                found.push((place, usize::try_from(length).unwrap()));
            }
            for (name, inner) in fields {
                let is_name = !["schema", "oneOf", "items", "properties"].contains(&&**name);
                path.extend(is_name.then_some(&**name));
                lengths(inner, path, found);
                path.truncate(path.len() - usize::from(is_name));
            }
        }
        Value::Array(items) => {
            for item in items {
                let name = item["name"].as_str();
                path.extend(name);
                lengths(item, path, found);
                path.truncate(path.len() - usize::from(name.is_some()));
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn what_is_served_is_what_is_described_with_our_domains() {
    let web = Web::new();
    let served = web.page("/openapi.json").await;
    assert_eq!(served.header("content-type"), "application/json");
    let served = served.json();
    assert_eq!(served, web.page("/api/v1/openapi.json").await.json());
    let domain = &served["components"]["schemas"]["CreateLink"]["properties"]["domain"];
    assert_eq!(domain["examples"][0], "go.example");
    assert_eq!(domain["enum"], Value::Null, "domains are added while clients run");
    let described = serde_json::from_str::<Value>(terse_server::OPENAPI).unwrap();
    assert_eq!(
        served["paths"].as_object().unwrap().len(),
        described["paths"].as_object().unwrap().len()
    );
}

#[tokio::test]
async fn every_described_call_exists_and_every_call_is_described() {
    let web = Web::new();
    let document = serde_json::from_str::<Value>(terse_server::OPENAPI).unwrap();
    let mut described = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            described.push(format!("{} {path}", method.to_uppercase()));
        }
    }
    let mut known = Vec::new();
    for path in document["paths"].as_object().unwrap().keys() {
        // Any name will do: only whether a handler exists matters.
        let spelled: Vec<_> =
            path.split('/').map(|part| if part.starts_with('{') { "abc" } else { part }).collect();
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            if web.call(&format!("{method} {}", spelled.join("/")), &[], "").await.status != 405 {
                known.push(format!("{method} {path}"));
            }
        }
    }
    described.sort();
    known.sort();
    assert_eq!(described, known);
}

#[test]
fn inputs_are_closed_and_every_reference_leads_somewhere() {
    let document = serde_json::from_str::<Value>(terse_server::OPENAPI).unwrap();
    let bodies = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values());
    for operation in bodies {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        // Lists have a schema of their own; their items are checked below.
        if let Some(name) = schema["$ref"]
            .as_str()
            .and_then(|path| path.rsplit('/').next())
            .filter(|name| !name.ends_with("Links"))
        {
            assert_eq!(
                document["components"]["schemas"][name]["additionalProperties"], false,
                "{name}"
            );
        }
    }
    for name in ["CreateLink", "ImportLink"] {
        assert_eq!(
            document["components"]["schemas"][name]["additionalProperties"], false,
            "{name}"
        );
    }
    let link = &document["components"]["schemas"]["Link"];
    assert_eq!(
        link["required"].as_array().unwrap().len(),
        link["properties"].as_object().unwrap().len()
    );
    let mut waiting: Vec<&Value> = vec![&document];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(members) => {
                if let Some(path) = members.get("$ref").and_then(Value::as_str) {
                    assert!(document.pointer(path.strip_prefix('#').unwrap()).is_some(), "{path}");
                }
                waiting.extend(members.values());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_documentation_page_tells_every_call_and_every_problem() {
    let web = Web::new();
    let page = web.page("/api/docs").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-security-policy").contains("default-src 'none'"));
    let text = page.text();
    let document = serde_json::from_str::<Value>(terse_server::OPENAPI).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        assert!(text.contains(&format!("<code>{path}</code>")), "{path}");
        for operation in item.as_object().unwrap().values() {
            assert!(
                text.contains(&format!("id=\"{}\"", operation["operationId"].as_str().unwrap()))
            );
        }
    }
    // Each call names its own errors, with a sentence, and has a form unless its answer never ends.
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            let section = text.split_once(&format!("id=\"{id}\"")).unwrap().1;
            let section = section.split_once("</section>").unwrap().0;
            let mut count = 0;
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let kinds = &answer["content"]["application/problem+json"]["examples"];
                assert_eq!(kinds.is_object(), status.starts_with(['4', '5']), "{id} {status}");
                for (code, kind) in kinds.as_object().into_iter().flatten() {
                    let sentence = kind["summary"].as_str().unwrap().replace('`', "");
                    assert!(sentence.ends_with('.'), "{code}");
                    assert_eq!(kind["value"]["type"], format!("/api/docs#{code}"));
                    assert_eq!(kind["value"]["status"].to_string(), *status);
                    assert!(section.contains(&format!("href=\"#{code}\"")), "{id} {code}");
                    let escaped = sentence.replace('\'', "&#39;");
                    assert!(section.contains(&escaped), "{id} {sentence}");
                    count += 1;
                }
            }
            assert_eq!(section.matches("href=\"#").count(), count, "{id}");
            assert_eq!(section.contains("class=\"try\" hidden"), id != "watch_link", "{id}");
        }
    }
    let create = text.split_once("id=\"create_link\"").unwrap().1;
    let create = create.split_once("</section>").unwrap().0;
    assert!(create.contains("#alias_taken\"") && !create.contains("#last_admin\""));
    // Without the script there is no box that does nothing.
    assert!(text.contains("<div class=\"tools\" hidden>"));
    assert!(!text.contains("<script>") && !text.contains("onclick") && !text.contains(" action="));
    let policy = page.header("content-security-policy");
    assert!(policy.contains("connect-src 'self'") && !policy.contains("unsafe"), "{policy}");
    for code in ["invalid_url", "alias_taken", "store_unavailable", "precondition_failed"] {
        assert!(text.contains(&format!("id=\"{code}\"")), "{code}");
    }
    assert!(!text.contains("src=\"http") && !text.contains("href=\"http"));
    let redirect = web.page("/api/v1/docs").await;
    assert_eq!((redirect.status.as_u16(), redirect.header("location")), (302, "/api/docs"));
}

/// What a call must have to return a problem.
#[test]
fn a_call_lists_only_problems_that_it_can_return() {
    let document = serde_json::to_value(terse_server::openapi()).unwrap();
    let resolved = |schema: &Value| -> String {
        let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        let schema = name.map_or(schema, |name| &document["components"]["schemas"][name]);
        // The items of a list, too.
        let items = schema["items"]["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        let items = items.map(|name| &document["components"]["schemas"][name]);
        format!("{schema}{}", items.unwrap_or(&Value::Null))
    };
    let (mut seen, mut wrong) = (0, Vec::new());
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let params = operation["parameters"].to_string();
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let body = resolved(schema);
            let has_body = operation["requestBody"].is_object();
            let is_write = method != "get";
            // The rules may have changed since the earlier version of the link.
            let is_undo = id == "undo_change";
            let needs_key = operation["security"].to_string().contains("key");
            let responses = operation["responses"].as_object().unwrap();
            let codes = responses.values().flat_map(|answer| {
                answer["content"]["application/problem+json"]["examples"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(code, _)| code.as_str())
            });
            for code in codes {
                let can = match code {
                    "request_timeout" | "too_large" | "unsupported_media_type" => has_body,
                    "invalid_expiry" => body.contains("expires_at") || is_undo,
                    "invalid_alias" | "reserved_alias" | "alias_taken" => {
                        body.contains("custom_alias")
                    }
                    "invalid_url"
                    | "scheme_not_allowed"
                    | "self_reference"
                    | "destination_not_public"
                    | "blocked_destination" => {
                        body.contains("url")
                            || body.contains("rules")
                            || path.contains("/domains")
                            || is_undo
                    }
                    "idempotency_mismatch" => params.contains("Idempotency-Key"),
                    "precondition_failed" => params.contains("If-Match"),
                    "webhooks_off" => path.contains("/webhooks"),
                    "domain_in_use" => path.contains("/domains/"),
                    "too_many" => method == "post" || method == "put",
                    "no_owner" | "last_admin" | "name_taken" | "wrong_password" | "conflict" => {
                        is_write
                    }
                    "not_found" => path.contains('{') || body.contains("domain"),
                    "unauthorized" | "forbidden" | "suspended" => needs_key,
                    _ => true,
                };
                wrong.extend((!can).then(|| format!("{id} never returns {code}")));
                seen += 1;
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(seen > 300, "{seen}");
}

#[test]
fn one_thing_has_one_name_in_all_queries() {
    /// Names that other calls use for the same, and ours.
    const OTHERS: [(&str, &str); 14] = [
        ("act", "action"),
        ("state", "status"),
        ("search", "q"),
        ("query", "q"),
        ("since", "from"),
        ("start", "from"),
        ("until", "to"),
        ("end", "to"),
        ("timezone", "tz"),
        ("time_zone", "tz"),
        ("page", "cursor"),
        ("after", "cursor"),
        ("count", "limit"),
        ("host", "domain"),
    ];
    let document = serde_json::from_str::<Value>(terse_server::OPENAPI).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            let params = operation["parameters"].as_array().into_iter().flatten();
            for param in params.filter(|param| param["in"] == "query") {
                let other = OTHERS.iter().find(|(name, _)| param["name"] == *name);
                assert_eq!(other, None, "{path}: the second name is what other calls have");
            }
        }
    }
}
