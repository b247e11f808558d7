//! Which table, where it is, and how it is reached.

use std::fmt;
use std::time::Duration;

use terse_core::Alphabet;
use url::Url;

/// How links are opened.
#[derive(Clone, Debug)]
pub struct DynamoOptions {
    /// The table.
    pub address: DynamoAddress,
    /// The alphabet of a new store.
    pub alphabet: Alphabet,
    /// How long one attempt of a request may take.
    pub attempt_timeout: Duration,
    /// How long one request may take, with all its attempts.
    pub budget: Duration,
    /// How many requests may be under way.
    pub max_in_flight: usize,
    /// An access key and its secret, instead of the chain of credentials. For tests.
    pub credentials: Option<(String, String)>,
}

impl DynamoOptions {
    /// The table of a URL, with the usual limits.
    pub fn new(address: DynamoAddress) -> Self {
        Self {
            address,
            alphabet: Alphabet::Base62,
            attempt_timeout: Duration::from_secs(2),
            budget: Duration::from_secs(5),
            max_in_flight: 256,
            credentials: None,
        }
    }
}

/// A table of a region. Written `dynamodb://TABLE?region=…&endpoint=…&home=…&home_endpoint=…`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DynamoAddress {
    /// The name of the table.
    pub table: String,
    /// The region of this node; without one, that of the environment (`AWS_REGION`, profile).
    pub region: Option<String>,
    /// Where the service listens, if not at the region's own address.
    pub endpoint: Option<String>,
    /// The home region of a global table. Nodes write there, and read there what their own region
    /// does not have yet. Without one, `region` is the home region.
    pub home: Option<HomeRegion>,
}

/// The region of a global table that gets all writes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HomeRegion {
    /// The region.
    pub region: String,
    /// Where the service listens there, if not at the region's own address.
    pub endpoint: Option<String>,
    /// The name of its table; the replicas of a global table have the same name.
    pub table: Option<String>,
}

/// Why a URL is refused.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(String);

