//! Schemas that are more exact than the derived ones.

use serde_json::json;
use terse_core::registry::{Role, Scope};
use terse_core::{
    EntryKind, LinkStatus, MAX_PREVIEW_DESCRIPTION, MAX_PREVIEW_IMAGE_URL, MAX_PREVIEW_TITLE,
};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{
    AdditionalProperties, AnyOf, Array, Object, ObjectBuilder, OneOf, Ref, SchemaType, Type,
};
use utoipa::openapi::{RefOr, Required, Schema};

use crate::reporting::Reason;

const REDIRECT: &str = "The status the link redirects with: 302 by default. Browsers cache 301 \
    and 308 for a long time.";

/// RFC 3339 with an offset, also in the basic format, or a date.
pub(super) const DATE_TIME: &str = "^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt \
            ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?\
            |[0-9]{8}([Tt][0-9]{4}([0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?)$";

/// A parameter of the query that is a time. In a query, a plus sign means a space.
fn time_param(name: &str, about: &str) -> Parameter {
    let schema =
        kind(Type::String).max_length(Some(40)).pattern(Some(DATE_TIME.replace("[+-]", "[+ -]")));
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(about))
        .schema(Some(schema.build()))
        .build()
}

/// `from` and `to` of statistics.
pub(super) struct PeriodParams;

impl utoipa::IntoParams for PeriodParams {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let from = "From this time (RFC 3339), or from the beginning of this date in the time zone";
        let to = "Until before this time or date; now by default";
        vec![time_param("from", from), time_param("to", to)]
    }
}

/// `from` and `to` of lists of clicks, whose dates are in UTC.
pub(super) struct UtcPeriodParams;

impl utoipa::IntoParams for UtcPeriodParams {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let from = "From this time (RFC 3339), or from this date 00:00 UTC";
        let to = "Until before this time, or this date 00:00 UTC";
        vec![time_param("from", from), time_param("to", to)]
    }
}

fn kind(of: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(of))
}

fn or_null(of: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::from_iter([of, Type::Null]))
}

pub(super) fn redirect() -> Object {
    kind(Type::Integer).description(Some(REDIRECT)).enum_values(Some([301, 302, 307, 308])).build()
}

pub(super) fn redirect_or_null() -> Object {
    or_null(Type::Integer)
        .description(Some(REDIRECT))
        .enum_values(Some([json!(301), json!(302), json!(307), json!(308), json!(null)]))
        .build()
}

pub(super) fn moderation_status() -> Object {
    let about = "`suspicious` puts a warning page before the link, `blocked` takes it down.";
    kind(Type::String)
        .description(Some(about))
        .enum_values(Some(["clear", "suspicious", "blocked"]))
        .build()
}

pub(super) fn entry_kind() -> Object {
    kind(Type::String)
        .description(Some("What the entry names: a host with its subdomains, or one URL."))
        .enum_values(Some([EntryKind::Host, EntryKind::Url].map(EntryKind::as_str)))
        .build()
}

pub(super) fn status() -> Object {
    kind(Type::String)
        .description(Some("What it is right now."))
        .enum_values(Some(LinkStatus::ALL.map(LinkStatus::as_str)))
        .build()
}

pub(super) fn role() -> Object {
    word("The role of an account.", &Role::ALL.map(Role::as_str))
}

pub(super) fn role_or_null() -> Object {
    let values = Role::ALL.map(|role| json!(role.as_str())).into_iter().chain([json!(null)]);
    or_null(Type::String)
        .description(Some("The role of an account."))
        .enum_values(Some(values))
        .build()
}

pub(super) fn scope() -> Object {
    let about = "The permissions of a key: `create` only creates links, `read` only reads, `full` \
        allows everything that its account may do.";
    word(about, &Scope::ALL.map(Scope::as_str))
}

pub(super) fn reason() -> Object {
    word("Why the link is reported.", &Reason::ALL.map(Reason::as_str))
}

