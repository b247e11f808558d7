//! The REST API. Each handler carries the description of its call. A test makes the OpenAPI
//! document from these and compares it with `openapi.json`, which the server and its documentation
//! page use.

pub(crate) mod account;
pub(crate) mod account_bodies;
mod all_links;
#[cfg(feature = "openapi")]
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
#[cfg(feature = "openapi")]
mod import_schema;
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
#[cfg(feature = "openapi")]
mod rule_schemas;
#[cfg(feature = "openapi")]
mod schemas;
mod sessions;
pub(crate) mod shapes;
mod stats;
mod stats_shapes;
mod streamed;
mod tags;
mod users;
mod webhooks;

#[cfg(feature = "openapi")]
mod description;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, patch, post, put};
use serde_json::{Value, json};

#[cfg(feature = "openapi")]
pub use self::description::openapi;
use crate::http::state::App;

/// The OpenAPI document, independent of the server's domains.
pub const OPENAPI: &str = include_str!("../../openapi.json");

/// All calls.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/urls", post(links::create).get(list::list))
        .route("/api/v1/shorten", post(links::shorten))
        .route("/api/v1/urls/bulk", post(bulk::create_many))
        .route("/api/v1/urls/{code}", get(links::get).patch(links::patch).delete(links::delete))
        .route("/api/v1/urls/{code}/restore", post(links::restore))
        .route("/api/v1/urls/{code}/revisions", get(revisions::list))
        .route("/api/v1/urls/{code}/undo", post(revisions::undo))
        .route("/api/v1/urls/{code}/try", post(dry_run::try_link))
        .route("/api/v1/rules/try", post(dry_run::try_rules))
        .route("/api/v1/urls/{code}/stats", get(stats::link_stats))
        .route("/api/v1/urls/{code}/clicks", get(clicks::link_clicks))
        .route("/api/v1/urls/{code}/live", get(live::watch_link))
        .route("/api/v1/stats", get(stats::all_stats))
        .route("/api/v1/top", get(stats::top))
        .route("/api/v1/webhooks", get(webhooks::list).post(webhooks::create))
        .route(
            "/api/v1/webhooks/{id}",
            get(webhooks::get).patch(webhooks::patch).delete(webhooks::delete),
        )
        .route("/api/v1/webhooks/{id}/test", post(webhooks::test))
        .route("/api/v1/webhooks/{id}/deliveries", get(webhooks::deliveries))
        .route("/api/v1/tags", get(tags::list))
        .route("/api/v1/tags/{tag}", patch(tags::rename).delete(tags::remove))
        .route("/api/v1/domains", get(domains::list))
        .route("/api/v1/domains/{domain}", put(domains::put).delete(domains::remove))
        .route("/{code}/qr", get(qr::draw))
        .route("/api/v1/keys", get(keys::list).post(keys::create))
        .route("/api/v1/keys/{id}", delete(keys::revoke))
        .route("/api/v1/account", get(account::get).patch(account::patch).delete(account::erase))
        .route("/api/v1/account/export", get(export::export))
        .route("/api/v1/account/sessions", get(sessions::list).delete(sessions::end_all))
        .route("/api/v1/account/sessions/{id}", delete(sessions::end))
        .route("/api/v1/admin/users", get(users::list).post(users::create))
        .route("/api/v1/admin/users/{id}", get(users::get).patch(users::patch).delete(users::erase))
        .route("/api/v1/admin/users/{id}/suspend", post(users::suspend))
        .route("/api/v1/admin/users/{id}/reinstate", post(users::reinstate))
        .route("/api/v1/admin/users/{id}/reset_link", post(users::reset_link))
        .route("/api/v1/admin/users/{id}/two_factor", delete(users::remove_two_factor))
        .route("/api/v1/admin/users/{id}/keys", get(keys::list_of_user).post(keys::create_of_user))
        .route("/api/v1/admin/users/{id}/keys/{key}", delete(keys::revoke_of_user))
        .route("/api/v1/invitations", get(invitations::list).post(invitations::create))
        .route("/api/v1/invitations/{id}", delete(invitations::revoke))
        .route("/api/v1/urls/{code}/report", post(reports::write))
        .route("/api/v1/admin/reports", get(reports::list))
        .route("/api/v1/admin/links", get(all_links::list))
        .route("/api/v1/admin/links/{code}/standing", put(moderation::set_standing))
        .route("/api/v1/admin/links/{code}/confirm", post(moderation::confirm))
        .route("/api/v1/admin/links/{code}/clear", post(moderation::clear))
        .route("/api/v1/admin/links/{code}/suspend_owner", post(moderation::suspend_owner))
        .route("/api/v1/admin/links/{code}/ban_owner", post(moderation::ban_owner))
        .route("/api/v1/admin/links/{code}/forget", post(forget::forget))
        .route("/api/v1/admin/blocklist", get(blocklist::list).post(blocklist::block))
        .route("/api/v1/admin/blocklist/{host}", delete(blocklist::unblock))
        .route("/api/v1/admin/removals", get(removals::waiting))
        .route("/api/v1/admin/removals/{round}/confirm", post(removals::confirm))
        .route("/api/v1/admin/audit", get(audit::read))
        .route("/api/v1/admin/doctor", get(doctor::check))
        .route("/api/v1/admin/orphans", get(stats::orphan_stats))
        .route("/api/v1/admin/import", post(bulk::import_many))
}

/// The OpenAPI document of this server as JSON, with the names of its short domains as examples.
/// They are no enumeration: generated clients would refuse a domain that is added later. `api` is
/// the base of the API, if it has a host of its own.
pub(crate) fn document(hosts: &[String], api: Option<&str>) -> String {
    let mut document = serde_json::from_str::<Value>(OPENAPI).unwrap_or_default();
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
