//! The signature of requests to AWS: Signature Version 4, for a POST without a query.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use terse_core::Timestamp;

/// What is signed.
pub(super) struct SignedRequest<'a> {
    pub(super) url: &'a str,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) body: &'a [u8],
    pub(super) key_id: &'a str,
    pub(super) secret: &'a str,
    pub(super) now: Timestamp,
}

/// The fields that the request carries.
pub(super) struct Signature {
    pub(super) authorization: String,
    pub(super) date: String,
    pub(super) body_hash: String,
}

pub(super) fn sign(request: &SignedRequest<'_>) -> Signature {
    let SignedRequest { url, region, service, body, key_id, secret, now } = request;
    let (host, path) = host_and_path(url);
    let date = basic_date(*now);
    let day = &date[..8];
    let body_hash = hex(&Sha256::digest(body));
    let fields = "host;x-amz-content-sha256;x-amz-date";
    let canonical = format!(
        "POST\n{path}\n\nhost:{host}\nx-amz-content-sha256:{body_hash}\nx-amz-date:{date}\n\n\
         {fields}\n{body_hash}"
    );
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let text = format!(
        "AWS4-HMAC-SHA256\n{date}\n{scope}\n{}",
        hex(&Sha256::digest(canonical.as_bytes()))
    );
    let mut key = mac(format!("AWS4{secret}").as_bytes(), day);
    for part in [region, service, "aws4_request"] {
        key = mac(&key, part);
    }
    let signature = hex(&mac(&key, &text));
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={key_id}/{scope}, SignedHeaders={fields}, \
         Signature={signature}"
    );
    Signature { authorization, date, body_hash }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length is valid");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The `Host` field and the path of a URL.
fn host_and_path(url: &str) -> (&str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or((rest, "/"), |at| rest.split_at(at))
}

/// `20150830T123600Z`.
fn basic_date(now: Timestamp) -> String {
    let text = now.to_string();
    let seconds = text.split(['.', 'Z']).next().unwrap_or_default();
    format!("{}Z", seconds.replace(['-', ':'], ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys and the time of the examples in AWS's documentation; the signature was computed
    /// with an implementation of our own in Python's `hmac` and `hashlib`.
    #[test]
    fn a_request_is_signed_as_aws_expects() {
        let signed = sign(&SignedRequest {
            url: "https://cloudfront.amazonaws.com/2020-05-31/distribution/EDFDVBD6EXAMPLE/invalidation",
            region: "us-east-1",
            service: "cloudfront",
            body: b"<InvalidationBatch/>",
            key_id: "AKIDEXAMPLE",
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            now: Timestamp::from_ms(1_440_938_160_123),
        });
        assert_eq!(signed.date, "20150830T123600Z");
        assert_eq!(
            signed.authorization,
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/cloudfront/aws4_request, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=953f8bd89cf792d3107124076699b15cf5b2e1836d4a80245af32a7338fb4ee3"
        );
    }
}
