//! ClickHouse's format `RowBinary`: numbers in little endian, texts after their length.

/// Writes rows.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, number: u8) -> &mut Self {
        self.0.push(number);
        self
    }

    pub(crate) fn u32(&mut self, number: u32) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(crate) fn u64(&mut self, number: u64) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(crate) fn i64(&mut self, number: i64) -> &mut Self {
        self.u64(number.cast_unsigned())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let mut length = bytes.len();
        while length > 0x7f {
            self.0.push(length as u8 | 0x80);
            length >>= 7;
        }
        self.0.push(length as u8);
        self.0.extend(bytes);
        self
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn optional_text(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.u8(0).text(text),
            None => self.u8(1),
        }
    }
}

/// Reads rows. Each method returns `None` past the end.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take().map(|[octet]| octet)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let mut length = 0;
        for shift in (0..).step_by(7).take(5) {
            let octet = self.u8()?;
            length |= usize::from(octet & 0x7f) << shift;
            if octet & 0x80 == 0 {
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                return Some(bytes);
            }
        }
        None
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(crate) fn optional_text(&mut self) -> Option<Option<&'a str>> {
        match self.u8()? {
            0 => Some(Some(self.text()?)),
            _ => Some(None),
        }
    }
}

/// A text as a literal of a statement.
pub(crate) fn quoted(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('\'');
    for character in text.chars() {
        if matches!(character, '\'' | '\\') {
            literal.push('\\');
        }
        literal.push(character);
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let long = "x".repeat(300);
        let mut writer = Writer::default();
        writer.u8(7).u32(8).u64(u64::MAX).i64(-1).text("").text(&long);
        writer.optional_text(None).optional_text(Some("é"));
        let mut reader = Reader::new(&writer.0);
        assert_eq!((reader.u8(), reader.u32(), reader.u64()), (Some(7), Some(8), Some(u64::MAX)));
        assert_eq!((reader.i64(), reader.text()), (Some(-1), Some("")));
        assert_eq!(reader.text(), Some(&*long));
        assert_eq!((reader.optional_text(), reader.optional_text()), (Some(None), Some(Some("é"))));
        assert!(reader.is_empty());
        assert_eq!((reader.u8(), reader.bytes()), (None, None));
        assert_eq!(Reader::new(&[5, 1]).bytes(), None);
    }

    #[test]
    fn a_literal_ends_where_it_should() {
        assert_eq!(quoted(r"a'b\c"), r"'a\'b\\c'");
    }
}
