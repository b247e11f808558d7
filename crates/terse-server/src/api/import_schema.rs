//! The schema of a link to import. `terse_core::ImportLink` is the body itself.

use serde::Deserialize;
use terse_core::RawPreview;
use terse_core::rules::RawRules;

use crate::describe::ToSchema;

/// A link to import: as for a new one, with its code and creation time.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used; the core reads the body")]
#[schema(as = ImportLink, example = json!({
    "long_url": "https://example.com/", "short_code": "x7Kq2Lm",
    "created_at": "2021-05-04T03:02:01Z"
}))]
pub(super) struct ImportLinkSchema {
    /// Where the link leads.
    #[schema(min_length = 8, max_length = 8192, pattern = "^https?://", nullable = false)]
    long_url: String,
    /// Its code. Without it, one is generated.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_-]{1,64}$")]
    short_code: Option<String>,
    /// When it was created; now by default, and never later than now.
    #[schema(pattern = "^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt \
            ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?\
            |[0-9]{8}([Tt][0-9]{4}([0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?)$")]
    created_at: Option<String>,
    /// When the link expires.
    #[schema(pattern = "^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt \
            ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?\
            |[0-9]{8}([Tt][0-9]{4}([0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?)$")]
    expires_at: Option<String>,
    /// When the link expires, in seconds from now.
    #[schema(minimum = 1, maximum = 250_000_000_000_usize)]
    ttl: Option<u64>,
    /// When the link begins to work.
    #[schema(pattern = "^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt \
            ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?\
            |[0-9]{8}([Tt][0-9]{4}([0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?)$")]
    valid_from: Option<String>,
    /// How many visits the link allows.
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_usize)]
    max_clicks: Option<u64>,
    /// The status the link redirects with.
    #[schema(schema_with = super::schemas::redirect_or_null)]
    redirect: Option<u64>,
    /// A title.
    #[schema(max_length = 1000)]
    title: Option<String>,
    /// Words to find the link by.
    #[schema(schema_with = super::schemas::tags_or_null)]
    tags: Option<Vec<String>>,
    /// Notes.
    #[schema(max_length = 2000)]
    notes: Option<String>,
    /// Whether it is archived.
    archived: Option<bool>,
    /// Rules that send some visitors to another target.
    #[schema(schema_with = super::rule_schemas::rules_or_null)]
    rules: Option<RawRules>,
    /// The preview that chats and social networks show.
    #[schema(schema_with = super::schemas::preview_or_null)]
    preview: Option<RawPreview>,
    /// A short domain of this server.
    #[schema(max_length = 253)]
    domain: Option<String>,
    /// Whether a visitor's query is passed on to the target.
    forward_query: Option<bool>,
    /// Whether search engines may follow the link.
    crawlable: Option<bool>,
    /// Whether the link may be returned when you shorten the same target again.
    reuse: Option<bool>,
    /// How many clicks another shortener has counted. They are part of the link's `click_count`.
    #[schema(minimum = 0, maximum = 9_223_372_036_854_775_807_usize)]
    imported_clicks: Option<u64>,
}
