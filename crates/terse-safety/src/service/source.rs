//! Where a list comes from.

use std::path::PathBuf;

use url::Url;

/// One list: `phish=https://feeds.example/phish.csv`, or without a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListSource {
    /// The name in logs and error messages.
    pub name: String,
    /// The source.
    pub place: ListLocation,
}

/// The source of a list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ListLocation {
    /// A local file.
    File(PathBuf),
    /// A feed on another server.
    Url(Url),
}

impl ListSource {
    /// Parses `name=place`, or a place alone.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            (1..=32).contains(&name.len())
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        let (name, place) = match text.split_once('=') {
            Some((name, place)) if is_name(name) => (Some(name), place),
            _ => (None, text),
        };
        if place.is_empty() {
            return Err("a list needs a file or a URL".into());
        }
        let (found, place) = match place.split_once("://") {
            Some((scheme, _)) => {
                // Do not quote the value: the URL of a feed may contain a key.
                let url = Url::parse(place)
                    .map_err(|_| format!("one of the {scheme} URLs is not a URL"))?;
                if !matches!(url.scheme(), "http" | "https") {
                    return Err(format!("a list is a file or an https URL, not {scheme}:"));
                }
                (url.host_str().unwrap_or_default().to_owned(), ListLocation::Url(url))
            }
            None => {
                let path = PathBuf::from(place);
                (
                    path.file_name()
                        .map(|name| name.to_string_lossy().into_owned())
                        .unwrap_or_default(),
                    ListLocation::File(path),
                )
            }
        };
        Ok(Self { name: name.map_or(found, str::to_owned), place })
    }

    /// The setting as text, without the parts of a URL that may contain a key.
    pub fn shown(&self) -> String {
        match &self.place {
            ListLocation::File(path) => format!("{}={}", self.name, path.display()),
            ListLocation::Url(url) => {
                let mut url = url.clone();
                if url.query().is_some() {
                    url.set_query(Some("[hidden]"));
                }
                format!("{}={url}", self.name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_may_have_a_name() {
        for (text, name, url) in [
            ("bad.txt", "bad.txt", false),
            ("/etc/terse/bad=worse.txt", "bad=worse.txt", false),
            ("own=/etc/terse/bad.txt", "own", false),
            ("https://feeds.example/x?key=1", "feeds.example", true),
            ("phish=https://feeds.example/x?key=1", "phish", true),
        ] {
            let source = ListSource::parse(text).unwrap();
            assert_eq!(
                (source.name.as_str(), matches!(source.place, ListLocation::Url(_))),
                (name, url),
                "{text}"
            );
        }
        for text in ["", "own=", "ftp://feeds.example/x", "https://", "a=https://:1/"] {
            assert!(ListSource::parse(text).is_err(), "{text}");
        }
    }
}
