use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{BlockedHosts, Code, Domain, LinkKey, TargetRules, Timestamp, ValidationErrorKind};

fn targets() -> TargetRules {
    TargetRules {
        hosts: crate::Hosts::new(&url::Url::parse("https://go.example/").unwrap(), &[], vec![]),
        allow_private: false,
        blocked: BlockedHosts::parse(&["evil.example"]).unwrap(),
    }
}

fn rules(sent: &Value) -> Rules {
    Rules::parse(sent, &targets()).unwrap().unwrap().rules
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// A Wednesday.
fn visit() -> VisitContext<'static> {
    VisitContext {
        device: Some("mobile"),
        system: Some("Ubuntu"),
        country: Some("AT"),
        languages: "de-AT,de;q=0.9,en;q=0.8",
        query: "ref=mail&x=a%20b&x=c",
        ..VisitContext::unknown(at("2026-11-18T10:00:00Z"))
    }
}

#[test]
fn each_condition_holds_or_does_not() {
    for (condition, want) in [
        (json!({}), true),
        (json!({"device": "mobile"}), true),
        (json!({"device": ["Desktop", "MOBILE"]}), true),
        (json!({"device": ["desktop", "tablet"]}), false),
        (json!({"os": "linux"}), true),
        (json!({"os": ["windows", "ubuntu"]}), true),
        (json!({"os": "debian"}), false),
        (json!({"language": "de"}), true),
        (json!({"language": "de-at"}), true),
        (json!({"language": "de-CH"}), false),
        // The visitor accepts it, but prefers another language.
        (json!({"language": "en"}), false),
        (json!({"language": ["en", "de"]}), true),
        (json!({"country": "at"}), true),
        (json!({"country": ["DE", "CH"]}), false),
        (json!({"query": {"name": "ref"}}), true),
        (json!({"query": {"name": "ref", "value": "mail"}}), true),
        (json!({"query": {"name": "ref", "value": "Mail"}}), false),
        (json!({"query": {"name": "x", "value": "c"}}), true),
        (json!({"query": [{"name": "y"}, {"name": "x", "value": "a b"}]}), true),
        (json!({"query": {"name": "y"}}), false),
        (json!({"from": "2026-11-18T10:00:00Z"}), true),
        (json!({"from": "2026-11-18T11:00:00.001+01:00"}), false),
        (json!({"until": "2026-11-18T10:00:00Z"}), false),
        (json!({"until": "2026-11-19"}), true),
        (json!({"days": ["mon", "wed"]}), true),
        (json!({"days": "tue"}), false),
        (json!({"hours": "09:00-10:00"}), false),
        (json!({"hours": ["11:00-12:00"], "tz": "Europe/Vienna"}), true),
        (json!({"device": "mobile", "country": "AT", "days": "wed"}), true),
        (json!({"device": "mobile", "country": "DE", "days": "wed"}), false),
    ] {
        let mut rule = condition.clone();
        rule["to"] = "https://example.com/".into();
        let rules = rules(&json!([rule]));
        assert_eq!(rules.choose(&visit()).is_some(), want, "{condition}");
        let explanation = rules.explain(&visit());
        assert_eq!(explanation.steps[0].matched, want);
        assert!(explanation.steps[0].why.len() >= usize::from(!want), "{explanation:?}");
    }
}

#[test]
fn unknown_values_match_no_condition() {
    let unknown = VisitContext::unknown(at("2026-11-18T10:00:00Z"));
    for condition in ["device", "os", "language", "country", "query"] {
        let value = match condition {
            "device" => json!([
                "desktop", "mobile", "tablet", "tv", "console", "headset", "wearable", "bot"
            ]),
            "os" => json!("Linux"),
            "language" => json!("en"),
            "country" => json!("US"),
            _ => json!({"name": "a"}),
        };
        let rules = rules(&json!([{condition: value, "to": "https://example.com/"}]));
        assert_eq!(rules.choose(&unknown), None, "{condition}");
    }
}

