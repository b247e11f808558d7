//! A file as a sequence of links to import.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Read as _};

use serde_json::{Map, Value};

use super::cells::unguard;
use super::columns::{Column, Columns, MAX_COLUMNS, Source, meaning};
use super::document::{Document, is_document};
use super::fields::{Field, RowFields};
use super::records::{MAX_RECORD_LEN, Record, Records, cells};
use super::{ImportFileError, cut};
use crate::time::Timestamp;

/// The format of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// One JSON document with a list of objects.
    Json,
}

/// A link to import.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The line where it begins.
    pub line: u64,
    /// The link as the API reads it.
    pub body: Map<String, Value>,
}

impl Row {
    /// The requested code.
    pub fn code(&self) -> Option<String> {
        self.body.get("short_code").and_then(Value::as_str).map(str::to_owned)
    }
}

/// A row that cannot become a link, and why.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize)]
pub struct RejectedRow {
    /// The line where it begins.
    pub line: u64,
    /// The code that it asks for.
    pub short_code: Option<String>,
    /// The field with the problem.
    pub field: Option<String>,
    /// The problem.
    pub reason: String,
}

/// The result of reading a row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowResult {
    /// A link to import.
    Link(Row),
    /// A row that cannot become a link.
    Refused(RejectedRow),
    /// A row that is skipped on purpose: it was deleted or taken down at its source.
    Skipped(RejectedRow),
}

type Input = std::io::Chain<std::io::Cursor<Vec<u8>>, Box<dyn BufRead + Send>>;

/// How many rows a file has, refused ones included. For fuzzing.
#[doc(hidden)]
pub fn rows_of(file: Vec<u8>) -> Result<usize, ImportFileError> {
    let now = Timestamp::from_ms(1_767_225_600_000);
    let mut rows = Rows::open(Box::new(std::io::Cursor::new(file)), None, true, now)?;
    let mut count = 0;
    while let Some(links) = rows.next_links()? {
        count += links.len();
    }
    Ok(count)
}

/// Reads rows one by one.
pub struct Rows {
    records: Records<Input>,
    shape: Shape,
    ignore_unknown: bool,
    now: Timestamp,
    source: Option<Source>,
    /// The names of columns and fields that the import does not use.
    unused: BTreeSet<String>,
    /// The names of columns and fields that the import uses, each with what it becomes.
    used: BTreeMap<String, &'static str>,
    partial: Option<(usize, u64)>,
}

enum Shape {
    Csv { delimiter: u8, columns: Columns },
    Jsonl,
}

/// How far the clock of another server may be ahead of ours.
const CLOCKS_DIFFER: std::time::Duration = std::time::Duration::from_secs(300);

impl Rows {
    /// Detects the format of a file, and reads the header if it has one. Errors are about the file
    /// as a whole.
    pub fn open(
        mut input: Box<dyn BufRead + Send>,
        format: Option<Format>,
        ignore_unknown: bool,
        now: Timestamp,
    ) -> Result<Self, ImportFileError> {
        let mut head = Vec::new();
        input.by_ref().take(512).read_to_end(&mut head)?;
        let format = recognise(&head, format)?;
        let input: Input = std::io::Cursor::new(head).chain(input);
        let json = |input, partial| Self {
            records: Records::new(input, None),
            shape: Shape::Jsonl,
            ignore_unknown,
            now,
            source: None,
            unused: BTreeSet::new(),
            used: BTreeMap::new(),
            partial,
        };
        let mut records = match format {
            Format::Jsonl => return Ok(json(input, None)),
            Format::Json => {
                let Document { lines, partial } = Document::read(input)?;
                let nothing: Box<dyn BufRead + Send> = Box::new(std::io::empty());
                return Ok(json(std::io::Cursor::new(lines).chain(nothing), partial));
            }
            Format::Csv => Records::new(input, Some(b',')),
        };
        let header = loop {
            match records.next()? {
                Some((_, Record::Whole(bytes))) if without_mark(&bytes).trim_ascii().is_empty() => {
                }
                Some((_, Record::Whole(bytes))) => break bytes,
                Some(_) => {
                    return Err(ImportFileError::unusable(format!(
                        "the header is longer than {} KiB, or a quote in it is not closed",
                        MAX_RECORD_LEN >> 10
                    )));
                }
                None => return Err(ImportFileError::unusable("the file is empty")),
            }
        };
        let header = without_mark(&header);
        // In many locales, spreadsheets write semicolons.
        let count = |delimiter: u8| header.iter().filter(|b| **b == delimiter).count();
        let delimiter =
            [b',', b';', b'\t'].into_iter().rev().max_by_key(|d| count(*d)).unwrap_or(b',');
        let names: Result<Vec<String>, _> = cells(header, delimiter)
            .into_iter()
            .map(|cell| String::from_utf8(cell).map(|name| unguard(name.trim()).to_owned()))
            .collect();
        let names =
            names.map_err(|_| ImportFileError::unusable("the header is not valid UTF-8"))?;
        let columns = Columns::parse(&names, ignore_unknown).map_err(ImportFileError::Unusable)?;
        records.set_delimiter(Some(delimiter));
        let (source, unused) = (columns.source, columns.unused.clone());
        let used = columns.columns.iter();
        let used = used.filter_map(|(column, name)| Some((cut(name, 40), column.describe()?)));
        let used = used.collect();
        let shape = Shape::Csv { delimiter, columns };
        Ok(Self { records, shape, ignore_unknown, now, source, unused, used, partial: None })
    }

