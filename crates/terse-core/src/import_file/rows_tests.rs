use proptest::prelude::*;
use serde_json::json;

use super::*;

fn now() -> Timestamp {
    Timestamp::parse("2026-06-01T00:00:00Z").unwrap()
}

fn open(bytes: &[u8]) -> Result<Rows, ImportFileError> {
    Rows::open(Box::new(std::io::Cursor::new(bytes.to_vec())), None, false, now())
}

fn all(bytes: &[u8]) -> Vec<RowResult> {
    let mut rows = open(bytes).unwrap();
    let mut all = Vec::new();
    while let Some(outcomes) = rows.next_links().unwrap() {
        all.extend(outcomes);
    }
    all
}

fn links(bytes: &[u8]) -> Vec<Value> {
    let link = |outcome| match outcome {
        RowResult::Link(row) => Value::Object(row.body),
        other => panic!("{other:?}"),
    };
    all(bytes).into_iter().map(link).collect()
}

#[test]
fn files_as_people_have_them_are_read() {
    for (file, want) in [
        (
            "\u{feff}long_url,alias,title,created_at\nhttps://example.com/,imp101,x,\n",
            json!({"long_url": "https://example.com/", "short_code": "imp101", "title": "x"}),
        ),
        (
            "long_url,alias,title,created_at\nhttps://example.com/,imp103,x,",
            json!({"long_url": "https://example.com/", "short_code": "imp103", "title": "x"}),
        ),
        (
            "long_url,alias,title,created_at\n\"https://example.com/?a=1,2\",imp104,\"say \"\"hi\"\"\",\n",
            json!({"long_url": "https://example.com/?a=1,2", "short_code": "imp104",
                "title": "say \"hi\""}),
        ),
        (
            "long_url,alias,title,created_at\nhttps://münchen.de/,imp106,日本語,\n",
            json!({"long_url": "https://münchen.de/", "short_code": "imp106", "title": "日本語"}),
        ),
        (
            "long_url,alias,title,created_at\r\nhttps://example.com/,,x,\r\n",
            json!({"long_url": "https://example.com/", "title": "x"}),
        ),
        (
            "long_url,alias,title,created_at\nhttps://example.com/,imp201,=cmd|' /C calc'!A0,\n",
            json!({"long_url": "https://example.com/", "short_code": "imp201", "title": "=cmd|' \
                /C calc'!A0"}),
        ),
        (
            "keyword;url;title;timestamp;ip;clicks\nabc;https://e.com/?a=1,2;t;2020-05-01 \
             12:00:00;::1;7\n",
            json!({"short_code": "abc", "long_url": "https://e.com/?a=1,2", "title": "t",
                "created_at": "2020-05-01 12:00:00Z", "imported_clicks": 7}),
        ),
        (
            "createdAt,domain,longUrl,shortCode,shortUrl,tags,title,visits\n\
             2020-05-01T12:00:00+02:00,,https://e.com/,abc,https://s.test/abc,a|b,,0\n",
            json!({"short_code": "abc", "long_url": "https://e.com/",
                "created_at": "2020-05-01T12:00:00+02:00", "tags": ["a", "b"]}),
        ),
        (
            "Title,Link,Long URL\nt,https://bit.test/3xYz,https://e.com/\n",
            json!({"short_code": "3xYz", "long_url": "https://e.com/", "title": "t"}),
        ),
        (
            "\u{feff}{\"long_url\":\"https://e.com/\",\"short_code\":\"abc\",\"expires_at\":null,\"short_url\":\"x\",\"status\":\"active\"}\n",
            json!({"short_code": "abc", "long_url": "https://e.com/"}),
        ),
    ] {
        assert_eq!(links(file.as_bytes()), [want], "{file}");
    }
}

