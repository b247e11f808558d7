//! The CDN that is purged.

use std::sync::Arc;
use std::time::Duration;

use terse_core::{Clock, EdgeCache, HttpClient, Secret};
use terse_outgoing::{OutgoingClient, OutgoingSettings};
use terse_worker::{CloudFront, Cloudflare, Fastly, Varnish};

use crate::config::{CdnConfig, CdnProvider, Config};

/// The name of the job that purges a CDN.
const JOB: &str = "cdn purge";
/// How long a CDN may take to accept a purge.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The caches of the settings, each with the name of the job that purges it.
pub(crate) fn edge_caches(
    config: &Config,
    clock: &Clock,
) -> Vec<(&'static str, Arc<dyn EdgeCache>)> {
    let CdnConfig { enabled, purge, url, service, key_id, token, .. } = &config.cdn;
    if !enabled {
        return Vec::new();
    }
    let mut settings = OutgoingSettings::new(env!("CARGO_PKG_VERSION"), config.base_url().as_str());
    // The operator names these servers; those of `varnish` are usually in a private network.
    (settings.allow_private, settings.post_timeout) = (!url.is_empty(), TIMEOUT);
    let client: Arc<dyn HttpClient> = Arc::new(OutgoingClient::new(settings));
    let api = url.first().map(String::as_str);
    // Checked when the settings were read.
    let service = service.as_deref().unwrap_or_default();
    let secret = || token.clone().unwrap_or_else(|| Secret::new(""));
    let one: Arc<dyn EdgeCache> = match purge {
        CdnProvider::Nothing => return Vec::new(),
        CdnProvider::Varnish => {
            let server = |url: &String| -> (&'static str, Arc<dyn EdgeCache>) {
                let cache = Varnish::new(Arc::clone(&client), url, token.clone());
                (job_name(url), Arc::new(cache))
            };
            return url.iter().map(server).collect();
        }
        CdnProvider::Fastly => Arc::new(Fastly::new(client, api, service, secret())),
        CdnProvider::Cloudflare => Arc::new(Cloudflare::new(client, api, service, &secret())),
        CdnProvider::CloudFront => {
            let key = (key_id.as_deref().unwrap_or_default(), secret());
            Arc::new(CloudFront::new(client, clock.clone(), api, service, key))
        }
    };
    vec![(JOB, one)]
}

/// The name of the job that purges one of several servers. Names of jobs live as long as the
/// process, and each server has one.
fn job_name(server: &str) -> &'static str {
    let host = server.split_once("://").map_or(server, |(_, rest)| rest).trim_end_matches('/');
    // A URL may contain a password.
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    Box::leak(format!("{JOB} {host}").into_boxed_str())
}
