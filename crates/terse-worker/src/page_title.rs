//! Extracts the title of an HTML page without parsing the whole page.

use encoding_rs::{Encoding, UTF_8};
use terse_core::GetResponse;

/// How many bytes are searched for a title.
const SEARCHED: usize = 64 << 10;
/// How many bytes are searched for the page's encoding, as in browsers.
const DECLARED_WITHIN: usize = 1024;
/// The maximum length of a title in characters.
const MAX_TITLE_LEN: usize = 200;
/// Elements whose content browsers treat as text.
const RAW: &[&str] = &[
    "script", "style", "noscript", "template", "textarea", "iframe", "xmp", "noembed", "noframes",
    "select",
];
/// Elements after which no page title follows; SVG has titles of another kind.
const AFTER: &[&str] = &["body", "frameset", "svg", "math"];

/// The title of a fetched page: one line of plain text of at most 200 characters. `None` if the
/// response is not an HTML page or has no title.
pub(crate) fn title_of(fetched: &GetResponse) -> Option<String> {
    if !fetched.is_success() {
        return None;
    }
    let (kind, charset) = fetched.content_type.as_deref().map_or((None, None), content_type);
    match kind.as_deref() {
        Some("text/html" | "application/xhtml+xml") => {}
        None if fetched.body.trim_ascii_start().first() == Some(&b'<') => {}
        _ => return None,
    }
    let body = &fetched.body[..fetched.body.len().min(SEARCHED)];
    let encoding = charset
        .as_deref()
        .and_then(|label| Encoding::for_label(label.as_bytes()))
        .or_else(|| declared(&body[..body.len().min(DECLARED_WITHIN)]))
        .unwrap_or(UTF_8);
    // A byte order mark takes precedence. Invalid bytes become the replacement character.
    let (text, ..) = encoding.decode(body);
    title_in(&text).map(normalise_title).filter(|title| !title.is_empty())
}

/// The media type and the charset, both in lower case.
fn content_type(value: &str) -> (Option<String>, Option<String>) {
    let mut parts = value.split(';').map(|part| part.trim().to_ascii_lowercase());
    let kind = parts.next().filter(|kind| !kind.is_empty());
    let charset = parts.find_map(|part| {
        Some(part.strip_prefix("charset=")?.trim_matches(['"', '\'', ' ']).to_owned())
    });
    (kind, charset)
}

/// The encoding that the page declares: `<meta charset="…">` or the `http-equiv` form.
fn declared(head: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let mut rest = &*head;
    while let Some(at) = rest.find("<meta") {
        rest = &rest[at + 5..];
        let tag = &rest[..rest.find('>').unwrap_or(rest.len())];
        let Some(at) = tag.find("charset=") else { continue };
        let value = tag[at + 8..].trim_start_matches(['"', '\'', ' ']);
        let label = value.split(['"', '\'', ' ', ';', '/']).next().unwrap_or_default();
        return Encoding::for_label(label.as_bytes()).map(|found| {
            // A page whose ASCII was readable cannot be UTF-16.
            if found == encoding_rs::UTF_16LE || found == encoding_rs::UTF_16BE {
                UTF_8
            } else {
                found
            }
        });
    }
    None
}

/// The content of the first `<title>`. A single forward pass, so the time is linear.
fn title_in(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = &rest[rest.find('<')?..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            // `<!-->` is a complete comment.
            rest = match comment.strip_prefix('>') {
                Some(after) => after,
                None => &comment[comment.find("-->")? + 3..],
            };
            continue;
        }
        rest = &rest[1..];
        let name = &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len())];
        if name.is_empty() {
            continue; // a closing tag, a doctype, or just a sign
        }
        let is = |known: &&str| name.eq_ignore_ascii_case(known);
        if AFTER.iter().any(is) {
            return None;
        }
        rest = after_tag(&rest[name.len()..])?;
        if is(&"title") {
            // The page is truncated inside the title: keep its start.
            return Some(&rest[..closing(rest, "title").unwrap_or(rest.len())]);
        }
        if let Some(raw) = RAW.iter().find(|known| is(known)) {
            rest = &rest[closing(rest, raw)?..];
        }
    }
}

/// The text after the `>` that ends a tag, ignoring those inside quotes.
fn after_tag(text: &str) -> Option<&str> {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '>') => return Some(&text[at + 1..]),
            // A quote starts a value only after an equals sign; elsewhere it is part of a name.
            (None, '"' | '\'') if before == '=' => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
        if !c.is_whitespace() {
            before = c;
        }
    }
    None
}

/// The position of `</name`.
fn closing(text: &str, name: &str) -> Option<usize> {
    let ends = |after: &str| {
        after.chars().next().is_none_or(|c| c == '>' || c == '/' || c.is_whitespace())
    };
    text.match_indices("</").map(|(at, _)| at).find(|at| {
        let tag = &text[at + 2..];
        tag.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name))
            && ends(&tag[name.len()..])
    })
}

/// Collapses white space, removes invisible characters and truncates.
fn normalise_title(raw: &str) -> String {
    let decoded = html_escape::decode_html_entities(raw);
    let mut title = String::new();
    let mut length = 0;
    for word in decoded.split(|c: char| c.is_whitespace() || c.is_control()) {
        let word: String = word.chars().filter(|c| !is_invisible(*c)).collect();
        if word.is_empty() {
            continue;
        }
        if length > 0 {
            title.push(' ');
            length += 1;
        }
        for c in word.chars() {
            if length == MAX_TITLE_LEN {
                return title.trim_end().to_owned();
            }
            title.push(c);
            length += 1;
        }
        if length >= MAX_TITLE_LEN {
            break;
        }
    }
    title
}

