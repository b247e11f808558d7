//! Records of the audit log in words.

use terse_core::registry::AuditAction;

/// What was done, as a sentence begins: "Host blocked".
pub(super) fn action_words(act: AuditAction) -> Option<&'static str> {
    Some(match act {
        AuditAction::UserAdded => "Account created",
        AuditAction::UserChanged => "Account changed",
        AuditAction::UserSuspended => "Account suspended",
        AuditAction::UserReinstated => "Account reinstated",
        AuditAction::UserErased => "Account erased",
        AuditAction::ResetLinkMade => "Reset link made",
        AuditAction::ResetLinkUsed => "Password set by a reset link",
        AuditAction::TwoFactorOn => "Two-factor sign-in turned on",
        AuditAction::TwoFactorOff => "Two-factor sign-in turned off",
        AuditAction::RecoveryCodeUsed => "Signed in with a recovery code",
        AuditAction::KeyAdded => "API key created",
        AuditAction::KeyRevoked => "API key revoked",
        AuditAction::Invited => "Invitation created",
        AuditAction::InvitationRevoked => "Invitation revoked",
        AuditAction::DomainChanged => "Domain added or changed",
        AuditAction::DomainRemoved => "Domain removed",
        AuditAction::HostBlocked => "Host blocked",
        AuditAction::HostUnblocked => "Host unblocked",
        AuditAction::LinkModerated => "Status of a link set",
        AuditAction::LinkScreened => "Link scanned",
        AuditAction::ReportSettled => "Report settled",
        AuditAction::WebhookAdded => "Webhook created",
        AuditAction::WebhookChanged => "Webhook changed",
        AuditAction::WebhookDisabled => "Webhook switched off",
        AuditAction::WebhookRemoved => "Webhook removed",
        AuditAction::RemovalConfirmed => "Removal confirmed",
        AuditAction::BrandingChanged => "Branding changed",
        AuditAction::Unknown => return None,
    })
}

/// What a record is about.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Subject<'a> {
    /// An account, by its number.
    Account(u64),
    /// A link, by its domain, which is empty for the primary one, and code.
    Link(&'a str, &'a str),
    /// Anything else: what it is, and its name or number.
    Named(&'static str, &'a str),
    /// Nothing that the words of the action do not say.
    Nothing,
    /// What a later version of terse recorded.
    Raw(&'a str),
}

/// Reads the subject of a record as the audit log writes it.
pub(super) fn subject(text: &str) -> Subject<'_> {
    let Some((kind, name)) = text.split_once(':') else {
        return if text == "branding" { Subject::Nothing } else { Subject::Raw(text) };
    };
    match kind {
        "user" => name.parse().map_or(Subject::Raw(text), Subject::Account),
        "link" => name
            .rsplit_once('/')
            .map_or(Subject::Raw(text), |(domain, code)| Subject::Link(domain, code)),
        "key" => Subject::Named("key ", name),
        "webhook" => Subject::Named("webhook ", name),
        "removal" => Subject::Named("removal ", name),
        "domain" | "host" => Subject::Named("", name),
        _ => Subject::Raw(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_has_words_of_its_own() {
        let mut words: Vec<&str> = AuditAction::ALL.into_iter().filter_map(action_words).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), AuditAction::ALL.len());
    }

    #[test]
    fn subjects_are_read() {
        for (text, want) in [
            ("user:3", Subject::Account(3)),
            ("link:/abc", Subject::Link("", "abc")),
            ("link:go.example/abc", Subject::Link("go.example", "abc")),
            ("host:evil.example", Subject::Named("", "evil.example")),
            ("key:7", Subject::Named("key ", "7")),
            ("branding", Subject::Nothing),
            ("moon:1", Subject::Raw("moon:1")),
            ("user:x", Subject::Raw("user:x")),
        ] {
            assert_eq!(subject(text), want, "{text}");
        }
    }
}
