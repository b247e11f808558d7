//! Whether the length of a request's body is clear.

/// Whether the length of a body can be read in more than one way, by the header fields of its
/// request. Proxies and servers that read different lengths disagree about where the next request
/// begins (request smuggling).
pub(crate) fn has_unclear_length<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> bool {
    let (mut encodings, mut only_chunked, mut has_length) = (0, true, false);
    for (name, value) in fields {
        if name.eq_ignore_ascii_case("transfer-encoding") {
            encodings += 1;
            only_chunked &= value.eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case("content-length") {
            has_length = true;
        }
    }
    encodings > 1 || (encodings == 1 && (has_length || !only_chunked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_length_or_one_encoding_is_clear() {
        const CHUNKED: (&str, &[u8]) = ("Transfer-Encoding", b"Chunked");
        const LENGTH: (&str, &[u8]) = ("content-length", b"4");
        for (fields, want) in [
            (&[][..], false),
            (&[LENGTH], false),
            (&[CHUNKED], false),
            (&[CHUNKED, LENGTH], true),
            (&[LENGTH, CHUNKED], true),
            (&[CHUNKED, CHUNKED], true),
            (&[("transfer-encoding", b"chunked, chunked" as &[u8])], true),
            (&[("transfer-encoding", b"gzip")], true),
        ] {
            assert_eq!(has_unclear_length(fields.iter().copied()), want, "{fields:?}");
        }
    }
}
