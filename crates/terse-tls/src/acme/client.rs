//! The certificate authority: the account, and one order.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use instant_acme::{
    Account, AuthorizationStatus, BodyWrapper, BytesResponse, Error, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use terse_core::{
    ExchangeMethod, ExchangeRequest, HttpExchange, OutgoingError, RequestLimits, Secret,
};

use super::challenges::ChallengeKind;
use super::diagnosis::{FailureKind, OrderFailure};
use super::records::{CertificateRecord, ChallengeRecord};

/// How long the authority may take to check a host, and then to issue the certificate.
const RETRY_POLICY: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_millis(250)).timeout(Duration::from_mins(1));

/// What the operator chose.
#[derive(Clone, Debug)]
pub struct AcmeSettings {
    /// The URL of the authority's directory.
    pub directory: String,
    /// The address at which the authority reaches the operator.
    pub email: Option<String>,
    /// The kind of challenges; both in turn without one.
    pub challenge: Option<ChallengeKind>,
}

/// Sends the requests of `instant-acme` through the guarded client.
struct GuardedHttp(Arc<dyn HttpExchange>);

type Sending = Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>>;

impl instant_acme::HttpClient for GuardedHttp {
    fn request(&self, request: http::Request<BodyWrapper<Bytes>>) -> Sending {
        let client = Arc::clone(&self.0);
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await;
            let method = match head.method {
                http::Method::HEAD => ExchangeMethod::Head,
                http::Method::POST => {
                    let kind = head.headers.get(http::header::CONTENT_TYPE);
                    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
                    ExchangeMethod::Post(kind.to_owned(), body.to_bytes().to_vec())
                }
                _ => ExchangeMethod::Get,
            };
            let request = ExchangeRequest { url: head.uri.to_string(), method };
            let response = client.exchange(request, RequestLimits::DOCUMENT).await;
            let response = response.map_err(|error| Error::Other(error.into()))?;
            let mut built = http::Response::builder().status(response.status);
            for (name, value) in response.headers {
                built = built.header(name, value);
            }
            Ok(BytesResponse::from(built.body(Full::new(Bytes::from(response.body)))?))
        })
    }
}

/// The authority.
pub(crate) struct AcmeClient {
    http: Arc<dyn HttpExchange>,
    pub(crate) settings: AcmeSettings,
    account: Option<Account>,
}

impl AcmeClient {
    pub(crate) fn new(http: Arc<dyn HttpExchange>, settings: AcmeSettings) -> Self {
        Self { http, settings, account: None }
    }

    /// The account: the one in use, the stored one, or a new one. The caller must store a new one
    /// and then call [`AcmeClient::keep_account`]: an account that could not be stored would be
    /// lost with the process.
    pub(crate) async fn account(
        &self,
        stored: Option<&Secret>,
    ) -> Result<(Account, Option<Secret>), OrderFailure> {
        if let Some(account) = &self.account {
            return Ok((account.clone(), None));
        }
        let builder = Account::builder_with_http(Box::new(GuardedHttp(Arc::clone(&self.http))));
        let stored = stored.and_then(|stored| serde_json::from_str(stored.reveal()).ok());
        let (account, new) = match stored {
            Some(credentials) => (builder.from_credentials(credentials).await?, None),
            None => {
                let contact = self.settings.email.as_ref().map(|email| format!("mailto:{email}"));
                let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
                let new = NewAccount {
                    contact: &contact,
                    terms_of_service_agreed: true,
                    only_return_existing: false,
                };
                let directory = self.settings.directory.clone();
                let (account, credentials) = builder.create(&new, directory, None).await?;
                let credentials = serde_json::to_string(&credentials).map_err(Error::from)?;
                (account, Some(Secret::new(&credentials)))
            }
        };
        Ok((account, new))
    }

    /// Uses this account for further orders.
    pub(crate) fn keep_account(&mut self, account: Account) {
        self.account = Some(account);
    }

