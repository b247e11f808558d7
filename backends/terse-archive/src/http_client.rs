//! The HTTP client of object_store: the one that terse has anyway, with its TLS.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

/// The largest answer. Callers read larger objects in parts.
const MAX_ANSWER: u64 = 256 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one request with its answer may take.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Makes clients that share their connections.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    agent: ureq::Agent,
}

impl Connector {
    /// `roots` are certificates in PEM that are trusted instead of the public ones.
    pub(crate) fn new(roots: Option<&[u8]>) -> Result<Self, ureq::Error> {
        let mut tls = TlsConfig::builder();
        if let Some(pem) = roots {
            let mut certificates: Vec<Certificate<'static>> = Vec::new();
            for item in ureq::tls::parse_pem(pem) {
                if let PemItem::Certificate(certificate) = item? {
                    certificates.push(certificate);
                }
            }
            tls = tls.root_certs(RootCerts::Specific(Arc::new(certificates)));
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(TIMEOUT))
            .max_redirects(0)
            .proxy(None)
            .tls_config(tls.build())
            .build();
        Ok(Self { agent: config.into() })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service { agent: self.agent.clone() }))
    }
}

#[derive(Debug)]
struct Service {
    agent: ureq::Agent,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let agent = self.agent.clone();
        let sent = tokio::task::spawn_blocking(move || send(&agent, head, &body)).await;
        sent.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))?
    }
}

fn send(
    agent: &ureq::Agent,
    head: http::request::Parts,
    body: &Bytes,
) -> Result<HttpResponse, HttpError> {
    let has_body = matches!(head.method, http::Method::PUT | http::Method::POST);
    let answer = if has_body || !body.is_empty() {
        agent.run(http::Request::from_parts(head, &body[..]))
    } else {
        agent.run(http::Request::from_parts(head, ()))
    };
    let (head, body) = answer.map_err(failed)?.into_parts();
    let mut body = body;
    let bytes = body.with_config().limit(MAX_ANSWER).read_to_vec().map_err(failed)?;
    let body = Full::new(Bytes::from(bytes)).map_err(|never| match never {});
    Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
}

fn failed(error: ureq::Error) -> HttpError {
    let kind = match &error {
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        ureq::Error::Io(error) => match error.kind() {
            std::io::ErrorKind::ConnectionRefused => HttpErrorKind::Connect,
            std::io::ErrorKind::TimedOut => HttpErrorKind::Timeout,
            _ => HttpErrorKind::Interrupted,
        },
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}
