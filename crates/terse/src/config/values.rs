//! The types of settings other than numbers and text.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use terse_core::limits::Limit;
use terse_core::{Contact, OperatorName, PageUrl};
pub use terse_core::{HumanDuration, Secret};
use url::Url;

use super::node::{Leaf, RawValue, article, read_text, textual};

/// A size in bytes: `512KiB`, `64MiB`, `1GiB`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ByteSize(u64);

impl ByteSize {
    /// From mebibytes.
    pub const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// From bytes.
    pub const fn of(bytes: u64) -> Self {
        Self(bytes)
    }

    /// In bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

const SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("a size such as 512KiB, 64MiB or 1GiB is expected, not {text:?}");
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let (_, scale) = SIZES
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit.trim_start()))
            .ok_or_else(wrong)?;
        number.checked_mul(scale).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = || SIZES.into_iter().filter(|(name, _)| name.contains('i') || *name == "B");
        let (unit, scale) = binary()
            .find(|(_, scale)| self.0 != 0 && self.0.is_multiple_of(*scale))
            .unwrap_or(("B", 1));
        write!(f, "{}{unit}", self.0 / scale)
    }
}

impl Leaf for Secret {
    const KIND: &'static str = "secret";

    fn read(given: RawValue) -> Result<Self, String> {
        read_text(given).map(|text| Self::new(&text))
    }

    fn show(&self) -> Option<toml::Value> {
        Some("[hidden]".into())
    }
}

/// One file or several.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Paths(pub Vec<PathBuf>);

impl Leaf for Paths {
    const KIND: &'static str = "path, or list";

    fn read(given: RawValue) -> Result<Self, String> {
        let texts = match given {
            RawValue::Toml(toml::Value::String(path)) => vec![path],
            given => Vec::<String>::read(given)?,
        };
        match texts.iter().any(String::is_empty) {
            true => Err("a path is expected".into()),
            false => Ok(Self(texts.into_iter().map(Into::into).collect())),
        }
    }

    fn show(&self) -> Option<toml::Value> {
        match &self.0[..] {
            [] => None,
            paths => {
                let paths = paths.iter().map(|path| path.display().to_string());
                Some(paths.collect::<Vec<_>>().into())
            }
        }
    }
}

/// The start of every short URL.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BaseUrl(Url);

impl BaseUrl {
    /// The URL; its path is `/`.
    pub fn url(&self) -> &Url {
        &self.0
    }
}

impl FromStr for BaseUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The parser would remove tabs and line breaks.
        if text.contains(char::is_control) {
            return Err("a URL without control characters is expected");
        }
        let url = Url::parse(text)
            .map_err(|_| "an absolute URL such as https://go.example is expected")?;
        match &url {
            url if !matches!(url.scheme(), "http" | "https")
                || url.host_str().is_none_or(str::is_empty) =>
            {
                Err("an http:// or https:// URL is expected")
            }
            url if !url.username().is_empty() || url.password().is_some() => {
                Err("a user name or password does not belong here")
            }
            url if url.query().is_some() || url.fragment().is_some() => {
                Err("a query or fragment does not belong here")
            }
            url if url.path() != "/" => {
                Err("a path is not supported: short links live at the root of their host")
            }
            _ => Ok(Self(url)),
        }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// The store of links.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreUrl {
    /// The embedded store, in a file; relative paths are below `data_dir`.
    File(PathBuf),
    /// A PostgreSQL database.
    Postgres(PostgresUrl),
    /// A ClickHouse database, for clicks only.
    ClickHouse(ClickHouseUrl),
    /// A table of DynamoDB, for links only.
    Dynamo(DynamoUrl),
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Errors quote only the scheme: the rest of the URL often contains a password.
        let is_scheme =
            |scheme: &str| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
        let (scheme, path) = text
            .split_once(':')
            .filter(|(scheme, _)| is_scheme(scheme))
            .ok_or("a store such as file:terse.db is expected")?;
        if PostgresUrl::SCHEMES.contains(&scheme) {
            return text.parse().map(Self::Postgres);
        }
        if scheme == "clickhouse" {
            return text.parse().map(Self::ClickHouse);
        }
        if scheme == "dynamodb" {
            return text.parse().map(Self::Dynamo);
        }
        crate::backends::check_scheme(scheme)?;
        Ok(match path {
            "" => Self::File("terse.db".into()),
            path => Self::File(path.strip_prefix("//").unwrap_or(path).into()),
        })
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
            Self::ClickHouse(url) => url.fmt(f),
            Self::Dynamo(url) => url.fmt(f),
        }
    }
}

