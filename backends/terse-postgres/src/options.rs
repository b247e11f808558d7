//! How to open a database.

use std::path::PathBuf;
use std::time::Duration;

use terse_core::{Alphabet, BoxError};
use tokio_postgres::config::{Host, SslMode};

/// When an idle connection is probed first, how often then, and how many probes may be lost.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;
/// How long sent data may stay unacknowledged.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(15);

/// How to reach a database, and how long to wait for it.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host/database?…`, perhaps of a pooler.
    pub url: String,
    /// The same database without a pooler in between, for migrations.
    pub direct_url: Option<String>,
    /// A replica of the same database, for lists that are shown, searches, counts of tags and
    /// reports of clicks. Where it does not answer, the primary does.
    pub replica_url: Option<String>,
    /// The alphabet of generated codes, if the database is new.
    pub alphabet: Alphabet,
    /// Into how many partitions the table of links is divided by the hash of the code, if the
    /// tables are new; 0 or 1 for a plain table.
    pub partitions: u32,
    /// How many new links may wait to be committed.
    pub queue: usize,
    /// How long a connection attempt may take.
    pub connect_timeout: Duration,
    /// How long a lookup may take.
    pub lookup_timeout: Duration,
    /// How long a statement of a write or a list may take.
    pub statement_timeout: Duration,
}

impl PostgresOptions {
    /// Connections that carry the lookups of all callers.
    pub const LOOKUP_CONNECTIONS: usize = 2;
    /// Connections that each carry one transaction at a time.
    pub const WRITE_CONNECTIONS: usize = 3;
    /// Connections for lists, searches and reports.
    pub const LIST_CONNECTIONS: usize = 2;
    /// The largest number of connections of one node to the database.
    pub const CONNECTIONS: usize =
        Self::LOOKUP_CONNECTIONS + Self::WRITE_CONNECTIONS + Self::LIST_CONNECTIONS;

    /// The defaults.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            direct_url: None,
            replica_url: None,
            alphabet: Alphabet::default(),
            partitions: 0,
            queue: 4096,
            connect_timeout: Duration::from_secs(3),
            lookup_timeout: Duration::from_secs(2),
            statement_timeout: Duration::from_secs(10),
        }
    }
}

/// Without the URLs, which contain passwords.
impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions").field("alphabet", &self.alphabet).finish_non_exhaustive()
    }
}

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    /// The URL cannot be used.
    #[error("the URL of the database is not valid: {0}")]
    Url(String),
    /// It cannot be reached, or it refuses the connection.
    #[error("the database at {place} cannot be used")]
    Connect {
        /// Host and database, without the password.
        place: String,
        /// What went wrong.
        #[source]
        source: BoxError,
    },
    /// A later version of terse has changed its tables.
    #[error(
        "the database has version {found} of the tables for {part}, and terse must know at least \
         {needed} to use it; this terse knows {known}: run the later terse"
    )]
    Newer {
        /// Which tables.
        part: &'static str,
        /// Their version.
        found: i32,
        /// The version that a program must know.
        needed: i32,
        /// The version that this program knows.
        known: i32,
    },
    /// The database holds something that terse did not write.
    #[error("{0}")]
    Foreign(String),
}

/// A URL in parts: what the driver reads, and the certificates that sign the server's.
pub(crate) struct ServerUrl {
    pub(crate) config: tokio_postgres::Config,
    pub(crate) roots: Option<PathBuf>,
    /// Host and database, for messages.
    pub(crate) shown: String,
}

impl ServerUrl {
    /// Reads a URL. TLS is required unless the server is on this machine or the URL says otherwise,
    /// and the server's certificate is always checked; `sslmode=verify-full` therefore means the
    /// same as `require`.
    pub(crate) fn parse(url: &str, connect_timeout: Duration) -> Result<Self, PostgresOpenError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut roots, mut has_mode, mut kept) = (None, false, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslrootcert", path)) => roots = Some(PathBuf::from(path)),
                Some(("sslmode", "verify-full" | "verify-ca")) => {
                    has_mode = true;
                    kept.push("sslmode=require");
                }
                Some(("sslmode", _)) => {
                    has_mode = true;
                    kept.push(pair);
                }
                _ => kept.push(pair),
            }
        }
        let plain = format!("{base}?{}", kept.join("&"));
        let mut config: tokio_postgres::Config =
            plain.parse().map_err(|error: tokio_postgres::Error| {
                let why = std::error::Error::source(&error).map(ToString::to_string);
                PostgresOpenError::Url(why.unwrap_or_else(|| error.to_string()))
            })?;
        let hosts: Vec<String> = config.get_hosts().iter().map(host_name).collect();
        // What follows an `@` in a password would be taken for the host, and shown.
        if hosts.iter().any(|host| host.contains('@')) {
            return Err(PostgresOpenError::Url("write an @ in the password as %40".to_owned()));
        }
        if hosts.is_empty() {
            return Err(PostgresOpenError::Url("it names no host".to_owned()));
        }
        if !has_mode {
            let is_local = config.get_hosts().iter().all(is_local);
            config.ssl_mode(if is_local { SslMode::Disable } else { SslMode::Require });
        }
        config.connect_timeout(connect_timeout);
        // Notices a server that disappeared without closing the connection: by keepalives while
        // nothing is sent, and by the user timeout while something is.
        config.keepalives(true).keepalives_idle(KEEPALIVE_IDLE);
        config.keepalives_interval(KEEPALIVE_INTERVAL).keepalives_retries(KEEPALIVE_RETRIES);
        config.tcp_user_timeout(TCP_USER_TIMEOUT);
        if config.get_application_name().is_none() {
            config.application_name("terse");
        }
        let shown = format!("{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default());
        Ok(Self { config, roots, shown })
    }
}

fn host_name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    fn mode(url: &str) -> SslMode {
        ServerUrl::parse(url, Duration::from_secs(1)).unwrap().config.get_ssl_mode()
    }

    #[test]
    fn tls_is_required_where_the_network_is_not_this_machine() {
        for (url, expected) in [
            ("postgres://u:p@db.example/terse", SslMode::Require),
            ("postgres://u@db.example/terse?sslmode=verify-full", SslMode::Require),
            ("postgres://u@db.example/terse?sslmode=disable", SslMode::Disable),
            ("postgres://u@127.0.0.1:5433/terse", SslMode::Disable),
            ("postgres://u@[::1]/terse", SslMode::Disable),
            ("postgres://u@localhost/terse?sslmode=require", SslMode::Require),
            ("postgres://u@db.example,127.0.0.1/terse", SslMode::Require),
        ] {
            assert_eq!(mode(url), expected, "{url}");
        }
    }

    #[test]
    fn a_place_is_shown_without_the_password() {
        let url = "postgres://user:secret@db.example:6432/terse?sslrootcert=/etc/ca.pem";
        let place = ServerUrl::parse(url, Duration::from_secs(1)).unwrap();
        assert_eq!(place.shown, "db.example/terse");
        assert_eq!(place.roots, Some("/etc/ca.pem".into()));
        let error = ServerUrl::parse("postgres://u:secret@h/d?sslmode=never", Duration::ZERO);
        let error = error.map(|_| ()).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
