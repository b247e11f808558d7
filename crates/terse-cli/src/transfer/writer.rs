//! Writing links to a file.

use std::io::Write;

use serde_json::Value;

use super::cells::guard;
use super::fields::Field;
use super::rows::Format;

/// Writes links one by one.
pub(crate) enum Writer<W: Write> {
    /// With a header, and with no cell that a spreadsheet would run.
    Csv(Box<csv::Writer<W>>),
    /// As the API returns them.
    Jsonl(W),
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(out: W, format: Format) -> anyhow::Result<Self> {
        match format {
            Format::Jsonl => Ok(Self::Jsonl(out)),
            Format::Csv => {
                let mut writer = csv::Writer::from_writer(out);
                writer.write_record(Field::ALL.map(Field::name))?;
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
            Self::Csv(writer) => {
                for field in Field::ALL {
                    writer.write_field(guard(&field.write_cell(link)).as_bytes())?;
                }
                writer.write_record(None::<&[u8]>)?;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Jsonl(mut out) => out.flush()?,
            Self::Csv(mut writer) => writer.flush()?,
        }
        Ok(())
    }
}
