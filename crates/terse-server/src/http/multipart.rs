//! Forms with files (`multipart/form-data`, RFC 7578), read from a body whose size is bounded.

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;

use super::problem::{INVALID_REQUEST, Problem, UNSUPPORTED_MEDIA_TYPE};

/// The largest number of parts.
const MAX_PARTS: usize = 64;
/// The longest head of a part.
const MAX_HEAD: usize = 4 * 1024;
/// The longest boundary (RFC 2046).
const MAX_BOUNDARY: usize = 70;

/// The parts of a form, each with its name.
#[derive(Debug, Default)]
pub(crate) struct Multipart(Vec<(String, Vec<u8>)>);

impl Multipart {
    /// Splits the body of a request with these headers.
    pub(crate) fn parse(headers: &HeaderMap, body: &[u8]) -> Result<Self, Problem> {
        let boundary = boundary_of(headers).ok_or_else(|| {
            let detail = "the form could not be read; reload the page and try again";
            Problem::new(&UNSUPPORTED_MEDIA_TYPE, detail)
        })?;
        parts(body, boundary.as_bytes()).map(Self).ok_or_else(unreadable)
    }

    /// The text of a field; empty if the form has no such field.
    pub(crate) fn text(&mut self, name: &str) -> Result<String, Problem> {
        let bytes = self.file(name).unwrap_or_default();
        // Browsers send a line break as CRLF.
        String::from_utf8(bytes).map(|text| text.replace("\r\n", "\n")).map_err(|_| unreadable())
    }

    /// The bytes of a field; `None` without a file.
    pub(crate) fn file(&mut self, name: &str) -> Option<Vec<u8>> {
        let at = self.0.iter().position(|(have, _)| have == name)?;
        Some(self.0.swap_remove(at).1).filter(|bytes| !bytes.is_empty())
    }
}

fn unreadable() -> Problem {
    Problem::new(&INVALID_REQUEST, "the form could not be read; reload the page and try again")
}

/// The boundary between parts that the headers name.
fn boundary_of(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (essence, parameters) = kind.split_once(';')?;
    if !essence.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    })?;
    (1..=MAX_BOUNDARY).contains(&boundary.len()).then(|| boundary.to_owned())
}

/// The parts between the boundaries; `None` if the body is no such form.
fn parts(body: &[u8], boundary: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let delimiter = [b"\r\n--", boundary].concat();
    // The first boundary has no line break before it.
    let mut rest = body.strip_prefix(&delimiter[2..])?;
    let mut parts = Vec::new();
    loop {
        if rest.starts_with(b"--") {
            return Some(parts);
        }
        rest = rest.strip_prefix(b"\r\n").filter(|_| parts.len() < MAX_PARTS)?;
        let head_end = find(&rest[..rest.len().min(MAX_HEAD)], b"\r\n\r\n")?;
        let name = name_in(std::str::from_utf8(&rest[..head_end]).ok()?)?;
        rest = &rest[head_end + 4..];
        let end = find(rest, &delimiter)?;
        parts.push((name, rest[..end].to_vec()));
        rest = &rest[end + delimiter.len()..];
    }
}

/// The name of a part, from its `Content-Disposition`.
fn name_in(head: &str) -> Option<String> {
    let disposition = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    // Browsers escape quotes in names, so a name ends at the first one.
    let at = disposition.find(" name=\"").or_else(|| disposition.find(";name=\""))?;
    let name = &disposition[at + 7..];
    Some(name[..name.find('"')?].to_owned())
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    // The first byte rules most places out.
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(at) = haystack[from..].iter().position(|byte| *byte == first) {
        if haystack[from + at..].starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(kind: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))])
    }

    const BODY: &[u8] =
        b"--x1\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nExample \xc3\xa9\r\n\
        --x1\r\ncontent-disposition: form-data; name=\"logo\"; filename=\"name=\\\"a\\\".png\"\r\n\
        Content-Type: image/png\r\n\r\n\x89PNG\r\n--x\r\n\x00\r\n--x1\r\n\
        Content-Disposition: form-data; name=\"none\"; filename=\"\"\r\n\r\n\r\n--x1--\r\n";

    #[test]
    fn texts_and_files_are_read_octet_by_octet() {
        for kind in [
            "multipart/form-data; boundary=x1",
            "Multipart/Form-Data; charset=utf-8; Boundary=\"x1\"",
        ] {
            let mut form = Multipart::parse(&headers(kind), BODY).unwrap();
            assert_eq!(form.text("name").unwrap(), "Example é");
            assert_eq!(form.file("logo").unwrap(), b"\x89PNG\r\n--x\r\n\x00");
            assert_eq!(form.file("none"), None, "no file was chosen");
            assert_eq!(form.text("other").unwrap(), "");
        }
    }

    #[test]
    fn what_is_no_such_form_is_refused() {
        for kind in ["text/plain", "multipart/form-data", "multipart/form-data; boundary="] {
            assert_eq!(Multipart::parse(&headers(kind), BODY).unwrap_err().status(), 415, "{kind}");
        }
        let kind = headers("multipart/form-data; boundary=x1");
        for end in 0..BODY.len() - 4 {
            assert!(Multipart::parse(&kind, &BODY[..end]).is_err(), "cut at {end}");
        }
        let part = b"--x1\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n";
        let mut many = part.repeat(MAX_PARTS + 1);
        many.extend(b"--x1--");
        assert!(Multipart::parse(&kind, &many).is_err(), "too many parts");
        let long = [b"--x1\r\nA: ", "b".repeat(MAX_HEAD).as_bytes(), b"\r\n\r\n"].concat();
        assert!(Multipart::parse(&kind, &long).is_err(), "a head without an end");
    }
}
