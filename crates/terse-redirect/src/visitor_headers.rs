//! The request headers that a click records.

use terse_core::clicks::{RequestFlags, referrer_host};

/// The number of `X-Forwarded-For` fields that are kept: the last ones, which the nearest proxies
/// wrote.
const MAX_FORWARDED: usize = 4;
const MAX_LANGUAGE_LEN: usize = 35;

/// Header values as the client sent them, unchecked. Of a repeated field the first value that is
/// not empty counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct VisitorHeaders<'a> {
    pub(crate) agent: &'a [u8],
    pub(crate) referrer: &'a [u8],
    pub(crate) languages: &'a [u8],
    pub(crate) flags: RequestFlags,
    /// Whether the visitor sent `DNT: 1` or `Sec-GPC: 1`.
    pub(crate) opted_out: bool,
    forwarded: [&'a [u8]; MAX_FORWARDED],
    forwarded_count: u8,
}

impl<'a> VisitorHeaders<'a> {
    /// Reads all fields.
    pub fn of(fields: &'a http::HeaderMap) -> Self {
        let mut headers = Self::default();
        for (name, value) in fields {
            headers.read(name.as_str().as_bytes(), value.as_bytes());
        }
        headers
    }

    /// Reads a field, if a click records it.
    #[inline]
    pub(crate) fn read(&mut self, name: &[u8], value: &'a [u8]) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        // The length comes first: it rules out most fields without a comparison.
        match name.len() {
            3 if is("dnt") => self.opted_out |= value == b"1",
            5 if is("x-moz") => self.read_purpose(value),
            7 if is("referer") => set_if_empty(&mut self.referrer, value),
            7 if is("sec-gpc") => self.opted_out |= value == b"1",
            7 if is("purpose") => self.read_purpose(value),
            9 if is("x-purpose") => self.read_purpose(value),
            10 if is("user-agent") => set_if_empty(&mut self.agent, value),
            11 if is("sec-purpose") => self.read_purpose(value),
            15 if is("accept-language") => set_if_empty(&mut self.languages, value),
            15 if is("x-forwarded-for") => self.push_forwarded(value),
            _ => {}
        }
    }

    fn read_purpose(&mut self, value: &[u8]) {
        let begins = |word: &str| {
            value.get(..word.len()).is_some_and(|have| have.eq_ignore_ascii_case(word.as_bytes()))
        };
        let ahead = begins("prefetch") || begins("prerender") || begins("preview");
        self.flags = self.flags.with(RequestFlags::PREFETCH, ahead);
    }

    fn push_forwarded(&mut self, value: &'a [u8]) {
        let count = usize::from(self.forwarded_count);
        if let Some(free) = self.forwarded.get_mut(count) {
            *free = value;
            self.forwarded_count += 1;
        } else {
            self.forwarded.rotate_left(1);
            self.forwarded[MAX_FORWARDED - 1] = value;
        }
    }

    /// The values of `X-Forwarded-For`, in their order.
    pub(crate) fn forwarded(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        self.forwarded.into_iter().take(usize::from(self.forwarded_count))
    }

    /// The referrer's host, without scheme, user, port and path. Empty if there is none.
    pub(crate) fn referrer_host(&self) -> &'a [u8] {
        referrer_host(self.referrer)
    }

    /// The first language of `Accept-Language`, as in `de-AT`. Empty if there is none.
    pub(crate) fn language(&self) -> &'a [u8] {
        let tag = before(self.languages, b",;").trim_ascii();
        let valid = tag.len() <= MAX_LANGUAGE_LEN
            && tag.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
        if valid { tag } else { b"" }
    }
}

fn set_if_empty<'a>(into: &mut &'a [u8], value: &'a [u8]) {
    if into.is_empty() {
        *into = value;
    }
}

/// The part before the first of these bytes.
fn before<'a>(text: &'a [u8], ends: &[u8]) -> &'a [u8] {
    text.iter().position(|byte| ends.contains(byte)).map_or(text, |at| &text[..at])
}

#[cfg(test)]
mod tests {
    use terse_core::clicks::campaign;

    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn only_the_host_of_a_referrer_is_used() {
        for (referrer, want) in [
            ("https://news.example/a?b=c#d", "news.example"),
            ("https://News.Example:8443", "News.Example"),
            ("http://user:secret@host.example/", "host.example"),
            ("http://a@b@host.example:1/", "host.example"),
            ("https://host.example/@not/a:user", "host.example"),
            ("https://host.example?mail=me@home.example", "host.example"),
            ("https://host.example\\@evil.example", "host.example"),
            ("http://[2001:db8::1]:80/x", "[2001:db8::1]"),
            ("http://[2001:db8::1", "[2001"),
            ("android-app://com.example.app/", "com.example.app"),
            ("https://", ""),
            ("https:///path", ""),
            ("about:blank", ""),
            ("host.example/path", ""),
            ("//host.example/", ""),
            ("/r?u=https://host.example/", ""),
            ("user@mail.example://x", ""),
            ("://host.example", ""),
            ("", ""),
        ] {
            let headers =
                VisitorHeaders { referrer: referrer.as_bytes(), ..VisitorHeaders::default() };
            assert_eq!(text(headers.referrer_host()), want, "{referrer}");
        }
        let long = format!("https://{}/", "x".repeat(254));
        assert_eq!(
            VisitorHeaders { referrer: long.as_bytes(), ..VisitorHeaders::default() }
                .referrer_host(),
            b""
        );
    }

