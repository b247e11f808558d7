//! Reports about links.

use std::net::IpAddr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{Moderation, ModerationError};
use crate::link::{Link, LinkKey, OwnerId};
use crate::links::{Caller, LinkError};
use crate::principal::Principal;
use crate::registry::{AbuseReport, NewReport, ReportId, ReportState, ReportedLink, Role};
use crate::validation::{ValidationError, ValidationErrorKind};

/// The longest text of a report, in characters.
pub const MAX_REPORT_TEXT: usize = 2_000;

/// The author of a report.
#[derive(Clone, Copy, Debug)]
pub struct Reporter {
    /// The account, if there is one.
    pub caller: Caller,
    /// The address.
    pub address: IpAddr,
}

impl Reporter {
    fn account(self) -> Option<OwnerId> {
        (self.caller != Caller::Anonymous).then(|| self.caller.owner())
    }

    /// Distinguishes reporters: by account, or else by network. Without the key neither can be
    /// recovered. With open sign-up one user can have many accounts, so only the network counts.
    fn id(self, key: &[u8; 32], anyone_signs_up: bool) -> [u8; 16] {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        match (self.account().filter(|_| !anyone_signs_up), self.address.to_canonical()) {
            (Some(account), _) => {
                mac.update(b"account");
                mac.update(&account.0.to_be_bytes());
            }
            // Ignores the part of an address that one client can easily change.
            (None, IpAddr::V4(v4)) => {
                mac.update(b"v4");
                mac.update(&v4.octets()[..3]);
            }
            (None, IpAddr::V6(v6)) => {
                mac.update(b"v6");
                mac.update(&v6.octets()[..6]);
            }
        }
        let mut id = [0; 16];
        id.copy_from_slice(&mac.finalize().into_bytes()[..16]);
        id
    }
}

impl Moderation {
    /// Checks and counts a report before it is stored: the text, the limit, and whether visitors
    /// can see the link.
    pub async fn draft_report(
        &self,
        from: Reporter,
        key: LinkKey,
        reason: &str,
        text: Option<String>,
    ) -> Result<NewReport, ModerationError> {
        let text = text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        if text.as_ref().is_some_and(|text| text.chars().count() > MAX_REPORT_TEXT) {
            let detail = format!("at most {MAX_REPORT_TEXT} characters");
            let kind = ValidationErrorKind::InvalidRequest;
            return Err(ValidationError::new(kind, "text", detail).into());
        }
        self.limits.report(from.address).await?;
        let link = self.public_links.find(&key, from.address).await?;
        let reporter = from.id(&self.reporter_key, self.accounts.policy().open);
        Ok(NewReport {
            link: key,
            created_at: link.created_at,
            reporter,
            account: from.account(),
            reason: reason.to_owned(),
            text,
            at: self.links.now(),
        })
    }

    /// Keeps a report, durably. Enough independent reports put a warning page before the link; the
    /// inner result says whether this one did. If that fails, a job does it later.
    /// Run this in a task of its own, so that a client that disconnects does not prevent the
    /// warning.
    pub async fn keep_report(
        &self,
        report: NewReport,
    ) -> Result<Result<bool, LinkError>, ModerationError> {
        let (key, created_at) = (report.link.clone(), report.created_at);
        let reporters = self.registry.report(report).await?.reporters;
        let warned = self.reports.warn_if_due(&key, created_at, reporters).await;
        Ok(warned.map_err(LinkError::from))
    }

    /// Reports in a state by link, ordered by their first report, after `after`; each with the link
    /// that they are about, if it still exists. Only for moderators and admins.
    pub async fn reported(
        &self,
        principal: &Principal,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Result<Vec<(ReportedLink, Option<Link>)>, ModerationError> {
        principal.require(Role::Moderator)?;
        let mut found = Vec::new();
        for reported in self.registry.reported(state, after, limit).await? {
            let link = self.reports.link(&reported.link, reported.created_at).await?;
            found.push((reported, link));
        }
        Ok(found)
    }

    /// How many links have open reports; counts up to `most`. Only for moderators and admins.
    pub async fn count_reported(
        &self,
        principal: &Principal,
        most: usize,
    ) -> Result<usize, ModerationError> {
        principal.require(Role::Moderator)?;
        Ok(self.registry.reported(ReportState::Open, None, most).await?.len())
    }

    /// The reports that the caller's account wrote, among the next `limit` reports in a state after
    /// `after`, and where to continue; `None` after the last report.
    pub async fn own_reports(
        &self,
        principal: &Principal,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Result<(Vec<AbuseReport>, Option<ReportId>), ModerationError> {
        let account = principal.owner();
        let mut reports = self.registry.reports(state, after, limit).await?;
        let next = reports.last().map(|last| last.id);
        reports.retain(|report| report.account == Some(account));
        Ok((reports, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reporters_are_told_apart_by_account_or_network() {
        let id = |caller, address: &str, open| {
            Reporter { caller, address: address.parse().unwrap() }.id(&[1; 32], open)
        };
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
            let (first, second) = (id(one.0, one.1, false), id(other.0, other.1, false));
            assert_eq!(first == second, same, "{one:?} {other:?}");
        }
        let reporter = Reporter { caller: ann, address: "203.0.113.7".parse().unwrap() };
        assert_ne!(reporter.id(&[2; 32], false), reporter.id(&[1; 32], false));
        assert_eq!(id(ann, "203.0.113.7", true), id(bob, "203.0.113.8", true));
        assert_eq!(id(ann, "203.0.113.7", true), id(anyone, "203.0.113.8", true));
        assert_ne!(id(ann, "203.0.113.7", true), id(ann, "198.51.100.1", true));
    }
}
