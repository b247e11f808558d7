//! The meaning of columns and JSON fields, by their names in terse and in other shorteners.

use std::collections::BTreeSet;

use super::fields::Field;

/// The largest number of columns.
pub(crate) const MAX_COLUMNS: usize = 100;

/// The meaning of a column of a table, or of a field of a JSON object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Column {
    /// A field of the link.
    Field(Field),
    /// A short URL, whose last part is the code, or the code itself.
    ShortUrl,
    /// Further short URLs of the same link, each of which becomes a link.
    MoreShortUrls,
    /// How many clicks the other shortener has counted.
    Clicks,
    /// The password of the link or its hash, or whether it has one.
    Password,
    /// Whether the other shortener blocks the link.
    Banned,
    /// Whether the link was deleted.
    Deleted,
    /// An object with more fields of the link.
    Nested,
    /// Known, but nothing in terse corresponds to it.
    Unused,
}

impl Column {
    /// What the import makes of it, for people; `None` if it is not used.
    pub(crate) fn describe(self) -> Option<&'static str> {
        Some(match self {
            Self::Field(field) => field.name(),
            Self::ShortUrl => "short_code, from the short URL",
            Self::MoreShortUrls => "further short codes",
            Self::Clicks => "clicks before the import",
            Self::Password => "whether there is a password",
            Self::Banned => "whether the link is blocked",
            Self::Deleted => "whether the link is deleted",
            Self::Nested => "an object with more fields",
            Self::Unused => return None,
        })
    }
}

/// The shortener that wrote a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// Kutt.
    Kutt,
    /// YOURLS.
    Yourls,
    /// Bitly.
    Bitly,
    /// chhoto-url.
    Chhoto,
    /// Shlink.
    Shlink,
}

impl Source {
    /// Recognises a file by the names of its columns.
    pub(crate) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let names: Vec<&str> = names.into_iter().map(str::trim).collect();
        // Shlink is the only one that writes camelCase.
        if names.contains(&"longUrl")
            && (names.contains(&"shortCode") || names.contains(&"shortUrl"))
        {
            return Some(Self::Shlink);
        }
        let plain: BTreeSet<String> = names.iter().map(|name| plain(name)).collect();
        let has = |all: &[&str]| all.iter().all(|name| plain.contains(*name));
        if has(&["address", "target"]) {
            Some(Self::Kutt)
        } else if has(&["keyword", "url"]) || has(&["shorturl", "url", "timestamp"]) {
            Some(Self::Yourls)
        } else if has(&["shortlink", "longlink"]) || has(&["shorturl", "longurl", "hits"]) {
            Some(Self::Chhoto)
        } else if has(&["link", "longurl"]) || has(&["bitlink", "longurl"]) {
            Some(Self::Bitly)
        } else {
            None
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kutt => "Kutt",
            Self::Yourls => "YOURLS",
            Self::Bitly => "Bitly",
            Self::Chhoto => "chhoto-url",
            Self::Shlink => "Shlink",
        }
    }

    /// What separates tags in a cell.
    pub(crate) fn tag_separators(source: Option<Self>) -> &'static [char] {
        if source == Some(Self::Shlink) { &[',', '|'] } else { &[','] }
    }
}

/// The header of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Columns {
    pub(crate) columns: Vec<(Column, String)>,
    pub(crate) source: Option<Source>,
    /// The names of columns that the import does not use.
    pub(crate) unused: BTreeSet<String>,
}

