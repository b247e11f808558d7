//! The binary form of a [`Link`], for caches and queues outside of the store.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | version |
//! | … | the fields of that version, in postcard |
//! | 8 | xxh3 of all bytes before, little-endian |
//!
//! Version 1 holds every link that was not imported with clicks. Version 2 has the same fields and
//! after them `imported_clicks`; only links that have such clicks are written so. Version 3 has the
//! fields of version 2 and after them the preview; only links with a preview are written so.
//! [`decode`] reads all of them.
//!
//! [`encode`] writes the lowest version that holds the link. While nodes of two versions run, the
//! earlier ones therefore read every link that uses no field of the later version, and the later
//! ones give no link such a field until the last earlier node has stopped: see [`CodecLimit`]. A
//! later version that is there all the same, as after a node was taken back to an earlier release,
//! is a miss for a cache; a store whose rows have this form answers
//! [`StoreError::LaterVersion`]: see [`decode_stored`].

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::code::Code;
use crate::domain::Domain;
use crate::link::{
    Link, LinkKey, ModerationSource, ModerationStatus, OwnerId, RedirectKind, Revision,
};
use crate::password::PasswordHash;
use crate::rules::Rules;
use crate::screening::LinkFlags;
use crate::social_preview::SocialPreview;
use crate::store::StoreError;
use crate::target::Target;
use crate::text::{Notes, Tags, Title};
use crate::time::Timestamp;

/// The version that [`encode`] writes for a link without imported clicks.
pub const LINK_CODEC_VERSION: u8 = 1;
/// The version for a link with imported clicks.
const WITH_IMPORTED_CLICKS: u8 = 2;
/// The version for a link with a preview.
const WITH_PREVIEW: u8 = 3;
/// The latest version that [`decode`] reads.
pub const LATEST: u8 = WITH_PREVIEW;

/// The latest version that all nodes of the fleet read. Clones share it.
#[derive(Clone, Debug)]
pub struct CodecLimit(Arc<AtomicU8>);

impl Default for CodecLimit {
    /// What this node reads: for a process that is alone.
    fn default() -> Self {
        Self(Arc::new(AtomicU8::new(LATEST)))
    }
}

impl CodecLimit {
    /// Sets the version, and returns the one before.
    pub fn set(&self, version: u8) -> u8 {
        self.0.swap(version, Ordering::Relaxed)
    }

    /// Whether all nodes read a link of this version.
    pub fn allows(&self, version: u8) -> bool {
        version <= self.0.load(Ordering::Relaxed)
    }
}

/// The lowest version that holds a link with these fields.
pub fn version_for(preview: Option<&SocialPreview>, imported_clicks: u64) -> u8 {
    match (preview, imported_clicks) {
        (Some(_), _) => WITH_PREVIEW,
        (None, 0) => LINK_CODEC_VERSION,
        (None, _) => WITH_IMPORTED_CLICKS,
    }
}

const CHECKSUM: usize = 8;

/// The fields of version 1. Never changed: another shape is another version.
#[derive(Deserialize, Serialize)]
struct LinkV1<'a> {
    domain: &'a str,
    code: &'a str,
    generated: bool,
    owner: u64,
    target: &'a str,
    created_at: i64,
    updated_at: i64,
    expires_at: Option<i64>,
    valid_from: Option<i64>,
    max_clicks: Option<u64>,
    spent_clicks: u64,
    redirect: u16,
    title: Option<&'a str>,
    #[serde(borrow)]
    tags: Cow<'a, str>,
    notes: Option<&'a str>,
    password: Option<&'a str>,
    archived_at: Option<i64>,
    rules: Option<String>,
    forward_query: bool,
    crawlable: bool,
    moderation: u8,
    moderated_by: u8,
    flags: &'a str,
    deleted_at: Option<i64>,
    reusable: bool,
    revision: u64,
}

