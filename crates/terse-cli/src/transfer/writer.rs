//! Writing links to a file.

use std::io::Write;

use serde_json::Value;

use super::cells::guard;
use super::fields::{CLICKS, Field};
use super::rows::Format;

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
