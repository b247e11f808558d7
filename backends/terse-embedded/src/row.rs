//! Converts links into rows, and rows into links.

use rusqlite::types::ValueRef;
use rusqlite::{Row, ToSql};
use terse_core::rules::Rules;
use terse_core::{
    Code, Domain, Link, LinkFlags, LinkKey, ModerationSource, ModerationStatus, Notes, OwnerId,
    PasswordHash, RedirectKind, Revision, SocialPreview, Tags, Target, Timestamp, Title,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::failure::{Failure, corrupt};

/// Ids below this are numbers of codes; ids from here on belong to named links. It is far above
/// every possible number.
pub(crate) const FIRST_NAMED: i64 = 1 << 61;

/// The columns in the order that [`RawRow::read`] expects.
pub(crate) const COLUMNS: &str = "id, domain, code, owner, target, created_at, updated_at, flags, \
    checksum, reuse, revision, \
     expires_at, valid_from, max_clicks, spent_clicks, title, tags, deleted_at, signs, password, \
     notes, archived_at, rules, imported_clicks, preview";

const FORWARD_QUERY: i64 = 4;
const CRAWLABLE: i64 = 8;
const SUSPICIOUS: i64 = 16;
const BLOCKED: i64 = 32;
const GENERATED: i64 = 64;
/// The moderation source is not the default one. The default is the screening for clear links and a
/// moderator for all others, as in rows from before screening existed.
const OTHER_SOURCE: i64 = 128;

/// A stored row, its texts not yet copied.
pub(crate) struct RawRow<'a> {
    pub(crate) id: i64,
    pub(crate) domain: i64,
    pub(crate) code: Option<&'a str>,
    fields: Fields<'a>,
    checksum: i64,
    spent_clicks: u64,
}

/// The fields that the checksum covers besides id, domain and code.
struct Fields<'a> {
    owner: i64,
    target: &'a str,
    created_at: i64,
    updated_at: Option<i64>,
    flags: i64,
    reuse: Option<i64>,
    revision: Option<i64>,
    expires_at: Option<i64>,
    valid_from: Option<i64>,
    max_clicks: Option<i64>,
    title: Option<&'a str>,
    tags: Option<&'a str>,
    deleted_at: Option<i64>,
    signs: Option<&'a str>,
    password: Option<&'a str>,
    notes: Option<&'a str>,
    archived_at: Option<i64>,
    rules: Option<&'a str>,
    imported_clicks: Option<i64>,
    preview: Option<&'a str>,
}

impl<'a> RawRow<'a> {
    pub(crate) fn read(row: &'a Row<'_>) -> Result<Self, Failure> {
        Ok(Self {
            id: row.get(0)?,
            domain: row.get(1)?,
            code: text(row, 2)?,
            fields: Fields {
                owner: row.get(3)?,
                target: text(row, 4)?.ok_or_else(|| corrupt("a link without a target"))?,
                created_at: row.get(5)?,
                updated_at: row.get(6)?,
                flags: row.get(7)?,
                reuse: row.get(9)?,
                revision: row.get(10)?,
                expires_at: row.get(11)?,
                valid_from: row.get(12)?,
                max_clicks: row.get(13)?,
                title: text(row, 15)?,
                tags: text(row, 16)?,
                deleted_at: row.get(17)?,
                signs: text(row, 18)?,
                password: text(row, 19)?,
                notes: text(row, 20)?,
                archived_at: row.get(21)?,
                rules: text(row, 22)?,
                imported_clicks: row.get(23)?,
                preview: text(row, 24)?,
            },
            checksum: row.get(8)?,
            spent_clicks: row.get::<_, Option<i64>>(14)?.unwrap_or(0) as u64,
        })
    }

