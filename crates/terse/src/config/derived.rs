//! What follows from the settings: URLs, files and proxies.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use terse_core::limits::Limit;
use terse_core::{ListenAddress, Proxies};
use url::Url;

use super::{
    ClickHouseUrl, Config, ConfigError, ConfigSources, LimitsConfig, LoadedConfig, PostgresUrl,
    StoreUrl, is_loopback, layers, show,
};

impl LimitsConfig {
    /// No limits.
    pub fn off() -> Self {
        Self {
            create_per_ip: Limit::OFF,
            create_per_key: Limit::OFF,
            create_per_account: Limit::OFF,
            create_per_ip_with_key: Limit::OFF,
            redirect_per_ip: Limit::OFF,
            redirect_per_code: Limit::OFF,
            guesses_per_ip: Limit::OFF,
            password_attempts_per_ip: Limit::OFF,
            sign_in_per_ip: Limit::OFF,
            report_per_ip: Limit::OFF,
        }
    }
}

impl Config {
    /// Reads and checks all layers.
    pub fn load(sources: &ConfigSources) -> Result<LoadedConfig, ConfigError> {
        layers::load(sources)
    }

    /// The start of every short URL.
    pub fn base_url(&self) -> Url {
        self.base_url_at(&self.listen, self.tls.listen)
    }

    /// The start of every short URL if the server listens at these addresses: with port 0 only the
    /// listeners know the ports.
    pub fn base_url_at(&self, plain: &ListenAddress, tls: Option<SocketAddr>) -> Url {
        if let Some(base) = &self.base_url {
            return base.url().clone();
        }
        let (scheme, listen) = match tls {
            Some(tls) => ("https", tls),
            // A Unix socket has no port: with one, the settings name a `base_url`.
            None => ("http", plain.tcp().unwrap_or(ListenAddress::UNIX_PEER)),
        };
        // Clients cannot connect to the unspecified address.
        let host = match listen.ip() {
            ip if ip.is_unspecified() => "localhost".to_owned(),
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        Url::parse(&format!("{scheme}://{host}:{}/", listen.port()))
            .expect("an address and a port make a URL")
    }

    /// The embedded store's file. With another store there is none.
    pub fn store_file(&self) -> PathBuf {
        match &self.store {
            StoreUrl::File(path) => self.data_dir.join(path),
            _ => self.data_dir.join("terse.db"),
        }
    }

    /// The click store's file.
    pub fn clicks_file(&self) -> PathBuf {
        match &self.clicks.store {
            Some(StoreUrl::File(path)) => self.data_dir.join(path),
            _ => self.data_dir.join("clicks.db"),
        }
    }

    /// The PostgreSQL database of the registry: that of the links, if they are on PostgreSQL.
    pub fn registry_database(&self) -> Option<&PostgresUrl> {
        match (&self.store, &self.registry) {
            (StoreUrl::Postgres(url), _) | (_, Some(StoreUrl::Postgres(url))) => Some(url),
            _ => None,
        }
    }

    /// The PostgreSQL database that clicks are counted in.
    pub fn clicks_database(&self) -> Option<&PostgresUrl> {
        match &self.clicks.store {
            Some(StoreUrl::Postgres(url)) => Some(url),
            Some(_) => None,
            None => self.registry_database(),
        }
    }

    /// The ClickHouse database that clicks are counted in.
    pub fn clickhouse(&self) -> Option<&ClickHouseUrl> {
        match &self.clicks.store {
            Some(StoreUrl::ClickHouse(url)) => Some(url),
            _ => None,
        }
    }

    /// Whether the clicks are in a file of this node.
    pub fn has_clicks_file(&self) -> bool {
        self.clicks_database().is_none() && self.clickhouse().is_none()
    }

    /// Whether several nodes share the store.
    pub fn is_shared(&self) -> bool {
        matches!(self.store, StoreUrl::Postgres(_) | StoreUrl::Dynamo(_))
    }

    /// Whether there is a store already that a command can open.
    pub(crate) fn has_store(&self) -> bool {
        self.is_shared() || self.store_file().exists()
    }

    /// The registry's file. With another registry there is none.
    pub fn registry_file(&self) -> PathBuf {
        match &self.registry {
            Some(StoreUrl::File(path)) => self.data_dir.join(path),
            _ => self.data_dir.join("registry.db"),
        }
    }

    /// The OpenID Connect provider; checked when the settings were read.
    pub(crate) fn issuer(&self) -> Result<Option<Url>, String> {
        let Some(text) = &self.oidc.issuer else { return Ok(None) };
        let url = Url::parse(text)
            .map_err(|_| "an absolute URL such as https://id.example.com is expected")?;
        if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback(&url)) {
            return Err("https is needed, except for a provider on this machine".into());
        }
        if url.query().is_some()
            || url.fragment().is_some()
            || !url.username().is_empty()
            || url.password().is_some()
        {
            return Err("a query, a fragment or a password does not belong here".into());
        }
        Ok(Some(url))
    }

    /// The trusted proxies; checked when the settings were read.
    pub fn proxies(&self) -> Result<Proxies, String> {
        self.trusted_proxies
            .iter()
            .map(|range| range.parse())
            .collect::<Result<_, _>>()
            .map(Proxies::new)
    }

    /// Every setting as a table for the manual.
    pub fn markdown() -> String {
        show::markdown()
    }
}
