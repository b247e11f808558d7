//! Splits a file into records, with bounded memory for any content.
//!
//! A record of CSV ends at a line break that is not inside quotes; of JSON lines, at any line
//! break. A record that does not end within the limit is reported as too long. If an open quote is
//! the reason, reading continues at the record's second line, so that one forgotten quote costs one
//! row and not the rest of the file.

use std::io::BufRead;

use sha2::{Digest as _, Sha256};

/// The longest record, in bytes; the longest valid target has 8 KiB.
pub(crate) const MAX_RECORD_LEN: usize = 64 << 10;

/// A record, or why there is none.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Record {
    /// Its bytes, without the line break.
    Whole(Vec<u8>),
    /// It does not end within the limit.
    TooLong,
    /// A quote is opened and not closed.
    OpenQuote,
}

/// Reads records one by one, and tracks its position.
pub(crate) struct Records<R> {
    input: R,
    /// The character that separates cells; `None` where quotes mean nothing.
    delimiter: Option<u8>,
    /// Bytes that were read and must be read again.
    again: Vec<u8>,
    /// How many bytes were returned as records.
    pub(crate) offset: u64,
    /// The number of the next line, from 1.
    pub(crate) line: u64,
    /// The checksum of all bytes returned.
    digest: Sha256,
}

impl<R: BufRead> Records<R> {
    pub(crate) fn new(input: R, delimiter: Option<u8>) -> Self {
        Self { input, delimiter, again: Vec::new(), offset: 0, line: 1, digest: Sha256::new() }
    }

    /// The separator, once it is known.
    pub(crate) fn set_delimiter(&mut self, delimiter: Option<u8>) {
        self.delimiter = delimiter;
    }

    /// The checksum of everything before `offset`.
    pub(crate) fn digest(&self) -> String {
        hex(&self.digest.clone().finalize())
    }

    /// Skips to the position of an earlier import.
    pub(crate) fn skip_to(&mut self, offset: u64, line: u64) -> std::io::Result<()> {
        let mut left = offset.saturating_sub(self.offset);
        let mut buffer = vec![0; 64 << 10];
        while left > 0 {
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let n = self.read_some(&mut buffer[..want])?;
            if n == 0 {
                break; // shorter than it was: the checksum will tell
            }
            self.digest.update(&buffer[..n]);
            self.offset += n as u64;
            left -= n as u64;
        }
        self.line = line;
        Ok(())
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.again.is_empty() {
            return self.input.read(buffer);
        }
        let n = buffer.len().min(self.again.len());
        buffer[..n].copy_from_slice(&self.again[..n]);
        self.again.drain(..n);
        Ok(n)
    }

    /// The next record and the number of the line it begins at; `None` at the end.
    pub(crate) fn next(&mut self) -> std::io::Result<Option<(u64, Record)>> {
        let begins = self.line;
        let mut bytes = std::mem::take(&mut self.again);
        let mut scan = Scan { delimiter: self.delimiter, place: ScanState::CellStart };
        let mut seen = 0;
        loop {
            while seen < bytes.len() {
                if scan.ends_at(bytes[seen]) {
                    self.again = bytes.split_off(seen + 1);
                    return Ok(Some((begins, self.give(bytes))));
                }
                seen += 1;
                if seen > MAX_RECORD_LEN {
                    return self
                        .too_long(bytes, scan.is_inside_quotes())
                        .map(|record| Some((begins, record)));
                }
            }
            let chunk = self.input.fill_buf()?;
            if chunk.is_empty() {
                break;
            }
            // No further than the limit, so that a huge line is never in memory at once.
            let take = chunk.len().min(MAX_RECORD_LEN + 1 - bytes.len().min(MAX_RECORD_LEN));
            bytes.extend_from_slice(&chunk[..take]);
            self.input.consume(take);
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        if scan.is_inside_quotes() {
            return self.too_long(bytes, true).map(|record| Some((begins, record)));
        }
        Ok(Some((begins, self.give(bytes))))
    }

    /// Counts the bytes as returned, and removes the line break.
    fn give(&mut self, mut bytes: Vec<u8>) -> Record {
        self.count(&bytes);
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        Record::Whole(bytes)
    }

    fn count(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.offset += bytes.len() as u64;
        self.line += bytes.iter().filter(|b| **b == b'\n').count() as u64;
    }

    /// Skips a record that does not end, up to its first line break.
    fn too_long(&mut self, mut bytes: Vec<u8>, quoted: bool) -> std::io::Result<Record> {
        let record = if quoted { Record::OpenQuote } else { Record::TooLong };
        if let Some(end) = bytes.iter().position(|b| *b == b'\n') {
            self.again = bytes.split_off(end + 1);
            self.count(&bytes);
            return Ok(record);
        }
        self.count(&bytes);
        loop {
            let chunk = self.input.fill_buf()?;
            let end = chunk.iter().position(|b| *b == b'\n');
            let part = chunk[..end.map_or(chunk.len(), |end| end + 1)].to_vec();
            if part.is_empty() {
                return Ok(record);
            }
            self.input.consume(part.len());
            self.count(&part);
            if end.is_some() {
                return Ok(record);
            }
        }
    }
}

/// The position of a byte within a record.
#[derive(Clone, Copy, Eq, PartialEq)]
enum ScanState {
    CellStart,
    Plain,
    Quoted,
    /// After a quote inside quotes: the end, or half of a doubled one.
    QuoteInQuotes,
}

struct Scan {
    delimiter: Option<u8>,
    place: ScanState,
}

impl Scan {
    fn is_inside_quotes(&self) -> bool {
        self.place == ScanState::Quoted
    }

    /// Takes a byte; true if the record ends with it.
    fn ends_at(&mut self, byte: u8) -> bool {
        let Some(delimiter) = self.delimiter else { return byte == b'\n' };
        self.place = match (self.place, byte) {
            (ScanState::Quoted, b'"') => ScanState::QuoteInQuotes,
            (ScanState::Quoted, _) => ScanState::Quoted,
            (ScanState::CellStart | ScanState::QuoteInQuotes, b'"') => ScanState::Quoted,
            (_, b'\n') => return true,
            (_, byte) if byte == delimiter => ScanState::CellStart,
            _ => ScanState::Plain,
        };
        false
    }
}

/// The cells of a record of CSV. Accepts a quote that is closed in the middle of a cell, as most
/// readers do.
pub(crate) fn cells(record: &[u8], delimiter: u8) -> Vec<Vec<u8>> {
    let mut cells = vec![Vec::new()];
    let mut scan = Scan { delimiter: Some(delimiter), place: ScanState::CellStart };
    for &byte in record {
        let before = scan.place;
        scan.ends_at(byte);
        match (before, scan.place) {
            (_, ScanState::CellStart) => cells.push(Vec::new()),
            // An opening or closing quote is not part of the cell; the second of a doubled one is.
            (ScanState::CellStart, ScanState::Quoted) | (_, ScanState::QuoteInQuotes) => {}
            _ => cells.last_mut().expect("there is always a cell").push(byte),
        }
    }
    cells
}

/// Bytes in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
