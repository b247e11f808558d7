//! CloudFront: invalidations of paths. It has no tags that every distribution may use, so a purge
//! of an owner's links is one of everything.

use std::sync::Arc;

use async_trait::async_trait;
use terse_core::{Clock, EdgeCache, HttpClient, LinkKey, Purge, PurgeError, Secret};

use super::accepted;
use super::signature::{SignedRequest, sign};

/// The API.
pub(super) const API: &str = "https://cloudfront.amazonaws.com";
/// The region of CloudFront's API, which is global.
const REGION: &str = "us-east-1";
/// A link has two paths: without a query, and with any. A distribution may have 3,000 paths under
/// way.
const MAX_LINKS: usize = 500;

/// A distribution of CloudFront.
pub struct CloudFront {
    client: Arc<dyn HttpClient>,
    clock: Clock,
    url: String,
    key_id: String,
    secret: Secret,
}

impl CloudFront {
    /// `api` replaces the address of CloudFront's API. The key needs the permission
    /// `cloudfront:CreateInvalidation`.
    pub fn new(
        client: Arc<dyn HttpClient>,
        clock: Clock,
        api: Option<&str>,
        distribution: &str,
        (key_id, secret): (&str, Secret),
    ) -> Self {
        let api = api.unwrap_or(API).trim_end_matches('/');
        let url = format!("{api}/2020-05-31/distribution/{distribution}/invalidation");
        Self { client, clock, url, key_id: key_id.to_owned(), secret }
    }

    /// The body of an invalidation. Its reference is the time in milliseconds and the paths: the
    /// same order twice within a millisecond is one.
    fn body(paths: &[String], now_ms: i64) -> String {
        let items: String = paths.iter().map(|path| format!("<Path>{path}</Path>")).collect();
        let digest = digest_of(&items);
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
             <InvalidationBatch xmlns=\"http://cloudfront.amazonaws.com/doc/2020-05-31/\">\
             <Paths><Quantity>{}</Quantity><Items>{items}</Items></Paths>\
             <CallerReference>terse-{now_ms}-{digest:016x}</CallerReference>\
             </InvalidationBatch>",
            paths.len()
        )
    }
}

/// A short name of the paths.
fn digest_of(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Codes consist of letters, digits, hyphens and underscores, so paths need no escaping.
fn paths(what: &Purge) -> Vec<String> {
    let of = |key: &LinkKey| [format!("/{}", key.code), format!("/{}?*", key.code)];
    match what {
        Purge::Links(links) => {
            let mut paths: Vec<String> = links.iter().flat_map(of).collect();
            // One code may exist on several domains.
            paths.sort_unstable();
            paths.dedup();
            paths
        }
        Purge::Owners(_) | Purge::Everything => vec!["/*".to_owned()],
    }
}

#[async_trait]
impl EdgeCache for CloudFront {
    fn max_links(&self) -> usize {
        MAX_LINKS
    }

    async fn purge(&self, what: &Purge) -> Result<(), PurgeError> {
        let now = self.clock.now();
        let body = Self::body(&paths(what), now.as_ms());
        let signed = sign(&SignedRequest {
            url: &self.url,
            region: REGION,
            service: "cloudfront",
            body: body.as_bytes(),
            key_id: &self.key_id,
            secret: self.secret.reveal(),
            now,
        });
        let headers = [
            ("authorization", signed.authorization.as_str()),
            ("x-amz-date", &signed.date),
            ("x-amz-content-sha256", &signed.body_hash),
        ];
        let posted = self.client.post(&self.url, "text/xml", body.into_bytes(), &headers).await;
        accepted(posted?)
    }
}