#[test]
fn an_error_names_the_field() {
    let ok = "https://example.com/";
    let many: Vec<Value> = (0..21).map(|_| json!({"to": ok})).collect();
    let branches: Vec<Value> = (0..11).map(|_| json!({"url": ok})).collect();
    let long: Vec<Value> =
        (0..5).map(|n| json!({"to": format!("{ok}{n}{}", "a".repeat(8000))})).collect();
    for (sent, field, kind) in [
        (json!({}), "rules", ValidationErrorKind::InvalidRequest),
        (json!("x"), "rules", ValidationErrorKind::InvalidRequest),
        (json!(many), "rules", ValidationErrorKind::InvalidRequest),
        (json!(long), "rules", ValidationErrorKind::InvalidRequest),
        (json!([[]]), "rules[0]", ValidationErrorKind::InvalidRequest),
        (json!([{"to": ok}, {}]), "rules[1].to", ValidationErrorKind::InvalidRequest),
        (json!([{"to": ok}, {"to": null}]), "rules[1].to", ValidationErrorKind::InvalidRequest),
        (json!([{"to": 5}]), "rules[0].to", ValidationErrorKind::InvalidRequest),
        (json!([{"to": []}]), "rules[0].to", ValidationErrorKind::InvalidRequest),
        (json!([{"to": branches}]), "rules[0].to", ValidationErrorKind::InvalidRequest),
        (
            json!([{"to": [{"url": ok, "weight": 0}]}]),
            "rules[0].to[0].weight",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": [{"url": ok, "weight": 1.5}]}]),
            "rules[0].to[0].weight",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": [{"url": ok}, {"url": ok, "share": 1}]}]),
            "rules[0].to[1].share",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": [{"weight": 1}]}]),
            "rules[0].to[0].url",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok, "divice": "mobile"}]),
            "rules[0].divice",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok}, {"to": ok}, {"to": ok, "device": "phone"}]),
            "rules[2].device",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok, "device": ["mobile", 7]}]),
            "rules[0].device[1]",
            ValidationErrorKind::InvalidRequest,
        ),
        (json!([{"to": ok, "device": []}]), "rules[0].device", ValidationErrorKind::InvalidRequest),
        (json!([{"to": ok, "os": "plan 10"}]), "rules[0].os", ValidationErrorKind::InvalidRequest),
        (
            json!([{"to": ok, "language": "german"}]),
            "rules[0].language",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok, "country": "UK"}]),
            "rules[0].country",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok, "query": "a=b"}]),
            "rules[0].query",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok, "query": {"value": "b"}}]),
            "rules[0].query.name",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok, "query": {"name": ""}}]),
            "rules[0].query.name",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok, "query": {"name": "a", "value": "b".repeat(501)}}]),
            "rules[0].query.value",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok, "from": "tomorrow"}]),
            "rules[0].from",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok, "from": "2030-01-02", "until": "2030-01-02"}]),
            "rules[0].until",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok, "days": "monday"}]),
            "rules[0].days",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok, "hours": "9-17"}]),
            "rules[0].hours",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok, "tz": "Europe/Berlin"}]),
            "rules[0].tz",
            ValidationErrorKind::InvalidRequest,
        ),
        (
            json!([{"to": ok, "days": "mon", "tz": "Mars"}]),
            "rules[0].tz",
            ValidationErrorKind::InvalidRequest,
        ),
        // Targets of rules are validated like other targets.
        (
            json!([{"to": "javascript:alert(1)"}]),
            "rules[0].to",
            ValidationErrorKind::SchemeNotAllowed,
        ),
        (
            json!([{"to": "https://go.example/x"}]),
            "rules[0].to",
            ValidationErrorKind::SelfReference,
        ),
        (
            json!([{"to": ok}, {"to": [{"url": ok}, {"url": "http://127.0.0.1/"}]}]),
            "rules[1].to[1].url",
            ValidationErrorKind::DestinationNotPublic,
        ),
        (
            json!([{"to": "https://evil.example/"}]),
            "rules[0].to",
            ValidationErrorKind::BlockedDestination,
        ),
        (
            json!([{"to": "https://e.com/\r\nSet-Cookie: a=b"}]),
            "rules[0].to",
            ValidationErrorKind::InvalidUrl,
        ),
    ] {
        let refusal = Rules::parse(&sent, &targets()).unwrap_err();
        assert_eq!((refusal.field.as_ref(), refusal.kind), (field, kind), "{sent}: {refusal}");
    }
    assert_eq!(Rules::parse(&json!(null), &targets()), Ok(None));
    assert_eq!(Rules::parse(&json!([]), &targets()), Ok(None));
}

