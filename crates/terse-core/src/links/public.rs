//! What visitors learn of a link without following it: its preview, QR code, password and report.

use std::net::IpAddr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{LinkError, Links};
use crate::limits::{LimitReached, RateLimits};
use crate::link::{Link, LinkKey, LinkStatus};
use crate::password::{PasswordError, PasswordHash, PasswordHasher};

/// The service. Every request for a link that its caller cannot see counts as a guess by its
/// address, so that no page and no call helps to find codes.
pub struct PublicLinks {
    links: Arc<Links>,
    limits: RateLimits,
}

impl PublicLinks {
    /// Wires the service.
    pub fn new(links: Arc<Links>, limits: RateLimits) -> Self {
        Self { links, limits }
    }

    /// A link as visitors get it. Deleted and scheduled links are `NotFound`.
    pub async fn find(&self, key: &LinkKey, address: IpAddr) -> Result<Link, LinkError> {
        let hidden = [LinkStatus::Deleted, LinkStatus::Scheduled];
        self.found(key, address, |link| self.has_none_of(link, &hidden)).await
    }

    /// A link that may have a QR code. Deleted and blocked links are `NotFound`, and so is a name
    /// that no link can have.
    pub async fn find_for_qr(
        &self,
        key: Option<&LinkKey>,
        address: IpAddr,
    ) -> Result<Link, LinkError> {
        let Some(key) = key else { return Err(self.guessed(address).await) };
        let hidden = [LinkStatus::Deleted, LinkStatus::Blocked];
        self.found(key, address, |link| self.has_none_of(link, &hidden)).await
    }

    /// A link with a password, in any status, and the password's hash. Other links are `NotFound`,
    /// and so is a name that no link can have.
    pub async fn find_protected(
        &self,
        key: Option<&LinkKey>,
        address: IpAddr,
    ) -> Result<(Link, PasswordHash), LinkError> {
        let Some(key) = key else { return Err(self.guessed(address).await) };
        let link = self.found(key, address, |link| link.password.is_some()).await?;
        match link.password.clone() {
            Some(password) => Ok((link, password)),
            None => Err(LinkError::NotFound),
        }
    }

    /// Whether the text that `typed` reads is the password of a link. The attempt is counted
    /// before it is read. Only wrong ones stay counted: many visitors may share the right one.
    pub async fn try_password<E: From<LimitReached> + From<PasswordError>>(
        &self,
        passwords: &dyn PasswordHasher,
        (key, password): (&LinkKey, &PasswordHash),
        address: IpAddr,
        typed: impl Future<Output = Result<String, E>>,
    ) -> Result<bool, E> {
        let link = number_of(key);
        self.limits.try_password(address, link).await?;
        let is_right = passwords.verify(typed.await?, Some(password.as_str().to_owned())).await?;
        if is_right {
            self.limits.refund_password(address, link).await;
        }
        Ok(is_right)
    }

    async fn found(
        &self,
        key: &LinkKey,
        address: IpAddr,
        is_visible: impl Fn(&Link) -> bool,
    ) -> Result<Link, LinkError> {
        match self.links.preview(key).await?.filter(is_visible) {
            Some(link) => Ok(link),
            None => Err(self.guessed(address).await),
        }
    }

    fn has_none_of(&self, link: &Link, hidden: &[LinkStatus]) -> bool {
        !hidden.contains(&link.status(self.links.now()))
    }

    /// `NotFound`, or `Limited` after too many.
    async fn guessed(&self, address: IpAddr) -> LinkError {
        match self.limits.count_unknown_code(Some(address)).await {
            Ok(()) => LinkError::NotFound,
            Err(reached) => reached.into(),
        }
    }
}

/// A hash of a link's domain and code, as a key for limits.
fn number_of(key: &LinkKey) -> u64 {
    let digest = Sha256::new()
        .chain_update(key.domain.as_str())
        .chain_update("\0")
        .chain_update(key.code.as_str())
        .finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(first)
}