impl DynamoAddress {
    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let refuse = |why: String| Err(AddressError(why));
        let Ok(url) = Url::parse(text) else {
            return refuse("must be dynamodb://TABLE?region=REGION".into());
        };
        if url.scheme() != "dynamodb" {
            return refuse(format!("{}: is not dynamodb:", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() || url.port().is_some() {
            return refuse(
                "takes no credentials and no port: credentials come from the environment, a \
                 profile or the role of the machine, and an address goes into endpoint="
                    .into(),
            );
        }
        let table = url.host_str().unwrap_or_default();
        let table = percent_free(text, table);
        if !(3..=255).contains(&table.len())
            || !table.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
        {
            return refuse("the name of a table has 3 to 255 of A-Z, a-z, 0-9, _, - and .".into());
        }
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return refuse("must be dynamodb://TABLE?region=REGION, without a path".into());
        }
        let (mut region, mut endpoint, mut home, mut home_endpoint) = (None, None, None, None);
        for (name, value) in url.query_pairs() {
            let place = match &*name {
                "region" => &mut region,
                "endpoint" => &mut endpoint,
                "home" => &mut home,
                "home_endpoint" => &mut home_endpoint,
                other => {
                    return refuse(format!(
                        "{other} is unknown; allowed: region, endpoint, home, home_endpoint"
                    ));
                }
            };
            if value.is_empty() || place.replace(value.into_owned()).is_some() {
                return refuse(format!("{name} must be given once, and not empty"));
            }
        }
        for (name, region) in [("region", &region), ("home", &home)] {
            let is_name = |text: &String| {
                text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            };
            if !region.as_ref().is_none_or(is_name) {
                return refuse(format!("{name} must be a region such as eu-central-1"));
            }
        }
        for (name, endpoint) in [("endpoint", &endpoint), ("home_endpoint", &home_endpoint)] {
            let is_http = |text: &String| {
                Url::parse(text).is_ok_and(|url| {
                    matches!(url.scheme(), "http" | "https")
                        && url.has_host()
                        && url.username().is_empty()
                        && url.password().is_none()
                })
            };
            if !endpoint.as_ref().is_none_or(is_http) {
                return refuse(format!("{name} must be an http or https URL without a user"));
            }
        }
        let home = match (home, home_endpoint) {
            (Some(region), endpoint) => Some(HomeRegion { region, endpoint, table: None }),
            (None, Some(_)) => return refuse("home_endpoint needs home".into()),
            (None, None) => None,
        };
        Ok(Self { table, region, endpoint, home })
    }
}

/// The host as it was written: `Url` keeps the case of hosts with an unknown scheme, but escapes.
fn percent_free(text: &str, host: &str) -> String {
    match text.strip_prefix("dynamodb://").and_then(|rest| rest.get(..host.len())) {
        Some(written) if written.eq_ignore_ascii_case(host) => written.to_owned(),
        _ => host.to_owned(),
    }
}

impl fmt::Display for DynamoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dynamodb://{}", self.table)?;
        let home = self.home.as_ref();
        let pairs = [
            ("region", self.region.as_ref()),
            ("endpoint", self.endpoint.as_ref()),
            ("home", home.map(|home| &home.region)),
            ("home_endpoint", home.and_then(|home| home.endpoint.as_ref())),
        ];
        let given = pairs.iter().filter_map(|(name, value)| Some((name, (*value)?)));
        for (n, (name, value)) in given.enumerate() {
            write!(f, "{}{name}={value}", if n == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DynamoOpenError {
    /// No region is given.
    #[error("no region: add ?region=REGION to the URL, or set AWS_REGION")]
    NoRegion,
    /// No credentials are found.
    #[error(
        "no credentials for DynamoDB ({0}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a \
         profile in AWS_PROFILE, or give the machine a role"
    )]
    NoCredentials(String),
    /// There is no such table.
    #[error(
        "the table {0} does not exist: create it with `terse migrate --to {1}` or with \
         deploy/dynamodb/table.yaml"
    )]
    NoTable(String, String),
    /// The table is not one of terse.
    #[error("the table {0} is not one that terse can use: {1}")]
    Foreign(String, String),
    /// A newer terse has changed the table.
    #[error(
        "the table has the format {found}, and this terse knows formats up to {known}: upgrade"
    )]
    Newer {
        /// The format of the table.
        found: u64,
        /// The newest format that this program knows.
        known: u64,
    },
    /// The service does not answer, or refuses.
    #[error("DynamoDB: {0}")]
    Service(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_table_region_and_endpoint() {
        let parsed = DynamoAddress::parse("dynamodb://Terse_links").unwrap();
        assert_eq!(parsed.table, "Terse_links");
        assert_eq!((parsed.region, parsed.home), (None, None));
        let text =
            "dynamodb://terse?region=eu-central-1&endpoint=http://127.0.0.1:8000&home=us-east-1";
        let parsed = DynamoAddress::parse(text).unwrap();
        assert_eq!(parsed.endpoint.as_deref(), Some("http://127.0.0.1:8000"));
        assert_eq!(parsed.home.as_ref().map(|home| &home.region[..]), Some("us-east-1"));
        assert_eq!(parsed.to_string(), text);
    }

    #[test]
    fn a_bad_url_is_refused_with_the_part_that_is_wrong() {
        for (text, part) in [
            ("dynamodb:", "3 to 255"),
            ("dynamodb://ab", "3 to 255"),
            ("dynamodb://a%20b", "3 to 255"),
            ("dynamodb://key:secret@table", "no credentials"),
            ("dynamodb://table:80", "no port"),
            ("dynamodb://table/path", "without a path"),
            ("dynamodb://table?zone=x", "zone is unknown"),
            ("dynamodb://table?region=", "region must be given once"),
            ("dynamodb://table?region=a&region=b", "region must be given once"),
            ("dynamodb://table?region=a/b", "region must be a region"),
            ("dynamodb://table?endpoint=ftp://x", "endpoint must be an http"),
            ("dynamodb://table?endpoint=http://u:p@x", "without a user"),
            ("dynamodb://table?endpoint=http://:p@x", "without a user"),
            ("dynamodb://table?home_endpoint=http://x", "needs home"),
            ("postgres://table", "is not dynamodb"),
        ] {
            let error = DynamoAddress::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
