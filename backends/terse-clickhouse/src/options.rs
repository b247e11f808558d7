//! How to reach a ClickHouse database.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use terse_core::{BoxError, Secret};
use url::{Host, Url};

const HTTP_PORT: u16 = 8123;
const HTTPS_PORT: u16 = 8443;

/// `clickhouse://user:password@host:port/database?…`, read.
#[derive(Clone)]
pub struct ClickHouseAddress {
    /// Scheme, host and port.
    pub(crate) endpoint: String,
    pub(crate) user: String,
    pub(crate) password: Secret,
    pub(crate) database: String,
    /// Where `ON CLUSTER` statements go; the tables are replicated then.
    pub(crate) cluster: Option<String>,
    /// A file with the certificates that sign the server's.
    pub(crate) roots: Option<PathBuf>,
    /// Whether the server syncs every insert to the disk before it answers.
    pub(crate) fsync: bool,
}

impl ClickHouseAddress {
    /// Reads a URL. TLS is used unless the server is on this machine or the URL says otherwise.
    pub fn parse(text: &str) -> Result<Self, ClickHouseOpenError> {
        let wrong = |why: &str| ClickHouseOpenError::Url(why.to_owned());
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if url.scheme() != "clickhouse" {
            return Err(wrong("it must begin with clickhouse://"));
        }
        let host = url.host().filter(|host| *host != Host::Domain(""));
        let host = host.ok_or_else(|| wrong("it has no host"))?.to_owned();
        let is_local = match &host {
            // Where the scheme is not the web's, addresses are domains, too.
            Host::Domain(name) => {
                name == "localhost"
                    || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        };
        let (mut secure, mut fsync, mut cluster, mut roots) = (!is_local, true, None, None);
        for (name, value) in url.query_pairs() {
            let flag = || match &*value {
                "true" | "1" => Ok(true),
                "false" | "0" => Ok(false),
                _ => Err(wrong(&format!("{name} must be true or false"))),
            };
            match &*name {
                "secure" => secure = flag()?,
                "fsync" => fsync = flag()?,
                "cluster" if is_name(&value) => cluster = Some(value.into_owned()),
                "cluster" => return Err(wrong("cluster must be letters, digits and _")),
                "sslrootcert" => roots = Some(PathBuf::from(&*value)),
                other => {
                    return Err(wrong(&format!(
                        "{other} is unknown; allowed: secure, fsync, cluster, sslrootcert"
                    )));
                }
            }
        }
        let database = url.path().trim_start_matches('/');
        let database = if database.is_empty() { "default" } else { database };
        if !is_name(database) {
            return Err(wrong("the database must be letters, digits and _"));
        }
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let (scheme, port) = if secure { ("https", HTTPS_PORT) } else { ("http", HTTP_PORT) };
        Ok(Self {
            endpoint: format!("{scheme}://{host}:{}", url.port().unwrap_or(port)),
            user: match url.username() {
                "" => "default".to_owned(),
                user => decoded(user),
            },
            password: Secret::new(&decoded(url.password().unwrap_or_default())),
            database: database.to_owned(),
            cluster,
            roots,
            fsync,
        })
    }
}

/// Letters, digits and underscores: safe in a statement without quotes.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !text.starts_with(|first: char| first.is_ascii_digit())
}

/// Without the password.
impl fmt::Display for ClickHouseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, place) = self.endpoint.split_once("://").unwrap_or_default();
        write!(f, "clickhouse://{}@{place}/{}", self.user, self.database)
    }
}

impl fmt::Debug for ClickHouseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How to reach a database, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct ClickHouseOptions {
    /// The database.
    pub url: ClickHouseAddress,
    /// Whether single clicks are kept, beside sums.
    pub keep_raw: bool,
    /// How long a connection attempt may take.
    pub connect_timeout: Duration,
    /// How long a statement may take.
    pub timeout: Duration,
    /// The shortest time between two inserts of this process: each makes a part, and the server
    /// must merge parts as fast as they come.
    pub insert_interval: Duration,
    /// For how long reports may go on reading rows that a merge has replaced.
    pub settled: Duration,
}

impl ClickHouseOptions {
    /// The defaults.
    pub fn new(url: ClickHouseAddress, keep_raw: bool) -> Self {
        Self {
            url,
            keep_raw,
            connect_timeout: Duration::from_secs(3),
            timeout: Duration::from_secs(30),
            insert_interval: Duration::from_secs(1),
            settled: Duration::from_secs(600),
        }
    }
}

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClickHouseOpenError {
    /// The URL cannot be used.
    #[error("the URL of ClickHouse is not valid: {0}")]
    Url(String),
    /// It cannot be reached, or it refuses a statement.
    #[error("ClickHouse at {place} cannot be used")]
    Connect {
        /// Host and database, without the password.
        place: String,
        /// What went wrong.
        #[source]
        source: BoxError,
    },
    /// A later version of terse has changed its tables.
    #[error(
        "ClickHouse has version {found} of the tables, and this terse knows {known}: run the later \
         terse"
    )]
    Newer {
        /// Their version.
        found: u32,
        /// The version that this program knows.
        known: u32,
    },
    /// The server is too old.
    #[error("ClickHouse 24.8 or later is needed, not {0}")]
    Old(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_shown_without_its_password() {
        let url = ClickHouseAddress::parse("clickhouse://me:s%40cret@db.example/terse?cluster=c1");
        let url = url.unwrap();
        assert_eq!(url.endpoint, "https://db.example:8443");
        assert_eq!((&*url.user, url.password.reveal()), ("me", "s@cret"));
        assert_eq!((&*url.database, url.cluster.as_deref()), ("terse", Some("c1")));
        assert_eq!(format!("{url:?}"), "clickhouse://me@db.example:8443/terse");
        let local = ClickHouseAddress::parse("clickhouse://127.0.0.1:9/").unwrap();
        assert_eq!((&*local.endpoint, &*local.database), ("http://127.0.0.1:9", "default"));
        assert!(local.fsync);
        for wrong in [
            "http://db/terse",
            "clickhouse://",
            "clickhouse://db/a;b",
            "clickhouse://db/terse?secure=maybe",
            "clickhouse://db/terse?cluster=a%27b",
            "clickhouse://db/terse?colour=red",
        ] {
            assert!(ClickHouseAddress::parse(wrong).is_err(), "{wrong}");
        }
    }
}