    /// Forgets the account, which is made or read again for the next order.
    pub(crate) fn forget_account(&mut self) {
        self.account = None;
    }
}

/// An order that waits for the answer to its challenge.
pub(crate) struct OpenOrder {
    order: Order,
    host: String,
    kind: ChallengeKind,
}

impl OpenOrder {
    /// Orders a certificate. Returns the answer that all nodes must know before
    /// [`OpenOrder::finish`]; none if the authority still knows that the host is ours.
    pub(crate) async fn begin(
        account: &Account,
        host: &str,
        kind: ChallengeKind,
    ) -> Result<(Self, Option<ChallengeRecord>), OrderFailure> {
        let identifiers = [Identifier::Dns(host.to_owned())];
        let order = account.new_order(&NewOrder::new(&identifiers)).await?;
        let mut open = Self { order, host: host.to_owned(), kind };
        let mut answer = None;
        let mut authorizations = open.order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                status => return Err(OrderFailure::other(format!("the check is {status:?}"))),
            }
            let Some(challenge) = authorization.challenge(kind.into()) else {
                let what = "it offers no challenge of the kind that tls.acme.challenge asks for";
                return Err(OrderFailure::other(what.to_owned()));
            };
            let authorized = challenge.key_authorization();
            answer = Some(ChallengeRecord {
                kind,
                token: challenge.token.clone(),
                answer: authorized.as_str().to_owned(),
                digest: authorized.digest().as_ref().to_vec(),
            });
        }
        Ok((open, answer))
    }

    /// Lets the authority check the host, and gets the certificate.
    pub(crate) async fn finish(mut self) -> Result<CertificateRecord, OrderFailure> {
        let mut authorizations = self.order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            if let Some(mut challenge) = authorization.challenge(self.kind.into()) {
                challenge.set_ready().await?;
            }
        }
        match self.order.poll_ready(&RETRY_POLICY).await {
            Ok(OrderStatus::Ready) => {}
            // What the authority says about the challenge tells more than its word on the order.
            Ok(status) => {
                let general = OrderFailure::other(format!("the order is {status:?}"));
                return Err(self.challenge_failure().await.unwrap_or(general));
            }
            Err(error) => return Err(self.challenge_failure().await.unwrap_or(error.into())),
        }
        let made = |_| OrderFailure::other("no key could be made for the certificate".to_owned());
        let mut params = CertificateParams::new(vec![self.host.clone()]).map_err(made)?;
        params.distinguished_name = DistinguishedName::new();
        let key = KeyPair::generate().map_err(made)?;
        let request = params.serialize_request(&key).map_err(made)?;
        self.order.finalize_csr(request.der()).await?;
        let chain = self.order.poll_certificate(&RETRY_POLICY).await?;
        Ok(CertificateRecord { chain, key: key.serialize_pem() })
    }

    /// Why the challenge failed, if the authority says so.
    async fn challenge_failure(&mut self) -> Option<OrderFailure> {
        let mut authorizations = self.order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.ok()?;
            let state = authorization.refresh().await.ok()?;
            let failed = state.challenges.iter().find_map(|challenge| challenge.error.clone());
            if let Some(problem) = failed {
                return Some(Error::Api(problem).into());
            }
        }
        None
    }
}

impl From<Error> for OrderFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) => {
                let kind = problem.r#type.as_deref().unwrap_or_default();
                let kind = kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(kind);
                Self::new(FailureKind::of_problem(kind), problem.detail.unwrap_or_default())
            }
            Error::Other(error) => match error.downcast::<OutgoingError>() {
                Ok(error) => Self::new(FailureKind::NoAuthority, error.to_string()),
                Err(error) => Self::other(error.to_string()),
            },
            Error::Timeout(_) => Self::other("it did not finish in time".to_owned()),
            // Never the text of a document: it may be long, and contain anything.
            Error::Json(_) => Self::other("its answer cannot be read".to_owned()),
            error => Self::other(error.to_string()),
        }
    }
}
