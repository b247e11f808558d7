//! Fastly: purges by surrogate key.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use terse_core::{EdgeCache, HttpClient, Purge, PurgeError, Secret};

use super::{accepted, tags};

/// The API.
pub(super) const API: &str = "https://api.fastly.com";
/// The most keys that one request may name.
const MAX_KEYS: usize = 256;

/// A service of Fastly.
pub struct Fastly {
    client: Arc<dyn HttpClient>,
    service: String,
    token: Secret,
}

impl Fastly {
    /// `api` replaces the address of Fastly's API.
    pub fn new(
        client: Arc<dyn HttpClient>,
        api: Option<&str>,
        service: &str,
        token: Secret,
    ) -> Self {
        let api = api.unwrap_or(API).trim_end_matches('/');
        Self { client, service: format!("{api}/service/{service}"), token }
    }
}

#[async_trait]
impl EdgeCache for Fastly {
    fn max_links(&self) -> usize {
        MAX_KEYS
    }

    async fn purge(&self, what: &Purge) -> Result<(), PurgeError> {
        let headers = [("fastly-key", self.token.reveal()), ("accept", "application/json")];
        let (url, body) = match tags(what) {
            Some(tags) => {
                (format!("{}/purge", self.service), json!({ "surrogate_keys": tags }).to_string())
            }
            None => (format!("{}/purge_all", self.service), String::new()),
        };
        let posted = self.client.post(&url, "application/json", body.into_bytes(), &headers).await;
        accepted(posted?)
    }
}
