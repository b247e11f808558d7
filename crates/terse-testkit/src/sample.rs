//! Sample links for tests.

use terse_core::rules::Rules;
use terse_core::{
    Code, Domain, Link, LinkFlags, LinkKey, ModerationSource, ModerationStatus, OwnerId,
    RedirectKind, Revision, SocialPreview, Tags, Target, Timestamp,
};

/// The creation time of sample links: `ms` after 2026-01-01T00:00:00Z.
pub fn timestamp(ms: i64) -> Timestamp {
    Timestamp::from_ms(1_767_225_600_000 + ms)
}

/// A key on the primary domain.
pub fn key(code: &str) -> LinkKey {
    LinkKey {
        domain: Domain::primary(),
        code: Code::parse(code).expect("a code of the right shape"),
    }
}

/// A plain link with a generated code, owned by the operator.
pub fn generated(code: &str, target: &str) -> Link {
    Link {
        key: key(code),
        generated: true,
        owner: OwnerId::ADMIN,
        target: Target::from_stored(target.into()),
        created_at: timestamp(0),
        updated_at: timestamp(0),
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
        revision: Revision(1),
    }
}

/// A plain link with a chosen alias.
pub fn alias(code: &str, target: &str) -> Link {
    Link { generated: false, ..generated(code, target) }
}

/// A preview with every field.
pub fn preview() -> Option<SocialPreview> {
    let stored = concat!(
        r#"{"title":"\"ü%_'","description":"two\nlines","#,
        r#""image_url":"https://cdn.example/a.png"}"#,
    );
    Some(SocialPreview::from_stored(stored).expect("a preview as it is stored"))
}

/// Rules of every kind.
pub fn rules() -> Option<Rules> {
    let stored = concat!(
        r#"[{"country":["AT","DE"],"query":{"name":"a","value":"\"ü%_'"},"#,
        r#""to":[{"url":"https://example.com/1","weight":2},{"url":"https://example.com/2","weight":1}]},"#,
        r#"{"days":"mon","hours":"22:00-06:00","zone":"Europe/Berlin","to":"https://example.com/3"},"#,
        r#"{"device":"mobile","os":"iOS","language":"pt-BR","until":"2030-01-01T00:00:00Z","to":"https://example.com/4"}]"#,
    );
    Some(Rules::from_stored(stored).expect("rules as they are stored"))
}
