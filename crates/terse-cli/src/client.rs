//! The API client: every command reaches links through the API, wherever it runs.
//!
//! The API is that of a remote server, of the server that runs on the local data folder, or, if
//! none runs, the same router inside this process. Commands work the same way in each case, so
//! every rule of the API holds for them too.

use std::any::Any;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use axum::body::Body;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use terse_core::Secret;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;
use url::Url;

use crate::problem::Problem;
use crate::unix_agent;

/// The largest response, in bytes.
const MAX_RESPONSE_SIZE: u64 = 64 << 20;
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a call may take; an import of many links waits for the disk.
const CALL: Duration = Duration::from_secs(120);

/// A remote server.
#[derive(Clone, Debug)]
pub struct RemoteServer {
    /// The server's URL.
    pub server: Url,
    /// The API key to send.
    pub key: Option<Secret>,
}

/// The API without a server: its router, and a key that the router accepts.
///
/// The binary builds it: only the binary knows the stores and the server crate.
pub struct InProcessApi {
    /// Everything below `/api/v1`.
    pub router: axum::Router,
    /// A key that may do everything.
    pub key: String,
    /// The `Host` header of every request.
    pub host: String,
    /// The runtime that the router was built in and runs in.
    pub runtime: Runtime,
    /// The stores and locks behind the router. Fields drop in this order, so they close last.
    pub guard: Box<dyn Any + Send + Sync>,
}

/// A response whose body is not parsed.
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) retry_after: Option<Duration>,
}

/// A response of the API.
#[derive(Clone, Debug)]
pub struct ApiResponse {
    /// The status.
    pub status: u16,
    /// The JSON, or null if there was none.
    pub body: Value,
    /// The value of `Retry-After`, if there was one.
    pub retry_after: Option<Duration>,
}

/// A client of the API.
pub struct ApiClient {
    place: String,
    transport: Transport,
}

enum Transport {
    Http { agent: ureq::Agent, base: Url, key: Option<Secret> },
    InProcess(Box<InProcessApi>),
}

impl ApiClient {
    /// The API of a remote server, through the proxy that the environment names.
    pub fn remote(remote: &RemoteServer) -> Self {
        let place = remote.server.as_str().to_owned();
        Self::http(remote.server.clone(), remote.key.clone(), place, true)
    }

    /// The API of the server that runs on the local data folder, never through a proxy.
    pub fn same_machine(base: Url, key: Secret, place: String) -> Self {
        Self::http(base, Some(key), place, false)
    }

    /// The same through the Unix socket of the server.
    pub fn unix_socket(socket: &Path, key: Secret, place: String) -> Self {
        let agent = unix_agent::agent(agent_config().proxy(None).build(), socket);
        let base = Url::parse(unix_agent::BASE).expect("a constant URL");
        Self { place, transport: Transport::Http { agent, base, key: Some(key) } }
    }

    /// The API inside this process.
    pub fn in_process(api: InProcessApi, place: String) -> Self {
        Self { place, transport: Transport::InProcess(Box::new(api)) }
    }

    fn http(base: Url, key: Option<Secret>, place: String, proxies: bool) -> Self {
        let mut config = agent_config();
        if !proxies {
            config = config.proxy(None);
        }
        Self { place, transport: Transport::Http { agent: config.build().into(), base, key } }
    }

    /// A client of any router.
    #[cfg(test)]
    pub(crate) fn to(router: axum::Router, place: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let (key, host, guard) = ("k".into(), "h".into(), Box::new(()));
        Self::in_process(InProcessApi { router, key, host, runtime, guard }, place.to_owned())
    }

    /// Whether the API runs inside this process, because no server does.
    pub(crate) fn is_in_process(&self) -> bool {
        matches!(self.transport, Transport::InProcess(_))
    }