impl Columns {
    /// Reads a header. Every name must be known, unless `ignore_unknown`.
    pub(crate) fn parse(names: &[String], ignore_unknown: bool) -> Result<Self, String> {
        if names.len() > MAX_COLUMNS {
            return Err(format!("{} columns are too many; {MAX_COLUMNS} is the most", names.len()));
        }
        let mut columns: Vec<(Column, String)> = Vec::with_capacity(names.len());
        let mut unknown = Vec::new();
        for name in names {
            let column = meaning(name).unwrap_or_else(|| {
                unknown.push(format!("{:?}", super::cut(name, 40)));
                Column::Unused
            });
            let again = columns.iter().find(|(have, other)| {
                (matches!(have, Column::Field(_)) && *have == column) || other == name
            });
            if let Some((_, other)) = again {
                return Err(if other == name {
                    format!("the column {name:?} appears twice")
                } else {
                    format!("the columns {other:?} and {name:?} mean the same")
                });
            }
            columns.push((column, name.clone()));
        }
        if !columns.iter().any(|(column, _)| *column == Column::Field(Field::LongUrl)) {
            return Err("there is no column with targets: call it long_url (or url)".into());
        }
        if !unknown.is_empty() && !ignore_unknown {
            unknown.truncate(5);
            return Err(format!(
                "unknown columns: {}; --ignore-unknown ignores them",
                unknown.join(", ")
            ));
        }
        let source = Source::of(names.iter().map(String::as_str));
        let unused = columns.iter().filter(|(column, _)| *column == Column::Unused);
        let unused = unused.map(|(_, name)| super::cut(name, 40)).collect();
        Ok(Self { columns, source, unused })
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// The meaning of a name, ignoring case, spaces, dashes and underscores.
pub(crate) fn meaning(name: &str) -> Option<Column> {
    let field = match plain(name).as_str() {
        "longurl" | "longlink" | "url" | "target" | "targeturl" | "destination"
        | "destinationurl" | "originalurl" => Field::LongUrl,
        "shortcode" | "code" | "alias" | "customalias" | "keyword" | "slug" | "backhalf"
        | "address" => Field::Code,
        "title" | "name" => Field::Title,
        "tags" | "tag" => Field::Tags,
        // Kutt shows a description to the owner of the link only.
        "notes" | "note" | "description" => Field::Notes,
        "archived" => Field::Archived,
        "haspassword" => Field::HasPassword,
        "createdat" | "created" | "timestamp" | "datecreated" | "createddate" | "creationdate" => {
            Field::CreatedAt
        }
        "expiresat" | "expires" | "expiry" | "expirationdate" | "validuntil" | "expirein"
        | "expirytime" => Field::ExpiresAt,
        "validfrom" | "validsince" => Field::ValidFrom,
        "maxclicks" | "maxvisits" => Field::MaxClicks,
        "redirect" => Field::Redirect,
        "rules" => Field::Rules,
        "preview" => Field::Preview,
        "forwardquery" => Field::ForwardQuery,
        "crawlable" => Field::Crawlable,
        "domain" => Field::Domain,
        "status" => Field::Status,
        "shorturl" | "link" | "bitlink" | "shortlink" => return Some(Column::ShortUrl),
        "custombitlinks" => return Some(Column::MoreShortUrls),
        "clicks" | "clickcount" | "visits" | "visitscount" | "visitcount" | "visitssummary"
        | "totalclicks" | "hits" | "engagements" => return Some(Column::Clicks),
        "password" => return Some(Column::Password),
        "banned" => return Some(Column::Banned),
        "isdeleted" => return Some(Column::Deleted),
        "meta" => return Some(Column::Nested),
        "id" | "ip" | "owner" | "uuid" | "userid" | "bannedbyid" | "domainid" | "updatedat"
        | "deletedat" | "relativecreatedat" | "relativeexpirein" | "qrurl" | "previewurl"
        | "revision" | "flags" | "spentclicks" | "importedclicks" | "createdby" | "clientid"
        | "deeplinks" | "references" | "launchpadids" | "campaignids" | "hasredirectrules" => {
            return Some(Column::Unused);
        }
        _ => return None,
    };
    Some(Column::Field(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(header: &str) -> Result<Columns, String> {
        Columns::parse(&header.split(',').map(Into::into).collect::<Vec<_>>(), false)
    }

    #[test]
    fn other_shorteners_are_recognised_by_their_columns() {
        for (header, source, unused) in [
            ("long_url,alias,title,created_at", None, ""),
            ("keyword,url,title,timestamp,ip,clicks", Some(Source::Yourls), "ip"),
            (
                "createdAt,domain,longUrl,shortCode,shortUrl,tags,title,visits",
                Some(Source::Shlink),
                "",
            ),
            ("Title,Link,Long URL,Created", Some(Source::Bitly), ""),
            ("id,long_url,short_url,hits,expiry_time,notes", Some(Source::Chhoto), "id"),
            (
                "id,address,banned,created_at,description,expire_in,password,target,visit_count",
                Some(Source::Kutt),
                "id",
            ),
        ] {
            let columns = parse(header).unwrap();
            let named: Vec<&str> = columns.unused.iter().map(String::as_str).collect();
            assert_eq!((columns.source, named.join(",")), (source, unused.to_owned()), "{header}");
        }
    }

    #[test]
    fn a_header_that_could_be_misread_is_refused() {
        for (header, why) in [
            ("foo,bar", "no column with targets"),
            ("long_url,foo", "unknown columns: \"foo\""),
            ("long_url,long_url", "twice"),
            ("long_url,url", "mean the same"),
            ("url,alias,keyword", "mean the same"),
            ("", "no column"),
        ] {
            let error = parse(header).unwrap_err();
            assert!(error.contains(why), "{header}: {error}");
        }
        let many: Vec<String> = (0..100_000).map(|i| format!("c{i}")).collect();
        assert!(Columns::parse(&many, true).unwrap_err().contains("too many"));
        let columns = Columns::parse(&["url".into(), "foo".into()], true).unwrap();
        assert_eq!(columns.unused, BTreeSet::from(["foo".to_owned()]));
    }
}
