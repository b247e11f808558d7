//! Ordinary targets that must raise no flag: visitors ignore warnings that are often wrong.

use terse_core::Target;
use terse_safety::{Screen, Verdict, flags, input_flags};

const ORDINARY: &[&str] = &[
    // Names in many scripts.
    "https://münchen.de/straße",
    "https://xn--mnchen-3ya.de/",
    "https://faß.de/",
    "https://über.de/",
    "https://äpple.se/",
    "https://smörgås.se/",
    "https://blåbærgrød.dk/",
    "https://žluťoučký-kůň.cz/",
    "https://łódź.pl/",
    "https://çiçek.com.tr/",
    "https://ışık.com.tr/",
    "https://niños.es/",
    "https://pingüino.com.ar/",
    "https://são-paulo.com.br/",
    "https://l·lustre.cat/",
    "https://hôtel-été.fr/",
    "https://ölpreis.at/",
    "https://þingvellir.is/",
    "https://tiếng-việt.vn/",
    "https://日本語.jp:8443/?q=寿司#味",
    "https://日本語テキスト.jp/",
    "https://東京タワー.jp/",
    "https://カラオケcafe.jp/",
    "https://中文.cn/",
    "https://中文abc.com/",
    "https://台灣.台灣/",
    "https://香港.香港/",
    "https://한국어.kr/",
    "https://서울tower.kr/",
    "https://правительство.рф/",
    "https://почта.рф/",
    "https://аха.рф/",
    "https://україна.укр/",
    "https://българия.бг/",
    "https://сръбски.срб/",
    "https://παράδειγμα.gr/",
    "https://ελλάδα.ελ/",
    "https://հայերեն.հայ/",
    "https://ქართული.გე/",
    "https://דוגמה.קום/",
    "https://ישראל.ישראל/",
    "https://مثال.السعودية/",
    "https://مصر.مصر/",
    "https://نامه‌ای.com/",
    "https://پاکستان.پاکستان/",
    "https://हिन्दी.भारत/",
    "https://বাংলা.বাংলা/",
    "https://தமிழ்.இந்தியா/",
    "https://తెలుగు.భారత్/",
    "https://ไทย.ไทย/",
    "https://ລາວ.ລາວ/",
    "https://እንግሊዝኛ.et/",
    "https://i❤.ws/",
    "https://example.xn--p1ai/",
    // Brands, their customers and similar names.
    "https://www.google.com/search?q=https://example.com/",
    "https://google.de/",
    "https://www.google.co.uk/maps",
    "https://maps.app.goo.gl/abc",
    "https://docs.google.com/document/d/1/edit",
    "https://www.paypal.com/signin",
    "https://paypal.me/somebody",
    "https://www.amazon.co.jp/dp/1",
    "https://amazon.com.br/",
    "https://smile.amazon.de/",
    "https://bucket.s3.amazonaws.com/key?X-Amz-Algorithm=1",
    "https://support.apple.com/",
    "https://apple.stackexchange.com/q/1",
    "https://microsoft.com/",
    "https://login.microsoftonline.com/",
    "https://netflix.zendesk.com/",
    "https://coinbase.zendesk.com/",
    "https://company.slack.com/",
    "https://youtu.be/x",
    "https://www.youtube.com/watch?v=x",
    "https://en.wikipedia.org/wiki/AC/DC#Band_members_(1973–present)",
    "https://web.archive.org/web/2020/https://example.com/a?b=c",
    "https://github.com/rust-lang/rust",
    "https://wise.com/",
    "https://t.me/channel",
    "https://bit.ly/",
    "https://pineapple.com/",
    "https://amazonas.de/",
    "https://orangerie.fr/",
    "https://modern-barn.example/",
    "https://github.it.company.example/",
    // Unusual but legitimate.
    "https://example.com",
    "https://example.com.",
    "https://example.com:65535/",
    "https://ｅｘａｍｐｌｅ.com/",
    "https://my_under_score.example.com/",
    "https://a.b.c.d.e.f.g.example.co.uk/",
    "https://123.example.com/",
    "https://163.com/",
    "https://3g2upl4pq6kufc4m.onion/",
    "https://example.com/@user/status/1",
    "https://example.com/?@",
    "https://example.com/#@somebody",
    "https://example.com/post?@somebody.example",
    "https://example.com/a\\b",
    "https://example.com/?u=https://go.example/ok1234",
    "https://example.com/javascript:alert(1)",
];

#[test]
fn ordinary_targets_raise_no_flag() {
    let screen = Screen::default();
    for text in ORDINARY {
        let target = Target::parse(text, &Default::default())
            .unwrap_or_else(|refusal| panic!("{text}: {refusal}"));
        assert_eq!(flags(&target).union(input_flags(text, &target)).to_string(), "", "{text}");
        let verdict = screen.check_input(text, &target);
        assert!(matches!(verdict, Verdict::Clear(_)), "{text}: {verdict:?}");
    }
}

/// IP addresses are recorded without a warning.
#[test]
fn plain_addresses_are_clear() {
    for text in ["https://8.8.8.8/", "http://[2620:FE::FE]:8080/x"] {
        let target = Target::parse(text, &Default::default()).unwrap();
        let verdict = Screen::default().check_input(text, &target);
        assert!(matches!(verdict, Verdict::Clear(_)), "{text}: {verdict:?}");
    }
}