    /// A name for the server or data folder, the same at each start: an interrupted import
    /// continues only at the same place.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Calls the API. `path` begins with `/api/v1/`. A response of any status is `Ok`.
    pub fn call(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<ApiResponse> {
        let body = body.map(serde_json::to_vec).transpose()?;
        let RawResponse { status, body, retry_after } = self.call_raw(method, path, body)?;
        Ok(ApiResponse { status, body: parse(status, &body)?, retry_after })
    }

    /// The same with a body that is JSON already, and a response that the caller parses.
    pub(crate) fn call_raw(
        &self,
        method: &Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> anyhow::Result<RawResponse> {
        match &self.transport {
            Transport::Http { agent, base, key } => {
                call_http(agent, base, key.as_ref(), method, path, body)
            }
            Transport::InProcess(api) => {
                api.runtime.block_on(call_in_process(api, method, path, body))
            }
        }
    }

    /// Calls the API and requires success; a refusal becomes an error with the API's message.
    pub(crate) fn expect(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<ApiResponse> {
        let answer = self.call(method, path, body)?;
        if !(200..300).contains(&answer.status) {
            return Err(Problem::read(answer.status, &answer.body).into());
        }
        Ok(answer)
    }
}

fn agent_config() -> ureq::config::ConfigBuilder<ureq::typestate::AgentScope> {
    ureq::Agent::config_builder()
        .timeout_connect(Some(CONNECT))
        .timeout_global(Some(CALL))
        .http_status_as_error(false)
        // A redirect would carry the key to wherever it points.
        .max_redirects(0)
        .user_agent(concat!("terse/", env!("CARGO_PKG_VERSION")))
}

fn call_http(
    agent: &ureq::Agent,
    base: &Url,
    key: Option<&Secret>,
    method: &Method,
    path: &str,
    body: Option<Vec<u8>>,
) -> anyhow::Result<RawResponse> {
    let url = format!("{}{path}", base.as_str().trim_end_matches('/'));
    let mut request =
        Request::builder().method(method).uri(url).header(header::ACCEPT, "application/json");
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, format!("Bearer {}", key.reveal()));
    }
    let answer = match body {
        Some(body) => {
            agent.run(request.header(header::CONTENT_TYPE, "application/json").body(body)?)
        }
        None => agent.run(request.body(())?),
    };
    let reached =
        || format!("the server at {} cannot be reached", base.host_str().unwrap_or_default());
    let mut answer = answer.with_context(reached)?;
    let status = answer.status().as_u16();
    let retry_after = retry_after(answer.headers());
    let body = answer
        .body_mut()
        .with_config()
        .limit(MAX_RESPONSE_SIZE)
        .read_to_vec()
        .with_context(reached)?;
    Ok(RawResponse { status, body, retry_after })
}

async fn call_in_process(
    api: &InProcessApi,
    method: &Method,
    path: &str,
    body: Option<Vec<u8>>,
) -> anyhow::Result<RawResponse> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, &api.host)
        .header(header::ACCEPT, "application/json")
        .header(header::AUTHORIZATION, format!("Bearer {}", api.key));
    let request = match body {
        Some(body) => {
            request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body))?
        }
        None => request.body(Body::empty())?,
    };
    let call = async {
        let answer = match api.router.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let (head, body) = answer.into_parts();
        let limit = usize::try_from(MAX_RESPONSE_SIZE).unwrap_or(usize::MAX);
        let body = Limited::new(body, limit)
            .collect()
            .await
            .map_err(|error| anyhow::anyhow!(error))?
            .to_bytes();
        let (status, retry_after) = (head.status.as_u16(), retry_after(&head.headers));
        Ok(RawResponse { status, body: body.into(), retry_after })
    };
    tokio::time::timeout(CALL, call).await.context("the store takes too long")?
}

fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// The JSON of a response. A success that is not JSON does not come from a terse server.
pub(crate) fn parse(status: u16, bytes: &[u8]) -> anyhow::Result<Value> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(value),
        Err(_) if !(200..300).contains(&status) => Ok(Value::Null),
        Err(error) => Err(error).context("the answer is not JSON: is this a terse server?"),
    }
}

/// The characters of a code that are not escaped. Dots are: a segment of dots means another folder.
const IN_SEGMENT: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// Escapes one segment of a path.
pub(crate) fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, IN_SEGMENT).to_string()
}

/// Builds a query from the pairs that have a value.
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
