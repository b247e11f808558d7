//! Caches of a content delivery network (CDN) in front of the nodes: how answers are tagged there,
//! and how they are purged.

use async_trait::async_trait;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::http_client::OutgoingError;
use crate::identity::StoreIdentity;
use crate::link::{LinkKey, OwnerId};

/// The tag of all answers for a link.
pub fn link_tag(key: &LinkKey) -> String {
    code_tag(key.domain.as_str(), key.code.as_str())
}

/// The same, for a code that may have no link.
pub fn code_tag(domain: &str, code: &str) -> String {
    format!("l{:016x}", xxh3_64_with_seed(code.as_bytes(), xxh3_64(domain.as_bytes())))
}

/// Assigns owners to groups. By a secret of the store: ids of owners are small numbers, so a
/// visitor could otherwise compute the tag of every owner.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct OwnerTags([u8; 32]);

impl OwnerTags {
    /// Those of a store. All its nodes have the same.
    pub fn of(store: &StoreIdentity) -> Self {
        Self(store.derive("terse edge owner tags v1"))
    }

    /// The tag of all answers for the links of an owner, and of some other owners.
    pub fn tag(&self, owner: OwnerId) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(&owner.0.to_le_bytes());
        format!("o{:02x}", mac.finalize().into_bytes()[0])
    }
}

impl std::fmt::Debug for OwnerTags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnerTags")
    }
}

/// What is to be removed from edge caches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Purge {
    /// The answers for these links.
    Links(Vec<LinkKey>),
    /// The answers with these tags of owners.
    Owners(Vec<String>),
    /// All answers.
    Everything,
}

/// Why a purge failed. It may be repeated.
#[derive(Debug, thiserror::Error)]
pub enum PurgeError {
    /// No answer.
    #[error("the CDN cannot be asked to purge")]
    NoAnswer(#[from] OutgoingError),
    /// It refuses.
    #[error("the CDN answered a purge with status {status}")]
    Refused {
        /// The status.
        status: u16,
        /// When it may be asked again.
        retry_after: Option<std::time::Duration>,
    },
}

/// A CDN that can be told to forget answers. Purging twice is harmless.
#[async_trait]
pub trait EdgeCache: Send + Sync + 'static {
    /// The most links that one purge may name.
    fn max_links(&self) -> usize;

    /// Removes answers. When this returns, the CDN has accepted the order; its edges forget within
    /// the time that the CDN promises.
    async fn purge(&self, what: &Purge) -> Result<(), PurgeError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::codes::Alphabet;
    use crate::domain::Domain;
    use crate::identity::CodeHash;

    #[test]
    fn tags_differ_by_domain_and_case_and_are_header_values() {
        let key = |domain: &str, code: &str| LinkKey {
            domain: Domain::parse(domain).unwrap(),
            code: Code::parse(code).unwrap(),
        };
        let tags = [
            link_tag(&key("a.example", "News")),
            link_tag(&key("a.example", "news")),
            link_tag(&key("b.example", "news")),
        ];
        assert_ne!(tags[0], tags[1]);
        assert_ne!(tags[1], tags[2]);
        for tag in tags {
            assert!(tag.len() == 17 && tag.bytes().all(|b| b.is_ascii_alphanumeric()), "{tag}");
        }
        // Stored at edges while nodes are upgraded: the tags of one version are those of the next.
        assert_eq!(code_tag("", "abc"), "l7ae2616614f6bbca");
    }

    #[test]
    fn the_tag_of_an_owner_depends_on_the_secret_of_the_store() {
        let tags = |secret: u8| {
            let tags = OwnerTags::of(&StoreIdentity::from_stored(
                [secret; 32],
                Alphabet::default(),
                CodeHash::Hmac,
            ));
            (0..64).map(|owner| tags.tag(OwnerId(owner))).collect::<Vec<_>>()
        };
        assert_eq!(tags(1), tags(1));
        let same = tags(1).iter().zip(tags(2)).filter(|(a, b)| *a == b).count();
        assert!(same < 8, "{same} of 64 owners have the tag that another store gives them");
        assert!(tags(1).iter().all(|tag| tag.len() == 3 && tag.starts_with('o')));
    }
}
