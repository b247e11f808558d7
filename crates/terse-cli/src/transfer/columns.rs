//! The meaning of CSV columns, by their names in terse and in other shorteners.

use super::fields::Field;

/// The largest number of columns.
pub(crate) const MAX_COLUMNS: usize = 100;

/// The meaning of a column.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Column {
    /// A field of the link.
    Field(Field),
    /// A whole short URL, whose last part is the code.
    ShortUrl,
    /// Known but not imported. Counts are still checked: an invalid count means a damaged file.
    Count,
    /// Known but not imported.
    Ignored,
}

/// The header of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Columns {
    pub(crate) columns: Vec<(Column, String)>,
    /// What separates tags; Shlink writes `|`.
    pub(crate) tag_separators: &'static [char],
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
                unknown.push(format!("{:?}", crate::terminal::cut(name, 40)));
                Column::Ignored
            });
            let again = columns.iter().find(|(have, other)| {
                (matches!(have, Column::Field(_)) && *have == column) || other == name
            });
            if let Some((_, other)) = again {
                return Err(if other == name {
                    format!("the column {name:?} is there twice")
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
                "unknown columns: {}; --ignore-unknown passes over them",
                unknown.join(", ")
            ));
        }
        let shlink = names.iter().any(|name| name.trim() == "longUrl");
        Ok(Self { columns, tag_separators: if shlink { &[',', '|'] } else { &[','] } })
    }
}

/// The meaning of a name, ignoring case, spaces, dashes and underscores.
fn meaning(name: &str) -> Option<Column> {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let field = match plain.as_str() {
        "longurl" | "url" | "target" | "targeturl" | "destination" | "destinationurl"
        | "originalurl" => Field::LongUrl,
        "shortcode" | "code" | "alias" | "customalias" | "keyword" | "slug" | "backhalf" => {
            Field::Code
        }
        "title" | "name" => Field::Title,
        "tags" | "tag" => Field::Tags,
        "notes" | "note" => Field::Notes,
        "archived" => Field::Archived,
        "haspassword" => Field::HasPassword,
        "createdat" | "created" | "timestamp" | "datecreated" | "createddate" => Field::CreatedAt,
        "expiresat" | "expires" | "expiry" | "expirationdate" | "validuntil" => Field::ExpiresAt,
        "validfrom" | "validsince" => Field::ValidFrom,
        "maxclicks" | "maxvisits" => Field::MaxClicks,
        "redirect" => Field::Redirect,
        "rules" => Field::Rules,
        "forwardquery" => Field::ForwardQuery,
        "crawlable" => Field::Crawlable,
        "domain" => Field::Domain,
        "status" => Field::Status,
        "shorturl" | "link" | "bitlink" | "shortlink" => return Some(Column::ShortUrl),
        "clicks" | "clickcount" | "visits" | "visitscount" | "visitcount" | "totalclicks"
        | "spentclicks" => {
            return Some(Column::Count);
        }
        "id" | "ip" | "owner" | "updatedat" | "deletedat" | "qrurl" | "previewurl" | "revision"
        | "flags" => {
            return Some(Column::Ignored);
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
    fn other_shorteners_headers_are_understood() {
        for header in [
            "long_url,alias,title,created_at",
            "keyword,url,title,timestamp,ip,clicks",
            "createdAt,domain,longUrl,shortCode,shortUrl,tags,title,visits",
            "Title,Link,Long URL,Created",
        ] {
            assert!(parse(header).is_ok(), "{header}");
        }
        assert_eq!(parse("longUrl,tags").unwrap().tag_separators, [',', '|']);
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
        assert!(Columns::parse(&["url".into(), "foo".into()], true).is_ok());
    }
}