    /// The shortener that wrote the file, if its columns show that.
    pub fn source(&self) -> Option<Source> {
        self.source
    }

    /// The columns and fields so far that the import does not use.
    pub fn unused(&self) -> &BTreeSet<String> {
        &self.unused
    }

    /// The columns and fields so far that the import uses, each with what it becomes.
    pub fn used(&self) -> &BTreeMap<String, &'static str> {
        &self.used
    }

    /// How many links the file holds and how many its shortener had, if these differ.
    pub fn partial(&self) -> Option<(usize, u64)> {
        self.partial
    }

    /// How many bytes were read as rows, and the number of the next line.
    pub fn at(&self) -> (u64, u64) {
        (self.records.offset, self.records.line)
    }

    /// The checksum of what was read.
    pub fn digest(&self) -> String {
        self.records.digest()
    }

    /// Skips to the position of an earlier import.
    pub fn skip_to(&mut self, offset: u64, line: u64) -> std::io::Result<()> {
        self.records.skip_to(offset, line)
    }

    /// The links of the next row, usually one; `None` at the end.
    pub fn next_links(&mut self) -> std::io::Result<Option<Vec<RowResult>>> {
        while let Some((line, record)) = self.records.next()? {
            let whole = match record {
                Record::Whole(bytes) if without_mark(&bytes).trim_ascii().is_empty() => continue,
                Record::Whole(bytes) => Ok(bytes),
                Record::TooLong => Err(format!("longer than {} KiB", MAX_RECORD_LEN >> 10)),
                Record::OpenQuote => Err("a quote is opened and not closed".into()),
            };
            let read = whole.map_err(|reason| (None, reason)).and_then(|bytes| self.read(&bytes));
            let (body, more_codes) = match read {
                Ok(gathered) => {
                    let (body, more_codes) = gathered.finish();
                    (Ok(body), more_codes)
                }
                Err(refusal) => (Err(refusal), Vec::new()),
            };
            let code = body.as_ref().ok().and_then(|body| body.get(Field::Code.name())).cloned();
            let further = more_codes.into_iter().filter_map(|more| {
                let mut body = body.as_ref().ok()?.clone();
                // The clicks were counted once for all of them.
                body.remove("imported_clicks");
                let more = Value::from(more);
                (code.as_ref() != Some(&more)).then(|| {
                    body.insert(Field::Code.name().to_owned(), more);
                    body
                })
            });
            let further: Vec<_> = further.collect();
            let mut results = vec![self.row_result(line, body)];
            results.extend(further.into_iter().map(|body| self.row_result(line, Ok(body))));
            return Ok(Some(results));
        }
        Ok(None)
    }

    fn read(&mut self, bytes: &[u8]) -> Result<RowFields, (Option<String>, String)> {
        let refuse = |reason: &str| (None, reason.to_owned());
        match &self.shape {
            Shape::Jsonl => {
                let text = std::str::from_utf8(without_mark(bytes))
                    .map_err(|_| refuse("not valid UTF-8"))?;
                match serde_json::from_str(text) {
                    Ok(Value::Object(object)) => self.read_object(object),
                    Ok(_) => Err(refuse("not a JSON object")),
                    Err(error) => Err((None, format!("not JSON: {error}"))),
                }
            }
            Shape::Csv { delimiter, columns } => from_cells(&cells(bytes, *delimiter), columns),
        }
    }

    fn read_object(
        &mut self,
        object: Map<String, Value>,
    ) -> Result<RowFields, (Option<String>, String)> {
        if self.source.is_none() {
            self.source = Source::of(object.keys().map(String::as_str));
        }
        let separators = Source::tag_separators(self.source);
        let mut gathered = RowFields::default();
        for (name, value) in object {
            let column = meaning(&name);
            let mut used = !matches!(column, None | Some(Column::Unused));
            let mut known = column.is_some();
            if let Some(column) = column {
                known = gathered
                    .put_json(column, value, separators)
                    .map_err(|reason| (Some(name.clone()), reason.to_owned()))?;
                used &= known;
            }
            if used
                && self.used.len() < MAX_COLUMNS
                && let Some(meaning) = column.and_then(Column::describe)
            {
                self.used.insert(cut(&name, 40), meaning);
            }
            if !used && self.unused.len() < MAX_COLUMNS {
                self.unused.insert(cut(&name, 40));
            }
            if !known && !self.ignore_unknown {
                let reason = "unknown field; --ignore-unknown ignores it".to_owned();
                return Err((Some(cut(&name, 40)), reason));
            }
        }
        Ok(gathered)
    }

    /// Checks a row before it is sent to the API.
    fn row_result(
        &self,
        line: u64,
        body: Result<Map<String, Value>, (Option<String>, String)>,
    ) -> RowResult {
        let refused = |short_code, field: Option<String>, reason: String| RejectedRow {
            line,
            short_code,
            field,
            reason,
        };
        let mut body = match body {
            Ok(body) => body,
            Err((field, reason)) => return RowResult::Refused(refused(None, field, reason)),
        };
        let code = body.get("short_code").and_then(Value::as_str).map(str::to_owned);
        let status = body.remove(Field::Status.name());
        if let Some(status @ ("deleted" | "blocked" | "suspicious" | "used_up")) =
            status.as_ref().and_then(Value::as_str)
        {
            // Imported as a new link, it would redirect again.
            return RowResult::Skipped(refused(
                code,
                Some("status".into()),
                format!("the link is {status}"),
            ));
        }
        match body.remove(Field::HasPassword.name()) {
            None | Some(Value::Bool(false)) => {}
            // Files do not contain passwords. Imported without one, the link would be open to
            // everyone.
            Some(_) => {
                return RowResult::Skipped(refused(
                    code,
                    Some("has_password".into()),
                    "the link has a password".into(),
                ));
            }
        }
        let made =
            body.get(Field::CreatedAt.name()).and_then(Value::as_str).and_then(Timestamp::parse);
        if made.is_some_and(|made| made.saturating_sub(CLOCKS_DIFFER) > self.now) {
            return RowResult::Refused(refused(
                code,
                Some("created_at".into()),
                "this date and time is in the future".into(),
            ));
        }
        if !body.contains_key(Field::LongUrl.name()) {
            return RowResult::Refused(refused(
                code,
                Some("long_url".into()),
                "there is no target".into(),
            ));
        }
        RowResult::Link(Row { line, body })
    }
}