/// The URL of a PostgreSQL database. Its password is never shown.
#[derive(Clone, Eq, PartialEq)]
pub struct PostgresUrl(String);

impl PostgresUrl {
    const SCHEMES: [&str; 2] = ["postgres", "postgresql"];

    /// The whole URL, for the driver.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for PostgresUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        if !scheme.is_some_and(|scheme| Self::SCHEMES.contains(&scheme)) {
            return Err("a URL such as postgres://user@host/database is expected".into());
        }
        crate::backends::check_scheme("postgres")?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Parameters may contain a password, too.
        let (base, query) = self.0.split_once('?').map_or((&*self.0, ""), |(base, _)| (base, "?…"));
        let (scheme, rest) = base.split_once("://").unwrap_or(("postgres", base));
        match rest.rsplit_once('@') {
            Some((user, place)) => {
                let (user, hidden) =
                    user.split_once(':').map_or((user, ""), |(user, _)| (user, ":[hidden]"));
                write!(f, "{scheme}://{user}{hidden}@{place}{query}")
            }
            None => write!(f, "{scheme}://{rest}{query}"),
        }
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The URL of a cache that nodes share. Its password is never shown.
#[derive(Clone, Eq, PartialEq)]
pub struct CacheUrl {
    url: String,
    shown: String,
}

impl CacheUrl {
    /// The whole URL, for the driver.
    pub fn reveal(&self) -> &str {
        &self.url
    }
}

impl FromStr for CacheUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown = crate::backends::check_cache_url(text)?;
        Ok(Self { url: text.to_owned(), shown })
    }
}

impl fmt::Display for CacheUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for CacheUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The URL of a bucket or a folder for objects. It has no password.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ObjectUrl(String);

impl ObjectUrl {
    /// The URL as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ObjectUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        crate::backends::check_object_url(text).map(Self)
    }
}

impl fmt::Display for ObjectUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The URL of a table of DynamoDB. It has no password.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DynamoUrl(String);

impl DynamoUrl {
    /// The URL as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DynamoUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        crate::backends::check_dynamodb_url(text).map(Self)
    }
}

impl fmt::Display for DynamoUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The URL of a ClickHouse database. Its password is never shown.
#[derive(Clone, Eq, PartialEq)]
pub struct ClickHouseUrl {
    url: String,
    shown: String,
}

impl ClickHouseUrl {
    /// The whole URL, for the driver.
    pub fn reveal(&self) -> &str {
        &self.url
    }
}

impl FromStr for ClickHouseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown = crate::backends::check_clickhouse_url(text)?;
        Ok(Self { url: text.to_owned(), shown })
    }
}

impl fmt::Display for ClickHouseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for ClickHouseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The URL of a bus that carries clicks. Its password is never shown.
#[derive(Clone, Eq, PartialEq)]
pub struct BusUrl {
    url: String,
    shown: String,
}

impl BusUrl {
    /// The whole URL, for the driver.
    pub fn reveal(&self) -> &str {
        &self.url
    }
}

impl FromStr for BusUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown = crate::backends::check_bus_url(text)?;
        Ok(Self { url: text.to_owned(), shown })
    }
}

impl fmt::Display for BusUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for BusUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The roles of a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Roles {
    /// Serves redirects.
    pub redirect: bool,
    /// Serves the API.
    pub api: bool,
    /// Serves the pages.
    pub web: bool,
    /// Runs the background jobs.
    pub worker: bool,
}

impl Roles {
    /// All roles.
    pub const ALL: Self = Self { redirect: true, api: true, web: true, worker: true };

    fn parse<T: AsRef<str>>(words: &[T]) -> Result<Self, String> {
        let mut roles = Self { redirect: false, api: false, web: false, worker: false };
        for word in words {
            match word.as_ref() {
                "redirect" => roles.redirect = true,
                "api" => roles.api = true,
                "web" => roles.web = true,
                "worker" => roles.worker = true,
                other => {
                    return Err(format!(
                        "{other:?} is not a role: redirect, api, web and worker are"
                    ));
                }
            }
        }
        if words.is_empty() {
            Err("at least one role is needed: redirect, api, web, worker".into())
        } else {
            Ok(roles)
        }
    }

    fn words(self) -> Vec<String> {
        [("redirect", self.redirect), ("api", self.api), ("web", self.web), ("worker", self.worker)]
            .into_iter()
            .filter(|(_, on)| *on)
            .map(|(word, _)| word.to_owned())
            .collect()
    }
}

