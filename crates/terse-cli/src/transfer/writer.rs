//! Writing links to a file.

use std::io::Write;

use serde_json::Value;
use terse_core::import_file::{CLICKS, Field, guard};

use super::format::Format;

/// Writes links one by one.
pub(crate) enum Writer<W: Write> {
    /// With a header, and with no cell that a spreadsheet would run.
    Csv(Box<csv::Writer<W>>),
    /// As the API returns them.
    Jsonl(W),
    /// The same as one list.
    Json {
        out: W,
        /// Whether there is a link before the next one.
        any: bool,
    },
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(out: W, format: Format) -> anyhow::Result<Self> {
        match format {
            Format::Jsonl => Ok(Self::Jsonl(out)),
            Format::Json => Ok(Self::Json { out, any: false }),
            Format::Csv => {
                let mut writer = csv::Writer::from_writer(out);
                for field in Field::ALL {
                    writer.write_field(field.name())?;
                }
                writer.write_record([CLICKS])?;
                Ok(Self::Csv(Box::new(writer)))
            }
        }
    }

    pub(crate) fn write(&mut self, link: &Value) -> anyhow::Result<()> {
        match self {
            Self::Jsonl(out) => {
                serde_json::to_writer(&mut *out, link)?;
                out.write_all(b"\n")?;
            }
            Self::Json { out, any } => {
                out.write_all(if *any { b",\n" } else { b"[\n" })?;
                serde_json::to_writer(&mut *out, link)?;
                *any = true;
            }
            Self::Csv(writer) => {
                for field in Field::ALL {
                    writer.write_field(guard(&field.write_cell(link)).as_bytes())?;
                }
                let clicks = link.get(CLICKS).and_then(Value::as_u64);
                writer
                    .write_record([clicks.map(|clicks| clicks.to_string()).unwrap_or_default()])?;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Jsonl(mut out) => out.flush()?,
            Self::Json { mut out, any } => {
                out.write_all(if any { b"\n]\n" } else { b"[]\n" })?;
                out.flush()?;
            }
            Self::Csv(mut writer) => writer.flush()?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use terse_core::Timestamp;
    use terse_core::import_file::{RowResult, Rows};

    use super::*;

    fn links(file: &[u8]) -> Vec<Value> {
        let now = Timestamp::parse("2026-06-01T00:00:00Z").unwrap();
        let input = Box::new(std::io::Cursor::new(file.to_vec()));
        let mut rows = Rows::open(input, None, false, now).unwrap();
        let mut links = Vec::new();
        while let Some(outcomes) = rows.next_links().unwrap() {
            links.extend(outcomes.into_iter().map(|outcome| match outcome {
                RowResult::Link(row) => Value::Object(row.body),
                other => panic!("{other:?}"),
            }));
        }
        links
    }

    fn link() -> impl Strategy<Value = Value> {
        let text = "['=+@\\-a-z\", ;|é日]{1,12}";
        let time = (0i64..1_700_000_000_000).prop_map(|ms| Timestamp::from_ms(ms).to_string());
        (
            (
                "[A-Za-z0-9_-]{3,12}",
                "https://e\\.com/[a-z?=&,'\"]{0,20}",
                proptest::option::of(text),
            ),
            prop::collection::vec("[a-z'=+@\\-|;\"é]{1,6}", 0..4),
            (time.clone(), proptest::option::of(time), proptest::option::of(1u32..)),
            (any::<bool>(), prop_oneof![Just(301), Just(302)]),
        )
            .prop_map(
                |((code, url, title), tags, (made, ends, clicks), (crawlable, redirect))| {
                    json!({
                        "short_code": code, "long_url": url, "title": title, "tags": tags,
                        "created_at": made, "expires_at": ends,
                        "max_clicks": clicks, "crawlable": crawlable, "redirect": redirect,
                        "forward_query": !crawlable, "domain": "b.example",
                        "valid_from": null, "status": "active", "short_url": "https://s.test/x",
                        "revision": 1,
                    })
                },
            )
    }

    proptest! {
        #[test]
        fn what_is_exported_is_imported_exactly(links_out in prop::collection::vec(link(), 1..5),
            jsonl: bool) {
            let format = if jsonl { Format::Jsonl } else { Format::Csv };
            let mut file = Vec::new();
            let mut writer = Writer::new(&mut file, format).unwrap();
            for link in &links_out {
                writer.write(link).unwrap();
            }
            writer.finish().unwrap();
            let want: Vec<Value> = links_out
                .iter()
                .map(|link| {
                    let mut link = link.as_object().unwrap().clone();
                    link.retain(|name, value| !value.is_null() && !["status", "short_url",
                        "revision"].contains(&name.as_str()));
                    // An empty list of tags is an empty cell.
                    if !jsonl && link["tags"] == json!([]) {
                        link.remove("tags");
                    }
                    Value::Object(link)
                })
                .collect();
            prop_assert_eq!(links(&file), want);
            if !jsonl {
                // No cell that a spreadsheet would run.
                let mut reader = csv::Reader::from_reader(&file[..]);
                for record in reader.records() {
                    for cell in &record.unwrap() {
                        prop_assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{}", cell);
                        prop_assert!(guard(cell).len() >= cell.len());
                    }
                }
            }
        }
    }
}
