//! The CDN that is purged.

use std::sync::Arc;
use std::time::Duration;

use terse_core::{Clock, EdgeCache, HttpClient, Secret};
use terse_outgoing::{OutgoingClient, OutgoingSettings};
use terse_worker::{CloudFront, Cloudflare, Fastly, Varnish};

use crate::config::{CdnConfig, CdnProvider, Config};

/// How long a CDN may take to accept a purge.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The CDN of the settings, if there is one.
pub(crate) fn edge_cache(config: &Config, clock: &Clock) -> Option<Arc<dyn EdgeCache>> {
    let CdnConfig { enabled, purge, url, service, key_id, token, .. } = &config.cdn;
    if !enabled {
        return None;
    }
    let mut settings = OutgoingSettings::new(env!("CARGO_PKG_VERSION"), config.base_url().as_str());
    // The operator names these servers; those of `varnish` are usually in a private network.
    (settings.allow_private, settings.post_timeout) = (!url.is_empty(), TIMEOUT);
    let client: Arc<dyn HttpClient> = Arc::new(OutgoingClient::new(settings));
    let api = url.first().map(String::as_str);
    // Checked when the settings were read.
    let service = service.as_deref().unwrap_or_default();
    let secret = || token.clone().unwrap_or_else(|| Secret::new(""));
    Some(match purge {
        CdnProvider::Nothing => return None,
        CdnProvider::Varnish => Arc::new(Varnish::new(client, url.clone(), token.clone())),
        CdnProvider::Fastly => Arc::new(Fastly::new(client, api, service, secret())),
        CdnProvider::Cloudflare => Arc::new(Cloudflare::new(client, api, service, &secret())),
        CdnProvider::CloudFront => {
            let key = (key_id.as_deref().unwrap_or_default(), secret());
            Arc::new(CloudFront::new(client, clock.clone(), api, service, key))
        }
    })
}
