//! Reads the head of a response.

use std::time::Duration;

use terse_core::{GetResponse, PostResponse, Validators};
use ureq::http::{HeaderMap, HeaderName, StatusCode, header};

/// Longer header values are ignored.
const MAX_VALUE_LEN: usize = 1024;
/// The longest `Retry-After` that is honoured, in seconds.
const MAX_RETRY_AFTER: u64 = 86_400;

/// The response to a GET, without its body.
pub(crate) fn get_response(url: &str, status: StatusCode, headers: &HeaderMap) -> GetResponse {
    GetResponse {
        url: url.to_owned(),
        status: status.as_u16(),
        content_type: text(headers, &header::CONTENT_TYPE),
        validators: Validators {
            etag: text(headers, &header::ETAG),
            last_modified: text(headers, &header::LAST_MODIFIED),
        },
        body: Vec::new(),
        truncated: false,
    }
}

/// The response to a POST.
pub(crate) fn post_response(status: StatusCode, headers: &HeaderMap) -> PostResponse {
    let retry_after = text(headers, &header::RETRY_AFTER)
        .and_then(|seconds| seconds.parse::<u64>().ok())
        .map(|seconds| Duration::from_secs(seconds.min(MAX_RETRY_AFTER)));
    PostResponse { status: status.as_u16(), retry_after }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (1..=MAX_VALUE_LEN).contains(&value.len()).then(|| value.to_owned())
}
