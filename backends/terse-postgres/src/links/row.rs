//! Converts links into rows, and rows into links.

use terse_core::rules::Rules;
use terse_core::{
    Code, Domain, Link, LinkFlags, LinkKey, ModerationSource, ModerationStatus, Notes, OwnerId,
    PasswordHash, RedirectKind, Revision, SocialPreview, StoreError, Tags, Target, Timestamp,
    Title, link_codec,
};
use tokio_postgres::Row;
use xxhash_rust::xxh3::xxh3_64;

use crate::failure::corrupt;
use crate::sql::{Param, SqlTimestamp, params};

/// The columns in the order that [`read`] expects, of the table `l`.
pub(crate) const COLUMNS: &str = "l.domain, l.code, l.generated, l.owner, l.target, l.created_at, \
     l.updated_at, l.expires_at, l.valid_from, l.max_clicks, l.spent_clicks, l.imported_clicks, \
     l.redirect, l.title, l.tags, l.notes, l.password, l.archived_at, l.rules, l.forward_query, \
     l.crawlable, l.moderation, l.moderated_by, l.flags, l.deleted_at, l.reuse, l.revision, \
     l.checksum, l.preview";

/// The columns of [`NewRows`], for an insert.
pub(crate) const NEW_COLUMNS: &str = "domain, code, generated, owner, target, created_at, \
     updated_at, expires_at, valid_from, max_clicks, spent_clicks, imported_clicks, redirect, \
     title, tags, notes, password, archived_at, rules, forward_query, crawlable, moderation, \
     moderated_by, flags, deleted_at, reuse, revision, checksum, preview";

/// Reads a row whose columns begin at `from`. An error if the row does not match its checksum.
pub(crate) fn read(row: &Row, from: usize) -> Result<Link, StoreError> {
    let unreadable = |error: tokio_postgres::Error| StoreError::Corrupt(Box::new(error));
    let key = key_of(row, from)?;
    let shown = format!("{}/{}", key.domain.as_str(), key.code.as_str());
    let wrong = |what: &str| corrupt(format!("{what} of the link {shown} cannot be read"));
    macro_rules! get {
        ($n:expr) => {
            row.try_get(from + $n).map_err(unreadable)?
        };
        ($n:expr, $type:ty) => {
            row.try_get::<_, $type>(from + $n).map_err(unreadable)?
        };
    }
    let time = |n: usize| -> Result<Option<Timestamp>, StoreError> {
        Ok(get!(n, Option<SqlTimestamp>).map(|at| at.0))
    };
    let tags: Vec<&str> = get!(14);
    let rules: Option<&str> = get!(18);
    let link = Link {
        generated: get!(2),
        owner: OwnerId(get!(3, i64).cast_unsigned()),
        target: Target::from_stored(get!(4)),
        created_at: time(5)?.ok_or_else(|| wrong("the time"))?,
        updated_at: time(6)?.ok_or_else(|| wrong("the time"))?,
        expires_at: time(7)?,
        valid_from: time(8)?,
        max_clicks: get!(9, Option<i64>).map(i64::cast_unsigned),
        spent_clicks: get!(10, i64).cast_unsigned(),
        imported_clicks: get!(11, i64).cast_unsigned(),
        redirect: RedirectKind::from_status(get!(12, i16).unsigned_abs().into())
            .ok_or_else(|| wrong("the status"))?,
        title: get!(13, Option<String>).map(Title::from_stored),
        tags: Tags::from_stored(&tags.join(",")),
        notes: get!(15, Option<String>).map(Notes::from_stored),
        password: get!(16, Option<&str>).map(PasswordHash::from_phc),
        archived_at: time(17)?,
        rules: rules
            .map(|text| Rules::from_stored(text).ok_or_else(|| wrong("the rules")))
            .transpose()?,
        preview: get!(28, Option<&str>)
            .map(|text| SocialPreview::from_stored(text).ok_or_else(|| wrong("the preview")))
            .transpose()?,
        forward_query: get!(19),
        crawlable: get!(20),
        moderation: match get!(21, i16) {
            0 => ModerationStatus::Clear,
            1 => ModerationStatus::Suspicious,
            2 => ModerationStatus::Blocked,
            _ => return Err(wrong("the moderation status")),
        },
        moderated_by: match get!(22, i16) {
            0 => ModerationSource::Screen,
            1 => ModerationSource::Moderator,
            _ => return Err(wrong("the moderation source")),
        },
        flags: LinkFlags::from_stored(get!(23)),
        deleted_at: time(24)?,
        reusable: get!(25, Option<i64>).is_some(),
        revision: Revision(get!(26, i64).cast_unsigned()),
        key,
    };
    let stored: i64 = get!(27);
    if checksum(&link) != stored {
        return Err(corrupt(format!("the checksum of the link {shown} is wrong")));
    }
    Ok(link)
}

