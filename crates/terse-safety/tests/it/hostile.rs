//! Suspicious targets that must be accepted, with the flags they raise and whether visitors are
//! warned.

use terse_core::Target;
use terse_safety::{Screen, Verdict, flags, input_flags};

/// The entered text, the flags of the target, and the flags of the entered text.
const HOSTILE: &[(&str, &str, &str)] = &[
    ("https://www.paypal.com%2Flogin@attacker.example.net/", "userinfo", ""),
    // The serialisation is 8.8.8.8: only the entered text shows the odd spelling.
    ("http://134744072/", "numeric_host", "odd_address"),
    ("http://0x08080808/", "numeric_host", "odd_address"),
    ("http://010.010.010.010/", "numeric_host", "odd_address"),
    ("http://[::ffff:8.8.8.8]/", "numeric_host,odd_address", ""),
    ("https://pаypal.com/", "mixed_script,look_alike", ""),
    ("https://gооgle.com/", "mixed_script,look_alike", ""),
    ("https://ɢoogle.com/", "mixed_script", ""),
    // The serialisation is plain example.com.
    ("https://ⓔⓧⓐⓜⓟⓛⓔ.com/", "", "disguised_text"),
    ("https://exam\u{2060}ple.com/", "", "disguised_text"),
    ("https://ai/", "single_label", ""),
    ("https://t.co/abc123", "shortener", ""),
    ("https://tinyurl.com/abc", "shortener", ""),
    ("https://is.gd/abc", "shortener", ""),
    ("https://www.google.com/url?q=https://attacker.example.net/", "open_redirect", ""),
    // A typo, or a trick on other parsers: recorded, but visitors see a plain URL and are not
    // warned.
    ("https:////example.com/path", "", "odd_slashes"),
    ("https://attacker.example.net#@example.com/", "misleading_at", ""),
    ("https://attacker.example.net?@example.com/", "misleading_at", ""),
];

fn target(text: &str) -> Target {
    Target::parse(text, &Default::default()).unwrap_or_else(|refusal| panic!("{text}: {refusal}"))
}

#[test]
fn every_hostile_target_raises_a_flag() {
    for (text, of_target, parse) in HOSTILE {
        let target = target(text);
        assert_eq!(flags(&target).to_string(), *of_target, "{text}");
        assert_eq!(input_flags(text, &target).to_string(), *parse, "{text}");
    }
}

#[test]
fn every_hostile_target_but_a_typo_is_warned_of() {
    let screen = Screen::default();
    for (text, _, parse) in HOSTILE {
        let verdict = screen.check_input(text, &target(text));
        assert_eq!(matches!(verdict, Verdict::Suspicious(_)), *parse != "odd_slashes", "{text}");
    }
}

#[test]
fn other_tricks_raise_their_flag() {
    for (text, want) in [
        ("https://user@example.com/", "userinfo"),
        ("https://paypal.com:443@evil.example/", "userinfo"),
        ("https://paypal.com.evil.example/login", "look_alike"),
        ("https://xn--pypal-4ve.com/", "mixed_script,look_alike"),
        ("https://victim.github.io/", "free_hosting"),
        ("https://x.duckdns.org:8443/", "free_hosting"),
        ("https://sites.google.com/view/x", "free_hosting"),
        ("https://my.app.link/x", "shortener"),
        ("https://www.bit.ly/x", "shortener"),
        ("http://8.8.8.8/", "numeric_host"),
        ("http://[64:ff9b::808:808]/", "numeric_host,odd_address"),
        ("https://google.com∕login.evil.example/", "mixed_script"),
    ] {
        assert_eq!(flags(&target(text)).to_string(), want, "{text}");
    }
}
