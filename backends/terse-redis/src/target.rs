//! The URL of Redis: one server, a Cluster, or servers that Sentinels watch.

use std::fmt;
use std::path::PathBuf;

use redis::{IntoConnectionInfo as _, TlsCertificates};

/// The parameter that names a file with certificates.
const ROOT_CERTIFICATE: &str = "sslrootcert";
const DEFAULT_PORT: &str = ":6379";
const DEFAULT_SENTINEL_PORT: &str = ":26379";

/// Where Redis is.
#[derive(Clone, Eq, PartialEq)]
pub struct RedisUrl {
    pub(crate) layout: Layout,
    /// The certificates that sign the servers' own, instead of the public ones.
    pub(crate) root_certificate: Option<PathBuf>,
    shown: String,
}

/// How the servers are arranged. Nodes are URLs that the driver understands.
#[derive(Clone, Eq, PartialEq)]
pub(crate) enum Layout {
    Single(String),
    Cluster(Vec<String>),
    Sentinel { sentinels: Vec<String>, master: String, server: ServerOptions },
}

/// What Sentinels do not say about the servers that they watch.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct ServerOptions {
    pub(crate) tls: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
}

/// Why a URL was refused. Never repeats it: it may contain a password.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRedisUrl(pub &'static str);

impl RedisUrl {
    /// The schemes.
    pub const SCHEMES: [&str; 6] =
        ["redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"];

    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Self, InvalidRedisUrl> {
        let expected = InvalidRedisUrl(
            "a URL such as redis://host, rediss://user:password@host:6379/0, \
             redis+cluster://a,b,c or redis+sentinel://a,b,c/master is expected",
        );
        let (scheme, rest) = text.split_once("://").ok_or(expected.clone())?;
        if !Self::SCHEMES.contains(&scheme) {
            return Err(expected);
        }
        if rest.contains('#') {
            return Err(InvalidRedisUrl(
                "a fragment does not belong here: certificates are checked",
            ));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut root_certificate = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some((ROOT_CERTIFICATE, path)) if !path.is_empty() => {
                    root_certificate = Some(PathBuf::from(path));
                }
                _ => return Err(InvalidRedisUrl("sslrootcert=FILE is the only parameter")),
            }
        }
        let (base, tls) = match scheme.strip_prefix("rediss") {
            Some(kind) => (kind, true),
            None => (scheme.strip_prefix("redis").unwrap_or_default(), false),
        };
        if root_certificate.is_some() && !tls {
            return Err(InvalidRedisUrl("sslrootcert is for rediss:// only"));
        }
        let (login, place) = rest.rsplit_once('@').map_or(("", rest), |(login, at)| (login, at));
        let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
        let hosts: Vec<&str> = hosts.split(',').filter(|host| !host.is_empty()).collect();
        if hosts.is_empty() {
            return Err(expected);
        }
        let driver = if tls { "rediss" } else { "redis" };
        let at = if login.is_empty() { String::new() } else { format!("{login}@") };
        let nodes = |port: &str, at: &str, driver: &str| -> Vec<String> {
            let node = |host: &&str| format!("{driver}://{at}{}", with_port(host, port));
            hosts.iter().map(node).collect()
        };
        let layout = match base {
            "" if hosts.len() == 1 => {
                Layout::Single(format!("{}/{path}", nodes(DEFAULT_PORT, &at, driver)[0]))
            }
            "" => {
                return Err(InvalidRedisUrl(
                    "several hosts need redis+cluster:// or redis+sentinel://",
                ));
            }
            "+cluster" if path.is_empty() => Layout::Cluster(nodes(DEFAULT_PORT, &at, driver)),
            "+cluster" => return Err(InvalidRedisUrl("a Cluster has no numbered databases")),
            _ => {
                let (master, database) = path.split_once('/').unwrap_or((path, "0"));
                if master.is_empty() {
                    return Err(InvalidRedisUrl("the name of the master is missing: …/master"));
                }
                let database = database
                    .parse()
                    .map_err(|_| InvalidRedisUrl("the database after the master is a number"))?;
                let (user, password) = match login.split_once(':') {
                    Some((user, password)) => (user, decoded(password)),
                    None => (login, None),
                };
                Layout::Sentinel {
                    // The driver sends Sentinels no password.
                    sentinels: nodes(DEFAULT_SENTINEL_PORT, "", driver),
                    master: master.to_owned(),
                    server: ServerOptions { tls, user: decoded(user), password, database },
                }
            }
        };
        let urls = match &layout {
            Layout::Single(url) => std::slice::from_ref(url),
            Layout::Cluster(urls) | Layout::Sentinel { sentinels: urls, .. } => urls,
        };
        for url in urls {
            url.as_str()
                .into_connection_info()
                .map_err(|_| InvalidRedisUrl("a host, port, user or database is malformed"))?;
        }
        let shown = match login.split_once(':') {
            Some((user, _)) => format!("{scheme}://{user}:[hidden]@{place}"),
            None => format!("{scheme}://{at}{place}"),
        };
        let shown = if query.is_empty() { shown } else { format!("{shown}?{query}") };
        Ok(Self { layout, root_certificate, shown })
    }

    /// The certificates of the settings.
    pub(crate) fn certificates(&self) -> std::io::Result<TlsCertificates> {
        let root_cert = self.root_certificate.as_ref().map(std::fs::read).transpose()?;
        Ok(TlsCertificates { client_tls: None, root_cert })
    }
}