    #[test]
    fn the_first_language_is_used_if_it_is_a_tag() {
        for (languages, want) in [
            ("de-AT,de;q=0.9,en;q=0.8", "de-AT"),
            (" en ;q=1", "en"),
            ("*", ""),
            ("", ""),
            (";", ""),
            ("<script>", ""),
            ("a-very-long-tag-that-nobody-has-registered", ""),
        ] {
            assert_eq!(
                text(
                    VisitorHeaders { languages: languages.as_bytes(), ..VisitorHeaders::default() }
                        .language()
                ),
                want,
                "{languages}"
            );
        }
    }

    #[test]
    fn campaign_pairs_are_copied_as_far_as_they_fit() {
        let long = format!("utm_source={}&utm_medium=mail", "x".repeat(30));
        for (query, want) in [
            ("utm_source=a%20b&x=1&utm_medium=mail", "utm_source=a%20b&utm_medium=mail"),
            ("x=utm_source", ""),
            ("utm_source=a#utm_medium=b", "utm_source=a"),
            ("&&utm_id&", "utm_id"),
            (&long, "utm_medium=mail"),
            ("", ""),
        ] {
            assert_eq!(text(campaign(query.as_bytes(), &mut [0; 40])), want, "{query}");
        }
    }

    #[test]
    fn field_names_match_in_any_case_and_the_first_value_counts() {
        let mut headers = VisitorHeaders::default();
        for (name, value) in [
            ("USER-AGENT", ""),
            ("User-Agent", "one"),
            ("user-agent", "two"),
            ("Referer", "r"),
            ("Accept-Language", "de"),
        ] {
            headers.read(name.as_bytes(), value.as_bytes());
        }
        assert_eq!(
            (headers.agent, headers.referrer, headers.languages),
            (&b"one"[..], &b"r"[..], &b"de"[..])
        );
        assert!(!headers.opted_out && headers.flags == RequestFlags::default());
        for (name, value) in [("DNT", "1"), ("Sec-GPC", "1")] {
            let mut headers = VisitorHeaders::default();
            headers.read(name.as_bytes(), b"0");
            assert!(!headers.opted_out, "{name}");
            headers.read(name.as_bytes(), value.as_bytes());
            assert!(headers.opted_out, "{name}");
        }
        for (name, value) in [
            ("Sec-Purpose", "prefetch;prerender"),
            ("Purpose", "Prefetch"),
            ("X-Moz", "prefetch"),
            ("X-Purpose", "preview"),
            ("x-purpose", "PREVIEW"),
        ] {
            let mut headers = VisitorHeaders::default();
            headers.read(name.as_bytes(), b"none");
            assert_eq!(headers.flags, RequestFlags::default(), "{name}");
            headers.read(name.as_bytes(), value.as_bytes());
            assert_eq!(headers.flags, RequestFlags::PREFETCH, "{name}");
        }
    }

    #[test]
    fn the_last_forwarded_fields_are_kept_in_their_order() {
        let mut headers = VisitorHeaders::default();
        for value in ["1", "2", "3", "4", "5", "6"] {
            headers.read(b"x-forwarded-for", value.as_bytes());
        }
        assert_eq!(headers.forwarded().map(text).collect::<Vec<_>>(), ["3", "4", "5", "6"]);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut dice = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..200_000 {
            let mut bytes = [0; 24];
            for byte in &mut bytes {
                dice ^= dice << 13;
                dice ^= dice >> 7;
                dice ^= dice << 17;
                const ODD: &[u8] = b"ah:/@[]?#&,;=-_ utm\\\xff\x00";
                *byte = ODD[dice as usize % ODD.len()];
            }
            let referrer = [b"h://", &bytes[..]].concat();
            let headers = VisitorHeaders {
                referrer: &referrer[(dice % 5) as usize..],
                languages: &bytes,
                ..VisitorHeaders::default()
            };
            let (host, language) = (headers.referrer_host(), headers.language());
            assert!(!host.contains(&b'@') && !host.contains(&b'/') && language.len() <= 24);
            assert!(campaign(&bytes, &mut [0; 16]).len() <= 16);
        }
    }
}
