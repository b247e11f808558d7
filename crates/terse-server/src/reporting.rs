//! Reports: who tells us that a link should not be, and what comes of it.

use std::net::IpAddr;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use terse_core::registry::{NewReport, REPORTERS_TO_WARN};
use terse_core::{Caller, LinkKey, OwnerId, Status};
use utoipa::ToSchema;

use crate::accounts::Accounts;
use crate::http::problem::{Problem, STORE_UNAVAILABLE};
use crate::http::state::App;

/// How much may be said about a link, in characters.
pub(crate) const MAX_REPORT_TEXT: usize = 2_000;

/// Why a link should not be.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    Phishing,
    Malware,
    Spam,
    Illegal,
    Other,
}

impl Reason {
    /// All of them, the gravest first.
    pub(crate) const ALL: [Self; 5] =
        [Self::Phishing, Self::Malware, Self::Spam, Self::Illegal, Self::Other];

    /// The word on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Phishing => "phishing",
            Self::Malware => "malware",
            Self::Spam => "spam",
            Self::Illegal => "illegal",
            Self::Other => "other",
        }
    }

    /// From the word on the wire.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

/// Whoever reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reporter {
    pub(crate) caller: Caller,
    pub(crate) address: IpAddr,
}

impl Reporter {
    fn account(self) -> Option<OwnerId> {
        (self.caller != Caller::Anonymous).then(|| self.caller.owner())
    }

    /// Tells reporters apart: by their account, else by the network they are in. Nobody without the
    /// key can tell which.
    fn name(self, key: &[u8; 32], accounts: &Accounts) -> [u8; 16] {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        // Where anybody can make accounts, three of them are no three people.
        let account = self.account().filter(|_| !accounts.open);
        match (account, self.address.to_canonical()) {
            (Some(account), _) => {
                mac.update(b"account");
                mac.update(&account.0.to_be_bytes());
            }
            // As much as one person can easily change of an address does not count.
            (None, IpAddr::V4(v4)) => {
                mac.update(b"v4");
                mac.update(&v4.octets()[..3]);
            }
            (None, IpAddr::V6(v6)) => {
                mac.update(b"v6");
                mac.update(&v6.octets()[..6]);
            }
        }
        let mut name = [0; 16];
        name.copy_from_slice(&mac.finalize().into_bytes()[..16]);
        name
    }
}

/// Keeps a report. `Ok` means durable. Enough independent ones put a warning page before the link.
pub(crate) async fn report(
    state: &Arc<App>,
    from: Reporter,
    key: LinkKey,
    reason: Reason,
    text: Option<String>,
) -> Result<(), Problem> {
    let text = text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    if text.as_ref().is_some_and(|text| text.chars().count() > MAX_REPORT_TEXT) {
        return Err(Problem::invalid("text", format!("at most {MAX_REPORT_TEXT} characters")));
    }
    state.limits.report(from.address).await?;
    let now = state.links.now();
    let link = state.links.preview(&key).await?;
    // What is not there for a visitor is not there for whoever reports it.
    let link = link.filter(|link| !matches!(link.status(now), Status::Deleted | Status::Scheduled));
    let Some(link) = link else {
        state.limits.guess(Some(from.address)).await?;
        return Err(Problem::no_link());
    };
    let (born, reason) = (link.created_at, reason.as_str().to_owned());
    let reporter = from.name(&state.reporter_key, &state.accounts);
    let report =
        NewReport { link: key, born, reporter, account: from.account(), reason, text, at: now };
    // On its own: whoever hangs up in between must not keep the warning from being put up.
    let kept = tokio::spawn(keep(Arc::clone(state), report));
    kept.await.unwrap_or_else(|_| {
        Err(Problem::new(&STORE_UNAVAILABLE, "the report could not be kept; try again"))
    })
}

async fn keep(state: Arc<App>, report: NewReport) -> Result<(), Problem> {
    let (key, born) = (report.link.clone(), report.born);
    let reported = state.registry.report(report).await?;
    if reported.reporters < REPORTERS_TO_WARN {
        return Ok(());
    }
    match state.links.warn(&key, born).await {
        Ok(Some(_)) => {
            tracing::info!(link.code = %key.code, "several people have reported {}; visitors are \
                warned", key.code);
        }
        Ok(None) => {}
        // The report is kept: whoever looks after reports puts the warning up later.
        Err(error) => {
            tracing::warn!(%error, "a link that several people have reported could not be given a \
                warning");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reporters_are_told_apart_by_account_or_network() {
        let (closed, open) = (Accounts::closed(), Accounts { open: true, ..Accounts::closed() });
        let from = |caller, address: &str| Reporter { caller, address: address.parse().unwrap() };
        let name = |caller, address: &str| from(caller, address).name(&[1; 32], &closed);
        let (anyone, ann, bob) =
            (Caller::Anonymous, Caller::Owner(OwnerId(1000)), Caller::Owner(OwnerId(1001)));
        for (one, other, same) in [
            ((anyone, "203.0.113.7"), (anyone, "203.0.113.200"), true),
            ((anyone, "203.0.113.7"), (anyone, "203.0.114.7"), false),
            ((anyone, "203.0.113.7"), (anyone, "::ffff:203.0.113.9"), true),
            ((anyone, "2001:db8:1:2::3"), (anyone, "2001:db8:1:ffff::1"), true),
            ((anyone, "2001:db8:1::"), (anyone, "2001:db8:2::"), false),
            ((ann, "203.0.113.7"), (ann, "198.51.100.1"), true),
            ((ann, "203.0.113.7"), (Caller::Admin(OwnerId(1000)), "203.0.113.7"), true),
            ((ann, "203.0.113.7"), (bob, "203.0.113.7"), false),
            ((ann, "203.0.113.7"), (anyone, "203.0.113.7"), false),
        ] {
            assert_eq!(name(one.0, one.1) == name(other.0, other.1), same, "{one:?} {other:?}");
        }
        let other_key = from(ann, "203.0.113.7").name(&[2; 32], &closed);
        assert_ne!(name(ann, "203.0.113.7"), other_key);
        let name = |caller, address: &str| from(caller, address).name(&[1; 32], &open);
        assert_eq!(name(ann, "203.0.113.7"), name(bob, "203.0.113.8"), "accounts are for anybody");
        assert_eq!(name(ann, "203.0.113.7"), name(anyone, "203.0.113.8"));
        assert_ne!(name(ann, "203.0.113.7"), name(ann, "198.51.100.1"));
    }
}
