//! Contract suites and fakes. Knows only the core.

use terse_core::*;

/// A plain active link.
pub fn link_to(code: &str, target: &str) -> Link {
    Link {
        key: LinkKey { domain: Domain::primary(), code: Code::parse(code).expect("a code in a test") },
        generated: false,
        owner: OwnerId::ADMIN,
        target: Target::from_stored(target.to_owned()),
        created_at: Moment::from_ms(0),
        updated_at: Moment::from_ms(0),
        expires_at: None,
        valid_from: None,
        max_clicks: None,
        spent_clicks: 0,
        redirect: RedirectKind::default(),
        title: None,
        tags: Tags::default(),
        forward_query: false,
        crawlable: false,
        standing: Standing::Clear,
        deleted_at: None,
        reusable: false,
        revision: Revision(1),
    }
}
