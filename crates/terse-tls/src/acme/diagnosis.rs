//! Why an order failed, in plain words: what is wrong, and what to do.

use std::net::IpAddr;

use terse_core::{DnsState, DomainChecks};

use super::challenges::ChallengeKind;

/// The most characters of the authority's own words that are shown.
const MAX_DETAIL: usize = 400;
/// Stands between terse's own words and the authority's.
const DETAIL_MARK: &str = " It says: ";

/// What is wrong in terse's own words, without the authority's.
pub(crate) fn own_words(problem: &str) -> &str {
    problem.split_once(DETAIL_MARK).map_or(problem, |(own, _)| own)
}

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FailureKind {
    /// The authority found no address of the host.
    Dns,
    /// The authority could not connect to the host.
    Connection,
    /// A CAA record forbids the certificate.
    Caa,
    /// Something else than this server answered.
    WrongAnswer,
    /// Too many orders.
    RateLimited,
    /// The authority issues no certificate for such a name.
    Refused,
    /// The authority does not know the account any more.
    NoAccount,
    /// The authority itself cannot be reached.
    NoAuthority,
    /// Anything else.
    Other,
}

impl FailureKind {
    /// From the type of a problem document of ACME.
    pub(crate) fn of_problem(kind: &str) -> Self {
        match kind {
            "dns" => Self::Dns,
            "connection" => Self::Connection,
            "caa" => Self::Caa,
            "unauthorized" | "incorrectResponse" | "tls" => Self::WrongAnswer,
            "rateLimited" => Self::RateLimited,
            "rejectedIdentifier" | "unsupportedIdentifier" => Self::Refused,
            "accountDoesNotExist" => Self::NoAccount,
            _ => Self::Other,
        }
    }
}

/// An order that failed.
#[derive(Debug)]
pub(crate) struct OrderFailure {
    pub(crate) kind: FailureKind,
    /// The authority's own words.
    detail: String,
}

impl OrderFailure {
    pub(crate) fn new(kind: FailureKind, detail: String) -> Self {
        let detail = detail.chars().filter(|c| !c.is_control()).take(MAX_DETAIL).collect();
        Self { kind, detail }
    }

    pub(crate) fn other(detail: String) -> Self {
        Self::new(FailureKind::Other, detail)
    }

    /// What is wrong, and what to do about it.
    pub(crate) async fn explain(
        &self,
        host: &str,
        challenge: ChallengeKind,
        checks: &DomainChecks,
    ) -> String {
        let dns = match self.kind {
            FailureKind::Dns | FailureKind::Connection | FailureKind::WrongAnswer => {
                let expected = checks.expected().await;
                checks.check(host, &expected).await
            }
            _ => DnsState::Unknown,
        };
        self.words(host, challenge, &dns)
    }

    fn words(&self, host: &str, challenge: ChallengeKind, dns: &DnsState) -> String {
        let port = challenge.port();
        let found = match (self.kind, dns) {
            (FailureKind::Dns, _) | (_, DnsState::NoRecord) => format!(
                "{host} has no DNS record that the certificate authority can use. Add an A or AAAA \
                 record that leads to this server."
            ),
            (_, DnsState::Elsewhere(found)) => {
                let found: Vec<String> = found.iter().map(IpAddr::to_string).collect();
                format!(
                    "The DNS record of {host} leads to {}, and base_url leads elsewhere. Change \
                     the record so that it leads to this server.",
                    found.join(", ")
                )
            }
            (FailureKind::Connection, _) => format!(
                "The certificate authority cannot connect to port {port} of {host}. Open the port \
                 in the firewall, or forward it to this server."
            ),
            (FailureKind::WrongAnswer, _) => format!(
                "Something else than this server answered at port {port} of {host}, perhaps a \
                 proxy or an old server. Let the port lead to terse."
            ),
            (FailureKind::Caa, _) => format!(
                "A CAA record in DNS forbids this certificate authority to issue a certificate \
                 for {host}. Add one that allows it, or remove the record."
            ),
            (FailureKind::RateLimited, _) => {
                "The certificate authority issues no more certificates for now.".to_owned()
            }
            (FailureKind::Refused, _) => {
                format!("The certificate authority issues no certificate for the name {host}.")
            }
            (FailureKind::NoAccount, _) => {
                "The certificate authority does not know the account any more; terse makes a new \
                 one."
                    .to_owned()
            }
            (FailureKind::NoAuthority, _) => "The certificate authority cannot be reached from \
                                              this server. Check tls.acme.directory and the \
                                              network."
                .to_owned(),
            (FailureKind::Other, _) => "The order failed.".to_owned(),
        };
        match self.detail.is_empty() {
            true => found,
            false => format!("{found}{DETAIL_MARK}{}", self.detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_explained_in_plain_words() {
        let elsewhere = DnsState::Elsewhere(vec![[192, 0, 2, 7].into()]);
        for (problem, dns, words) in [
            ("dns", DnsState::Unknown, "has no DNS record"),
            ("connection", DnsState::NoRecord, "has no DNS record"),
            ("unauthorized", elsewhere, "leads to 192.0.2.7, and base_url leads elsewhere"),
            ("connection", DnsState::LocalServer, "cannot connect to port 80 of s.example"),
            ("unauthorized", DnsState::Unknown, "Something else than this server answered"),
            ("caa", DnsState::Unknown, "A CAA record in DNS forbids"),
            ("rateLimited", DnsState::Unknown, "no more certificates for now"),
            ("rejectedIdentifier", DnsState::Unknown, "issues no certificate for the name"),
            ("somethingNew", DnsState::Unknown, "The order failed. It says: why"),
        ] {
            let failure = OrderFailure::new(FailureKind::of_problem(problem), "why".to_owned());
            let said = failure.words("s.example", ChallengeKind::Http01, &dns);
            assert!(said.contains(words) && said.ends_with("It says: why"), "{problem}: {said}");
            assert!(said.starts_with(own_words(&said)) && !own_words(&said).contains("why"));
        }
        let long = OrderFailure::other(format!("a\r\nb{}", "x".repeat(1000)));
        let said = long.words("s.example", ChallengeKind::TlsAlpn01, &DnsState::Unknown);
        assert!(said.len() < 500 && said.contains("It says: abx"), "{said}");
    }
}
