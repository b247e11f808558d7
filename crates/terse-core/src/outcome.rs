//! What a visitor gets for a link, decided from the link and the time alone.

use crate::time::Timestamp;

use crate::link::{Link, Status};

/// The answer to a visit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Visit {
    /// Redirect to the target.
    Go,
    /// Redirect if one more click can be spent: the store decides.
    GoIfSpent,
    /// As if there were no such link: deleted, or not yet valid.
    NotFound,
    /// It was there and is over: expired or used up.
    Gone,
    /// Taken down.
    Blocked,
    /// Show a warning; going on takes a click.
    Warn,
    /// Ask for the password. Whoever knows it goes, if one more click can be spent where these are
    /// counted.
    Password,
}

/// Decides a visit.
pub fn visit(link: &Link, now: Timestamp) -> Visit {
    match link.status(now) {
        Status::Active if link.password.is_some() => Visit::Password,
        Status::Active if link.max_clicks.is_some() => Visit::GoIfSpent,
        Status::Active => Visit::Go,
        Status::Scheduled | Status::Deleted => Visit::NotFound,
        Status::Expired | Status::UsedUp => Visit::Gone,
        Status::Blocked => Visit::Blocked,
        Status::Suspicious => Visit::Warn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::*;

    fn link() -> Link {
        let at = Timestamp::from_ms(1);
        Link {
            key: LinkKey { domain: Domain::primary(), code: Code::parse("abc").unwrap() },
            generated: false,
            owner: OwnerId::ADMIN,
            target: Target::from_stored("https://example.com/".into()),
            created_at: at,
            updated_at: at,
            expires_at: None,
            valid_from: None,
            max_clicks: None,
            spent_clicks: 0,
            redirect: RedirectKind::default(),
            title: None,
            tags: Tags::default(),
            notes: None,
            password: None,
            archived_at: None,
            rules: None,
            forward_query: false,
            crawlable: false,
            standing: ModerationStatus::Clear,
            judged: ModerationSource::Screen,
            flags: Flags::default(),
            deleted_at: None,
            reusable: false,
            revision: Revision(0),
        }
    }

    #[test]
    fn each_state_has_its_answer() {
        let now = Timestamp::from_ms(1_000);
        type Case = (fn(&mut Link, Timestamp), Visit);
        let cases: [Case; 13] = [
            (|_, _| (), Visit::Go),
            (|l, now| l.expires_at = Some(now), Visit::Gone),
            (|l, now| l.valid_from = Some(now), Visit::Go),
            (|l, _| l.valid_from = Some(Timestamp::from_ms(1_001)), Visit::NotFound),
            (|l, _| l.max_clicks = Some(1), Visit::GoIfSpent),
            (|l, _| (l.max_clicks, l.spent_clicks) = (Some(1), 1), Visit::Gone),
            (|l, _| l.standing = ModerationStatus::Blocked, Visit::Blocked),
            (|l, _| l.standing = ModerationStatus::Suspicious, Visit::Warn),
            (|l, _| l.password = Some(PasswordHash::from_phc("$")), Visit::Password),
            (
                |l, _| (l.password, l.max_clicks) = (Some(PasswordHash::from_phc("$")), Some(1)),
                Visit::Password,
            ),
            (
                |l, now| {
                    (l.password, l.expires_at) = (Some(PasswordHash::from_phc("$")), Some(now));
                },
                Visit::Gone,
            ),
            (
                |l, _| {
                    (l.password, l.standing) =
                        (Some(PasswordHash::from_phc("$")), ModerationStatus::Suspicious);
                },
                Visit::Warn,
            ),
            (
                |l, now| (l.deleted_at, l.standing) = (Some(now), ModerationStatus::Blocked),
                Visit::NotFound,
            ),
        ];
        for (index, (change, want)) in cases.into_iter().enumerate() {
            let mut link = link();
            change(&mut link, now);
            assert_eq!(visit(&link, now), want, "case {index}");
        }
    }
}
