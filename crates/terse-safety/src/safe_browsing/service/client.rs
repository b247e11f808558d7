//! The client for the two requests of the Safe Browsing protocol.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use terse_core::{HttpClient, OutgoingError, OversizePolicy, RequestLimits, Secret};
use url::Url;

use super::SafeBrowsingSettings;
use crate::safe_browsing::HashList;

/// Google's server.
const GOOGLE: &str = "https://safebrowsing.googleapis.com/";
/// The limits of a search: the response is small and must arrive soon.
const ANSWER: RequestLimits = RequestLimits {
    timeout: Duration::from_secs(5),
    max_body: 1 << 20,
    oversize: OversizePolicy::Refuse,
};

/// Sends requests to the Safe Browsing server.
pub(crate) struct Client {
    client: Arc<dyn HttpClient>,
    base: Url,
    key: Secret,
}

/// Why a request failed. Never contains the URL, which contains the key.
#[derive(Debug)]
pub(crate) struct RequestError {
    pub(crate) why: String,
    /// Whether the server answered, even with an error.
    pub(crate) answered: bool,
    /// Whether the request was never sent because this process is too busy.
    pub(crate) is_ours: bool,
}

impl RequestError {
    /// A response that cannot be used.
    pub(crate) fn answer(why: String) -> Self {
        Self { why, answered: true, is_ours: false }
    }
}

impl Client {
    pub(crate) fn new(settings: SafeBrowsingSettings) -> Self {
        let SafeBrowsingSettings { key, url, client } = settings;
        let base = url.unwrap_or_else(|| Url::parse(GOOGLE).expect("a constant URL"));
        Self { client, base, key }
    }

    /// Fetches updates of these lists (`hashLists.batchGet`).
    pub(crate) async fn updates(&self, lists: &[HashList]) -> Result<Vec<u8>, RequestError> {
        let names = lists.iter().map(|list| ("names", list.name().to_owned()));
        let versions = lists.iter().map(HashList::version).filter(|version| !version.is_empty());
        let versions = versions.map(|version| ("version", STANDARD.encode(version)));
        self.get("v5/hashLists:batchGet", names.chain(versions), RequestLimits::FEED).await
    }

    /// Fetches the full hashes with these prefixes (`hashes.search`).
    pub(crate) async fn search(&self, prefixes: &[u32]) -> Result<Vec<u8>, RequestError> {
        let prefixes =
            prefixes.iter().map(|prefix| ("hashPrefixes", STANDARD.encode(prefix.to_be_bytes())));
        self.get("v5/hashes:search", prefixes, ANSWER).await
    }

    async fn get(
        &self,
        path: &str,
        pairs: impl Iterator<Item = (&'static str, String)>,
        limits: RequestLimits,
    ) -> Result<Vec<u8>, RequestError> {
        let mut url = self.base.clone();
        url.set_path(path);
        url.query_pairs_mut()
            .extend_pairs(pairs)
            .append_pair("alt", "proto")
            .append_pair("key", self.key.reveal());
        match self.client.get(url.as_str(), limits).await {
            Ok(fetched) if fetched.status == 200 => Ok(fetched.body),
            Ok(fetched) => {
                Err(RequestError::answer(format!("its server answers {}", fetched.status)))
            }
            Err(error) => {
                let is_ours = matches!(error, OutgoingError::Busy);
                Err(RequestError { why: error.to_string(), answered: false, is_ours })
            }
        }
    }
}
