//! What a request says about its visitor, as far as a click needs it.

use terse_core::clicks::RequestFlags;

/// So many `X-Forwarded-For` fields are looked at: the last ones, which were written nearest to us.
const FORWARDED: usize = 4;
/// As much of a referrer's host as there can be of a host.
const MAX_HOST_LEN: usize = 253;
const MAX_LANGUAGE_LEN: usize = 35;

/// Pieces of a request's head, untouched and possibly hostile. Where a field is repeated, the first
/// that says something counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct VisitorHeaders<'a> {
    pub(crate) agent: &'a [u8],
    pub(crate) referrer: &'a [u8],
    pub(crate) languages: &'a [u8],
    pub(crate) marks: RequestFlags,
    /// `DNT: 1` or `Sec-GPC: 1`.
    pub(crate) quiet: bool,
    forwarded: [&'a [u8]; FORWARDED],
    forwards: u8,
}

impl<'a> VisitorHeaders<'a> {
    /// What all fields say together.
    pub fn of(headers: &'a http::HeaderMap) -> Self {
        let mut seen = Self::default();
        headers
            .iter()
            .for_each(|(name, value)| seen.note(name.as_str().as_bytes(), value.as_bytes()));
        seen
    }

    /// Takes a field in, if it is one of those.
    #[inline]
    pub(crate) fn note(&mut self, name: &[u8], value: &'a [u8]) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        // By length first: most fields are told apart from these by it alone.
        match name.len() {
            3 if is("dnt") => self.quiet |= value == b"1",
            5 if is("x-moz") => self.note_purpose(value),
            7 if is("referer") => take(&mut self.referrer, value),
            7 if is("sec-gpc") => self.quiet |= value == b"1",
            7 if is("purpose") => self.note_purpose(value),
            9 if is("x-purpose") => self.note_purpose(value),
            10 if is("user-agent") => take(&mut self.agent, value),
            11 if is("sec-purpose") => self.note_purpose(value),
            15 if is("accept-language") => take(&mut self.languages, value),
            15 if is("x-forwarded-for") => self.note_forwarded(value),
            _ => {}
        }
    }

    fn note_purpose(&mut self, value: &[u8]) {
        let begins = |word: &str| {
            value.get(..word.len()).is_some_and(|have| have.eq_ignore_ascii_case(word.as_bytes()))
        };
        let ahead = begins("prefetch") || begins("prerender") || begins("preview");
        self.marks = self.marks.with(RequestFlags::PREFETCH, ahead);
    }

    fn note_forwarded(&mut self, value: &'a [u8]) {
        let count = usize::from(self.forwards);
        if let Some(free) = self.forwarded.get_mut(count) {
            *free = value;
            self.forwards += 1;
        } else {
            self.forwarded.rotate_left(1);
            self.forwarded[FORWARDED - 1] = value;
        }
    }

    /// The values of `X-Forwarded-For`, in their order.
    pub(crate) fn forwarded(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        self.forwarded.into_iter().take(usize::from(self.forwards))
    }

    /// The host that the visitor comes from: no scheme, no user, no port, no path. Empty if there
    /// is none.
    pub(crate) fn referrer_host(&self) -> &'a [u8] {
        let scheme = before(self.referrer, b":/?#\\@").len();
        let Some(rest) = self.referrer[scheme..].strip_prefix(b"://").filter(|_| scheme > 0) else {
            return b"";
        };
        let authority = before(rest, b"/?#\\");
        let named = authority
            .iter()
            .rposition(|&byte| byte == b'@')
            .map_or(authority, |at| &authority[at + 1..]);
        let host = match named.iter().position(|&byte| byte == b']') {
            Some(end) if named.first() == Some(&b'[') => &named[..=end],
            _ => before(named, b":"),
        };
        if host.len() <= MAX_HOST_LEN { host } else { b"" }
    }

    /// The first language that the visitor likes to read: `de-AT`. Empty if there is none.
    pub(crate) fn language(&self) -> &'a [u8] {
        let tag = before(self.languages, b",;").trim_ascii();
        let fine = tag.len() <= MAX_LANGUAGE_LEN
            && tag.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
        if fine { tag } else { b"" }
    }
}

