//! Sends requests and follows redirects. Blocking: runs on the pool's threads.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Instant;

use terse_core::{
    ExchangeMethod, ExchangeResponse, GetResponse, OutgoingError, OversizePolicy, PostResponse,
    RequestLimits, Validators,
};
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::transport::{Connector as _, RustlsConnector};
use ureq::{Agent, Body};

use crate::connector::{GuardedConnector, PinnedResolver, TlsConnector};
use crate::error::from_ureq;
use crate::policy::Policy;
use crate::request_url::RequestUrl;
use crate::resolve::{HostResolver, SystemResolver};
use crate::response::{get_response, post_response};
use crate::settings::OutgoingSettings;

/// The maximum number of redirects.
const MAX_REDIRECTS: usize = 3;
/// The maximum size of a response header.
const MAX_HEAD_SIZE: usize = 16 << 10;
/// The size of the read and write buffers.
const BUFFER: usize = 32 << 10;

/// The state that all requests share.
pub(crate) struct BlockingClient {
    pub(crate) policy: Policy,
    resolver: Arc<dyn HostResolver>,
    user_agent: HeaderValue,
    tls: TlsConnector,
    tls_config: TlsConfig,
}

impl BlockingClient {
    pub(crate) fn new(settings: &OutgoingSettings) -> Self {
        let clean: String =
            settings.user_agent.chars().filter(|c| matches!(c, ' '..='~')).take(256).collect();
        let roots = match &*settings.trust_only {
            [] => RootCerts::WebPki,
            only => RootCerts::Specific(Arc::new(
                only.iter().map(|der| Certificate::from_der(der).to_owned()).collect(),
            )),
        };
        Self {
            policy: Policy { allow_private: settings.allow_private, allow: settings.allow.clone() },
            resolver: settings
                .resolver
                .clone()
                .unwrap_or_else(|| Arc::new(SystemResolver::new(settings.allow_private))),
            user_agent: HeaderValue::from_str(clean.trim())
                .unwrap_or(HeaderValue::from_static("terse")),
            tls: TlsConnector(Arc::new(RustlsConnector::default())),
            tls_config: TlsConfig::builder().root_certs(roots).build(),
        }
    }

    /// Gets a document and follows redirects.
    pub(crate) fn get(
        &self,
        mut url: RequestUrl,
        limits: RequestLimits,
        known: &Validators,
        deadline: Instant,
    ) -> Result<GetResponse, OutgoingError> {
        // The validators belong to the document at the end of the redirects, so they are sent to
        // every hop. Other headers are not.
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (header::IF_NONE_MATCH, &known.etag),
            (header::IF_MODIFIED_SINCE, &known.last_modified),
        ] {
            if let Some(value) =
                value.as_deref().and_then(|value| HeaderValue::from_str(value).ok())
            {
                headers.insert(name, value);
            }
        }
        for redirects in 0.. {
            let response = self.hop(Method::GET, &url, &headers, &[], deadline)?;
            let Some(location) = location(&response)? else {
                return read(response, &url, limits, deadline);
            };
            if redirects == MAX_REDIRECTS {
                break;
            }
            url = url.follow(location, &self.policy)?;
        }
        Err(OutgoingError::TooManyRedirects)
    }

    /// Posts once, without following redirects: a payload signed for one receiver is sent to no
    /// other.
    pub(crate) fn post(
        &self,
        url: &RequestUrl,
        headers: &HeaderMap,
        body: &[u8],
        deadline: Instant,
    ) -> Result<PostResponse, OutgoingError> {
        let response = self.hop(Method::POST, url, headers, body, deadline)?;
        Ok(post_response(response.status(), response.headers()))
    }

    /// Sends one request, a GET or a POST, and reads its response. A redirect is a response.
    pub(crate) fn call(
        &self,
        url: &RequestUrl,
        headers: &HeaderMap,
        body: Option<&[u8]>,
        limits: RequestLimits,
        deadline: Instant,
    ) -> Result<GetResponse, OutgoingError> {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let response = self.hop(method, url, headers, body.unwrap_or_default(), deadline)?;
        read(response, url, limits, deadline)
    }

    /// Sends one request and reads its response with the header. A redirect is a response.
    pub(crate) fn exchange(
        &self,
        url: &RequestUrl,
        method: &ExchangeMethod,
        headers: &HeaderMap,
        limits: RequestLimits,
        deadline: Instant,
    ) -> Result<ExchangeResponse, OutgoingError> {
        let (method, body) = match method {
            ExchangeMethod::Get => (Method::GET, &[][..]),
            ExchangeMethod::Head => (Method::HEAD, &[][..]),
            ExchangeMethod::Post(_, body) => (Method::POST, &body[..]),
        };
        let response = self.hop(method, url, headers, body, deadline)?;
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        let headers = response.headers().iter().filter_map(text).collect();
        let GetResponse { status, body, .. } = read(response, url, limits, deadline)?;
        Ok(ExchangeResponse { status, headers, body })
    }

    fn hop(
        &self,
        method: Method,
        url: &RequestUrl,
        headers: &HeaderMap,
        body: &[u8],
        deadline: Instant,
    ) -> Result<Response<Body>, OutgoingError> {
        let addresses = self.policy.addresses(url, &*self.resolver, deadline)?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(OutgoingError::Timeout);
        }
        let config = Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .accept_encoding("identity")
            .max_idle_connections(0)
            .max_response_header_size(MAX_HEAD_SIZE)
            .input_buffer_size(BUFFER)
            .output_buffer_size(BUFFER)
            .timeout_global(Some(left))
            .tls_config(self.tls_config.clone())
            .build();
        let connector = GuardedConnector {
            addresses: addresses.clone(),
            policy: self.policy.clone(),
            deadline,
        };
        let agent =
            Agent::with_parts(config, connector.chain(self.tls.clone()), PinnedResolver(addresses));
        let mut request = Request::builder().method(method.clone()).uri(url.uri());
        if let Some(all) = request.headers_mut() {
            all.extend(headers.clone());
            all.insert(header::USER_AGENT, self.user_agent.clone());
            all.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let result = match method {
            Method::POST => {
                request.body(body).map_err(ureq::Error::from).and_then(|request| agent.run(request))
            }
            _ => request.body(()).map_err(ureq::Error::from).and_then(|request| agent.run(request)),
        };
        result.map_err(|error| from_ureq(error, url.is_tls()))
    }
}

