//! A content delivery network in front of the nodes: removes changed links from its edges.

mod cloudflare;
mod cloudfront;
mod fastly;
mod job;
#[cfg(test)]
mod job_tests;
mod signature;
mod varnish;

pub use cloudflare::Cloudflare;
pub use cloudfront::CloudFront;
pub use fastly::Fastly;
pub use job::{CdnCounts, CdnPurge, CdnPurgeParts};
pub use varnish::Varnish;

use terse_core::{LinkKey, PostResponse, Purge, PurgeError, link_tag};

/// The tags that a purge names; `None` for everything.
fn tags(what: &Purge) -> Option<Vec<String>> {
    let mut tags: Vec<String> = match what {
        Purge::Links(links) => links.iter().map(|key: &LinkKey| link_tag(key)).collect(),
        Purge::Owners(tags) => tags.clone(),
        Purge::Everything => return None,
    };
    // Several owners may have one tag.
    tags.sort_unstable();
    tags.dedup();
    Some(tags)
}

fn accepted(response: PostResponse) -> Result<(), PurgeError> {
    match response {
        accepted if accepted.is_success() => Ok(()),
        PostResponse { status, retry_after } => Err(PurgeError::Refused { status, retry_after }),
    }
}
