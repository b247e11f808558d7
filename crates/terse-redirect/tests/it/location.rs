//! `Location` equals the stored target, for a million random targets.

use terse_core::{Link, Target, TargetRules, Timestamp};
use terse_redirect::{RedirectSettings, Route};
use terse_testkit::alias;

/// Parts of unusual but valid URLs.
const PIECES: &[&str] = &[
    "a",
    "Z",
    "0",
    "-",
    "_",
    ".",
    "~",
    "/",
    "//",
    "/./",
    "/../",
    "%20",
    "%2F",
    "%00",
    "%ff",
    "?",
    "&",
    "=",
    "#",
    "+",
    ";",
    ":",
    "@",
    "!",
    "$",
    "'",
    "(",
    ")",
    "*",
    ",",
    "[",
    "]",
    "{",
    "}",
    "|",
    "\\",
    "^",
    "`",
    "\"",
    "<",
    ">",
    " ",
    "é",
    "日本",
    "🚀",
    "\u{200d}",
    "\u{202e}",
    "%",
    "javascript:",
    "location: x",
    "%0d%0aX: y",
];
const HOSTS: &[&str] = &[
    "example.com",
    "EXAMPLE.com.",
    "münchen.de",
    "8.8.8.8",
    "[2620:fe::fe]:8080",
    "user:pass@example.org",
    "a.b.c.d.e.co.uk",
];

#[test]
fn the_location_of_a_million_random_targets_is_their_stored_text() {
    let (rules, settings, now) =
        (TargetRules::default(), RedirectSettings::default(), Timestamp::from_ms(1));
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut roll = |sides: usize| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        (dice % sides as u64) as usize
    };
    let (mut text, mut seen) = (String::new(), 0);
    while seen < 1_000_000 {
        text.clear();
        text.push_str(if roll(2) == 0 { "https://" } else { "http://" });
        text.push_str(HOSTS[roll(HOSTS.len())]);
        text.push('/');
        for _ in 0..roll(12) {
            text.push_str(PIECES[roll(PIECES.len())]);
        }
        let Ok(target) = Target::parse(&text, &rules) else { continue };
        seen += 1;
        let route = Route::of_link(0, alias("abc1234", target.as_str()), now, &settings);
        let head = route.redirect().concat();
        let prefix = b"HTTP/1.1 302 Found\r\nlocation: ";
        assert!(head.starts_with(prefix), "{text}");
        let rest = &head[prefix.len()..];
        let end = rest.iter().position(|&byte| byte == b'\r').expect("a line's end");
        assert_eq!(&rest[..end], target.as_str().as_bytes(), "{text}");
        assert!(rest[..end].iter().all(|byte| (0x21..0x7f).contains(byte)), "{text}");
        assert!(rest[end..].starts_with(b"\r\ncache-control: "), "{text}");
        // Parsing the stored text gives the same target: an export can be imported.
        if seen % 16 == 0 {
            assert_eq!(
                Target::parse(target.as_str(), &rules).as_ref().map(Target::as_str),
                Ok(target.as_str()),
                "{text}"
            );
        }
    }
}

#[test]
fn an_ordinary_redirect_holds_only_its_status_and_location() {
    let (settings, now) = (RedirectSettings::default(), Timestamp::from_ms(1));
    let route = |change: fn(&mut Link)| {
        let mut link = alias("abc1234", "https://example.com/");
        change(&mut link);
        Route::of_link(0, link, now, &settings)
    };
    let parts =
        |route: &Route| route.redirect().map(|part| String::from_utf8_lossy(part).into_owned());
    let plain = route(|_| ());
    assert_eq!(
        parts(&plain),
        [
            "HTTP/1.1 302 Found\r\nlocation: https://example.com/\r\n",
            "cache-control: private, max-age=0, no-store\r\nx-robots-tag: noindex\r\n\
             access-control-allow-origin: *\r\ncontent-length: 0\r\n",
        ]
    );
    // Fields that are different are the route's own.
    let crawlable = route(|link| link.crawlable = true);
    let [own, shared] = parts(&crawlable);
    assert!(own.ends_with("no-store\r\naccess-control-allow-origin: *\r\ncontent-length: 0\r\n"));
    assert_eq!(shared, "");
}
