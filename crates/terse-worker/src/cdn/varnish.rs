//! Varnish with the module xkey, configured as `deploy/varnish.vcl`.

use std::sync::Arc;

use async_trait::async_trait;
use terse_core::{EdgeCache, HttpClient, Purge, PurgeError, Secret};

use super::{accepted, tags};

/// Where the VCL accepts purges.
const PATH: &str = "/.terse/purge";
/// A tag has 17 characters and a field of Varnish at most 8 KiB by default.
const MAX_LINKS: usize = 256;

/// All Varnish servers in front of the nodes. Each has a cache of its own, so a purge succeeds when
/// all of them have accepted it.
pub struct Varnish {
    client: Arc<dyn HttpClient>,
    servers: Vec<String>,
    token: Option<Secret>,
}

impl Varnish {
    /// Servers are URLs without a path. The VCL compares the token, if there is one.
    pub fn new(
        client: Arc<dyn HttpClient>,
        servers: impl IntoIterator<Item = String>,
        token: Option<Secret>,
    ) -> Self {
        let purge = |server: String| format!("{}{PATH}", server.trim_end_matches('/'));
        Self { client, servers: servers.into_iter().map(purge).collect(), token }
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
        let mut failed = Ok(());
        for server in &self.servers {
            let posted = self.client.post(server, "text/plain", Vec::new(), &headers).await;
            // The others forget the link even if one of them is away.
            if let Err(error) = posted.map_err(PurgeError::from).and_then(accepted) {
                failed = Err(error);
            }
        }
        failed
    }
}
