//! The one door to links: the API, wherever it is.
//!
//! A server elsewhere, a server running on this data folder, or, if nobody is running, the same
//! router in this very process. Commands cannot tell the difference, so that every rule holds for
//! them as for everyone.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use axum::body::Body;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use tower::ServiceExt as _;
use url::Url;

use crate::backends::Store;
use crate::config::{Config, Secret};
use crate::data_dir_lock::{DataDir, InUse, LockGuard};
use crate::problem::Problem;

/// No answer is longer.
const MAX_RESPONSE_SIZE: u64 = 64 << 20;
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a call may take; an import of many links waits for the disk.
const CALL: Duration = Duration::from_secs(120);
/// How long a server that has just started may take to say where it is.
const STARTING: Duration = Duration::from_secs(3);

/// A server elsewhere.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Where it is.
    pub server: Url,
    /// What it knows us by.
    pub key: Option<Secret>,
}

/// The API without a server: the same router, and a key that it accepts.
pub struct InProcessApi {
    /// Everything below `/api/v1`.
    pub router: axum::Router,
    /// A key that may do everything.
    pub key: String,
    /// What must live as long as the router.
    pub store: Option<Store>,
}

/// What the API said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The JSON, or null where there was none.
    pub body: Value,
    /// When to try again, if it said so.
    pub retry_after: Option<Duration>,
}

/// A way to the API.
pub struct ApiClient(Way);

enum Way {
    Http {
        agent: ureq::Agent,
        base: Url,
        key: Option<Secret>,
        place: String,
    },
    // Fields drop in this order: the store is closed before the folder is let go.
    Here {
        local: Box<InProcessApi>,
        host: String,
        runtime: tokio::runtime::Runtime,
        place: String,
        _lock: LockGuard,
    },
}

/// What to do when the data folder does not exist.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Absent {
    /// Make it: the command is about to put something in.
    Make,
    /// Say so: there is nothing to find.
    Refuse,
}

