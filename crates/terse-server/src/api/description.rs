//! The OpenAPI document, made from the descriptions at the handlers. Only the test that compares it
//! with `openapi.json` compiles this.

use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use super::*;
use crate::http::problem;

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
    paths(links::create, list::list, links::shorten, bulk::create_many, links::get, links::patch, links::delete, links::restore, revisions::list, revisions::undo, dry_run::try_link, dry_run::try_rules, stats::link_stats, clicks::link_clicks, live::watch_link, stats::all_stats, stats::top, webhooks::list, webhooks::create, webhooks::get, webhooks::patch, webhooks::delete, webhooks::test, webhooks::deliveries, tags::list, tags::rename, tags::remove, domains::list, domains::put, domains::remove, qr::draw, keys::list, keys::create, keys::revoke, account::get, account::patch, account::erase, export::export, sessions::list, sessions::end_all, sessions::end, users::list, users::create, users::get, users::patch, users::erase, users::suspend, users::reinstate, users::reset_link, users::remove_two_factor, keys::list_of_user, keys::create_of_user, keys::revoke_of_user, invitations::list, invitations::create, invitations::revoke, reports::write, reports::list, all_links::list, moderation::set_standing, moderation::confirm, moderation::clear, moderation::suspend_owner, moderation::ban_owner, forget::forget, blocklist::list, blocklist::block, blocklist::unblock, removals::waiting, removals::confirm, audit::read, doctor::check, stats::orphan_stats, bulk::import_many),
    components(schemas(problem::ProblemBody, rule_schemas::Rule, stats::BotsParam))
)]
struct Description;

/// The OpenAPI document, independent of the server's domains.
pub fn openapi() -> OpenApi {
    let mut document = Description::openapi();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("Your key: `Authorization: Bearer terse_…`"));
    if let Some(components) = document.components.as_mut() {
        components.add_security_scheme("key", SecurityScheme::Http(bearer.build()));
    }
    document
}