#[test]
fn the_time_zone_may_still_be_sent_and_stored_as_zone() {
    let rule = |name: &str| {
        json!([
            { "hours": "09:00-17:00", name: "Europe/Berlin", "to": "https://example.com/" }
        ])
    };
    let (new, old) = (rules(&rule("tz")), rules(&rule("zone")));
    assert_eq!(new, old);
    assert_eq!(old.to_json()[0]["tz"], "Europe/Berlin");
    assert_eq!(old.to_json()[0].get("zone"), None);
    let stored = r#"[{"hours":"09:00-17:00","to":"https://example.com/","zone":"Europe/Berlin"}]"#;
    assert_eq!(Rules::from_stored(stored), Some(new));
    let mut both = rule("tz");
    both[0]["zone"] = "Europe/Berlin".into();
    let error = Rules::parse(&both, &targets()).unwrap_err();
    assert_eq!(error.field, "rules[0].zone");
    // The old name is accepted in rules only, and not offered.
    let unknown = json!([{ "place": 1, "to": "https://example.com/" }]);
    assert!(!Rules::parse(&unknown, &targets()).unwrap_err().detail.contains("zone"));
}

#[test]
fn a_duplicate_field_is_refused() {
    let twice = r#"[{"to": "https://example.com/", "device": "mobile", "device": "desktop"}]"#;
    assert!(
        serde_json::from_str::<RawRules>(twice)
            .unwrap_err()
            .to_string()
            .starts_with("duplicate field `device`")
    );
    let text = r#"[{"a":[1,-2,2.5,"x",null,true,{}]}]"#;
    assert_eq!(
        serde_json::from_str::<RawRules>(text).unwrap().0,
        serde_json::from_str::<Value>(text).unwrap()
    );
}

#[test]
fn the_sent_text_is_kept_with_its_field() {
    let sent = json!([
        {"to": "https://Example.com"},
        {"to": [{"url": "https://a.com"}, {"url": "https://b.com/", "weight": 3}]}
    ]);
    let drafted = Rules::parse(&sent, &targets()).unwrap().unwrap();
    let inputs: Vec<(&str, &str)> =
        drafted.inputs.iter().map(|input| (&*input.field, &*input.text)).collect();
    assert_eq!(
        inputs,
        [
            ("rules[0].to", "https://Example.com"),
            ("rules[1].to[0].url", "https://a.com"),
            ("rules[1].to[1].url", "https://b.com/")
        ]
    );
    let targets: Vec<&str> = drafted.rules.targets().map(crate::Target::as_str).collect();
    assert_eq!(targets, ["https://example.com/", "https://a.com/", "https://b.com/"]);
}

#[test]
fn a_visitor_keeps_its_branch_and_weights_are_respected() {
    let sent = |first: u32| {
        json!([{"to": [
            {"url": "https://a.com/", "weight": first}, {"url": "https://b.com/", "weight": 3},
            {"url": "https://c.com/", "weight": 1}
        ]}])
    };
    let (split, other) = (rules(&sent(6)), rules(&sent(8)));
    let link = |code: &str| LinkKey { domain: Domain::primary(), code: Code::parse(code).unwrap() };
    let (mut counts, mut moved, mut same) = ([0_u32; 3], 0, 0);
    for n in 0..20_000_u32 {
        let split_key =
            SplitKey::of(std::net::Ipv4Addr::from(0x0b00_0000 + n).into(), b"Mozilla/5.0");
        let go = |rules: &Rules, code: &str| {
            let visit = VisitContext { split_key: split_key.at(&link(code)), ..visit() };
            rules.explain(&visit).matched.unwrap().branch.unwrap()
        };
        let branch = go(&split, "abcd");
        assert_eq!(branch, go(&split, "abcd"));
        counts[branch] += 1;
        moved += u32::from(branch != go(&other, "abcd"));
        same += u32::from(branch == go(&split, "abce"));
    }
    for (count, want) in counts.into_iter().zip([12_000_i64, 6_000, 2_000]) {
        assert!((i64::from(count) - want).abs() < 400, "{counts:?}");
    }
    // Only visitors between the old and the new border move: about a tenth.
    assert!((1_500..4_000).contains(&moved), "{moved}");
    // Branches at another link are independent: 0.36 + 0.09 + 0.01 agree by chance.
    assert!((8_500..9_900).contains(&same), "{same}");
}

