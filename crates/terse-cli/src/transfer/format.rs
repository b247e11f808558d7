//! The option for the format of a file.

use terse_core::import_file;

/// The format of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// One JSON document with a list of objects.
    Json,
}

impl From<Format> for import_file::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Csv => Self::Csv,
            Format::Jsonl => Self::Jsonl,
            Format::Json => Self::Json,
        }
    }
}
