//! The decision about a visit, and the answer that the visitor got.

use crate::link::{Link, LinkStatus};
use crate::time::Timestamp;

/// What a visitor gets, decided from the link and the time. The redirect plane decides once, when
/// it reads a link, and keeps the decision with the link until a date of the link passes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VisitDecision {
    /// A redirect to the target.
    Redirect,
    /// A redirect to the target, with the visitor's query appended.
    RedirectWithQuery,
    /// A redirect to the target that the link's rules choose for this visitor.
    RedirectByRules,
    /// A page with the link's own preview for a known preview fetcher. All other visitors get a
    /// redirect; rules and the query apply.
    RedirectOrPreview,
    /// A redirect if the store can spend one more of the link's clicks. Rules and the query apply.
    RedirectIfSpent,
    /// A warning page.
    Warning,
    /// The password form. A visitor who has given the password is redirected, by the link's rules
    /// and with the query, if a click can be spent where they are limited.
    Password,
    /// 404: no link, a deleted one, or one that is not valid yet.
    NotFound,
    /// 410: the link has expired.
    Gone,
    /// 410: the link has no clicks left.
    UsedUp,
    /// 451: the link was taken down.
    Blocked,
}

impl VisitDecision {
    /// Decides for a link.
    pub fn of(link: &Link, now: Timestamp) -> Self {
        match link.status(now) {
            LinkStatus::Active if link.password.is_some() => Self::Password,
            LinkStatus::Active if link.max_clicks.is_some() => Self::RedirectIfSpent,
            LinkStatus::Active if link.preview.is_some() => Self::RedirectOrPreview,
            LinkStatus::Active if link.rules.is_some() => Self::RedirectByRules,
            LinkStatus::Active if link.forward_query => Self::RedirectWithQuery,
            LinkStatus::Active => Self::Redirect,
            LinkStatus::Scheduled | LinkStatus::Deleted => Self::NotFound,
            LinkStatus::Expired => Self::Gone,
            LinkStatus::UsedUp => Self::UsedUp,
            LinkStatus::Blocked => Self::Blocked,
            LinkStatus::Suspicious => Self::Warning,
        }
    }
}

/// What terse answered a visitor. Counters, the click journal and the statistics use it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Answered {
    /// A click: the visitor was redirected to a target.
    #[default]
    Redirected,
    /// A preview fetcher got the link's own preview. It counts as the redirect that it would have
    /// got otherwise: a click of a bot.
    Previewed,
    /// The warning page was shown.
    Warned,
    /// The password form was shown.
    PasswordAsked,
    /// 404: there is no such link, or it is hidden.
    NotFound,
    /// 404 without a lookup: the store has never issued this code.
    NeverIssued,
    /// 410: the link has expired.
    Gone,
    /// 410: the link has no clicks left.
    UsedUp,
    /// 451: the link was taken down.
    Blocked,
    /// 429.
    Limited(ExceededLimit),
    /// 503: the store did not answer, or could not read the link.
    Unavailable,
    /// 405: the link redirects GET and HEAD only.
    WrongMethod,
    /// 503: a prefetch would spend one of the link's clicks.
    PrefetchRefused,
}

/// The limit that a visitor exceeded.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ExceededLimit {
    /// Requests from one network for links that do not exist.
    Guesses,
    /// Redirects from one network.
    RedirectsPerAddress,
    /// Redirects of one link.
    RedirectsPerLink,
}

