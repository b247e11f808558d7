//! The JSON bodies of links in requests and responses.

use crate::describe::ToSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use terse_core::rules::{RawRules, Rules};
use terse_core::{
    CreateLink, Creator, Hosts, IdempotencyKey, Link, LinkDraft, LinkKey, LinkPatch,
    ModerationStatus, OwnerId, PatchField, Principal, RawPreview, Secret, SocialPreview, Timestamp,
};

use super::password_fields::PasswordFields;
use crate::http::host::short_url;

/// A link to create. Only `long_url` is required; null means absent. The camelCase spelling of each
/// name is accepted too.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreateLink, example = json!({
    "long_url": "https://example.com/a/rather/long/path?with=parameters",
    "custom_alias": "spring-sale", "expires_at": "2030-01-31T12:00:00Z", "title": "Spring \
        sale", "tags": ["spring", "sale"]
}))]
pub(crate) struct CreateLinkBody {
    /// Where the link leads: an absolute http or https URL of at most 8,192 bytes.
    #[serde(alias = "longUrl")]
    #[schema(min_length = 8, max_length = 8192, pattern = "^https?://", nullable = false)]
    pub(crate) long_url: String,
    /// A custom alias (also `alias`). Without it, a code is generated. Only admins may choose one
    /// of one or two characters.
    #[serde(alias = "customAlias", alias = "alias")]
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_-]{1,64}$")]
    pub(crate) custom_alias: Option<String>,
    /// When the link expires: RFC 3339 with an offset, or a date meaning that day 00:00 UTC. Not
    /// together with `ttl`.
    #[serde(alias = "expiresAt")]
    #[schema(pattern = "^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt \
            ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?\
            |[0-9]{8}([Tt][0-9]{4}([0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?)$")]
    pub(crate) expires_at: Option<String>,
    /// When the link expires, in seconds from now. Not together with `expires_at`.
    #[schema(minimum = 1, maximum = 250_000_000_000_usize)]
    pub(crate) ttl: Option<u64>,
    /// When the link begins to work. Before, visitors get 404.
    #[serde(alias = "validFrom")]
    #[schema(pattern = "^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt \
            ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?\
            |[0-9]{8}([Tt][0-9]{4}([0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?)$")]
    pub(crate) valid_from: Option<String>,
    /// How many visits the link allows.
    #[serde(alias = "maxClicks")]
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_usize)]
    pub(crate) max_clicks: Option<u64>,
    /// The status the link redirects with. 302 by default; browsers remember 301 and 308 for long.
    #[schema(schema_with = super::schemas::redirect_or_null)]
    pub(crate) redirect: Option<u64>,
    /// A title.
    #[schema(max_length = 1000)]
    pub(crate) title: Option<String>,
    /// Words to find the link by.
    #[schema(schema_with = super::schemas::tags_or_null)]
    pub(crate) tags: Option<Vec<String>>,
    /// Notes. Only you see them.
    #[schema(max_length = 2000)]
    pub(crate) notes: Option<String>,
    /// The password that visitors must enter: 1 to 1,024 bytes. Only its hash is stored.
    #[schema(value_type = Option<String>, format = Password, min_length = 1, max_length = 1024)]
    pub(crate) password: Option<PasswordFields>,
    /// Rules that send some visitors to another target.
    #[schema(schema_with = super::rule_schemas::rules_or_null)]
    pub(crate) rules: Option<RawRules>,
    /// The preview that chats and social networks show instead of that of the target.
    // The fingerprint of a request without it stays as it was before the field existed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = super::schemas::preview_or_null)]
    pub(crate) preview: Option<RawPreview>,
    /// A short domain of this server. The primary one by default.
    #[schema(max_length = 253)]
    pub(crate) domain: Option<String>,
    /// Whether a visitor's query is passed on to the target.
    #[serde(alias = "forwardQuery")]
    pub(crate) forward_query: Option<bool>,
    /// Whether search engines may follow the link.
    pub(crate) crawlable: Option<bool>,
    /// Whether the link is archived from the start: it works, and is left out of lists.
    // The fingerprint of a request without it stays as it was before the field existed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) archived: Option<bool>,
    /// `false` creates a new link even if you have one for the same target.
    pub(crate) reuse: Option<bool>,
}

impl CreateLinkBody {
    /// The draft to create. `key` is the caller's idempotency key, and `index` the position of this
    /// link in a list.
    pub(crate) fn into_draft(
        self,
        creator: &Creator,
        key: Option<&str>,
        index: Option<usize>,
    ) -> LinkDraft {
        let request = key.map(|key| self.request(creator, key, index));
        let link = CreateLink {
            long_url: self.long_url,
            custom_alias: self.custom_alias,
            expires_at: self.expires_at,
            ttl: self.ttl,
            valid_from: self.valid_from,
            max_clicks: self.max_clicks,
            redirect: self.redirect,
            title: self.title,
            tags: self.tags,
            notes: self.notes,
            password: None,
            rules: self.rules,
            preview: self.preview,
            domain: self.domain,
            forward_query: self.forward_query,
            crawlable: self.crawlable,
            archived: self.archived,
            reuse: self.reuse,
            imported_clicks: None,
        };
        LinkDraft { link, password: self.password.map(PasswordFields::into_text), request }
    }

    /// Identifies this request by owner and key, with a fingerprint of its fields.
    fn request(&self, creator: &Creator, key: &str, index: Option<usize>) -> IdempotencyKey {
        // A key contains neither octet 0 nor 1, so these separate the parts unambiguously.
        // Anonymous callers share one owner, so their address distinguishes them.
        let address = creator.anonymous_address();
        let mut id = Sha256::new()
            .chain_update("idempotency")
            .chain_update(creator.caller().owner().0.to_be_bytes())
            .chain_update(key)
            .chain_update("\x01")
            .chain_update(address.map(|address| address.to_string()).unwrap_or_default());
        if let Some(index) = index {
            id = id.chain_update("\0").chain_update((index as u64).to_be_bytes());
        }
        // Serialised in a fixed field order, independent of spelling and order in the client's
        // text.
        let canonical = serde_json::to_vec(self).unwrap_or_default();
        IdempotencyKey { id: id.finalize().into(), fingerprint: Sha256::digest(canonical).into() }
    }
}

/// Changes to a link. What is absent stays; null clears what may be absent. Code, owner and domain
/// never change.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "long_url": "https://example.com/elsewhere", "expires_at": null }))]
pub(crate) struct PatchLink {
    /// A new target.
    #[serde(alias = "longUrl", default, deserialize_with = "given")]
    #[schema(min_length = 8, max_length = 8192, pattern = "^https?://", nullable = false)]
    long_url: Option<String>,
    /// A new expiry; null for never.
    #[serde(alias = "expiresAt", default, deserialize_with = "given")]
    #[schema(pattern = "^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt \
            ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?\
            |[0-9]{8}([Tt][0-9]{4}([0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?)$")]
    expires_at: Option<Option<String>>,
    /// A new expiry, in seconds from now.
    #[serde(default, deserialize_with = "given")]
    #[schema(minimum = 1, maximum = 250_000_000_000_usize, nullable = false)]
    ttl: Option<u64>,
    /// A new start; null for none.
    #[serde(alias = "validFrom", default, deserialize_with = "given")]
    #[schema(pattern = "^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt \
            ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?\
            |[0-9]{8}([Tt][0-9]{4}([0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?)$")]
    valid_from: Option<Option<String>>,
    /// A new limit; null for none.
    #[serde(alias = "maxClicks", default, deserialize_with = "given")]
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_usize)]
    max_clicks: Option<Option<u64>>,
    /// A new status.
    #[serde(default, deserialize_with = "given")]
    #[schema(schema_with = super::schemas::redirect)]
    redirect: Option<u64>,
    /// A new title; null for none.
    #[serde(default, deserialize_with = "given")]
    #[schema(max_length = 1000)]
    title: Option<Option<String>>,
    /// New tags, replacing the old ones.
    #[serde(default, deserialize_with = "given")]
    #[schema(schema_with = super::schemas::tags)]
    tags: Option<Vec<String>>,
    /// New notes; null for none.
    #[serde(default, deserialize_with = "given")]
    #[schema(max_length = 2000)]
    notes: Option<Option<String>>,
    /// A new password; null for none. Visitors who knew the old one must enter the new one.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, format = Password, min_length = 1, max_length = 1024)]
    pub(crate) password: Option<Option<PasswordFields>>,
    /// Whether the link is archived: it still works, and is left out of lists.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    archived: Option<bool>,
    /// New rules, replacing the old ones; null or an empty list for none.
    #[serde(default, deserialize_with = "given")]
    #[schema(schema_with = super::rule_schemas::rules_or_null)]
    rules: Option<Option<RawRules>>,
    /// A new preview, replacing the old one; null for none.
    #[serde(default, deserialize_with = "given")]
    #[schema(schema_with = super::schemas::preview_or_null)]
    preview: Option<Option<RawPreview>>,
    /// Whether a visitor's query is passed on to the target.
    #[serde(alias = "forwardQuery", default, deserialize_with = "given")]
    #[schema(nullable = false)]
    forward_query: Option<bool>,
    /// Whether search engines may follow the link.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    crawlable: Option<bool>,
}

/// Wraps any present value in `Some`, to distinguish an explicit null from an absent field.
pub(super) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl PatchLink {
    /// Makes the patch.
    pub(crate) fn into_patch(self) -> LinkPatch {
        LinkPatch {
            long_url: self.long_url,
            expires_at: change(self.expires_at),
            ttl: self.ttl,
            valid_from: change(self.valid_from),
            max_clicks: change(self.max_clicks),
            redirect: self.redirect,
            title: change(self.title),
            tags: self.tags,
            notes: change(self.notes),
            password: change(
                self.password.map(|given| given.map(|text| Secret::new(&text.into_text()))),
            ),
            archived: self.archived,
            rules: change(self.rules),
            preview: change(self.preview),
            forward_query: self.forward_query,
            crawlable: self.crawlable,
            moderation: None,
        }
    }
}

fn change<T>(field: Option<Option<T>>) -> PatchField<T> {
    match field {
        None => PatchField::Keep,
        Some(None) => PatchField::Clear,
        Some(Some(value)) => PatchField::Set(value),
    }
}

/// A moderation decision.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "standing": "blocked", "why": "imitates a bank" }))]
pub(crate) struct SetModerationStatus {
    /// `suspicious` puts a warning page before the link, `blocked` answers 451.
    #[schema(schema_with = super::schemas::moderation_status)]
    pub(crate) standing: ModerationStatusValue,
    /// For the audit log.
    #[schema(min_length = 1, max_length = 1000)]
    pub(crate) why: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ModerationStatusValue {
    Clear,
    Suspicious,
    Blocked,
}

impl From<ModerationStatusValue> for ModerationStatus {
    fn from(word: ModerationStatusValue) -> Self {
        match word {
            ModerationStatusValue::Clear => Self::Clear,
            ModerationStatusValue::Suspicious => Self::Suspicious,
            ModerationStatusValue::Blocked => Self::Blocked,
        }
    }
}

/// A link. Every field is always there; what a link does not have is null.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Link, example = json!({
    "short_code": "spring-sale", "short_url": "https://go.example/spring-sale",
    "long_url": "https://example.com/a/rather/long/path?with=parameters", "domain": "go.example",
    "owner": 16, "title": "Spring sale",
    "tags": ["spring", "sale"], "created_at": "2026-11-15T21:00:00Z",
    "updated_at": "2026-11-15T21:00:00Z",
    "expires_at": "2030-01-31T12:00:00Z", "valid_from": null, "max_clicks": null, "click_count": 0, "imported_clicks": 0,
    "redirect": 302, "rules": null, "preview": null, "forward_query": false,
    "crawlable": false, "has_password": false, "notes": null, "archived": false,
    "status": "active", "flags": [], "deleted_at": null,
    "qr_url": "https://go.example/spring-sale/qr",
    "preview_url": "https://go.example/spring-sale+", "revision": 1
}))]
pub(crate) struct LinkBody {
    /// The code.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    pub(crate) short_code: String,
    /// The short link itself.
    pub(crate) short_url: String,
    /// Where it leads.
    #[schema(max_length = 8192, pattern = "^https?://")]
    pub(crate) long_url: String,
    /// Its short domain.
    domain: String,
    /// The number of its owner: 0 is anonymous, 1 the operator.
    #[schema(minimum = 0)]
    owner: u64,
    /// A title.
    #[schema(required = true, max_length = 1000)]
    title: Option<String>,
    /// Tags.
    #[schema(max_items = 20)]
    tags: Vec<String>,
    /// When it was created.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was last changed.
    #[schema(format = DateTime)]
    updated_at: String,
    /// When it expires.
    #[schema(required = true, format = DateTime)]
    expires_at: Option<String>,
    /// When it begins to work.
    #[schema(required = true, format = DateTime)]
    valid_from: Option<String>,
    /// How many visits it allows.
    #[schema(required = true, minimum = 1)]
    max_clicks: Option<u64>,
    /// How many clicks it has had, imported ones included; null while the click store does not
    /// answer.
    #[schema(required = true, minimum = 0)]
    click_count: Option<u64>,
    /// How many of these another shortener had counted when the link was imported. They have no
    /// time or origin, so statistics leave them out.
    #[schema(minimum = 0)]
    imported_clicks: u64,
    /// The status it redirects with.
    #[schema(schema_with = super::schemas::redirect)]
    redirect: u16,
    /// Rules that send some visitors to another target.
    #[schema(required = true, schema_with = super::rule_schemas::rules_or_null)]
    rules: Option<Value>,
    /// The preview that chats and social networks show instead of that of the target.
    #[schema(required = true, schema_with = super::schemas::preview_or_null)]
    preview: Option<Value>,
    /// Whether a visitor's query is passed on.
    forward_query: bool,
    /// Whether search engines may follow it.
    crawlable: bool,
    /// Whether visitors are asked for a password.
    has_password: bool,
    /// The owner's notes.
    #[schema(required = true, max_length = 2000)]
    notes: Option<String>,
    /// Whether it is archived: it works, and is left out of lists.
    archived: bool,
    /// Its status now.
    #[schema(schema_with = super::schemas::status)]
    status: &'static str,
    /// Flags of its targets, such as `look_alike` or `shortener`. Some of them put a warning page
    /// before the link.
    #[schema(max_items = 32)]
    flags: Vec<String>,
    /// When it was deleted.
    #[schema(required = true, format = DateTime)]
    deleted_at: Option<String>,
    /// Its QR code.
    qr_url: String,
    /// A page that shows the target without redirecting.
    preview_url: String,
    /// Its revision; also its `ETag`.
    #[schema(minimum = 0)]
    pub(crate) revision: u64,
}

