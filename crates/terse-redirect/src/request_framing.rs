//! Finds requests of unclear length among the bytes of an HTTP/1 connection.
//!
//! hyper accepts a `Content-Length` beside a `Transfer-Encoding` and drops it without an error. So
//! this module parses the bytes of each request before hyper gets them.

use crate::body_length::has_unclear_length;

/// A longer head is refused by hyper.
const MAX_HEAD: usize = 64 * 1024;
/// hyper refuses more fields.
const MAX_FIELDS: usize = 100;

/// How far the bytes of a connection have been read as requests.
#[derive(Debug)]
pub(crate) struct RequestFraming {
    place: FramingState,
    /// A head, or the line of a chunk, that has arrived in part.
    partial: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum FramingState {
    Head,
    /// In a body, with this many octets left.
    Body(u64),
    ChunkLine,
    /// In a chunk or the line end after it, with this many octets left.
    Chunk(u64),
    /// After the last chunk.
    Trailers,
    /// The bytes are no requests: hyper refuses them and closes the connection.
    Lost,
}

impl RequestFraming {
    pub(crate) fn new() -> Self {
        Self { place: FramingState::Head, partial: Vec::new() }
    }

    /// Parses the next bytes of the connection. If they contain a request of unclear length: `Err`
    /// with the number of bytes that hyper may get, which end before the head, the chunk line or
    /// the trailers that make it unclear.
    pub(crate) fn follow(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match self.place {
                FramingState::Lost => return Ok(()),
                FramingState::Body(left) | FramingState::Chunk(left) => {
                    let count = left.min(rest.len() as u64);
                    self.place = match (self.place, left - count) {
                        (FramingState::Body(_), 0) => FramingState::Head,
                        (FramingState::Body(_), left) => FramingState::Body(left),
                        (_, 0) => FramingState::ChunkLine,
                        (_, left) => FramingState::Chunk(left),
                    };
                    usize::try_from(count).unwrap_or(rest.len())
                }
                FramingState::Head => self.head(rest).ok_or(at)?,
                FramingState::ChunkLine => self.chunk_line(rest).ok_or(at)?,
                FramingState::Trailers => self.trailers(rest).ok_or(at)?,
            };
        }
        Ok(())
    }

    /// Returns how many bytes belong to the head, or `None` if its length is unclear.
    fn head(&mut self, rest: &[u8]) -> Option<usize> {
        let before = self.partial.len();
        // Empty lines before a request mean nothing.
        let blank = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        if before == 0 && blank > 0 {
            return Some(blank);
        }
        let Some(end) = self.take_until_empty_line(rest) else { return Some(rest.len()) };
        let head = std::mem::take(&mut self.partial);
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let taken = match request.parse(&head) {
            Ok(httparse::Status::Complete(taken)) => taken,
            Ok(httparse::Status::Partial) => return None,
            Err(_) => {
                self.place = FramingState::Lost;
                return Some(end);
            }
        };
        let fields = request.headers.iter().map(|field| (field.name, field.value));
        if has_unclear_length(fields) {
            return None;
        }
        self.place = body(request.headers);
        Some(taken.saturating_sub(before))
    }

    /// Returns how many bytes belong to the line, or `None` if hyper may read another length in it.
    fn chunk_line(&mut self, rest: &[u8]) -> Option<usize> {
        let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        self.gather(&rest[..end]);
        if !self.partial.ends_with(b"\n") {
            return Some(end);
        }
        match httparse::parse_chunk_size(&self.partial) {
            Ok(httparse::Status::Complete((_, size))) => {
                self.partial.clear();
                self.place = match size {
                    0 => FramingState::Trailers,
                    // With the line end after it.
                    size => FramingState::Chunk(size.saturating_add(2)),
                };
            }
            Ok(httparse::Status::Partial) | Err(_) => return None,
        }
        Some(end)
    }

    /// Returns how many bytes belong to the trailers, or `None` if hyper may see their end
    /// elsewhere: it ends a line with both characters only.
    fn trailers(&mut self, rest: &[u8]) -> Option<usize> {
        // The first line may be the empty one.
        if self.partial.is_empty() {
            self.partial.push(b'\n');
        }
        let end = self.take_until_empty_line(rest);
        if self.partial.windows(2).any(|pair| pair[1] == b'\n' && pair[0] != b'\r') {
            return None;
        }
        if end.is_some() {
            self.partial.clear();
            self.place = FramingState::Head;
        }
        Some(end.unwrap_or(rest.len()))
    }

    /// Gathers bytes up to the end of the next empty line and returns how many, or `None` if the
    /// empty line has not arrived.
    fn take_until_empty_line(&mut self, rest: &[u8]) -> Option<usize> {
        let from = self.partial.len();
        for (at, byte) in rest.iter().enumerate() {
            if *byte != b'\n' {
                continue;
            }
            let byte_before = |back: usize| match at.checked_sub(back) {
                Some(at) => rest.get(at),
                None => (from + at).checked_sub(back).and_then(|at| self.partial.get(at)),
            };
            let is_empty_line = match byte_before(1) {
                Some(b'\n') => true,
                Some(b'\r') => byte_before(2) == Some(&b'\n'),
                _ => false,
            };
            if is_empty_line {
                self.gather(&rest[..=at]);
                return Some(at + 1);
            }
        }
        self.gather(rest);
        None
    }