impl Answered {
    /// The stable name, in the API and in the statistics. A code that was never issued is an
    /// ordinary `not_found` to its visitor, and a link without clicks is `expired`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Redirected => "redirected",
            Self::Previewed => "previewed",
            Self::Warned => "warned",
            Self::PasswordAsked => "password_asked",
            Self::NotFound | Self::NeverIssued => "not_found",
            Self::Gone | Self::UsedUp => "expired",
            Self::Blocked => "blocked",
            Self::Limited(_) => "rate_limited",
            Self::Unavailable => "store_unavailable",
            Self::WrongMethod => "method_not_allowed",
            Self::PrefetchRefused => "prefetch_refused",
        }
    }

    /// Its byte in a journal record. `None` if the journal has no record of such a visit: such a
    /// visit neither reached its target nor failed for good. The bytes are part of the journal's
    /// format and never change.
    #[inline]
    pub fn journal_byte(self) -> Option<u8> {
        match self {
            Self::Redirected | Self::Previewed => Some(0),
            Self::NotFound | Self::NeverIssued => Some(1),
            Self::Gone | Self::UsedUp => Some(2),
            Self::Blocked => Some(3),
            Self::Warned => Some(4),
            Self::PasswordAsked
            | Self::Limited(_)
            | Self::Unavailable
            | Self::WrongMethod
            | Self::PrefetchRefused => None,
        }
    }

    /// The answer for a byte of a journal record; `None` if the format has no such byte.
    pub fn from_journal_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Redirected,
            1 => Self::NotFound,
            2 => Self::Gone,
            3 => Self::Blocked,
            4 => Self::Warned,
            _ => return None,
        })
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
            imported_clicks: 0,
            redirect: RedirectKind::default(),
            title: None,
            tags: Tags::default(),
            notes: None,
            password: None,
            archived_at: None,
            rules: None,
            preview: None,
            forward_query: false,
            crawlable: false,
            moderation: ModerationStatus::Clear,
            moderated_by: ModerationSource::Screen,
            flags: LinkFlags::default(),
            deleted_at: None,
            reusable: false,
            revision: Revision(0),
        }
    }

    #[test]
    fn each_state_of_a_link_has_its_decision() {
        use VisitDecision as Decision;
        let now = Timestamp::from_ms(1_000);
        let password = || Some(PasswordHash::from_phc("$"));
        let rules = || {
            let rules = r#"[{"device":"mobile","to":"https://m.example/"}]"#;
            Some(crate::rules::Rules::from_stored(rules).unwrap())
        };
        let preview = || SocialPreview::from_stored(r#"{"title":"Sale"}"#);
        type Case<'a> = (&'a dyn Fn(&mut Link), VisitDecision);
        let cases: &[Case<'_>] = &[
            (&|_| (), Decision::Redirect),
            (&|l| l.forward_query = true, Decision::RedirectWithQuery),
            (&|l| l.rules = rules(), Decision::RedirectByRules),
            (&|l| (l.rules, l.forward_query) = (rules(), true), Decision::RedirectByRules),
            (&|l| (l.rules, l.max_clicks) = (rules(), Some(1)), Decision::RedirectIfSpent),
            (&|l| l.preview = preview(), Decision::RedirectOrPreview),
            (&|l| (l.preview, l.rules) = (preview(), rules()), Decision::RedirectOrPreview),
            (&|l| (l.preview, l.password) = (preview(), password()), Decision::Password),
            (&|l| (l.preview, l.max_clicks) = (preview(), Some(1)), Decision::RedirectIfSpent),
            (
                &|l| (l.preview, l.moderation) = (preview(), ModerationStatus::Suspicious),
                Decision::Warning,
            ),
            (&|l| l.expires_at = Some(now), Decision::Gone),
            (&|l| l.valid_from = Some(now), Decision::Redirect),
            (&|l| l.valid_from = Some(Timestamp::from_ms(1_001)), Decision::NotFound),
            (&|l| l.max_clicks = Some(1), Decision::RedirectIfSpent),
            (&|l| (l.max_clicks, l.forward_query) = (Some(1), true), Decision::RedirectIfSpent),
            (&|l| (l.max_clicks, l.spent_clicks) = (Some(1), 1), Decision::UsedUp),
            (&|l| l.moderation = ModerationStatus::Blocked, Decision::Blocked),
            (&|l| l.moderation = ModerationStatus::Suspicious, Decision::Warning),
            (&|l| l.password = password(), Decision::Password),
            (&|l| (l.password, l.max_clicks) = (password(), Some(1)), Decision::Password),
            (&|l| (l.password, l.expires_at) = (password(), Some(now)), Decision::Gone),
            (
                &|l| (l.password, l.moderation) = (password(), ModerationStatus::Suspicious),
                Decision::Warning,
            ),
            (
                &|l| (l.deleted_at, l.moderation) = (Some(now), ModerationStatus::Blocked),
                Decision::NotFound,
            ),
        ];
        for (index, (change, want)) in cases.iter().enumerate() {
            let mut link = link();
            change(&mut link);
            assert_eq!(VisitDecision::of(&link, now), *want, "case {index}");
        }
    }

    /// Journals on disk hold these bytes.
    #[test]
    fn the_bytes_of_the_journal_never_change() {
        for (answered, byte) in [
            (Answered::Redirected, Some(0)),
            (Answered::Previewed, Some(0)),
            (Answered::NotFound, Some(1)),
            (Answered::NeverIssued, Some(1)),
            (Answered::Gone, Some(2)),
            (Answered::UsedUp, Some(2)),
            (Answered::Blocked, Some(3)),
            (Answered::Warned, Some(4)),
            (Answered::PasswordAsked, None),
            (Answered::Limited(ExceededLimit::Guesses), None),
            (Answered::Unavailable, None),
            (Answered::WrongMethod, None),
            (Answered::PrefetchRefused, None),
        ] {
            assert_eq!(answered.journal_byte(), byte, "{answered:?}");
        }
        for byte in 0..=u8::MAX {
            let answered = Answered::from_journal_byte(byte);
            assert_eq!(answered.is_some(), byte < 5);
            assert_eq!(answered.and_then(Answered::journal_byte), answered.map(|_| byte));
        }
    }
}