fn from_cells(cells: &[Vec<u8>], columns: &Columns) -> Result<RowFields, (Option<String>, String)> {
    if cells.len() != columns.columns.len() {
        return Err((
            None,
            format!("{} cells, where the header has {}", cells.len(), columns.columns.len()),
        ));
    }
    let separators = Source::tag_separators(columns.source);
    let mut gathered = RowFields::default();
    for (cell, (column, name)) in cells.iter().zip(&columns.columns) {
        let refuse = |reason: &str| (Some(name.clone()), reason.to_owned());
        let cell = unguard(std::str::from_utf8(cell).map_err(|_| refuse("not valid UTF-8"))?);
        gathered.put_cell(*column, cell, separators).map_err(refuse)?;
    }
    Ok(gathered)
}

/// Removes the byte order mark that some programs write at the beginning of a file.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

fn recognise(head: &[u8], told: Option<Format>) -> Result<Format, ImportFileError> {
    if head.starts_with(&[0x1f, 0x8b])
        || head.starts_with(b"PK\x03\x04")
        || head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
    {
        return Err(ImportFileError::unusable(
            "the file is compressed: unpack it first, as in `gunzip -c links.csv.gz | terse \
             import -`",
        ));
    }
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return Err(ImportFileError::unusable("the file is in UTF-16: save it as UTF-8"));
    }
    match (without_mark(head).trim_ascii_start().first(), told) {
        (None, _) => Err(ImportFileError::unusable("the file is empty")),
        (_, Some(format)) => Ok(format),
        (Some(b'['), None) => Ok(Format::Json),
        (Some(b'{'), None) if is_document(without_mark(head)) => Ok(Format::Json),
        (Some(b'{'), None) => Ok(Format::Jsonl),
        (Some(_), None) => Ok(Format::Csv),
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