impl LinkBody {
    pub(crate) fn new(
        link: &Link,
        click_count: Option<u64>,
        hosts: &Hosts,
        now: Timestamp,
    ) -> Self {
        let short_url = short_url(&link.key, hosts);
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Self {
            short_code: link.key.code.to_string(),
            long_url: link.target.to_string(),
            domain: host_of(&link.key, hosts).to_owned(),
            owner: link.owner.0,
            title: link.title.as_ref().map(|title| title.as_str().to_owned()),
            tags: link.tags.iter().map(str::to_owned).collect(),
            created_at: link.created_at.to_string(),
            updated_at: link.updated_at.to_string(),
            expires_at: text(link.expires_at),
            valid_from: text(link.valid_from),
            max_clicks: link.max_clicks,
            click_count: click_count.map(|count| count.saturating_add(link.imported_clicks)),
            imported_clicks: link.imported_clicks,
            redirect: link.redirect.status(),
            rules: link.rules.as_ref().map(Rules::to_json),
            preview: link.preview.as_ref().map(SocialPreview::to_json),
            forward_query: link.forward_query,
            crawlable: link.crawlable,
            has_password: link.password.is_some(),
            notes: link.notes.as_ref().map(|notes| notes.as_str().to_owned()),
            archived: link.archived_at.is_some(),
            status: link.status(now).as_str(),
            flags: link.flags.iter().map(str::to_owned).collect(),
            deleted_at: text(link.deleted_at),
            qr_url: format!("{short_url}/qr"),
            preview_url: format!("{short_url}+"),
            short_url,
            revision: link.revision.0,
        }
    }
}

impl LinkBody {
    /// The link as a principal sees it: notes are for the owner and for admins.
    pub(crate) fn shown_to(mut self, principal: &Principal) -> Self {
        if !principal.sees_notes_of(OwnerId(self.owner)) {
            self.notes = None;
        }
        self
    }
}

/// The host name of a link's domain.
pub(crate) fn host_of<'a>(link: &'a LinkKey, hosts: &'a Hosts) -> &'a str {
    hosts.name_of(&link.domain)
}
