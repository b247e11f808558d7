//! The client for the two requests of the Safe Browsing protocol.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use terse_outgoing::{Limits, Outgoing, OutgoingError, OutgoingSettings, Oversize};
use terse_safety::safe_browsing::HashList;
use url::{Host, Url};

use crate::config::{Config, Secret};

/// Google's server.
const GOOGLE: &str = "https://safebrowsing.googleapis.com/";
/// The limits of a search: the response is small and must arrive soon.
const ANSWER: Limits =
    Limits { timeout: Duration::from_secs(5), max_body: 1 << 20, oversize: Oversize::Refuse };

/// Sends requests to the Safe Browsing server.
pub(crate) struct Client {
    outgoing: Outgoing,
    base: Url,
    key: Secret,
}

/// Why a request failed. Never contains the URL, which contains the key.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) why: String,
    /// Whether the server answered, even with an error.
    pub(crate) answered: bool,
    /// Whether the request was never sent because this process is too busy.
    pub(crate) is_ours: bool,
}

impl Trouble {
    /// A response that cannot be used.
    pub(crate) fn answer(why: String) -> Self {
        Self { why, answered: true, is_ours: false }
    }
}

impl Client {
    /// `None` without a key.
    pub(crate) fn new(config: &Config) -> Option<Self> {
        let key = config.safety.safe_browsing_key.clone()?;
        let base = config.safety.safe_browsing_url.as_ref().map(|url| url.url().clone());
        let base = base.or_else(|| Url::parse(GOOGLE).ok())?;
        let mut settings =
            OutgoingSettings::new(env!("CARGO_PKG_VERSION"), config.base_url().as_str());
        // An operator who configures a loopback address intends it.
        settings.allow_private = config.safety.allow_private_targets || is_loopback(&base);
        Some(Self { outgoing: Outgoing::new(settings), base, key })
    }

    /// Fetches updates of these lists (`hashLists.batchGet`).
    pub(crate) async fn updates(&self, lists: &[HashList]) -> Result<Vec<u8>, Trouble> {
        let names = lists.iter().map(|list| ("names", list.name().to_owned()));
        let versions = lists.iter().map(HashList::version).filter(|version| !version.is_empty());
        let versions = versions.map(|version| ("version", STANDARD.encode(version)));
        self.get("v5/hashLists:batchGet", names.chain(versions), Limits::FEED).await
    }

    /// Fetches the full hashes with these prefixes (`hashes.search`).
    pub(crate) async fn search(&self, prefixes: &[u32]) -> Result<Vec<u8>, Trouble> {
        let prefixes =
            prefixes.iter().map(|prefix| ("hashPrefixes", STANDARD.encode(prefix.to_be_bytes())));
        self.get("v5/hashes:search", prefixes, ANSWER).await
    }

    async fn get(
        &self,
        path: &str,
        pairs: impl Iterator<Item = (&'static str, String)>,
        limits: Limits,
    ) -> Result<Vec<u8>, Trouble> {
        let mut url = self.base.clone();
        url.set_path(path);
        url.query_pairs_mut()
            .extend_pairs(pairs)
            .append_pair("alt", "proto")
            .append_pair("key", self.key.reveal());
        match self.outgoing.get(url.as_str(), limits).await {
            Ok(fetched) if fetched.status == 200 => Ok(fetched.body),
            Ok(fetched) => Err(Trouble::answer(format!("its server answers {}", fetched.status))),
            Err(error) => {
                let is_ours = matches!(error, OutgoingError::Busy);
                Err(Trouble { why: error.to_string(), answered: false, is_ours })
            }
        }
    }
}

/// Whether the URL's host is a loopback address.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