    /// The link, if the row matches its checksum. `code` comes from the id or from the row's own
    /// code.
    pub(crate) fn into_link(self, domain: Domain, code: Code) -> Result<Link, Failure> {
        let Fields { owner, created_at, flags, .. } = self.fields;
        if self.fields.checksum(self.id, domain.as_str(), self.code) != self.checksum {
            return Err(corrupt(format!("the checksum of row {} is wrong", self.id)).into());
        }
        let rules = self.fields.rules.map(|text| {
            Rules::from_stored(text).ok_or_else(|| corrupt("rules that cannot be read"))
        });
        let preview = self.fields.preview.map(|text| {
            SocialPreview::from_stored(text).ok_or_else(|| corrupt("a preview that cannot be read"))
        });
        let redirect = match flags & 3 {
            0 => RedirectKind::Found,
            1 => RedirectKind::MovedPermanently,
            2 => RedirectKind::Temporary,
            _ => RedirectKind::Permanent,
        };
        let moderation = match (flags & SUSPICIOUS != 0, flags & BLOCKED != 0) {
            (_, true) => ModerationStatus::Blocked,
            (true, false) => ModerationStatus::Suspicious,
            (false, false) => ModerationStatus::Clear,
        };
        Ok(Link {
            key: LinkKey { domain, code },
            generated: flags & GENERATED != 0,
            owner: OwnerId(owner as u64),
            target: Target::from_stored(self.fields.target.to_owned()),
            created_at: Timestamp::from_ms(created_at),
            updated_at: Timestamp::from_ms(self.fields.updated_at.unwrap_or(created_at)),
            expires_at: self.fields.expires_at.map(Timestamp::from_ms),
            valid_from: self.fields.valid_from.map(Timestamp::from_ms),
            max_clicks: self.fields.max_clicks.map(|max| max as u64),
            spent_clicks: self.spent_clicks,
            imported_clicks: self.fields.imported_clicks.unwrap_or(0) as u64,
            redirect,
            title: self.fields.title.map(|title| Title::from_stored(title.to_owned())),
            tags: self.fields.tags.map(Tags::from_stored).unwrap_or_default(),
            notes: self.fields.notes.map(|notes| Notes::from_stored(notes.to_owned())),
            password: self.fields.password.map(PasswordHash::from_phc),
            archived_at: self.fields.archived_at.map(Timestamp::from_ms),
            rules: rules.transpose()?,
            preview: preview.transpose()?,
            forward_query: flags & FORWARD_QUERY != 0,
            crawlable: flags & CRAWLABLE != 0,
            moderation,
            moderated_by: if (moderation == ModerationStatus::Clear) != (flags & OTHER_SOURCE != 0)
            {
                ModerationSource::Screen
            } else {
                ModerationSource::Moderator
            },
            flags: self.fields.signs.map(LinkFlags::from_stored).unwrap_or_default(),
            deleted_at: self.fields.deleted_at.map(Timestamp::from_ms),
            reusable: self.fields.reuse.is_some(),
            revision: Revision(self.fields.revision.map_or(1, |revision| revision as u64)),
        })
    }
}

fn text<'a>(row: &'a Row<'_>, index: usize) -> Result<Option<&'a str>, Failure> {
    match row.get_ref(index)? {
        ValueRef::Null => Ok(None),
        value => Ok(Some(value.as_str().map_err(|error| corrupt(error.to_string()))?)),
    }
}

/// The fields of a link that are stored as text but have another type.
pub(crate) struct Texts {
    tags: String,
    rules: Option<String>,
    preview: Option<String>,
}

impl Texts {
    pub(crate) fn of(link: &Link) -> Self {
        Self {
            tags: link.tags.joined(),
            rules: link.rules.as_ref().map(Rules::show),
            preview: link.preview.as_ref().map(SocialPreview::show),
        }
    }
}

/// A link in the form of a new row.
pub(crate) struct NewRow<'a> {
    id: i64,
    domain: i64,
    code: Option<&'a str>,
    fields: Fields<'a>,
    checksum: i64,
}