#[test]
fn an_ipv6_network_counts_as_one_visitor() {
    let split_key = |text: &str| SplitKey::of(text.parse().unwrap(), b"x");
    assert_eq!(split_key("2001:db8:1:2:3::4"), split_key("2001:db8:1:2:ffff::1"));
    assert_ne!(split_key("2001:db8:1:2::1"), split_key("2001:db8:1:3::1"));
    assert_eq!(split_key("::ffff:203.0.113.7"), split_key("203.0.113.7"));
    assert_ne!(split_key("203.0.113.8"), split_key("203.0.113.7"));
}

#[test]
fn explanations_name_the_conditions() {
    let rules = rules(&json!([
        {"device": ["desktop", "tablet"], "country": "DE", "to": "https://example.com/1"},
        {"language": "fr", "query": {"name": "utm_source", "value": "x"}, "to": "https://example.c\
         om/2"},
        {"until": "2026-01-01", "to": "https://example.com/3"},
        {"days": ["mon", "tue"], "hours": "09:00-17:00", "tz": "Europe/Berlin", "to": "https://exa\
         mple.com/4"},
        {"os": "Linux", "query": {"name": "ref"}, "to": "https://example.com/5"},
        {"to": "https://example.com/6"}
    ]));
    let explanation = rules.explain(&visit());
    let steps: Vec<(bool, Vec<&str>)> = explanation
        .steps
        .iter()
        .map(|step| (step.matched, step.why.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(
        steps,
        [
            (
                false,
                vec!["the device is mobile, not desktop or tablet", "the country is AT, not DE"]
            ),
            (
                false,
                vec!["the preferred language is de-AT, not fr", "the query has no utm_source=x"]
            ),
            (false, vec!["2026-11-18T10:00:00Z is not before 2026-01-01T00:00:00Z"]),
            (false, vec!["wed 11:00 (Europe/Berlin) is not within mon, tue 09:00-17:00"]),
            (true, vec!["the operating system is Ubuntu", "the query has ref"]),
        ]
    );
    assert_eq!(explanation.matched.map(|matched| matched.rule), Some(4));
}

fn alternatives(any: &'static [&'static str]) -> impl Strategy<Value = Option<Value>> {
    proptest::option::of(
        proptest::sample::subsequence(any, 1..=any.len()).prop_map(|some| json!(some)),
    )
}

fn sent_rule() -> impl Strategy<Value = Value> {
    let conditions = (
        alternatives(&["mobile", "desktop", "bot"]),
        alternatives(&["iOS", "Linux", "Windows"]),
        alternatives(&["de", "de-AT", "en", "zh-Hant"]),
        alternatives(&["DE", "AT", "US"]),
        proptest::option::of(("[a-z é&=]{1,4}", proptest::option::of("[a-z\"\\\\]{0,3}"))),
        proptest::option::of(0..4_000_000_000_000_i64),
        proptest::option::of(4_000_000_000_000..8_000_000_000_000_i64),
        alternatives(&["sun", "mon", "wed"]),
        alternatives(&["00:00-24:00", "22:30-06:00"]),
        any::<bool>(),
    );
    let destination = proptest::collection::vec(("[a-z]{1,5}", 1..=10_000_u32), 1..=10);
    (conditions, destination).prop_map(|(conditions, destination)| {
        let (device, os, language, country, query, from, until, days, hours, tz) = conditions;
        let timestamp = |ms: i64| json!(Timestamp::from_ms(ms).to_string());
        let tz = (tz && (days.is_some() || hours.is_some())).then(|| json!("America/New_York"));
        let branches: Vec<Value> = destination
            .iter()
            .map(|(path, weight)| {
                json!({
                    "url": format!("https://example.com/{path}?q=1"), "weight": weight
                })
            })
            .collect();
        json!({
            "device": device, "os": os, "language": language, "country": country,
            "query": query.map(|(name, value)| json!({"name": name, "value": value})),
            "from": from.map(timestamp), "until": until.map(timestamp), "days": days,
            "hours": hours,
            "tz": tz, "to": branches
        })
    })
}

fn visitor() -> impl Strategy<
    Value = (
        Option<&'static str>,
        Option<&'static str>,
        Option<&'static str>,
        &'static str,
        i64,
        u64,
    ),
> {
    (
        proptest::sample::select(vec![None, Some("mobile"), Some("desktop"), Some("bot")]),
        proptest::sample::select(vec![None, Some("iOS"), Some("Ubuntu"), Some("Windows")]),
        proptest::sample::select(vec![None, Some("DE"), Some("US")]),
        proptest::sample::select(vec!["", "de-AT", "en-US,de;q=0.5", "zh-Hant-TW"]),
        0..8_000_000_000_000_i64,
        any::<u64>(),
    )
}

proptest! {
    #[test]
    fn stored_rules_are_read_back_unchanged(sent in proptest::collection::vec(sent_rule(), 1..=5)) {
        let rules = rules(&json!(sent));
        let stored = Rules::from_stored(&rules.show());
        prop_assert_eq!(stored.as_ref(), Some(&rules));
        let again = Rules::parse(&rules.to_json(), &targets()).unwrap().unwrap();
        prop_assert_eq!(again.rules.show(), rules.show());
        prop_assert_eq!(again.inputs.len(), rules.targets().count());
    }

    #[test]
    fn the_first_match_wins_and_the_explanation_agrees(
        sent in proptest::collection::vec(sent_rule(), 1..=6),
        (device, system, country, languages, ms, split_key) in visitor(),
    ) {
        let visit = VisitContext {
            device,
            system,
            country,
            languages,
            split_key: SplitKey(split_key),
            ..VisitContext::unknown(Timestamp::from_ms(ms))
        };
        let all = rules(&json!(sent));
        // Rules are independent: evaluating each alone gives the same match.
        let alone = sent.iter().find_map(|one| rules(&json!([one])).choose(&visit).cloned());
        prop_assert_eq!(all.choose(&visit), alone.as_ref());
        let explanation = all.explain(&visit);
        prop_assert_eq!(explanation.matched.map(|matched| matched.target), alone.as_ref());
        for (index, step) in explanation.steps.iter().enumerate() {
            let decides = explanation.matched.is_some_and(|matched| matched.rule == index);
            prop_assert_eq!(step.matched, decides);
            prop_assert!(step.matched || !step.why.is_empty());
        }
    }

    #[test]
    fn any_json_is_refused_or_read(
        text in "[\\[\\]{}\",:a-z0-9é]{0,40}",
        name in "\\PC{0,10}",
        value in "\\PC{0,20}",
    ) {
        if let Ok(RawRules(value)) = serde_json::from_str::<RawRules>(&text) {
            let _ = Rules::parse(&value, &targets());
        }
        let _ = Rules::parse(&json!([{ "to": value, name: value }]), &targets());
        let unknown = VisitContext::unknown(Timestamp::from_ms(0));
        let visit = VisitContext { languages: &value, query: &value, ..unknown };
        rules(&json!([
            {"language": "de", "query": {"name": "a"}, "to": "https://example.com/"}
        ])).explain(&visit);
    }
}

#[test]
fn rules_say_what_decides() {
    let url = "https://example.com/a";
    let split = json!([{"url": url, "weight": 3}, {"url": "https://example.com/b"}]);
    let none = RuleFactors::default();
    for (rules, want) in [
        (json!([{"to": split}]), RuleFactors { divides: true, ..none }),
        (json!([{"device": "mobile", "to": url}]), RuleFactors { device: true, ..none }),
        (
            json!([{"os": "iOS", "country": "DE", "to": url}, {"days": "mon", "to": url}]),
            RuleFactors { device: true, country: true, time: true, ..none },
        ),
        (
            json!([{"language": "de", "query": {"name": "a"}, "to": split}]),
            RuleFactors { language: true, query: true, divides: true, ..none },
        ),
        (json!([{"to": url}]), none),
    ] {
        let parsed = Rules::parse(&rules, &TargetRules::default()).unwrap().unwrap();
        assert_eq!(parsed.rules.factors(), want, "{rules}");
    }
}
