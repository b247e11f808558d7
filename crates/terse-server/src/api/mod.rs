//! The REST API. Each handler carries the description of its call; the OpenAPI document and the
//! documentation page are generated from these.

pub(crate) mod account;
pub(crate) mod account_bodies;
mod all_links;
mod answers;
mod audit;
mod blocklist;
mod bulk;
mod click_rows;
mod clicks;
mod doctor;
mod domains;
mod dry_run;
mod export;
mod forget;
pub(crate) mod invitations;
pub(crate) mod keys;
mod links;
mod list;
mod live;
mod moderated;
mod moderation;
mod password_fields;
mod period;
mod qr;
mod removals;
mod reports;
mod revisions;
mod rule_schemas;
mod schemas;
mod sessions;
pub(crate) mod shapes;
mod stats;
mod stats_shapes;
mod streamed;
mod tags;
mod users;
mod webhooks;

use std::sync::Arc;

use serde_json::{Value, json};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::problem;
use crate::http::state::App;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "terse",
        version = "1",
        description = "Short links. Names are in snake_case, times in RFC 3339, errors are \
            application/problem+json with a stable \
            `code`. Unknown fields and parameters are refused.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    servers((url = "/")),
    tags((name = "Links", description = "Create and manage links."),
         (name = "Clicks", description = "Statistics and clicks."),
         (name = "Webhooks", description = "Events about your links."),
         (name = "Pages", description = "Public pages of a link."),
         (name = "Tags", description = "Tags of your links."),
         (name = "Domains", description = "Short domains."),
         (name = "Account", description = "Your account, its keys and sessions."),
         (name = "Admin", description = "For moderators and admins.")),
    components(schemas(problem::ProblemBody, rule_schemas::Rule, stats::BotsWord))
)]
struct Base;

/// All calls, as a router and as an OpenAPI document with the same content.
pub(crate) fn described() -> OpenApiRouter<Arc<App>> {
    let mut base = Base::openapi();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("Your key: `Authorization: Bearer terse_…`"));
    if let Some(components) = base.components.as_mut() {
        components.add_security_scheme("key", SecurityScheme::Http(bearer.build()));
    }
    OpenApiRouter::with_openapi(base)
        .routes(routes!(links::create, list::list))
        .routes(routes!(links::shorten))
        .routes(routes!(bulk::create_many))
        .routes(routes!(links::get, links::patch, links::delete))
        .routes(routes!(links::restore))
        .routes(routes!(revisions::list))
        .routes(routes!(revisions::undo))
        .routes(routes!(dry_run::try_link))
        .routes(routes!(dry_run::try_rules))
        .routes(routes!(stats::link_stats))
        .routes(routes!(clicks::link_clicks))
        .routes(routes!(live::watch_link))
        .routes(routes!(stats::all_stats))
        .routes(routes!(stats::top))
        .routes(routes!(webhooks::list, webhooks::create))
        .routes(routes!(webhooks::get, webhooks::patch, webhooks::delete))
        .routes(routes!(webhooks::test))
        .routes(routes!(webhooks::deliveries))
        .routes(routes!(tags::list))
        .routes(routes!(tags::rename, tags::remove))
        .routes(routes!(domains::list))
        .routes(routes!(domains::put, domains::remove))
        .routes(routes!(qr::draw))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(account::get, account::patch, account::erase))
        .routes(routes!(export::export))
        .routes(routes!(sessions::list, sessions::end_all))
        .routes(routes!(sessions::end))
        .routes(routes!(users::list, users::create))
        .routes(routes!(users::get, users::patch, users::erase))
        .routes(routes!(users::suspend))
        .routes(routes!(users::reinstate))
        .routes(routes!(keys::list_of_user, keys::create_of_user))
        .routes(routes!(keys::revoke_of_user))
        .routes(routes!(invitations::list, invitations::create))
        .routes(routes!(invitations::revoke))
        .routes(routes!(reports::write))
        .routes(routes!(reports::list))
        .routes(routes!(all_links::list))
        .routes(routes!(moderation::set_standing))
        .routes(routes!(moderation::confirm))
        .routes(routes!(moderation::clear))
        .routes(routes!(moderation::ban_owner))
        .routes(routes!(forget::forget))
        .routes(routes!(blocklist::list, blocklist::block))
        .routes(routes!(blocklist::unblock))
        .routes(routes!(removals::waiting))
        .routes(routes!(removals::confirm))
        .routes(routes!(audit::read))
        .routes(routes!(doctor::check))
        .routes(routes!(stats::orphan_stats))
        .routes(routes!(bulk::import_many))
}

/// The OpenAPI document, independent of the server's domains.
pub fn openapi() -> OpenApi {
    described().into_openapi()
}

/// The OpenAPI document of this server as JSON, with the names of its short domains as examples.
/// They are no enumeration: generated clients would refuse a domain that is added later. `api` is
/// the base of the API, if it has a host of its own.
pub(crate) fn document(hosts: &[String], api: Option<&str>) -> String {
    let mut document = serde_json::to_value(openapi()).unwrap_or_default();
    if let Some(api) = api {
        document["servers"] = json!([{ "url": api }]);
    }
    for name in ["CreateLink", "ImportLink"] {
        let domain = &mut document["components"]["schemas"][name]["properties"]["domain"];
        domain["examples"] = json!(hosts);
    }
    let operations =
        document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    for operation in operations.filter_map(Value::as_object_mut).flat_map(|item| item.values_mut())
    {
        for parameter in
            operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten()
        {
            // A domain in a path may be one that does not exist yet.
            if parameter["name"] == "domain" && parameter["in"] == "query" {
                parameter["schema"]["examples"] = json!(hosts);
            }
        }
    }
    document.to_string()
}