/// Characters that change the text direction or are invisible: a title must not rearrange the page
/// that shows it. Joiners stay, because emoji and some scripts need them.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use terse_core::Validators;

    fn page(content_type: Option<&str>, body: &[u8]) -> GetResponse {
        GetResponse {
            url: "http://site.test/".into(),
            status: 200,
            content_type: content_type.map(Into::into),
            validators: Validators::default(),
            body: body.into(),
            truncated: false,
        }
    }

    fn title(html: &str) -> Option<String> {
        title_of(&page(Some("text/html; charset=utf-8"), html.as_bytes()))
    }

    #[test]
    fn the_title_is_what_a_browser_would_show() {
        for (html, want) in [
            ("<!doctype html><html><head><title>Hello</title>", "Hello"),
            ("<TITLE lang=en\n>A\n  B\t&amp; C</TITLE >", "A B & C"),
            ("<title data-x='>'>ok</title>", "ok"),
            ("<title data-x=a'b>ok</title>", "ok"),
            ("<!-- <title>no</title> --><title>yes</title>", "yes"),
            ("<!--><title>yes</title>", "yes"),
            ("<script>document.write('<title>no</title>')</script><title>yes</title>", "yes"),
            ("<style>a::after{content:'<title>'}</style><title>yes</title>", "yes"),
            ("<noscript><title>no</title></noscript><title>yes</title>", "yes"),
            ("<titles>no</titles><title>yes</title>", "yes"),
            ("<title>a < b </ c </titles> d</title>e", "a < b </ c </titles> d"),
            ("<title>first</title><title>second</title>", "first"),
            ("<title>cut off in the mid", "cut off in the mid"),
            (
                "<title>&#x1F600; &eacute;&nbsp;&ndash;&#0;&#xD800;&#99999999; &unknown;</title>",
                "😀 é –&#0;&#xD800;&#99999999; &unknown;",
            ),
            ("<title>\u{202e}evil\u{7}\u{200b}!</title>", "evil !"),
            ("<title>&lt;script&gt;</title>", "<script>"),
            ("<title>\u{1f468}\u{200d}\u{1f469}</title>", "\u{1f468}\u{200d}\u{1f469}"),
        ] {
            assert_eq!(title(html).as_deref(), Some(want), "{html}");
        }
    }

    #[test]
    fn no_title_is_none() {
        for html in [
            "",
            "<",
            "<title",
            "<title>",
            "<title> \n </title>",
            "<html><body><title>no</title>",
            "<head></head><svg><title>a drawing</title></svg>",
            "<!-- <title>no</title>",
            "<script><title>no</title>",
            "title>no</title>",
        ] {
            assert_eq!(title(html), None, "{html}");
        }
        assert_eq!(title_of(&page(Some("application/json"), b"<title>no</title>")), None);
        assert_eq!(title_of(&page(None, b"{\"<title>\":1}")), None);
        assert_eq!(title_of(&page(None, b" <title>yes</title>")).as_deref(), Some("yes"));
        let mut missing = page(Some("text/html"), b"<title>404 Not Found</title>");
        missing.status = 404;
        assert_eq!(title_of(&missing), None);
    }

    #[test]
    fn a_title_is_read_in_its_own_encoding() {
        let cyrillic = [0xcf, 0xf0, 0xe8, 0xe2, 0xe5, 0xf2]; // "Привет" in windows-1251
        let body = [b"<title>", &cyrillic[..], b"</title>"].concat();
        assert_eq!(
            title_of(&page(Some("text/html; Charset=\"Windows-1251\""), &body)).as_deref(),
            Some("Привет")
        );
        for meta in [
            "<meta charset=windows-1251>",
            "<META http-equiv=Content-Type content='text/html; charset=windows-1251'>",
        ] {
            let body = [b"<html><meta name=x>", meta.as_bytes(), &body].concat();
            assert_eq!(
                title_of(&page(Some("text/html"), &body)).as_deref(),
                Some("Привет"),
                "{meta}"
            );
        }
        assert_eq!(
            title_of(&page(Some("text/html; charset=nonsense"), &body)).unwrap().chars().next(),
            Some('\u{fffd}')
        );
        assert_eq!(
            title_of(&page(Some("text/html"), b"<meta charset=utf-16><title>ok</title>"))
                .as_deref(),
            Some("ok")
        );
    }

    #[test]
    fn a_title_is_at_most_200_characters_and_near_the_top() {
        assert_eq!(
            title(&format!("<title>{}</title>", "é".repeat(5000))).unwrap().chars().count(),
            200
        );
        assert_eq!(
            title(&format!("<title>{}</title>", "é ".repeat(5000))).unwrap().chars().count(),
            199
        );
        assert_eq!(title(&format!("{}<title>late</title>", " ".repeat(SEARCHED))), None);
    }

    proptest! {
        #[test]
        fn no_page_breaks_the_search(pieces in prop::collection::vec(prop::sample::select(vec![
            "<title", ">", "</title", "<!--", "-->", "<script", "</script>", "'", "\"", "=", "&#",
            "&#x", ";", "110000", "&amp", "<", "</",
            "é", "\u{202e}", "\u{0}", " ", "<meta charset=", "utf-16", "shift_jis", "x",
        ]), 0..60), noise in prop::collection::vec(any::<u8>(), 0..40), kind in "text/html(; \
            charset=(utf-16le|gb18030|iso-2022-jp|x))?") {
            let mut body = pieces.concat().into_bytes();
            body.extend(noise);
            if let Some(title) = title_of(&page(Some(&kind), &body)) {
                prop_assert!(!title.is_empty() && title.chars().count() <= 200);
                prop_assert!(!title.chars().any(char::is_control));
                prop_assert_eq!(title.trim(), &*title);
            }
        }
    }
}