impl<'a> NewRow<'a> {
    /// `texts` belong to the link; the caller keeps them alive.
    pub(crate) fn new(id: i64, domain: i64, link: &'a Link, texts: &'a Texts) -> Self {
        let code = (id >= FIRST_NAMED).then(|| link.key.code.as_str());
        let created_at = link.created_at.as_ms();
        let flag = |set: bool, bit: i64| if set { bit } else { 0 };
        let redirect = match link.redirect {
            RedirectKind::Found => 0,
            RedirectKind::MovedPermanently => 1,
            RedirectKind::Temporary => 2,
            RedirectKind::Permanent => 3,
        };
        let fields = Fields {
            owner: link.owner.0 as i64,
            target: link.target.as_str(),
            created_at,
            updated_at: Some(link.updated_at.as_ms()).filter(|at| *at != created_at),
            flags: redirect
                | flag(link.forward_query, FORWARD_QUERY)
                | flag(link.crawlable, CRAWLABLE)
                | flag(link.moderation == ModerationStatus::Suspicious, SUSPICIOUS)
                | flag(link.moderation == ModerationStatus::Blocked, BLOCKED)
                | flag(link.generated, GENERATED)
                | flag(
                    (link.moderation == ModerationStatus::Clear)
                        != (link.moderated_by == ModerationSource::Screen),
                    OTHER_SOURCE,
                ),
            reuse: link.reusable.then(|| reuse_hash(link)),
            revision: Some(link.revision.0 as i64).filter(|revision| *revision != 1),
            expires_at: link.expires_at.map(Timestamp::as_ms),
            valid_from: link.valid_from.map(Timestamp::as_ms),
            max_clicks: link.max_clicks.map(|max| max as i64),
            title: link.title.as_ref().map(Title::as_str),
            tags: Some(&*texts.tags).filter(|tags| !tags.is_empty()),
            deleted_at: link.deleted_at.map(Timestamp::as_ms),
            signs: Some(link.flags.joined()).filter(|signs| !signs.is_empty()),
            password: link.password.as_ref().map(PasswordHash::as_str),
            notes: link.notes.as_ref().map(Notes::as_str),
            archived_at: link.archived_at.map(Timestamp::as_ms),
            rules: texts.rules.as_deref(),
            imported_clicks: Some(link.imported_clicks as i64).filter(|clicks| *clicks != 0),
            preview: texts.preview.as_deref(),
        };
        let checksum = fields.checksum(id, link.key.domain.as_str(), code);
        Self { id, domain, code, fields, checksum }
    }

    /// Every column of [`COLUMNS`]. `spent_clicks` is separate because the checksum does not cover
    /// it.
    pub(crate) fn values<'b>(&'b self, spent_clicks: &'b Option<i64>) -> [&'b dyn ToSql; 25] {
        let f = &self.fields;
        [
            &self.id,
            &self.domain,
            &self.code,
            &f.owner,
            &f.target,
            &f.created_at,
            &f.updated_at,
            &f.flags,
            &self.checksum,
            &f.reuse,
            &f.revision,
            &f.expires_at,
            &f.valid_from,
            &f.max_clicks,
            spent_clicks,
            &f.title,
            &f.tags,
            &f.deleted_at,
            &f.signs,
            &f.password,
            &f.notes,
            &f.archived_at,
            &f.rules,
            &f.imported_clicks,
            &f.preview,
        ]
    }
}

/// The key under which a reusable link is found again, together with the owner's other links to
/// the same target.
pub(crate) fn reuse_hash(link: &Link) -> i64 {
    let target = link.target.as_str();
    let mut bytes = Vec::with_capacity(64 + target.len());
    bytes.extend(link.owner.0.to_le_bytes());
    put_text(&mut bytes, Some(link.key.domain.as_str()));
    put_text(&mut bytes, Some(target));
    xxh3_64(&bytes) as i64
}

impl Fields<'_> {
    fn checksum(&self, id: i64, domain: &str, code: Option<&str>) -> i64 {
        let mut bytes = Vec::with_capacity(192 + self.target.len());
        for number in [id, self.owner, self.created_at, self.flags] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [
            self.updated_at,
            self.reuse,
            self.revision,
            self.expires_at,
            self.valid_from,
            self.max_clicks,
            self.deleted_at,
        ] {
            bytes.push(u8::from(number.is_some()));
            bytes.extend(number.unwrap_or(0).to_le_bytes());
        }
        for text in [Some(domain), code, Some(self.target), self.title, self.tags] {
            put_text(&mut bytes, text);
        }
        // Only if there are flags, so that rows from before flags existed keep their checksum.
        if self.signs.is_some() {
            put_text(&mut bytes, self.signs);
        }
        // Likewise for later columns, each with a letter of its own.
        let archived_at = self.archived_at.map(|at| at.to_string());
        let imported_clicks = self.imported_clicks.map(|clicks| clicks.to_string());
        let later = [
            (b'p', self.password),
            (b'n', self.notes),
            (b'a', archived_at.as_deref()),
            (b'r', self.rules),
            (b'i', imported_clicks.as_deref()),
            (b's', self.preview),
        ];
        for (letter, text) in later {
            if text.is_some() {
                bytes.push(letter);
                put_text(&mut bytes, text);
            }
        }
        xxh3_64(&bytes) as i64
    }
}

/// Writes the length first, so that no two lists of texts are encoded alike.
fn put_text(bytes: &mut Vec<u8>, text: Option<&str>) {
    bytes.extend(text.map_or(u32::MAX, |text| text.len() as u32).to_le_bytes());
    bytes.extend(text.unwrap_or("").as_bytes());
}