/// The key of a row whose columns begin at `from`.
pub(crate) fn key_of(row: &Row, from: usize) -> Result<LinkKey, StoreError> {
    let unreadable = |error: tokio_postgres::Error| StoreError::Corrupt(Box::new(error));
    let domain: &str = row.try_get(from).map_err(unreadable)?;
    let code: &str = row.try_get(from + 1).map_err(unreadable)?;
    let code = Code::parse(code).ok_or_else(|| corrupt("a link without a code"))?;
    Ok(LinkKey { domain: Domain::from_stored(domain), code })
}

/// A row with its key, or with the reason why it cannot be read.
pub(crate) fn read_keyed(row: &Row) -> Result<(LinkKey, Result<Link, StoreError>), StoreError> {
    Ok((key_of(row, 0)?, read(row, 0)))
}

/// Covers everything but the spent clicks, which change by themselves, and the preview: nodes of an
/// earlier version do not read that column, and follow the link without it.
pub(crate) fn checksum(link: &Link) -> i64 {
    let bytes = if link.spent_clicks == 0 && link.preview.is_none() {
        link_codec::encode(link)
    } else {
        link_codec::encode(&Link { spent_clicks: 0, preview: None, ..link.clone() })
    };
    xxh3_64(&bytes).cast_signed()
}

/// The key under which a reusable link is found again, together with the owner's other links to
/// the same target.
pub(crate) fn reuse_hash(link: &Link) -> i64 {
    let (domain, target) = (link.key.domain.as_str(), link.target.as_str());
    let mut bytes = Vec::with_capacity(24 + domain.len() + target.len());
    bytes.extend(link.owner.0.to_le_bytes());
    for text in [domain, target] {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    xxh3_64(&bytes).cast_signed()
}

/// Links in the form of columns, for a statement that writes many.
#[derive(Default)]
pub(crate) struct NewRows<'a> {
    domain: Vec<&'a str>,
    code: Vec<&'a str>,
    generated: Vec<bool>,
    owner: Vec<i64>,
    target: Vec<&'a str>,
    created_at: Vec<SqlTimestamp>,
    updated_at: Vec<SqlTimestamp>,
    expires_at: Vec<Option<SqlTimestamp>>,
    valid_from: Vec<Option<SqlTimestamp>>,
    max_clicks: Vec<Option<i64>>,
    spent_clicks: Vec<i64>,
    imported_clicks: Vec<i64>,
    redirect: Vec<i16>,
    title: Vec<Option<&'a str>>,
    tags: Vec<String>,
    notes: Vec<Option<&'a str>>,
    password: Vec<Option<&'a str>>,
    archived_at: Vec<Option<SqlTimestamp>>,
    rules: Vec<Option<String>>,
    forward_query: Vec<bool>,
    crawlable: Vec<bool>,
    moderation: Vec<i16>,
    moderated_by: Vec<i16>,
    flags: Vec<&'a str>,
    deleted_at: Vec<Option<SqlTimestamp>>,
    reuse: Vec<Option<i64>>,
    revision: Vec<i64>,
    checksum: Vec<i64>,
    preview: Vec<Option<String>>,
}