fn take<'a>(into: &mut &'a [u8], value: &'a [u8]) {
    if into.is_empty() {
        *into = value;
    }
}

/// What stands before the first of these.
fn before<'a>(text: &'a [u8], ends: &[u8]) -> &'a [u8] {
    text.iter().position(|byte| ends.contains(byte)).map_or(text, |at| &text[..at])
}

/// The `utm_…` pairs of a query, joined by `&`, as far as they fit.
pub(crate) fn campaign<'b>(query: &[u8], buffer: &'b mut [u8]) -> &'b [u8] {
    let mut used = 0;
    // A fragment has no place in a request, but somebody will send one.
    for pair in
        before(query, b"#").split(|&byte| byte == b'&').filter(|pair| pair.starts_with(b"utm_"))
    {
        let joint = usize::from(used > 0);
        let Some(room) = buffer.get_mut(used..used + joint + pair.len()) else { continue };
        room[..joint].fill(b'&');
        room[joint..].copy_from_slice(pair);
        used += room.len();
    }
    &buffer[..used]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn of_a_referrer_only_the_host_is_kept() {
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
            let seen =
                VisitorHeaders { referrer: referrer.as_bytes(), ..VisitorHeaders::default() };
            assert_eq!(text(seen.referrer_host()), want, "{referrer}");
        }
        let long = format!("https://{}/", "x".repeat(254));
        assert_eq!(
            VisitorHeaders { referrer: long.as_bytes(), ..VisitorHeaders::default() }
                .referrer_host(),
            b""
        );
    }

    #[test]
    fn the_first_language_is_kept_if_it_is_one() {
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
    fn campaign_pairs_are_kept_as_far_as_they_fit() {
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
    fn fields_are_told_by_name_in_any_case_and_the_first_that_speaks_counts() {
        let mut seen = VisitorHeaders::default();
        for (name, value) in [
            ("USER-AGENT", ""),
            ("User-Agent", "one"),
            ("user-agent", "two"),
            ("Referer", "r"),
            ("Accept-Language", "de"),
        ] {
            seen.note(name.as_bytes(), value.as_bytes());
        }
        assert_eq!(
            (seen.agent, seen.referrer, seen.languages),
            (&b"one"[..], &b"r"[..], &b"de"[..])
        );
        assert!(!seen.quiet && seen.marks == RequestFlags::default());
        for (name, value) in [("DNT", "1"), ("Sec-GPC", "1")] {
            let mut seen = VisitorHeaders::default();
            seen.note(name.as_bytes(), b"0");
            assert!(!seen.quiet, "{name}");
            seen.note(name.as_bytes(), value.as_bytes());
            assert!(seen.quiet, "{name}");
        }
        for (name, value) in [
            ("Sec-Purpose", "prefetch;prerender"),
            ("Purpose", "Prefetch"),
            ("X-Moz", "prefetch"),
            ("X-Purpose", "preview"),
            ("x-purpose", "PREVIEW"),
        ] {
            let mut seen = VisitorHeaders::default();
            seen.note(name.as_bytes(), b"none");
            assert_eq!(seen.marks, RequestFlags::default(), "{name}");
            seen.note(name.as_bytes(), value.as_bytes());
            assert_eq!(seen.marks, RequestFlags::PREFETCH, "{name}");
        }
    }

    #[test]
    fn of_many_forwarded_fields_the_last_are_kept_in_their_order() {
        let mut seen = VisitorHeaders::default();
        for value in ["1", "2", "3", "4", "5", "6"] {
            seen.note(b"x-forwarded-for", value.as_bytes());
        }
        assert_eq!(seen.forwarded().map(text).collect::<Vec<_>>(), ["3", "4", "5", "6"]);
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
            let seen = VisitorHeaders {
                referrer: &referrer[(dice % 5) as usize..],
                languages: &bytes,
                ..VisitorHeaders::default()
            };
            let (host, language) = (seen.referrer_host(), seen.language());
            assert!(!host.contains(&b'@') && !host.contains(&b'/') && language.len() <= 24);
            assert!(campaign(&bytes, &mut [0; 16]).len() <= 16);
        }
    }
}