#[test]
fn a_file_that_is_none_is_refused_as_a_whole() {
    let many_columns = format!("long_url{}\n", ",a".repeat(100_000));
    let hundred = format!("long_url{}\n", ",a".repeat(100));
    let nested = "[".repeat(100_000);
    for (file, why) in [
        (&b""[..], "empty"),
        (b"\xef\xbb\xbf \n", "empty"),
        (b"foo,bar\n1,2\n", "no column with targets"),
        (b"long_url,long_url\n", "twice"),
        (b"\x1f\x8b\x08\x00\x00", "compressed"),
        (b"PK\x03\x04", "compressed"),
        (b"\xff\xfel\x00", "UTF-16"),
        (b"{\"total\":0}", "no list of links"),
        (nested.as_bytes(), "not JSON"),
        (many_columns.as_bytes(), "longer than 64 KiB"),
        (hundred.as_bytes(), "too many"),
        (b"long_url,\xff\n", "not valid UTF-8"),
    ] {
        let error = format!("{:#}", open(file).err().expect(why));
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_bad_row_is_refused_by_line_and_field_and_the_next_is_read() {
    let mut huge = b"long_url,alias\nhttps://e.com/".to_vec();
    huge.extend(std::iter::repeat_n(b'x', 10 << 20));
    huge.extend_from_slice(b",a\nhttps://e.com/,ok1\n");
    let deep =
        format!("{{\"long_url\":{}\n{{\"long_url\":\"https://e.com/\"}}\n", "[".repeat(20_000));
    for (file, field, reason) in [
        (&b"long_url,title\nhttps://e.com/,\xff\xfe\nhttps://e.com/,x\n"[..], Some("title"), "not \
            valid UTF-8"),
        (b"long_url,alias,title,created_at\nhttps://example.com/,imp005,\"unterminated\nhttps://e.com/,,,\n", None, "not closed"),
        (b"long_url,created_at\nhttps://e.com/,9999-12-31T23:59:59Z\nhttps://e.com/,\n",
            Some("created_at"), "future"),
        (b"long_url,clicks\nhttps://e.com/,99999999999999999999\nhttps://e.com/,5\n",
            Some("clicks"), "not a count"),
        (b"long_url,title\nhttps://e.com/\nhttps://e.com/,x\n", None, "1 cells, where the header \
            has 2"),
        (b"long_url,title\n,x\nhttps://e.com/,x\n", Some("long_url"), "no target"),
        (
            b"{\"long_url\":\"https://e.com/\",\"pasword\":1}\n{\"long_url\":\"https://e.com/\"}\n",
            Some("pasword"),
            "unknown field",
        ),
        (b"{\"url\":\"x\",\"long_url\":\"y\"}\n{\"long_url\":\"https://e.com/\"}\n", Some("url"),
            "given twice"),
        (b"{nonsense\n{\"long_url\":\"https://e.com/\"}\n", None, "not JSON"),
        (&huge, None, "longer than 64 KiB"),
        (deep.as_bytes(), None, "not JSON"),
    ] {
        let outcomes = all(file);
        let shown = String::from_utf8_lossy(&file[..file.len().min(80)]);
        let RowResult::Refused(refused) = &outcomes[0] else { panic!("{shown}: \
            {:?}", outcomes[0]) };
        assert_eq!(refused.line, if file[0] == b'{' { 1 } else { 2 }, "{shown}");
        assert!(refused.reason.contains(reason), "{shown}: {}", refused.reason);
        if field.is_some() {
            assert!(
                matches!(&refused.field,
                    Some(name) if Some(name.as_str()) == field || name == "long_url"),
                "{shown}: {refused:?}"
            );
        }
        assert!(matches!(&outcomes[1..], [RowResult::Link(_)]), "{shown}: {:?}", &outcomes[1..]);
    }
}

#[test]
fn links_with_a_password_do_not_come_in_without_it() {
    let csv = "long_url,has_password\nhttps://e.com/,true\nhttps://e.com/,false\nhttps://e.com/,\n";
    assert!(matches!(
        &all(csv.as_bytes())[..],
        [RowResult::Skipped(_), RowResult::Link(_), RowResult::Link(_)]
    ));
    let jsonl = "{\"long_url\": \"https://e.com/\", \"has_password\": \
        true}\n{\"long_url\": \"https://e.com/\", \"has_password\": false}\n";
    assert!(matches!(&all(jsonl.as_bytes())[..], [RowResult::Skipped(_), RowResult::Link(_)]));
}

#[test]
fn links_that_were_taken_down_do_not_come_back() {
    for status in ["deleted", "blocked", "suspicious", "used_up"] {
        let file = format!("long_url,status\nhttps://e.com/,{status}\nhttps://e.com/,expired\n");
        assert!(matches!(&all(file.as_bytes())[..], [RowResult::Skipped(_), RowResult::Link(_)]));
    }
}

proptest! {
    #[test]
    fn nonsense_is_refused_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400),
        header: bool) {
        let mut file = if header {
            b"long_url,alias,title,tags,clicks\n".to_vec() } else { Vec::new() };
        file.extend_from_slice(&bytes);
        if let Ok(mut rows) = open(&file) {
            while let Some(outcomes) = rows.next_links().unwrap() {
                for outcome in outcomes {
                    if let RowResult::Link(row) = outcome {
                        prop_assert!(row.line >= 1);
                    }
                }
            }
            // A document is read as the lines that it becomes.
            if !file.trim_ascii_start().starts_with(b"[") && !is_document(&file) {
                prop_assert_eq!(rows.at().0, file.len() as u64);
            }
        }
    }
}
