//! Statements over ClickHouse's HTTP interface.

use std::sync::Arc;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use terse_core::{BoxError, StoreError};
use tokio::sync::Semaphore;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

use crate::options::{ClickHouseAddress, ClickHouseOpenError, ClickHouseOptions};
use crate::row_binary::Reader;

/// The largest answer.
const MAX_ANSWER: u64 = 1 << 30;
/// How much of an error message is kept.
const MAX_MESSAGE: usize = 500;
/// Statements of one process at a time; each takes a thread while it waits.
const MAX_STATEMENTS: usize = 8;
/// Settings of every statement.
const SETTINGS: &[(&str, &str)] = &[
    ("max_query_size", "67108864"),
    ("max_ast_elements", "1000000"),
    ("max_expanded_ast_elements", "2000000"),
    // Deletions return when the rows are gone from every replica.
    ("mutations_sync", "2"),
    ("lightweight_deletes_sync", "2"),
    ("allow_nondeterministic_mutations", "1"),
];
/// Settings of every insert. They are set because their defaults differ between versions.
const INSERT_SETTINGS: &[(&str, &str)] = &[
    ("async_insert", "0"),
    ("insert_deduplicate", "1"),
    ("deduplicate_blocks_in_dependent_materialized_views", "1"),
    // One block, so that the token stands for the whole insert.
    ("max_insert_block_size", "1048576000"),
    ("min_insert_block_size_rows", "1048576000"),
    ("min_insert_block_size_bytes", "0"),
    ("input_format_parallel_parsing", "0"),
    // A clock that jumps makes clicks of many days in one batch.
    ("max_partitions_per_insert_block", "0"),
];
/// Where several replicas answer: a batch that the ledger has finished is on all that do.
const REPLICA_SETTINGS: &[(&str, &str)] = &[
    ("insert_quorum", "auto"),
    ("insert_quorum_parallel", "0"),
    ("select_sequential_consistency", "1"),
];

/// A connection pool to one server.
pub(crate) struct Client {
    agent: ureq::Agent,
    url: ClickHouseAddress,
    permits: Arc<Semaphore>,
    timeout: Duration,
}

impl Client {
    pub(crate) fn new(options: &ClickHouseOptions) -> Result<Self, ClickHouseOpenError> {
        let url = options.url.clone();
        let mut tls = TlsConfig::builder();
        if let Some(path) = &url.roots {
            let wrong = |error: BoxError| {
                ClickHouseOpenError::Url(format!("sslrootcert {}: {error}", path.display()))
            };
            let pem = std::fs::read(path).map_err(|error| wrong(error.into()))?;
            let mut roots: Vec<Certificate<'static>> = Vec::new();
            for item in ureq::tls::parse_pem(&pem) {
                if let PemItem::Certificate(certificate) =
                    item.map_err(|error| wrong(error.into()))?
                {
                    roots.push(certificate);
                }
            }
            tls = tls.root_certs(RootCerts::Specific(Arc::new(roots)));
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(options.connect_timeout))
            .timeout_global(Some(options.timeout))
            .max_redirects(0)
            .proxy(None)
            .tls_config(tls.build())
            .build();
        Ok(Self {
            agent: config.into(),
            url,
            permits: Arc::new(Semaphore::new(MAX_STATEMENTS)),
            timeout: options.timeout,
        })
    }

    pub(crate) fn failed(&self, source: impl Into<BoxError>) -> ClickHouseOpenError {
        ClickHouseOpenError::Connect { place: self.url.to_string(), source: source.into() }
    }

    /// The rows of a query.
    pub(crate) async fn query(&self, sql: &str) -> Result<Vec<u8>, StoreError> {
        self.send(String::new(), format!("{sql} FORMAT RowBinary").into_bytes()).await
    }

    /// The rows of a query, read one by one.
    pub(crate) async fn rows<T>(
        &self,
        sql: &str,
        read: impl Fn(&mut Reader<'_>) -> Option<T>,
    ) -> Result<Vec<T>, StoreError> {
        let bytes = self.query(sql).await?;
        let mut reader = Reader::new(&bytes);
        let mut rows = Vec::new();
        while !reader.is_empty() {
            let row = read(&mut reader);
            rows.push(row.ok_or_else(|| corrupt("a row of ClickHouse cannot be read"))?);
        }
        Ok(rows)
    }

    /// The number that a query returns; 0 without a row.
    pub(crate) async fn number(&self, sql: &str) -> Result<u64, StoreError> {
        let bytes = self.query(sql).await?;
        Ok(Reader::new(&bytes).u64().unwrap_or_default())
    }

    /// A statement without rows.
    pub(crate) async fn execute(&self, sql: impl Into<String>) -> Result<(), StoreError> {
        self.send(String::new(), sql.into().into_bytes()).await.map(drop)
    }

    /// Inserts rows as one block. A second insert with the same token does nothing.
    pub(crate) async fn insert(
        &self,
        table: &str,
        token: &str,
        rows: Vec<u8>,
    ) -> Result<(), StoreError> {
        let mut query = String::new();
        for (name, value) in INSERT_SETTINGS {
            add(&mut query, name, value);
        }
        add(&mut query, "insert_deduplication_token", token);
        add(&mut query, "query", &format!("INSERT INTO {table} FORMAT RowBinary"));
        self.send(query, rows).await.map(drop)
    }

    async fn send(&self, mut query: String, body: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let waiting = tokio::time::timeout(self.timeout, self.permits.clone().acquire_owned());
        let permit = waiting.await.map_err(|_| StoreError::Busy)?;
        let permit = permit.map_err(|_| unavailable("the store is closed"))?;
        add(&mut query, "database", &self.url.database);
        for (name, value) in SETTINGS {
            add(&mut query, name, value);
        }
        if self.url.cluster.is_some() {
            for (name, value) in REPLICA_SETTINGS {
                add(&mut query, name, value);
            }
        }
        let request = self
            .agent
            .post(format!("{}/?{query}", self.url.endpoint))
            .header("X-ClickHouse-User", &self.url.user)
            .header("X-ClickHouse-Key", self.url.password.reveal());
        let sending = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let answer = request.send(&body[..]);
            let mut answer = answer.map_err(|error| StoreError::Unavailable(error.into()))?;
            let status = answer.status();
            // An error after the first rows is in a trailer of the body; it ends the answer early.
            let failed = answer.headers().contains_key("x-clickhouse-exception-code");
            let body = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
            let body = body.map_err(|error| StoreError::Unavailable(error.into()))?;
            if status.is_success() && !failed {
                return Ok(body);
            }
            let message = String::from_utf8_lossy(&body);
            let short = &message[..message.floor_char_boundary(MAX_MESSAGE)];
            Err(unavailable(format!("ClickHouse answers {status}: {}", short.trim())))
        });
        sending.await.map_err(|error| StoreError::Unavailable(error.into()))?
    }
}

fn add(query: &mut String, name: &str, value: &str) {
    if !query.is_empty() {
        query.push('&');
    }
    query.push_str(name);
    query.push('=');
    query.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
}

/// A stored value that terse did not write.
pub(crate) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::Corrupt(what.into().into())
}

/// The server does not answer as it should.
pub(crate) fn unavailable(why: impl Into<String>) -> StoreError {
    StoreError::Unavailable(why.into().into())
}
