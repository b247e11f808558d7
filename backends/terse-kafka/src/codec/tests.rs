use terse_core::clicks::{BotKind, Click};

use super::*;

const JOURNAL: JournalId = JournalId(*b"0123456789abcdef");

fn span(segment: u64, from: u64, to: u64) -> JournalSpan {
    JournalSpan { journal: JOURNAL, epoch: 3, segment, from, to }
}

fn sample() -> Batch {
    let key = |code: &str| LinkKey {
        domain: Domain::parse("go.example").unwrap(),
        code: Code::parse(code).unwrap(),
    };
    let link = LinkId { key: key("x7Kq"), created_at: Timestamp::from_ms(1_700_000_000_000) };
    let link = ClickTarget::Link(link, OwnerId(7));
    let mut first = Click::bare(Timestamp::from_ms(1_700_000_360_000), link.clone());
    first.visitor = Some(0x0123_4567_89ab_cdef);
    first.took_nanos = 1500;
    first.address = Some("203.0.113.0/24".into());
    first.country = Some("DE".into());
    first.city = Some("Berlin, DE".into());
    first.device = Some("desktop".into());
    first.browser = Some("Firefox".into());
    first.system = Some("Linux".into());
    first.referrer = Some("news.example".into());
    first.language = Some("de".into());
    first.utm = [Some("letter".into()), None, Some("spring".into()), None, None];
    let mut second = Click::bare(Timestamp::from_ms(1_700_000_359_990), link);
    second.bot = Some(BotKind::Preview);
    second.warning = WarningVisit::Passed;
    let mut third = Click::bare(
        Timestamp::from_ms(1_700_000_360_001),
        ClickTarget::Orphan(key("lost"), Answered::NotFound),
    );
    third.weight = 3;
    Batch::of(vec![span(9, 0, 400), span(10, 64, 128)], [first, second, third])
}

fn read(bytes: &[u8]) -> Arc<Batch> {
    match decode(bytes).unwrap() {
        BusMessage::Clicks(batch) => batch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_batch_is_the_same_after_its_way() {
    let sent = sample();
    let got = read(&encode(&sent).unwrap());
    assert_eq!((got.id, &got.spans), (sent.id, &sent.spans));
    let clicks = |batch: &Batch| batch.clicks.iter().collect::<Vec<_>>();
    assert_eq!(clicks(&got), clicks(&sent));
    let sums = |batch: &Batch| {
        let text = |delta| format!("{delta:?}");
        let mut sums: Vec<String> = batch.sums.iter().map(text).collect();
        sums.sort();
        sums
    };
    assert_eq!(sums(&got), sums(&sent));
}

#[test]
fn segments_to_forget_are_the_same_after_their_way() {
    match decode(&encode_forget(JOURNAL, 3, 12, &[9, 10])).unwrap() {
        BusMessage::Forget { journal, generation, segments } => {
            assert_eq!((journal, generation, segments), (JOURNAL, 12, vec![9, 10]));
        }
        other => panic!("{other:?}"),
    }
}

/// Messages in topics have this form. `docs/click-message.proto` describes it to others.
#[test]
fn the_octets_of_version_1_never_change() {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let golden = include_str!("golden_v1.hex").trim_end().replace('\n', "");
    let encoded = encode(&sample()).unwrap();
    assert_eq!(hex(&encoded), golden);
    let forget = encode_forget(JOURNAL, 3, 12, &[9, 10]);
    assert_eq!(
        hex(&forget),
        "080112103031323334353637383961626364656618033214080c12100900000000000000\
         0a00000000000000"
    );
}

/// Whatever the octets are, reading them ends with a message or a reason.
#[test]
fn a_damaged_message_is_an_error_and_never_a_panic() {
    let whole = encode(&sample()).unwrap();
    for length in 0..whole.len() {
        let _error_or_message = decode(&whole[..length]);
    }
    let mut refused = 0;
    for at in 0..whole.len() {
        for by in [1, 0x7f, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] ^= by;
            match decode(&damaged) {
                // What is read can be counted.
                Ok(BusMessage::Clicks(batch)) => drop(batch.clicks.iter().collect::<Vec<_>>()),
                Ok(BusMessage::Forget { .. }) => {}
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > whole.len(), "{refused}");
}

#[test]
fn a_message_that_cannot_be_right_says_why() {
    type Change = fn(&mut ClickMessage);
    let changes: [(Change, &str); 14] = [
        (|m| m.version = 2, "its version is 2, and this terse reads version 1"),
        (|m| m.journal.truncate(5), "journal must be 16 octets"),
        (|m| m.spans.clear(), "spans must be 1 to 100000"),
        (|m| m.spans[0].to = 0, "a span must begin before it ends"),
        (|m| m.spans[1].segment = 9, "each segment once"),
        (|m| m.clicks = None, "either clicks or forget"),
        (|m| m.forget = Some(Forget::default()), "either clicks or forget"),
        (|m| m.clicks.as_mut().unwrap().weight.truncate(1), "every column"),
        (|m| m.clicks.as_mut().unwrap().target[0] = 9, "a click refers to an entry"),
        (|m| m.clicks.as_mut().unwrap().networks[1].place = 9, "a click refers to an entry"),
        (|m| m.clicks.as_mut().unwrap().kind[0] = 200, "kind has an octet"),
        (|m| m.clicks.as_mut().unwrap().warning[0] = 3, "warning must be"),
        (|m| m.clicks.as_mut().unwrap().targets[0].code = "a b".into(), "code must be a code"),
        (|m| m.clicks.as_mut().unwrap().targets[1].orphan = "odd".into(), "in orphan an answer"),
    ];
    for (change, part) in changes {
        let mut message = ClickMessage::decode(&*encode(&sample()).unwrap()).unwrap();
        change(&mut message);
        let error = decode(&message.encode_to_vec()).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(matches!(decode(b"\xff\xff"), Err(FormatError::Encoding(_))));
}

#[test]
fn spans_of_two_journals_make_no_message() {
    let mut batch = sample();
    batch.spans[1].journal = JournalId([1; 16]);
    assert!(encode(&batch).is_none());
    assert!(encode(&Batch::default()).is_none());
}
