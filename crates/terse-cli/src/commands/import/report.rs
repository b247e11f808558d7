//! `terse import --report`: the file of refused rows.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use serde_json::json;
use terse_core::import_file::{RejectedRow, guard};

/// The open file, and whether it is CSV.
pub(super) struct ImportReport {
    out: Box<dyn Write>,
    csv: bool,
}

impl ImportReport {
    pub(super) fn open(path: &Path, append: bool) -> anyhow::Result<Self> {
        let csv = path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("csv"));
        let open =
            File::options().create(true).write(true).append(append).truncate(!append).open(path);
        let mut file = open.with_context(|| format!("opening {}", path.display()))?;
        if csv && file.metadata()?.len() == 0 {
            file.write_all(b"line,outcome,short_code,field,reason\n")?;
        }
        Ok(Self { out: Box::new(std::io::BufWriter::new(file)), csv })
    }

    pub(super) fn write(&mut self, row: &RejectedRow, outcome: &str) -> anyhow::Result<()> {
        if !self.csv {
            let mut line = json!(row);
            line["outcome"] = outcome.into();
            writeln!(self.out, "{line}")?;
            return Ok(());
        }
        let (code, field) = (
            row.short_code.as_deref().unwrap_or_default(),
            row.field.as_deref().unwrap_or_default(),
        );
        let mut writer = csv::Writer::from_writer(&mut self.out);
        writer.write_record([
            &row.line.to_string(),
            outcome,
            &guard(code),
            &guard(field),
            &guard(&row.reason),
        ])?;
        writer.flush()?;
        Ok(())
    }

    pub(super) fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