fn with_port(host: &str, port: &str) -> String {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    if has_port { host.to_owned() } else { format!("{host}{port}") }
}

/// Undoes the percent-encoding of a URL.
fn decoded(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        match (first, tail.get(..2).and_then(hex)) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Without the password.
impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_url_names_one_server_a_cluster_or_sentinels() {
        let layout = |text| RedisUrl::parse(text).unwrap().layout;
        assert!(layout("redis://db") == Layout::Single("redis://db:6379/".into()));
        assert!(layout("rediss://u:p@db:1/2") == Layout::Single("rediss://u:p@db:1/2".into()));
        assert!(layout("redis://[::1]") == Layout::Single("redis://[::1]:6379/".into()));
        let nodes = ["rediss://u:p@a:6379", "rediss://u:p@b:7"].map(str::to_owned).to_vec();
        assert!(layout("rediss+cluster://u:p@a,b:7") == Layout::Cluster(nodes));
        let server =
            ServerOptions { tls: false, user: None, password: Some("p@ß".into()), database: 3 };
        let sentinels = ["redis://a:26379", "redis://b:1"].map(str::to_owned).to_vec();
        assert!(
            layout("redis+sentinel://:p%40%C3%9F@a,b:1/main/3")
                == Layout::Sentinel { sentinels, master: "main".into(), server }
        );
    }

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (text, shown) in [
            ("redis://:hunter2@db/1", "redis://:[hidden]@db/1"),
            ("redis+cluster://u:hunter2@a,b", "redis+cluster://u:[hidden]@a,b"),
            ("rediss://db?sslrootcert=/ca.pem", "rediss://db?sslrootcert=/ca.pem"),
        ] {
            let url = RedisUrl::parse(text).unwrap();
            assert_eq!((url.to_string(), format!("{url:?}")), (shown.to_owned(), shown.to_owned()));
        }
        for text in [
            "",
            "db",
            "http://db",
            "redis://",
            "redis://a,b",
            "rediss://db#insecure",
            "redis://db?sslrootcert=/ca.pem",
            "redis://db?password=hunter2",
            "redis+cluster://a/1",
            "redis+sentinel://a",
            "redis+sentinel://a/m/x",
            "redis://db:port",
        ] {
            let error = RedisUrl::parse(text).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
