//! The schema of a rule, for the OpenAPI document.

use serde_json::json;
use terse_core::rules::{DEVICES, Rules, SYSTEMS};
use utoipa::openapi::schema::{
    AdditionalProperties, Array, Object, ObjectBuilder, OneOf, Ref, SchemaType, Type,
};
use utoipa::openapi::{RefOr, Schema};

use super::schemas::DATE_TIME;

const ABOUT: &str = "Rules that send some visitors to another target. The first rule whose \
    conditions all hold decides. Null and an \
    empty list are no rules.";

/// One rule of a link.
pub(super) struct Rule;

impl utoipa::ToSchema for Rule {
    fn name() -> std::borrow::Cow<'static, str> {
        "Rule".into()
    }
}

impl utoipa::PartialSchema for Rule {
    fn schema() -> RefOr<Schema> {
        let about = "Sends the visitors who meet all its conditions to another target. A \
            condition may be a list of alternatives; null is the same as absent; a rule without \
            conditions applies to every visitor.";
        let hours = text("^[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]$");
        let days = format(&["mon", "tue", "wed", "thu", "fri", "sat", "sun"]);
        let url = text("^https?://").max_length(Some(8192)).build();
        let weight = kind(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(10_000))
            .description(Some("1 by default."))
            .build();
        let branch = object()
            .property("url", url.clone())
            .property("weight", weight)
            .required("url")
            .build();
        let name = kind(Type::String).min_length(Some(1)).max_length(Some(100)).build();
        let value = kind(Type::String)
            .max_length(Some(500))
            .description(Some("Without it, the parameter may have any value."))
            .build();
        let query =
            object().property("name", name).property("value", value).required("name").build();
        let zone = kind(Type::String).max_length(Some(64));
        let zone = zone
            .description(Some(
                "The time zone of `days` and `hours`, such as `Europe/Berlin`; UTC by default.",
            ))
            .build();
        let mut branches = Array::new(branch);
        (branches.min_items, branches.max_items) = (Some(1), Some(Rules::MAX_BRANCHES));
        let to = "The target: a URL, or several with weights, among which visitors are split. The \
            same visitor always gets the same one.";
        let to = OneOf::builder().item(url).item(branches).description(Some(to)).build();
        object()
            .description(Some(about))
            .property("device", any(format(DEVICES), "The kind of device."))
            .property(
                "os",
                any(
                    format(SYSTEMS),
                    "The operating system. `Linux` is any of its \
                distributions.",
                ),
            )
            .property(
                "language",
                any(
                    text("^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$").build(),
                    "The language that the visitor prefers.",
                ),
            )
            .property(
                "country",
                any(
                    text("^[A-Za-z]{2}$").build(),
                    "The visitor's country \
                (ISO 3166).",
                ),
            )
            .property("query", any(query, "A parameter in the visitor's query."))
            .property(
                "from",
                text(DATE_TIME)
                    .description(Some("The rule applies from this date and time."))
                    .build(),
            )
            .property(
                "until",
                text(DATE_TIME)
                    .description(Some("The rule applies before this date and time."))
                    .build(),
            )
            .property("days", any(days, "The days of the week."))
            .property(
                "hours",
                any(
                    hours.build(),
                    "The hours of the day. A span that ends after \
                midnight belongs to the day it begins on.",
                ),
            )
            .property("tz", zone)
            .property("to", Schema::OneOf(to))
            .required("to")
            .examples([json!({ "device": ["mobile", "tablet"], "country": "AT",
                "to": "https://m.example.com/" })])
            .into()
    }
}

/// Rules, or null.
pub(super) fn rules_or_null() -> Array {
    let mut rules = Array::new(Ref::from_schema_name("Rule"));
    rules.schema_type = SchemaType::from_iter([Type::Array, Type::Null]);
    rules.description = Some(ABOUT.into());
    rules.max_items = Some(Rules::MAX_RULES);
    rules
}

fn kind(of: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(of))
}

fn object() -> ObjectBuilder {
    kind(Type::Object).additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

fn text(pattern: &str) -> ObjectBuilder {
    kind(Type::String).pattern(Some(pattern))
}

fn format(format: &[&str]) -> Object {
    kind(Type::String).enum_values(Some(format.iter().copied())).build()
}

/// A value, or a list of alternatives.
fn any(one: Object, about: &str) -> Schema {
    let mut list = Array::new(one.clone());
    (list.min_items, list.max_items) = (Some(1), Some(250));
    Schema::OneOf(OneOf::builder().item(one).item(list).description(Some(about)).build())
}
