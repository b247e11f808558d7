//! Cloudflare: purges by cache tag.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use terse_core::{EdgeCache, HttpClient, Purge, PurgeError, Secret};

use super::{accepted, tags};

/// The API.
pub(super) const API: &str = "https://api.cloudflare.com/client/v4";
/// The most tags that one request may name on every plan.
const MAX_TAGS: usize = 30;

/// A zone of Cloudflare.
pub struct Cloudflare {
    client: Arc<dyn HttpClient>,
    url: String,
    authorization: Secret,
}

impl Cloudflare {
    /// `api` replaces the address of Cloudflare's API. The token needs the permission to purge.
    pub fn new(client: Arc<dyn HttpClient>, api: Option<&str>, zone: &str, token: &Secret) -> Self {
        let api = api.unwrap_or(API).trim_end_matches('/');
        let authorization = Secret::new(&format!("Bearer {}", token.reveal()));
        Self { client, url: format!("{api}/zones/{zone}/purge_cache"), authorization }
    }
}

#[async_trait]
impl EdgeCache for Cloudflare {
    fn max_links(&self) -> usize {
        MAX_TAGS
    }

    async fn purge(&self, what: &Purge) -> Result<(), PurgeError> {
        let bodies = match tags(what) {
            Some(tags) => tags.chunks(MAX_TAGS).map(|tags| json!({ "tags": tags })).collect(),
            None => vec![json!({ "purge_everything": true })],
        };
        let headers = [("authorization", self.authorization.reveal())];
        for body in bodies {
            let body = body.to_string().into_bytes();
            let posted = self.client.post(&self.url, "application/json", body, &headers).await;
            accepted(posted?)?;
        }
        Ok(())
    }
}
