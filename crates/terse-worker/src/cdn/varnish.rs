//! Varnish with the module xkey, configured as `deploy/varnish.vcl`.

use std::sync::Arc;

use async_trait::async_trait;
use terse_core::{EdgeCache, HttpClient, Purge, PurgeError, Secret};

use super::{accepted, tags};

/// Where the VCL accepts purges.
const PATH: &str = "/.terse/purge";
/// A tag has 17 characters and a field of Varnish at most 8 KiB by default.
const MAX_LINKS: usize = 256;

/// A Varnish server in front of the nodes. Each has a cache of its own and is purged by a job of
/// its own, so that one that is away does not hold up the others.
pub struct Varnish {
    client: Arc<dyn HttpClient>,
    server: String,
    token: Option<Secret>,
}

impl Varnish {
    /// The server is a URL without a path. The VCL compares the token, if there is one.
    pub fn new(client: Arc<dyn HttpClient>, server: &str, token: Option<Secret>) -> Self {
        Self { client, server: format!("{}{PATH}", server.trim_end_matches('/')), token }
    }
}

#[async_trait]
impl EdgeCache for Varnish {
    fn max_links(&self) -> usize {
        MAX_LINKS
    }

    async fn purge(&self, what: &Purge) -> Result<(), PurgeError> {
        let tags = tags(what).map_or_else(|| "all".to_owned(), |tags| tags.join(" "));
        let mut headers = vec![("terse-purge", tags.as_str())];
        if let Some(token) = &self.token {
            headers.push(("terse-purge-token", token.reveal()));
        }
        accepted(self.client.post(&self.server, "text/plain", Vec::new(), &headers).await?)
    }
}
