//! Runs the server's checks of itself for an API call or a page.

use std::sync::Arc;

use terse_core::{Finding, Principal, self_check};

use super::problem::{Problem, STORE_UNAVAILABLE};
use super::state::App;

/// What the server finds, off the threads that answer requests.
pub(crate) async fn findings(state: &App, principal: Principal) -> Result<Vec<Finding>, Problem> {
    let checks = Arc::clone(&state.self_check);
    let found = tokio::task::spawn_blocking(move || self_check(&principal, &*checks)).await;
    Ok(found.map_err(|_| Problem::new(&STORE_UNAVAILABLE, "the checks did not finish"))??)
}
