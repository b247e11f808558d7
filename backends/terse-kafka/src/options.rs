//! How to reach a topic.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use terse_core::{BoxError, Secret};

const DEFAULT_GROUP: &str = "terse";
const DEFAULT_PORT: u16 = 9092;
/// The longest name that Kafka allows, without the suffix of the dead-letter topic.
const MAX_TOPIC: usize = 249 - ".dead".len();

/// `kafka://user:password@a,b,c/topic?…`, read.
#[derive(Clone)]
pub struct KafkaAddress {
    /// `host:port`, with commas between them.
    pub(crate) brokers: String,
    pub(crate) topic: String,
    /// The group that workers consume in.
    pub(crate) group: String,
    pub(crate) login: Option<Login>,
    pub(crate) tls: Option<TlsFiles>,
}

/// How a client authenticates by SASL.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) mechanism: &'static str,
    pub(crate) user: String,
    pub(crate) password: Secret,
}

/// Files of TLS. Without them, the certificates of the operating system are used.
#[derive(Clone, Default)]
pub(crate) struct TlsFiles {
    /// The certificates that sign the brokers'.
    pub(crate) roots: Option<PathBuf>,
    /// This client's certificate, and its key.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl KafkaAddress {
    /// Reads a URL. TLS is used with `secure=true`, and where there is a password unless the URL
    /// says `secure=false`.
    pub fn parse(text: &str) -> Result<Self, KafkaOpenError> {
        let wrong = |why: &str| KafkaOpenError::Url(why.to_owned());
        let rest = text.strip_prefix("kafka://");
        let rest = rest.ok_or_else(|| wrong("it must begin with kafka://"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, topic) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match place.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, place),
        };
        let brokers =
            hosts.split(',').map(broker).collect::<Option<Vec<_>>>().ok_or_else(|| {
                wrong("it must name brokers, as in kafka://one.example,two.example:9093/topic")
            })?;
        let is_topic_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if !(1..=MAX_TOPIC).contains(&topic.len()) || !topic.bytes().all(is_topic_byte) {
            return Err(wrong("the topic must be 1 to 244 letters, digits, dots, _ and -"));
        }
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let mut address = Self {
            brokers: brokers.join(","),
            topic: topic.to_owned(),
            group: DEFAULT_GROUP.to_owned(),
            login: None,
            tls: None,
        };
        let (mut secure, mut mechanism, mut files) = (None, None, TlsFiles::default());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value);
            match name {
                "secure" => match &*value {
                    "true" | "1" => secure = Some(true),
                    "false" | "0" => secure = Some(false),
                    _ => return Err(wrong("secure must be true or false")),
                },
                "mechanism" => match &*value {
                    "plain" => mechanism = Some("PLAIN"),
                    "scram-sha-256" => mechanism = Some("SCRAM-SHA-256"),
                    "scram-sha-512" => mechanism = Some("SCRAM-SHA-512"),
                    _ => {
                        let why = "mechanism must be plain, scram-sha-256 or scram-sha-512";
                        return Err(wrong(why));
                    }
                },
                "group" if value.is_empty() || value.len() > 200 => {
                    return Err(wrong("group must be 1 to 200 characters"));
                }
                "group" => address.group = value,
                "sslrootcert" => files.roots = Some(value.into()),
                "sslcert" => files.certificate = Some(value.into()),
                "sslkey" => files.key = Some(value.into()),
                other => {
                    return Err(wrong(&format!(
                        "{other} is unknown; allowed: secure, mechanism, group, sslrootcert, \
                         sslcert, sslkey"
                    )));
                }
            }
        }
        if let Some(login) = login {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            let (user, password) = (decoded(user), decoded(password));
            if user.is_empty() || password.is_empty() {
                return Err(wrong("before @, a user and a password are expected"));
            }
            let mechanism = mechanism.unwrap_or("SCRAM-SHA-512");
            if mechanism != "PLAIN" && !cfg!(feature = "tls") {
                return Err(wrong(
                    "SCRAM is not built into this terse: build it with the feature `kafka-tls`, or \
                     use mechanism=plain",
                ));
            }
            address.login = Some(Login { mechanism, user, password: Secret::new(&password) });
        } else if mechanism.is_some() {
            return Err(wrong("mechanism needs a user and a password"));
        }
        let has_files = files.roots.is_some() || files.certificate.is_some();
        if files.certificate.is_some() != files.key.is_some() {
            return Err(wrong("sslcert and sslkey belong together"));
        }
        if secure.unwrap_or(address.login.is_some() || has_files) {
            if !cfg!(feature = "tls") {
                return Err(wrong(
                    "TLS to Kafka is not built into this terse: build it with the feature \
                     `kafka-tls`, or add secure=false where the network is trusted",
                ));
            }
            address.tls = Some(files);
        } else if has_files {
            return Err(wrong("sslrootcert, sslcert and sslkey need secure=true"));
        }
        Ok(address)
    }

    /// The topic with the clicks.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The topic with messages that cannot be counted.
    pub fn dead_letter_topic(&self) -> String {
        format!("{}.dead", self.topic)
    }
}