/// The `Location` of a redirect; `None` for other responses.
fn location(response: &Response<Body>) -> Result<Option<&[u8]>, OutgoingError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let mut all = response.headers().get_all(header::LOCATION).iter();
    match (all.next(), all.next()) {
        (Some(one), None) => Ok(Some(one.as_bytes())),
        (None, _) => Err(OutgoingError::BadRedirect("it has no Location header")),
        _ => Err(OutgoingError::BadRedirect("it has more than one Location header")),
    }
}

fn read(
    response: Response<Body>,
    url: &RequestUrl,
    limits: RequestLimits,
    deadline: Instant,
) -> Result<GetResponse, OutgoingError> {
    let (parts, body) = response.into_parts();
    let mut fetched = get_response(url.as_str(), parts.status, &parts.headers);
    if limits.max_body == 0 {
        return Ok(fetched);
    }
    // Compression was not requested, and a small compressed body can expand enormously.
    let plain = |name: &HeaderName, word: &str| {
        parts
            .headers
            .get_all(name)
            .iter()
            .all(|v| v.as_bytes().eq_ignore_ascii_case(word.as_bytes()))
    };
    if !plain(&header::CONTENT_ENCODING, "identity")
        || !plain(&header::TRANSFER_ENCODING, "chunked")
    {
        return Err(OutgoingError::InvalidResponse("the body is compressed"));
    }
    let too_large = OutgoingError::TooLarge { limit: limits.max_body };
    if limits.oversize == OversizePolicy::Refuse
        && body.content_length().is_some_and(|length| length > limits.max_body as u64)
    {
        return Err(too_large);
    }
    let mut reader = body.into_reader();
    let mut chunk = vec![0; BUFFER];
    loop {
        // The socket has the deadline too, but a fast sender never makes it wait.
        if Instant::now() >= deadline {
            return Err(OutgoingError::Timeout);
        }
        let read = match reader.read(&mut chunk) {
            Ok(0) => return Ok(fetched),
            Ok(read) => read,
            Err(error) => return Err(from_ureq(error.into(), url.is_tls())),
        };
        let remaining = limits.max_body - fetched.body.len();
        fetched.body.extend_from_slice(&chunk[..read.min(remaining)]);
        if read > remaining {
            fetched.truncated = true;
            return if limits.oversize == OversizePolicy::Truncate {
                Ok(fetched)
            } else {
                Err(too_large)
            };
        }
    }
}
