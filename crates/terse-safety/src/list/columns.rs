//! CSV lists: PhishTank and URLhaus.

use std::str;

use csv_core::{ReadRecordResult, Reader};

use super::{ListKind, MAX_LINE};

/// The columns of a CSV list.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) kind: ListKind,
    url: usize,
    /// PhishTank: the column that says whether the report is confirmed.
    verified: Option<usize>,
    /// The header line, if it is not a comment.
    header: Option<Vec<u8>>,
}

impl Columns {
    /// Detects the columns from the comments and the first other line. `None` if it is not CSV.
    pub(super) fn recognise<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut row = Row::default();
        for line in lines {
            let (line, is_comment) = match line.strip_prefix(b"#") {
                Some(comment) => (comment.trim_ascii(), true),
                None => (line, false),
            };
            let Some(fields) = row.read(line) else { continue };
            match (Self::of_header(&fields), is_comment) {
                (Some(columns), true) => return Some(columns),
                (Some(columns), false) => {
                    return Some(Self { header: Some(line.to_vec()), ..columns });
                }
                (None, true) => {}
                (None, false) => return Self::of_first_row(&fields),
            }
        }
        None
    }

    fn of_header(fields: &Fields<'_>) -> Option<Self> {
        let column = |name: &str| {
            (0..fields.len()).find(|at| fields.get(*at).is_some_and(|field| field.trim() == name))
        };
        let url = column("url")?;
        let kind = match (column("phish_id"), column("dateadded")) {
            (Some(_), _) => ListKind::PhishTank,
            (_, Some(_)) => ListKind::UrlHaus,
            _ => return None,
        };
        Some(Self { kind, url, verified: column("verified"), header: None })
    }

    /// URLhaus names its columns in a comment, which may be missing.
    fn of_first_row(fields: &Fields<'_>) -> Option<Self> {
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_row = fields.len() >= 4
            && fields.get(0).is_some_and(is_number)
            && fields.get(2)?.starts_with("http");
        is_row.then_some(Self { kind: ListKind::UrlHaus, url: 2, verified: None, header: None })
    }

    /// Whether this line is the header.
    pub(super) fn is_header(&self, line: &[u8]) -> bool {
        self.header.as_deref() == Some(line)
    }

    /// The URL of a row, if it has one and the report is not unconfirmed.
    pub(super) fn url<'a>(&self, fields: &Fields<'a>) -> Option<&'a str> {
        let unconfirmed = self
            .verified
            .and_then(|at| fields.get(at))
            .is_some_and(|word| word.eq_ignore_ascii_case("no"));
        fields.get(self.url).filter(|_| !unconfirmed)
    }
}

/// Parses one row at a time into reused buffers.
pub(super) struct Row {
    reader: Reader,
    text: Vec<u8>,
    ends: [usize; 32],
}

/// The fields of one row.
pub(super) struct Fields<'a> {
    text: &'a [u8],
    ends: &'a [usize],
}

impl Default for Row {
    fn default() -> Self {
        Self { reader: Reader::new(), text: vec![0; MAX_LINE + 1], ends: [0; 32] }
    }
}

impl Row {
    /// `None` for a line that is too long or has more than 32 fields.
    pub(super) fn read(&mut self, line: &[u8]) -> Option<Fields<'_>> {
        if line.len() > MAX_LINE {
            return None;
        }
        self.reader.reset();
        let (mut at, mut text_end, mut ends) = (0, 0, 0);
        loop {
            let (result, read, written, ended) = self.reader.read_record(
                &line[at..],
                &mut self.text[text_end..],
                &mut self.ends[ends..],
            );
            at += read;
            text_end += written;
            ends += ended;
            match result {
                ReadRecordResult::InputEmpty => {} // the next call, with empty input, ends the row
                ReadRecordResult::Record => {
                    return Some(Fields { text: &self.text[..text_end], ends: &self.ends[..ends] });
                }
                ReadRecordResult::OutputFull
                | ReadRecordResult::OutputEndsFull
                | ReadRecordResult::End => return None,
            }
        }
    }
}

impl<'a> Fields<'a> {
    fn len(&self) -> usize {
        self.ends.len()
    }

    /// `None` also for a field that is not UTF-8.
    fn get(&self, at: usize) -> Option<&'a str> {
        let begin = if at == 0 { 0 } else { *self.ends.get(at - 1)? };
        str::from_utf8(self.text.get(begin..*self.ends.get(at)?)?).ok()
    }
}
