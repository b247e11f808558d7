//! The binary form of a link: frozen bytes, and that only what was written is read.
#![allow(clippy::unwrap_used, reason = "a test")]

use proptest::prelude::*;
use terse_core::link_codec::{
    LINK_CODEC_VERSION, decode, decode_stored, encode, is_of_later_version,
};
use terse_core::*;
use terse_testkit::{alias, generated, rules, timestamp};

fn full() -> Link {
    let mut link = Link {
        owner: OwnerId(u64::MAX),
        created_at: Timestamp::MIN,
        updated_at: Timestamp::MAX,
        expires_at: Some(timestamp(1)),
        valid_from: Some(timestamp(2)),
        max_clicks: Some(3),
        spent_clicks: 2,
        redirect: RedirectKind::Permanent,
        title: Some(Title::from_stored("Größe".into())),
        tags: Tags::parse(&["a", "größe"]).unwrap(),
        notes: Some(Notes::from_stored("a\nb".into())),
        password: Some(PasswordHash::from_phc("$argon2id$x")),
        archived_at: Some(timestamp(4)),
        rules: rules(),
        forward_query: true,
        crawlable: true,
        moderation: ModerationStatus::Blocked,
        moderated_by: ModerationSource::Moderator,
        flags: LinkFlags::new(["look_alike", "of_the_future"]),
        deleted_at: Some(timestamp(5)),
        reusable: true,
        revision: Revision(300),
        ..alias("Full-1", "https://example.com/?q=1#f")
    };
    link.key.domain = Domain::from_stored("go.example");
    link
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What other nodes and earlier programs wrote is read forever: these bytes never change. A new
/// form is a new version with a test of its own.
#[test]
fn version_1_is_frozen() {
    assert_eq!(LINK_CODEC_VERSION, 1);
    for (link, golden) in
        [(generated("x7Kq", "https://example.com/"), GOLDEN_PLAIN), (full(), GOLDEN_FULL)]
    {
        assert_eq!(hex(&encode(&link)), golden);
        assert_eq!(decode(&encode(&link)).unwrap(), link);
    }
}

#[test]
fn version_2_adds_the_imported_clicks() {
    for link in [generated("x7Kq", "https://example.com/"), full()] {
        let imported = Link { imported_clicks: 1 << 40, ..link.clone() };
        let bytes = encode(&imported);
        assert_eq!(bytes[0], 2);
        assert_eq!(decode(&bytes), Some(imported));
        let first = encode(&link);
        let fields = first.len() - 8;
        assert_eq!(bytes[1..fields], first[1..fields], "the fields of version 1, then the clicks");
        assert_eq!(hex(&bytes[fields..bytes.len() - 8]), "808080808020");
    }
}

#[test]
fn version_3_adds_the_preview() {
    for link in [generated("x7Kq", "https://example.com/"), full()] {
        let preview = SocialPreview::from_stored(r#"{"title":"Sale"}"#);
        let previewed = Link { preview, imported_clicks: 7, ..link.clone() };
        let bytes = encode(&previewed);
        assert_eq!(bytes[0], 3);
        assert_eq!(decode(&bytes), Some(previewed));
        let first = encode(&link);
        let fields = first.len() - 8;
        assert_eq!(bytes[1..fields], first[1..fields], "the fields of version 1, then the rest");
        let golden = "07347b227469746c65223a2253616c65222c226465736372697074696f6e223a6e756c6c2c2269\
            6d6167655f75726c223a6e756c6c7d";
        assert_eq!(hex(&bytes[fields..bytes.len() - 8]), golden);
    }
}

const GOLDEN_PLAIN: &str = "01000478374b7101011468747470733a2f2f6578616d706c652e636f6d2f80a0d5edee6680a0d5edee66000000\
    00ae02000000000000000000000000000166dce1c05fc896af";
const GOLDEN_FULL: &str = "010a676f2e6578616d706c650646756c6c2d3100ffffffffffffffffff011a68747470733a2f2f6578616d706c\
    652e636f6d2f3f713d312366ffffa2f0cda21cfeeffea1fa9d730182a0d5edee660184a0d5edee66010302b402\
    01074772c3b6c39f6509612c6772c3b6c39f650103610a62010b246172676f6e32696424780188a0d5edee6601\
    e2025b7b22636f756e747279223a5b224154222c224445225d2c227175657279223a7b226e616d65223a226122\
    2c2276616c7565223a225c22c3bc255f27227d2c22746f223a5b7b2275726c223a2268747470733a2f2f657861\
    6d706c652e636f6d2f31222c22776569676874223a327d2c7b2275726c223a2268747470733a2f2f6578616d70\
    6c652e636f6d2f32222c22776569676874223a317d5d7d2c7b2264617973223a226d6f6e222c22686f75727322\
    3a2232323a30302d30363a3030222c22747a223a224575726f70652f4265726c696e222c22746f223a22687474\
    70733a2f2f6578616d706c652e636f6d2f33227d2c7b22646576696365223a226d6f62696c65222c226f73223a\
    22694f53222c226c616e6775616765223a2270742d4252222c22756e74696c223a22323033302d30312d303154\
    30303a30303a30305a222c22746f223a2268747470733a2f2f6578616d706c652e636f6d2f34227d5d01010201\
    186c6f6f6b5f616c696b652c6f665f7468655f667574757265018aa0d5edee6601ac028dc6abe8ed884db2";

/// A node that cannot read a value must tell a later version from damage: only damage is removed.
#[test]
fn a_later_version_is_told_from_damage() {
    let current = encode(&full());
    let content = &current[1..current.len() - 8];
    let mut later = [&[200][..], content].concat();
    later.extend(xxhash_rust::xxh3::xxh3_64(&later).to_le_bytes());
    assert!(is_of_later_version(&later) && decode(&later).is_none());
    assert!(matches!(decode_stored(&later), Err(StoreError::LaterVersion)));
    assert!(!is_of_later_version(&current));
    assert_eq!(decode_stored(&current).unwrap(), Some(full()));
    let last = later.len() - 1;
    later[last] ^= 1;
    assert!(!is_of_later_version(&later) && !is_of_later_version(&[]));
    assert!(matches!(decode_stored(&later), Ok(None)), "this one is damaged");
}

#[test]
fn what_was_not_written_by_it_is_a_miss() {
    let bytes = encode(&full());
    assert_eq!(decode(&[]), None);
    assert_eq!(decode(b"a letter, not a link"), None);
    for end in 0..bytes.len() {
        assert_eq!(decode(&bytes[..end]), None, "cut after {end}");
    }
    for at in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[at] ^= 0x10;
        assert_eq!(decode(&broken), None, "byte {at}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert_eq!(decode(&longer), None);
}

/// With a checksum that is right: the version alone decides.
#[test]
fn an_unknown_version_is_a_miss() {
    for version in [0, LINK_CODEC_VERSION + 1, u8::MAX] {
        let mut bytes = encode(&full());
        bytes.truncate(bytes.len() - 8);
        bytes[0] = version;
        let checksum = xxhash_rust::xxh3::xxh3_64(&bytes);
        bytes.extend(checksum.to_le_bytes());
        assert_eq!(decode(&bytes), None, "{version}");
    }
}

proptest! {
    #[test]
    fn every_link_comes_back(
        code in "[A-Za-z0-9_-]{1,64}", target in "\\PC{0,200}",
        title in proptest::option::of("\\PC{1,50}"),
        owner: u64, ms in -62_167_219_200_000i64..253_402_300_799_999, max: Option<u64>, spent: u64,
        bits: u8, revision: u64,
    ) {
        let Some(code) = Code::parse(&code) else { return Ok(()) };
        let mut link = generated("x7Kq", &target);
        link.key.code = code;
        link.owner = OwnerId(owner);
        link.title = title.map(Title::from_stored);
        link.created_at = Timestamp::from_ms(ms);
        link.expires_at = (bits & 1 != 0).then_some(Timestamp::from_ms(ms));
        link.deleted_at = (bits & 2 != 0).then_some(Timestamp::from_ms(ms));
        (link.generated, link.forward_query) = (bits & 4 != 0, bits & 8 != 0);
        (link.crawlable, link.reusable) = (bits & 16 != 0, bits & 32 != 0);
        (link.max_clicks, link.spent_clicks) = (max, spent);
        link.revision = Revision(revision);
        prop_assert_eq!(decode(&encode(&link)), Some(link));
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes);
    }
}