    fn gather(&mut self, bytes: &[u8]) {
        if self.partial.len() + bytes.len() > MAX_HEAD {
            self.partial = Vec::new();
            self.place = FramingState::Lost;
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }
}

/// What follows a head with these fields.
fn body(fields: &[httparse::Header<'_>]) -> FramingState {
    let field = |name: &str| fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
    if field("transfer-encoding").is_some() {
        return FramingState::ChunkLine;
    }
    let Some(length) = field("content-length") else { return FramingState::Head };
    match std::str::from_utf8(length.value).ok().and_then(|text| text.trim().parse().ok()) {
        Some(0) => FramingState::Head,
        Some(length) => FramingState::Body(length),
        None => FramingState::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "GET /abcd HTTP/1.1\r\nHost: go.example\r\n\r\n";
    const LENGTH: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\nGET\r\n\r\n";
    const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                           5\r\n\r\n\r\n\n\r\nA;x=1\r\n0123456789\r\n0\r\nX: y\r\n\r\n";
    const EMPTY: &str = "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    const UNCLEAR: &str = "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\
                           \r\n0\r\n\r\n";

    /// Where a connection with these bytes is cut, if they arrive in pieces of this size.
    fn cut(bytes: &str, piece: usize) -> Option<usize> {
        let mut framing = RequestFraming::new();
        bytes.as_bytes().chunks(piece).enumerate().find_map(|(number, bytes)| {
            framing.follow(bytes).err().map(|allowed| number * piece + allowed)
        })
    }

    #[test]
    fn clear_requests_pass_however_they_arrive() {
        let all = format!("{PLAIN}{LENGTH}\r\n{CHUNKED}{EMPTY}{PLAIN}{CHUNKED}{LENGTH}{PLAIN}");
        for piece in 1..all.len() {
            assert_eq!(cut(&all, piece), None, "in pieces of {piece}");
        }
    }

    #[test]
    fn an_unclear_one_is_found_behind_any_others_and_its_end_is_held_back() {
        for before in [String::new(), PLAIN.into(), LENGTH.into(), format!("{CHUNKED}{EMPTY}\r\n")]
        {
            let all = format!("{before}{UNCLEAR}{PLAIN}");
            let end = before.len() + UNCLEAR.find("\r\n\r\n").unwrap() + 4;
            for piece in 1..=all.len() {
                let cut = cut(&all, piece).unwrap_or_else(|| panic!("{before:?}: missed"));
                assert!(cut < end, "{before:?} in pieces of {piece}: hyper gets {cut} of {end}");
                assert!(piece < all.len() || cut >= before.trim_end_matches("\r\n").len());
            }
        }
    }

    #[test]
    fn a_chunk_whose_length_two_readers_may_read_differently_is_refused() {
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        for body in
            ["00000000000000005\r\nabcde\r\n0\r\n\r\n", "0\r\n\n", "0\r\nX: y\n\r\n", "x\r\n"]
        {
            let all = format!("{head}{body}{UNCLEAR}");
            for piece in 1..=all.len() {
                let cut = cut(&all, piece).unwrap_or_else(|| panic!("{body:?}: missed"));
                assert!(cut < head.len() + body.len(), "{body:?} in pieces of {piece}: {cut}");
            }
        }
    }

    #[test]
    fn empty_lines_before_a_request_are_not_gathered() {
        let mut framing = RequestFraming::new();
        for _ in 0..100 {
            assert_eq!(framing.follow(&[b'\n'; 1000]), Ok(()));
            assert_eq!(framing.follow(b"\r\n\r"), Ok(()));
            assert!(framing.partial.is_empty());
        }
    }

    #[test]
    fn what_looks_like_an_unclear_request_in_a_body_is_none() {
        let inside =
            format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{UNCLEAR}{PLAIN}", UNCLEAR.len());
        let chunk = format!(
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{UNCLEAR}\r\n0\r\n\r\n",
            UNCLEAR.len()
        );
        for bytes in [inside, chunk] {
            for piece in 1..=bytes.len() {
                assert_eq!(cut(&bytes, piece), None);
            }
        }
    }

    #[test]
    fn bytes_that_are_no_requests_are_left_to_hyper_and_take_no_memory() {
        let mut framing = RequestFraming::new();
        assert_eq!(framing.follow(b"\x16\x03\x01 no request \r\n\r\n"), Ok(()));
        assert_eq!(framing.follow(UNCLEAR.as_bytes()), Ok(()));
        let mut framing = RequestFraming::new();
        for _ in 0..1000 {
            assert_eq!(framing.follow(&[b'a'; 1000]), Ok(()));
            assert!(framing.partial.len() <= MAX_HEAD);
        }
    }
}
