//! A JSON document that holds a list of links, as the APIs of shorteners write it.

use std::io::Read;

use serde_json::Value;

use super::ImportFileError;

/// The largest document. Larger lists are better written as JSON lines.
const MAX_SIZE: u64 = 64 << 20;

/// The names of lists in documents.
const LISTS: [&str; 5] = ["data", "links", "urls", "shortUrls", "results"];
/// Other names with which such a document may begin.
const BESIDE: [&str; 7] =
    ["limit", "skip", "total", "pagination", "stats", "statusCode", "message"];

/// Whether a JSON object that begins like this is a document with a list, and not one link.
pub(crate) fn is_document(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let Some(rest) = text.trim_start().strip_prefix('{') else { return false };
    let name = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
    name.is_some_and(|name| LISTS.contains(&name) || BESIDE.contains(&name))
}

/// The links of a document.
#[derive(Debug)]
pub(crate) struct Document {
    /// One JSON object per line.
    pub(crate) lines: Vec<u8>,
    /// How many links the document holds, and how many its shortener says it has.
    pub(crate) partial: Option<(usize, u64)>,
}

impl Document {
    pub(crate) fn read(input: impl Read) -> Result<Self, ImportFileError> {
        let mut bytes = Vec::new();
        input.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_SIZE {
            return Err(ImportFileError::unusable(format!(
                "the JSON document is larger than {} MiB: write one link per line, as `jq -c \
                 '.[]'` does",
                MAX_SIZE >> 20
            )));
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let document: Value = serde_json::from_slice(bytes)
            .map_err(|error| ImportFileError::unusable(format!("the file is not JSON: {error}")))?;
        let total = total_of(&document);
        let Some(entries) = entries(document) else {
            let why = "there is no list of links in this JSON document";
            return Err(ImportFileError::unusable(why));
        };
        let partial = total.filter(|total| *total > entries.len() as u64);
        let partial = partial.map(|total| (entries.len(), total));
        let mut lines = Vec::new();
        for entry in &entries {
            lines.extend(entry.to_string().into_bytes());
            lines.push(b'\n');
        }
        Ok(Self { lines, partial })
    }
}

/// The entries of a list, also inside an object. YOURLS writes an object instead of a list.
fn entries(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(entries) => Some(entries),
        Value::Object(mut object) => {
            let (name, inner) =
                LISTS.into_iter().find_map(|name| Some((name, object.remove(name)?)))?;
            match inner {
                Value::Object(map) if name == "links" => {
                    Some(map.into_iter().map(|(_, link)| link).collect())
                }
                inner => entries(inner),
            }
        }
        _ => None,
    }
}

/// How many links there are in all, where the document is one page of them.
fn total_of(document: &Value) -> Option<u64> {
    let places =
        ["/total", "/pagination/total", "/shortUrls/pagination/totalItems", "/stats/total_links"];
    places.into_iter().find_map(|place| match document.pointer(place)? {
        Value::String(text) => text.parse().ok(),
        number => number.as_u64(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, Option<(usize, u64)>), ImportFileError> {
        let document = Document::read(text.as_bytes())?;
        Ok((String::from_utf8(document.lines).unwrap(), document.partial))
    }

    #[test]
    fn a_list_is_found_wherever_a_shortener_puts_it() {
        for text in [
            r#"[{"a":1},{"a":2}]"#,
            r#"{"limit":10,"skip":0,"total":2,"data":[{"a":1},{"a":2}]}"#,
            r#"{"links":{"link_1":{"a":1},"link_2":{"a":2}},"stats":{"total_links":"2"}}"#,
            r#"{"shortUrls":{"data":[{"a":1},{"a":2}],"pagination":{"totalItems":2}}}"#,
        ] {
            assert_eq!(read(text).unwrap(), ("{\"a\":1}\n{\"a\":2}\n".into(), None), "{text}");
            assert_eq!(is_document(text.as_bytes()), !text.starts_with('['), "{text}");
        }
        assert!(!is_document(br#"{"long_url":"https://e.com/"}"#));
    }

    #[test]
    fn a_page_of_a_longer_list_is_noticed() {
        let text = r#"{"total":53,"data":[{"a":1}]}"#;
        assert_eq!(read(text).unwrap().1, Some((1, 53)));
    }

    #[test]
    fn what_holds_no_list_is_refused() {
        for (text, why) in [
            ("{\"total\":1}", "no list of links"),
            ("3", "no list of links"),
            (&"[".repeat(100_000), "not JSON"),
        ] {
            let error = format!("{}", read(text).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