impl Leaf for Roles {
    const KIND: &'static str = "list of `redirect`, `api`, `web`, `worker`";

    fn read(given: RawValue) -> Result<Self, String> {
        match &given {
            RawValue::Toml(other @ (toml::Value::String(_) | toml::Value::Integer(_))) => {
                Err(format!("a list is expected, not {}", article(other)))
            }
            _ => Self::parse(&Vec::<String>::read(given)?),
        }
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.words().into())
    }
}

impl Leaf for Limit {
    const KIND: &'static str = "limit";

    fn read(given: RawValue) -> Result<Self, String> {
        match given {
            // A bare 0 means no limit, as "0" does.
            RawValue::Toml(toml::Value::Integer(0)) => Ok(Self::OFF),
            given => read_text(given)?.trim().parse(),
        }
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.to_string().into())
    }
}

textual! {
    HumanDuration: "duration", ByteSize: "size", BaseUrl: "URL", StoreUrl: "store", PostgresUrl: "database", CacheUrl: "URL", ObjectUrl: "URL", BusUrl: "URL", OperatorName: "text",
    PageUrl: "URL", Contact: "email address or URL",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_may_be_a_bare_zero_but_no_other_number() {
        let read = |value: toml::Value| Limit::read(RawValue::Toml(value));
        assert_eq!(read(0.into()), Ok(Limit::OFF));
        assert_eq!(read("0".into()), Ok(Limit::OFF));
        assert_eq!(read(" 30/h ".into()), Ok(Limit::per_hour(30)));
        assert!(read(30.into()).is_err() && read("30".into()).is_err());
    }

    #[test]
    fn sizes_have_a_unit() {
        for (text, bytes, shown) in [
            ("0B", 0, "0B"),
            ("64MiB", 64 << 20, "64MiB"),
            ("64mib", 64 << 20, "64MiB"),
            ("1 GiB", 1 << 30, "1GiB"),
            ("1MB", 1_000_000, "1000000B"),
            ("2048KiB", 2 << 20, "2MiB"),
        ] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!((size.bytes(), size.to_string().as_str()), (bytes, shown), "{text}");
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for text in ["", "64", "64M", "-1B", "1.5GiB", "99999999999GiB", "MiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_base_url_is_a_bare_origin() {
        for (text, shown) in [
            ("https://go.example", "https://go.example"),
            ("HTTP://Go.Example:8080/", "http://go.example:8080"),
            ("http://[::1]:80", "http://[::1]"),
        ] {
            assert_eq!(text.parse::<BaseUrl>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "go.example",
            "https://go.exa\tmple",
            "https://go.example\n",
            "ftp://go.example",
            "https://go.example/x",
            "https://go.example/?q",
            "https://go.example#",
            "https://u@go.example",
            "https://",
            "mailto:a@b",
        ] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_store_that_is_not_built_in_is_refused_without_repeating_its_password() {
        assert_eq!("file:".parse(), Ok(StoreUrl::File("terse.db".into())));
        assert_eq!("file:///var/x.db".parse(), Ok(StoreUrl::File("/var/x.db".into())));
        let error = "mysql://terse:hunter2@db/terse".parse::<StoreUrl>().unwrap_err();
        assert!(
            error.contains("mysql: is not a kind of store; allowed: file:terse.db")
                && !error.contains("hunter2"),
            "{error}"
        );
        assert!("terse.db".parse::<StoreUrl>().is_err());
    }

    #[test]
    fn a_database_is_shown_without_its_password() {
        for (text, shown) in [
            ("postgres://db/terse", "postgres://db/terse"),
            ("postgres://u@db,db2:5433/terse", "postgres://u@db,db2:5433/terse"),
            ("postgresql://u:a@b:c@db/terse", "postgresql://u:[hidden]@db/terse"),
            ("postgres://db/terse?password=x", "postgres://db/terse?…"),
        ] {
            let url = PostgresUrl(text.to_owned());
            assert_eq!(url.to_string(), shown);
            assert_eq!(
                format!("{:?}", StoreUrl::Postgres(url.clone())),
                format!("Postgres({url})")
            );
        }
        assert!("mysql://db/terse".parse::<PostgresUrl>().is_err());
    }

    #[test]
    fn a_secret_is_never_shown() {
        assert_eq!(Secret::new("correct horse battery").show(), Some("[hidden]".into()));
    }
}