/// Writes a link.
pub fn encode(link: &Link) -> Vec<u8> {
    let fields = LinkV1 {
        domain: link.key.domain.as_str(),
        code: link.key.code.as_str(),
        generated: link.generated,
        owner: link.owner.0,
        target: link.target.as_str(),
        created_at: link.created_at.as_ms(),
        updated_at: link.updated_at.as_ms(),
        expires_at: link.expires_at.map(Timestamp::as_ms),
        valid_from: link.valid_from.map(Timestamp::as_ms),
        max_clicks: link.max_clicks,
        spent_clicks: link.spent_clicks,
        redirect: link.redirect.status(),
        title: link.title.as_ref().map(Title::as_str),
        tags: link.tags.joined().into(),
        notes: link.notes.as_ref().map(Notes::as_str),
        password: link.password.as_ref().map(PasswordHash::as_str),
        archived_at: link.archived_at.map(Timestamp::as_ms),
        rules: link.rules.as_ref().map(Rules::show),
        forward_query: link.forward_query,
        crawlable: link.crawlable,
        moderation: match link.moderation {
            ModerationStatus::Clear => 0,
            ModerationStatus::Suspicious => 1,
            ModerationStatus::Blocked => 2,
        },
        moderated_by: match link.moderated_by {
            ModerationSource::Screen => 0,
            ModerationSource::Moderator => 1,
        },
        flags: link.flags.joined(),
        deleted_at: link.deleted_at.map(Timestamp::as_ms),
        reusable: link.reusable,
        revision: link.revision.0,
    };
    let version = version_for(link.preview.as_ref(), link.imported_clicks);
    let mut bytes = postcard::to_extend(&fields, vec![version])
        .expect("plain fields are always written into memory");
    if version >= WITH_IMPORTED_CLICKS {
        bytes = postcard::to_extend(&link.imported_clicks, bytes)
            .expect("a number is always written into memory");
    }
    if let Some(preview) = &link.preview {
        bytes = postcard::to_extend(&preview.show(), bytes)
            .expect("a text is always written into memory");
    }
    let checksum = xxh3_64(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// Whether a later version of terse wrote these bytes: they are undamaged, and [`decode`] does not
/// know their version.
pub fn is_of_later_version(bytes: &[u8]) -> bool {
    whole(bytes).and_then(<[u8]>::first).is_some_and(|version| *version > LATEST)
}

/// The bytes before the checksum, if it is right.
fn whole(bytes: &[u8]) -> Option<&[u8]> {
    let (content, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM)?)?;
    (xxh3_64(content).to_le_bytes() == checksum).then_some(content)
}

/// Reads a link from a store whose rows have this form. `None` for bytes that [`encode`] did not
/// write.
pub fn decode_stored(bytes: &[u8]) -> Result<Option<Link>, StoreError> {
    match decode(bytes) {
        None if is_of_later_version(bytes) => Err(StoreError::LaterVersion),
        link => Ok(link),
    }
}

/// Reads a link. `None` for a version that this program does not know and for bytes that
/// [`encode`] did not write: the caller treats both as a miss. The caller also compares the key
/// with the one it asked for.
pub fn decode(bytes: &[u8]) -> Option<Link> {
    let (&version, fields) = whole(bytes)?.split_first()?;
    let (fields, rest) = postcard::take_from_bytes::<LinkV1<'_>>(fields).ok()?;
    let (imported_clicks, rest) = match version {
        LINK_CODEC_VERSION => (0, rest),
        WITH_IMPORTED_CLICKS | WITH_PREVIEW => postcard::take_from_bytes::<u64>(rest).ok()?,
        _ => return None,
    };
    let (preview, rest) = match version {
        WITH_PREVIEW => {
            let (text, rest) = postcard::take_from_bytes::<&str>(rest).ok()?;
            (Some(SocialPreview::from_stored(text)?), rest)
        }
        _ => (None, rest),
    };
    if !rest.is_empty() {
        return None;
    }
    Some(Link {
        key: LinkKey {
            domain: Domain::from_stored(fields.domain),
            code: Code::parse(fields.code)?,
        },
        generated: fields.generated,
        owner: OwnerId(fields.owner),
        target: Target::from_stored(fields.target.to_owned()),
        created_at: Timestamp::from_ms(fields.created_at),
        updated_at: Timestamp::from_ms(fields.updated_at),
        expires_at: fields.expires_at.map(Timestamp::from_ms),
        valid_from: fields.valid_from.map(Timestamp::from_ms),
        max_clicks: fields.max_clicks,
        spent_clicks: fields.spent_clicks,
        imported_clicks,
        redirect: RedirectKind::from_status(u64::from(fields.redirect))?,
        title: fields.title.map(|title| Title::from_stored(title.to_owned())),
        tags: if fields.tags.is_empty() {
            Tags::default()
        } else {
            Tags::from_stored(&fields.tags)
        },
        notes: fields.notes.map(|notes| Notes::from_stored(notes.to_owned())),
        password: fields.password.map(PasswordHash::from_phc),
        archived_at: fields.archived_at.map(Timestamp::from_ms),
        rules: match fields.rules {
            None => None,
            Some(text) => Some(Rules::from_stored(&text)?),
        },
        preview,
        forward_query: fields.forward_query,
        crawlable: fields.crawlable,
        moderation: match fields.moderation {
            0 => ModerationStatus::Clear,
            1 => ModerationStatus::Suspicious,
            2 => ModerationStatus::Blocked,
            _ => return None,
        },
        moderated_by: match fields.moderated_by {
            0 => ModerationSource::Screen,
            1 => ModerationSource::Moderator,
            _ => return None,
        },
        flags: LinkFlags::from_stored(fields.flags),
        deleted_at: fields.deleted_at.map(Timestamp::from_ms),
        reusable: fields.reusable,
        revision: Revision(fields.revision),
    })
}