impl ApiClient {
    /// Finds the API: elsewhere if told so, else the server of the data folder, else here.
    pub fn open(config: &Config, remote: Option<&Remote>, absent: Absent) -> anyhow::Result<Self> {
        if let Some(remote) = remote {
            let place = remote.server.as_str().to_owned();
            return Ok(Self::http(remote.server.clone(), remote.key.clone(), place, true));
        }
        let dir = match (DataDir::existing(&config.data_dir), absent) {
            (Some(dir), _) => dir,
            (None, Absent::Make) => DataDir::open(&config.data_dir)?,
            (None, Absent::Refuse) => bail!(
                "there is no data folder {}: name one with --data-dir, or a server with --server",
                config.data_dir.display()
            ),
        };
        let deadline = Instant::now() + STARTING;
        loop {
            let in_use = match dir.lock() {
                Ok(lock) => return Self::here(config, lock),
                Err(error) if error.is::<InUse>() => error,
                Err(error) => return Err(error),
            };
            if let Some(run) = dir.read_run()? {
                let base =
                    Url::parse(&run.url).context("run.json does not say where the server is")?;
                return Ok(Self::http(base, Some(Secret::new(&run.key)), place_of(config), false));
            }
            if Instant::now() >= deadline {
                return Err(in_use.context(
                    "a server that cannot be reached holds the data folder; name it with --server",
                ));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn http(base: Url, key: Option<Secret>, place: String, proxies: bool) -> Self {
        let mut config = ureq::Agent::config_builder()
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(CALL))
            .http_status_as_error(false)
            // A redirect would carry the key to wherever it points.
            .max_redirects(0)
            .user_agent(concat!("terse/", env!("CARGO_PKG_VERSION")));
        if !proxies {
            config = config.proxy(None);
        }
        Self(Way::Http { agent: config.build().into(), base, key, place })
    }

    fn here(config: &Config, lock: LockGuard) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let local = runtime.block_on(crate::serve::local_door(config))?;
        let base = config.base_url();
        let host = match (base.host_str().unwrap_or("localhost"), base.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        Ok(Self(Way::Here {
            local: Box::new(local),
            host,
            runtime,
            place: place_of(config),
            _lock: lock,
        }))
    }

    /// A door to any router, on a folder of its own.
    #[cfg(test)]
    pub(crate) fn to(router: axum::Router, folder: &std::path::Path) -> Self {
        let lock = DataDir::open(folder).and_then(|dir| dir.lock()).expect("a free folder");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let local = Box::new(InProcessApi { router, key: "k".into(), store: None });
        Self(Way::Here {
            local,
            host: "h".into(),
            runtime,
            place: folder.display().to_string(),
            _lock: lock,
        })
    }

    /// Whether the API runs in this very process, because no server does.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self.0, Way::Here { .. })
    }

    /// A name for where this leads, the same each time: an interrupted import goes on only at the
    /// same place.
    pub fn place(&self) -> String {
        match &self.0 {
            Way::Http { place, .. } | Way::Here { place, .. } => place.clone(),
        }
    }

    /// Calls the API. `path` begins with `/api/v1/`. An answer of any status is `Ok`.
    pub fn call(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        match &self.0 {
            Way::Http { agent, base, key, .. } => {
                call_http(agent, base, key.as_ref(), method, path, body)
            }
            Way::Here { local, host, runtime, .. } => {
                runtime.block_on(call_here(local, host, method, path, body))
            }
        }
    }

    /// Calls the API for something that must succeed; a refusal is an error that says what the API
    /// said.
    pub(crate) fn expect(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let answer = self.call(method, path, body)?;
        if !(200..300).contains(&answer.status) {
            return Err(Problem::read(answer.status, &answer.body).into());
        }
        Ok(answer)
    }
}

/// The data folder by its full name, whether or not a server is running on it.
fn place_of(config: &Config) -> String {
    config.data_dir.canonicalize().unwrap_or_else(|_| config.data_dir.clone()).display().to_string()
}

fn call_http(
    agent: &ureq::Agent,
    base: &Url,
    key: Option<&Secret>,
    method: &Method,
    path: &str,
    body: Option<&Value>,
) -> anyhow::Result<Answer> {
    let url = format!("{}{path}", base.as_str().trim_end_matches('/'));
    let mut request =
        Request::builder().method(method).uri(url).header(header::ACCEPT, "application/json");
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, format!("Bearer {}", key.reveal()));
    }
    let answer = match body {
        Some(body) => {
            let bytes = serde_json::to_vec(body)?;
            agent.run(request.header(header::CONTENT_TYPE, "application/json").body(bytes)?)
        }
        None => agent.run(request.body(())?),
    };
    let reached =
        || format!("the server at {} cannot be reached", base.host_str().unwrap_or_default());
    let mut answer = answer.with_context(reached)?;
    let status = answer.status().as_u16();
    let retry_after = retry_after(answer.headers());
    let bytes = answer
        .body_mut()
        .with_config()
        .limit(MAX_RESPONSE_SIZE)
        .read_to_vec()
        .with_context(reached)?;
    Ok(Answer { status, body: parse(status, &bytes)?, retry_after })
}

async fn call_here(
    local: &InProcessApi,
    host: &str,
    method: &Method,
    path: &str,
    body: Option<&Value>,
) -> anyhow::Result<Answer> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, host)
        .header(header::ACCEPT, "application/json")
        .header(header::AUTHORIZATION, format!("Bearer {}", local.key));
    let request = match body {
        Some(body) => request
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(serde_json::to_vec(body)?))?,
        None => request.body(Body::empty())?,
    };
    let call = async {
        let answer = match local.router.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let (head, body) = answer.into_parts();
        let limit = usize::try_from(MAX_RESPONSE_SIZE).unwrap_or(usize::MAX);
        let bytes = Limited::new(body, limit)
            .collect()
            .await
            .map_err(|error| anyhow::anyhow!(error))?
            .to_bytes();
        let status = head.status.as_u16();
        Ok(Answer { status, body: parse(status, &bytes)?, retry_after: retry_after(&head.headers) })
    };
    tokio::time::timeout(CALL, call).await.context("the store takes too long")?
}

fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// The JSON of an answer. A success that is not JSON comes from something that is not terse.
fn parse(status: u16, bytes: &[u8]) -> anyhow::Result<Value> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(value),
        Err(_) if !(200..300).contains(&status) => Ok(Value::Null),
        Err(error) => Err(error).context("the answer is not JSON: is this a terse server?"),
    }
}

/// What need not be escaped in a code. A dot must be: a segment of dots means another folder.
const IN_SEGMENT: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// One segment of a path, safe whatever is in it.
pub(crate) fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, IN_SEGMENT).to_string()
}

/// A query, from the pairs that have a value.
pub(crate) fn query(pairs: &[(&str, Option<String>)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    let query = query.finish();
    if query.is_empty() { query } else { format!("?{query}") }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
