//! Requests and answers, one hop after the other. Blocking: runs on the pool's threads.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Instant;

use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::transport::{Connector as _, RustlsConnector};
use ureq::{Agent, Body};

use crate::answer::{Fetched, Posted, Validators};
use crate::error::{OutgoingError, from_ureq};
use crate::policy::Policy;
use crate::remote_addr::RemoteAddr;
use crate::resolve::{Resolve, System};
use crate::settings::{Limits, OutgoingSettings, Over};
use crate::wire::{Pinned, Tls, Wire};

/// Redirects that are followed.
const MAX_REDIRECTS: usize = 3;
/// The longest head of an answer.
const MAX_HEAD_SIZE: usize = 16 << 10;
/// How much is read or written at once.
const BUFFER: usize = 32 << 10;

/// All that requests have in common.
pub(crate) struct Exchange {
    pub(crate) policy: Policy,
    resolver: Arc<dyn Resolve>,
    user_agent: HeaderValue,
    tls: Tls,
    tls_config: TlsConfig,
}

impl Exchange {
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
                .unwrap_or_else(|| Arc::new(System::new(settings.allow_private))),
            user_agent: HeaderValue::from_str(clean.trim())
                .unwrap_or(HeaderValue::from_static("terse")),
            tls: Tls(Arc::new(RustlsConnector::default())),
            tls_config: TlsConfig::builder().root_certs(roots).build(),
        }
    }

    /// Gets a document, wherever it has moved to.
    pub(crate) fn get(
        &self,
        mut place: RemoteAddr,
        limits: Limits,
        known: &Validators,
        deadline: Instant,
    ) -> Result<Fetched, OutgoingError> {
        // The validators came from where the redirects ended, so they go along. Nothing else does.
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
        for followed in 0.. {
            let response = self.hop(Method::GET, &place, &headers, &[], deadline)?;
            let Some(location) = location(&response)? else {
                return read(response, &place, limits, deadline);
            };
            if followed == MAX_REDIRECTS {
                break;
            }
            place = place.follow(location, &self.policy)?;
        }
        Err(OutgoingError::TooManyRedirects)
    }

    /// Posts once, to this place only: what was signed for one receiver is not carried to another.
    pub(crate) fn post(
        &self,
        place: &RemoteAddr,
        headers: &HeaderMap,
        body: &[u8],
        deadline: Instant,
    ) -> Result<Posted, OutgoingError> {
        let response = self.hop(Method::POST, place, headers, body, deadline)?;
        Ok(Posted::of(response.status(), response.headers()))
    }

    fn hop(
        &self,
        method: Method,
        place: &RemoteAddr,
        headers: &HeaderMap,
        body: &[u8],
        deadline: Instant,
    ) -> Result<Response<Body>, OutgoingError> {
        let addresses = self.policy.addresses(place, &*self.resolver, deadline)?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(OutgoingError::TooSlow);
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
        let wire = Wire { addresses: addresses.clone(), policy: self.policy.clone(), deadline };
        let agent = Agent::with_parts(config, wire.chain(self.tls.clone()), Pinned(addresses));
        let mut request = Request::builder().method(method.clone()).uri(place.uri());
        if let Some(all) = request.headers_mut() {
            all.extend(headers.clone());
            all.insert(header::USER_AGENT, self.user_agent.clone());
            all.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let asked = match method {
            Method::POST => {
                request.body(body).map_err(ureq::Error::from).and_then(|request| agent.run(request))
            }
            _ => request.body(()).map_err(ureq::Error::from).and_then(|request| agent.run(request)),
        };
        asked.map_err(|error| from_ureq(error, place.is_tls()))
    }
}

/// Where an answer sends us, if it does.
fn location(response: &Response<Body>) -> Result<Option<&[u8]>, OutgoingError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let mut all = response.headers().get_all(header::LOCATION).iter();
    match (all.next(), all.next()) {
        (Some(one), None) => Ok(Some(one.as_bytes())),
        (None, _) => Err(OutgoingError::BadRedirect("it has no location")),
        _ => Err(OutgoingError::BadRedirect("it has two locations")),
    }
}

fn read(
    response: Response<Body>,
    place: &RemoteAddr,
    limits: Limits,
    deadline: Instant,
) -> Result<Fetched, OutgoingError> {
    let (parts, body) = response.into_parts();
    let mut fetched = Fetched::of(place.as_str(), parts.status, &parts.headers);
    if limits.body == 0 {
        return Ok(fetched);
    }
    // None was asked for, and a small packed body may be a very large one.
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
        return Err(OutgoingError::BadAnswer("its body is compressed"));
    }
    let too_large = OutgoingError::TooLarge { limit: limits.body };
    if limits.over == Over::Refuse
        && body.content_length().is_some_and(|length| length > limits.body as u64)
    {
        return Err(too_large);
    }
    let mut reader = body.into_reader();
    let mut piece = vec![0; BUFFER];
    loop {
        // The socket knows the deadline too, but a flood never makes it wait.
        if Instant::now() >= deadline {
            return Err(OutgoingError::TooSlow);
        }
        let read = match reader.read(&mut piece) {
            Ok(0) => return Ok(fetched),
            Ok(read) => read,
            Err(error) => return Err(from_ureq(error.into(), place.is_tls())),
        };
        let room = limits.body - fetched.body.len();
        fetched.body.extend_from_slice(&piece[..read.min(room)]);
        if read > room {
            fetched.truncated = true;
            return if limits.over == Over::Cut { Ok(fetched) } else { Err(too_large) };
        }
    }
}
