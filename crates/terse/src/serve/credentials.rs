//! Keys, accounts and passwords, from the settings and the store.

use std::sync::Arc;

use anyhow::Context as _;
use terse_core::Hosts;
use terse_core::accounts::TwoFactorKey;
use terse_core::registry::SecretHash;
use terse_server::{AccountSettings, AdminKeys, OidcProvider, OidcSettings, Passwords};

use crate::backends::Stores;
use crate::config::{self, Config};
use crate::outgoing::ProviderHttp;

/// Signs the access cookies of links with a password; the same on every node.
pub(super) fn pass_key(store: &Stores) -> [u8; 32] {
    store.links.identity().derive("terse link passes v1")
}

/// Derives the secrets of two-factor sign-in; the same on every node.
pub(super) fn two_factor_key(store: &Stores) -> TwoFactorKey {
    TwoFactorKey::new(store.links.identity().derive("terse two-factor v1"))
}

/// The keys with all permissions, the admin key if this start generated it, and a key for local
/// commands that is valid while the process runs.
pub(super) async fn keys(
    config: &Config,
    store: &Stores,
) -> anyhow::Result<(AdminKeys, Option<String>, String)> {
    let (local, local_hash) = AdminKeys::generate().context("making a key")?;
    let mut keys = AdminKeys::new(vec![local_hash]);
    let mut fresh = None;
    match store.registry.admin_key().await.context("reading the admin key")? {
        Some(SecretHash(hash)) => keys.add(hash),
        None if config.admin_key.is_none() => {
            let (key, hash) = AdminKeys::generate().context("making the admin key")?;
            let kept = store.registry.create_admin_key(SecretHash(hash)).await;
            let SecretHash(kept) = kept.context("storing the admin key")?;
            keys.add(kept);
            // Another node may have been first; then its key is the one that was shown.
            fresh = (kept == hash).then_some(key);
        }
        None => {}
    }
    if let Some(given) = &config.admin_key {
        keys.add(AdminKeys::hash(given.reveal()));
    }
    Ok((keys, fresh, local))
}

/// Who may create an account, how long sessions last, and the OpenID Connect provider.
pub(super) fn accounts(
    config: &Config,
    hosts: &Hosts,
    store: &Stores,
) -> anyhow::Result<AccountSettings> {
    let issuer = config.issuer().map_err(anyhow::Error::msg).context("oidc.issuer")?;
    let oidc = config.oidc.issuer.clone().zip(issuer).zip(config.oidc.client_id.clone()).map(
        |((issuer, url), client_id)| {
            let settings = OidcSettings {
                issuer,
                client_id,
                client_secret: config
                    .oidc
                    .client_secret
                    .as_ref()
                    .map(|secret| secret.reveal().to_owned()),
                name: config
                    .oidc
                    .name
                    .clone()
                    .unwrap_or_else(|| url.host_str().unwrap_or_default().to_owned()),
                sign_up: config.oidc.sign_up,
                redirect_url: format!("{}/auth/oidc/callback", hosts.api_base()),
                key: store.links.identity().derive("terse sign-in elsewhere v1"),
            };
            Arc::new(OidcProvider::new(settings, Arc::new(ProviderHttp::new(config))))
        },
    );
    let open = config.accounts.sign_up == config::SignUpMode::Open;
    Ok(AccountSettings { open, session_ttl: config.accounts.session_ttl.get(), oidc })
}

/// The link that creates the first admin, while there has never been one. Every start makes a new
/// one: only its hash is stored.
pub(super) async fn setup_link(store: &Stores, base: &str) -> anyhow::Result<Option<String>> {
    let (token, hash) = AdminKeys::generate().context("making the set-up link")?;
    let offered =
        store.registry.offer_setup(SecretHash(hash)).await.context("storing the set-up link")?;
    Ok(offered.then(|| format!("{base}/setup?token={token}")))
}

/// One hash at a time per core: each hash keeps a core busy.
pub(super) fn passwords() -> Passwords {
    Passwords::new(std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}
