//! The sender of a request as a visitor of links, to tell which clicks are its own.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, header};
use terse_core::clicks::OwnVisitor;

use super::state::App;

/// The visitor that this address and these headers have when they follow a link.
pub(crate) async fn own_visitor(state: &App, address: IpAddr, headers: &HeaderMap) -> OwnVisitor {
    let agent = headers.get(header::USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
    OwnVisitor::of(&state.salts, address, agent, state.links.now()).await
}