pub(super) fn status_or_null() -> Object {
    let values =
        LinkStatus::ALL.into_iter().map(|status| json!(status.as_str())).chain([json!(null)]);
    let about = "What the link is right now: only an active one redirects. Null for rules that no \
        link has.";
    or_null(Type::String).description(Some(about)).enum_values(Some(values)).build()
}

/// A string that is one of the given words.
pub(super) fn word(about: &str, values: &[&str]) -> Object {
    kind(Type::String).description(Some(about)).enum_values(Some(values.iter().copied())).build()
}

fn tag() -> Object {
    let no_comma = "^[^,\\u0000-\\u001f\\u007f-\\u009f]*$";
    kind(Type::String).min_length(Some(1)).max_length(Some(50)).pattern(Some(no_comma)).build()
}

pub(super) fn tags() -> Array {
    let mut tags = Array::new(tag());
    tags.description =
        Some("Words to find the link by. In a change they replace the old ones.".into());
    tags.max_items = Some(20);
    tags
}

pub(super) fn tags_or_null() -> Array {
    let mut tags = tags();
    tags.schema_type = SchemaType::from_iter([Type::Array, Type::Null]);
    tags
}

/// The preview of a link.
pub(super) fn preview_or_null() -> Object {
    let about = "What known preview fetchers of chats and social networks get instead of the \
        redirect, while the link is active and has no password, warning or limit. At least one \
        of the three.";
    let text = |most: usize, about: &str| {
        or_null(Type::String).max_length(Some(most)).description(Some(about)).build()
    };
    let image = or_null(Type::String)
        .max_length(Some(MAX_PREVIEW_IMAGE_URL))
        .pattern(Some("^https?://"))
        .description(Some("The address of an image, for fetchers to load."));
    or_null(Type::Object)
        .description(Some(about))
        .property("title", text(MAX_PREVIEW_TITLE, "The title."))
        .property("description", text(MAX_PREVIEW_DESCRIPTION, "The description."))
        .property("image_url", image.build())
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        .build()
}

/// A list of links to create: a plain array, or the only member of an object.
fn list_of(item: &str, names: &[&str]) -> RefOr<Schema> {
    let anything = kind(Type::Object);
    let anything = anything
        .schema_type(SchemaType::AnyValue)
        .description(Some("Anything else becomes a problem in its place."));
    let items = AnyOf::builder().item(Ref::from_schema_name(item)).item(anything.build()).build();
    let mut list = Array::new(Schema::AnyOf(items));
    (list.min_items, list.max_items) = (Some(1), Some(terse_core::MAX_LINKS_PER_REQUEST));
    let mut shapes = OneOf::builder().item(list.clone());
    for name in names {
        let wrapped = kind(Type::Object).property(*name, list.clone()).required(*name);
        shapes = shapes.item(
            wrapped.additional_properties(Some(AdditionalProperties::FreeForm(false))).build(),
        );
    }
    Schema::OneOf(shapes.build()).into()
}

pub(super) struct CreateLinks;

impl utoipa::PartialSchema for CreateLinks {
    fn schema() -> RefOr<Schema> {
        list_of("CreateLink", &["links", "urls"])
    }
}

impl utoipa::ToSchema for CreateLinks {
    fn name() -> std::borrow::Cow<'static, str> {
        "CreateLinks".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((
            "CreateLink".into(),
            <super::shapes::CreateLinkBody as utoipa::PartialSchema>::schema(),
        ));
    }
}

pub(super) struct ImportLinks;

impl utoipa::PartialSchema for ImportLinks {
    fn schema() -> RefOr<Schema> {
        list_of("ImportLink", &["links", "urls"])
    }
}

impl utoipa::ToSchema for ImportLinks {
    fn name() -> std::borrow::Cow<'static, str> {
        "ImportLinks".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((
            "ImportLink".into(),
            <super::import_schema::ImportLinkSchema as utoipa::PartialSchema>::schema(),
        ));
    }
}