impl<'a> NewRows<'a> {
    pub(crate) fn of(links: impl IntoIterator<Item = &'a Link>) -> Self {
        let mut rows = Self::default();
        links.into_iter().for_each(|link| rows.push(link));
        rows
    }

    fn push(&mut self, link: &'a Link) {
        self.domain.push(link.key.domain.as_str());
        self.code.push(link.key.code.as_str());
        self.generated.push(link.generated);
        self.owner.push(link.owner.0.cast_signed());
        self.target.push(link.target.as_str());
        self.created_at.push(SqlTimestamp(link.created_at));
        self.updated_at.push(SqlTimestamp(link.updated_at));
        self.expires_at.push(link.expires_at.map(SqlTimestamp));
        self.valid_from.push(link.valid_from.map(SqlTimestamp));
        self.max_clicks.push(link.max_clicks.map(u64::cast_signed));
        self.spent_clicks.push(link.spent_clicks.cast_signed());
        self.imported_clicks.push(link.imported_clicks.cast_signed());
        self.redirect.push(link.redirect.status().cast_signed());
        self.title.push(link.title.as_ref().map(Title::as_str));
        self.tags.push(link.tags.joined());
        self.notes.push(link.notes.as_ref().map(Notes::as_str));
        self.password.push(link.password.as_ref().map(PasswordHash::as_str));
        self.archived_at.push(link.archived_at.map(SqlTimestamp));
        self.rules.push(link.rules.as_ref().map(Rules::show));
        self.forward_query.push(link.forward_query);
        self.crawlable.push(link.crawlable);
        self.moderation.push(match link.moderation {
            ModerationStatus::Clear => 0,
            ModerationStatus::Suspicious => 1,
            ModerationStatus::Blocked => 2,
        });
        self.moderated_by.push(match link.moderated_by {
            ModerationSource::Screen => 0,
            ModerationSource::Moderator => 1,
        });
        self.flags.push(link.flags.joined());
        self.deleted_at.push(link.deleted_at.map(SqlTimestamp));
        self.reuse.push(link.reusable.then(|| reuse_hash(link)));
        self.revision.push(link.revision.0.cast_signed());
        self.checksum.push(checksum(link));
        self.preview.push(link.preview.as_ref().map(SocialPreview::show));
    }

    /// The columns, in the order of [`NEW_COLUMNS`].
    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        params![
            self.domain,
            self.code,
            self.generated,
            self.owner,
            self.target,
            self.created_at,
            self.updated_at,
            self.expires_at,
            self.valid_from,
            self.max_clicks,
            self.spent_clicks,
            self.imported_clicks,
            self.redirect,
            self.title,
            self.tags,
            self.notes,
            self.password,
            self.archived_at,
            self.rules,
            self.forward_query,
            self.crawlable,
            self.moderation,
            self.moderated_by,
            self.flags,
            self.deleted_at,
            self.reuse,
            self.revision,
            self.checksum,
            self.preview,
        ]
        .to_vec()
    }
}

/// A table `n` with the columns [`NEW_COLUMNS`], from 29 arrays.
pub(crate) fn unnested() -> String {
    let arrays: Vec<String> = (1..=29).map(|n| format!("${n}")).collect();
    format!("unnest({}) AS n ({NEW_COLUMNS})", arrays.join(", "))
}

/// The columns of the table `n` as they are written: tags arrive joined by commas.
pub(crate) fn written_columns() -> String {
    NEW_COLUMNS
        .split(", ")
        .map(|column| match column {
            "tags" => "string_to_array(n.tags, ',')".to_owned(),
            column => format!("n.{column}"),
        })
        .collect::<Vec<_>>()
        .join(", ")
}