/// `host:port` of a broker in a URL.
fn broker(text: &str) -> Option<String> {
    let is_host_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let (host, port) = match text.strip_prefix('[') {
        Some(v6) => {
            let (host, port) = v6.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (format!("[{host}]"), port.strip_prefix(':'))
        }
        None => {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            let is_host = !host.is_empty() && host.bytes().all(is_host_byte);
            (is_host.then(|| host.to_owned())?, port)
        }
    };
    let port = port.map_or(Some(DEFAULT_PORT), |port| port.parse().ok())?;
    Some(format!("{host}:{port}"))
}

/// Without the password.
impl fmt::Display for KafkaAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("kafka://")?;
        if let Some(Login { user, .. }) = &self.login {
            write!(f, "{user}@")?;
        }
        write!(f, "{}/{}", self.brokers, self.topic)
    }
}

impl fmt::Debug for KafkaAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How to use a topic.
#[derive(Clone, Debug)]
pub struct KafkaOptions {
    /// The topic.
    pub address: KafkaAddress,
    /// How long a request of the start-up checks may take.
    pub connect_timeout: Duration,
    /// How long the brokers may take to acknowledge a message. Less than the shipper waits for a
    /// batch.
    pub delivery_timeout: Duration,
    /// How long the store may take to add a message.
    pub store_timeout: Duration,
    /// Before a failed call is repeated; doubles up to `max_retry_delay`.
    pub retry_delay: Duration,
    /// See `retry_delay`.
    pub max_retry_delay: Duration,
    /// How long a message that begins past the store's position waits for what is missing. After
    /// that, the worker counts it without.
    pub gap_timeout: Duration,
    /// For how long the group keeps the partitions of a worker that it hears nothing of.
    pub session_timeout: Duration,
}

impl KafkaOptions {
    /// The defaults.
    pub fn new(address: KafkaAddress) -> Self {
        Self {
            address,
            connect_timeout: Duration::from_secs(10),
            delivery_timeout: Duration::from_secs(20),
            store_timeout: Duration::from_secs(60),
            retry_delay: Duration::from_millis(250),
            max_retry_delay: Duration::from_secs(10),
            gap_timeout: Duration::from_secs(600),
            session_timeout: Duration::from_secs(10),
        }
    }
}

/// Why a topic cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KafkaOpenError {
    /// The URL cannot be used.
    #[error("the URL of Kafka is not valid: {0}")]
    Url(String),
    /// It cannot be reached, or it refuses a request.
    #[error("Kafka at {brokers} cannot be used: {why}")]
    Connect {
        /// The brokers that were asked.
        brokers: String,
        /// What failed, and the last thing that the client said about its connections.
        why: String,
        /// The error of the driver.
        #[source]
        source: Option<BoxError>,
    },
    /// The topic has settings with which clicks would be lost.
    #[error("the topic {topic} cannot carry clicks: {why}")]
    Topic {
        /// Its name.
        topic: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A file of the data folder cannot be used.
    #[error("{path} cannot be used")]
    File {
        /// The file.
        path: String,
        /// What failed.
        #[source]
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_shown_without_its_password() {
        let url = "kafka://a,b.example:9093,[::1]:9094/terse.clicks?group=g1";
        let address = KafkaAddress::parse(url).unwrap();
        assert_eq!(address.brokers, "a:9092,b.example:9093,[::1]:9094");
        assert_eq!((address.topic(), &*address.group), ("terse.clicks", "g1"));
        assert_eq!(address.dead_letter_topic(), "terse.clicks.dead");
        assert!(address.login.is_none() && address.tls.is_none());
        let url = "kafka://me:s%40cret@a/clicks?mechanism=plain&secure=false";
        let address = KafkaAddress::parse(url).unwrap();
        let login = address.login.as_ref().unwrap();
        assert_eq!((&*login.user, login.password.reveal()), ("me", "s@cret"));
        assert!(address.tls.is_none());
        assert_eq!(format!("{address:?}"), "kafka://me@a:9092/clicks");
    }

    #[test]
    fn a_wrong_url_says_what_is_wrong() {
        for (url, part) in [
            ("http://a/clicks", "must begin with kafka://"),
            ("kafka:///clicks", "must name brokers"),
            ("kafka://a,,b/clicks", "must name brokers"),
            ("kafka://a:port/clicks", "must name brokers"),
            ("kafka://a", "the topic must be"),
            ("kafka://a/b/c", "the topic must be"),
            ("kafka://a/clicks?colour=red", "colour is unknown"),
            ("kafka://a/clicks?secure=maybe", "secure must be"),
            ("kafka://a/clicks?mechanism=gssapi", "mechanism must be"),
            ("kafka://a/clicks?mechanism=plain", "needs a user"),
            ("kafka://me@a/clicks?mechanism=plain", "a user and a password"),
            ("kafka://a/clicks?secure=true&sslcert=c.pem", "belong together"),
            ("kafka://a/clicks?secure=false&sslrootcert=c.pem", "need secure=true"),
        ] {
            let error = KafkaAddress::parse(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
    }

    /// A password is never sent in the clear unless the operator asks for that.
    #[test]
    fn a_password_asks_for_tls() {
        let read = KafkaAddress::parse("kafka://me:secret@a/clicks?mechanism=plain");
        if cfg!(feature = "tls") {
            assert!(read.unwrap().tls.is_some());
        } else {
            let error = read.unwrap_err().to_string();
            assert!(error.contains("kafka-tls") && !error.contains("secret"), "{error}");
        }
    }
}
