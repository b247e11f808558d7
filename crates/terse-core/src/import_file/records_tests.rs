use std::io::BufReader;

use proptest::prelude::*;

use super::*;

fn read(text: &[u8], buffer: usize) -> Vec<(u64, Record)> {
    let mut records = Records::new(BufReader::with_capacity(buffer, text), Some(b','));
    let mut all = Vec::new();
    while let Some(record) = records.next().unwrap() {
        all.push(record);
    }
    assert_eq!(records.offset, text.len() as u64);
    assert_eq!(records.digest(), hex(&Sha256::digest(text)));
    all
}

fn whole(text: &str) -> Record {
    Record::Whole(text.into())
}

#[test]
fn records_end_at_line_breaks_outside_quotes() {
    let text = b"a,b\r\n\"x\ny\",2\n\n3,\"say \"\"hi\"\"\"\nno\"quote,4";
    let want =
        [(1, "a,b"), (2, "\"x\ny\",2"), (4, ""), (5, "3,\"say \"\"hi\"\"\""), (6, "no\"quote,4")];
    for buffer in [1, 2, 7, 8192] {
        assert_eq!(read(text, buffer), want.map(|(line, text)| (line, whole(text))));
    }
}

#[test]
fn an_open_quote_costs_one_row() {
    let text = b"a,b\n1,\"open\n2,ok\n3,ok\n";
    assert_eq!(
        read(text, 5),
        [(1, whole("a,b")), (2, Record::OpenQuote), (3, whole("2,ok")), (4, whole("3,ok"))]
    );
    let mut long = b"1,\"open\n".to_vec();
    for i in 0..20_000 {
        long.extend_from_slice(format!("{i},ok\n").as_bytes());
    }
    let records = read(&long, 8192);
    assert_eq!(records.len(), 20_001);
    assert_eq!(records[0], (1, Record::OpenQuote));
    assert_eq!(records[20_000], (20_001, whole("19999,ok")));
}

#[test]
fn a_huge_row_is_passed_over() {
    for quote in ["", "\""] {
        let mut text = format!("1,{quote}").into_bytes();
        text.extend(std::iter::repeat_n(b'x', 10 << 20));
        text.extend_from_slice(b"\n2,ok\n");
        let records = read(&text, 8192);
        assert_eq!(records.len(), 2);
        assert_eq!(
            records[0].1,
            if quote.is_empty() { Record::TooLong } else { Record::OpenQuote }
        );
        assert_eq!(records[1], (2, whole("2,ok")));
    }
    let just_fits = "x".repeat(MAX_RECORD_LEN);
    assert_eq!(read(format!("{just_fits}\n").as_bytes(), 8192), [(1, whole(&just_fits))]);
    assert_eq!(read(format!("{just_fits}x\n").as_bytes(), 8192), [(1, Record::TooLong)]);
}

#[test]
fn reading_can_go_on_where_it_stopped() {
    let text = b"a,b\n1,\"x\ny\"\n2,\"open\n3,4\n";
    let mut first = Records::new(&text[..], Some(b','));
    for _ in 0..3 {
        first.next().unwrap();
    }
    let mut second = Records::new(&text[..], Some(b','));
    second.next().unwrap();
    second.skip_to(first.offset, first.line).unwrap();
    assert_eq!(second.digest(), first.digest());
    assert_eq!(second.next().unwrap(), Some((5, whole("3,4"))));
    assert_eq!(second.next().unwrap(), None);
}

proptest! {
    #[test]
    fn any_table_written_by_the_csv_crate_is_read_back(
        table in prop::collection::vec(prop::collection::vec("[a-c\", \r\n;'=é]{0,6}", 2..5), 1..6),
        buffer in 1usize..40,
    ) {
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
        for row in &table {
            writer.write_record(row).unwrap();
        }
        let text = writer.into_inner().unwrap();
        let rows: Vec<Vec<String>> = read(&text, buffer)
            .into_iter()
            .map(|(_, record)| match record {
                Record::Whole(bytes) => cells(&bytes, b',')
                    .into_iter()
                    .map(|cell| String::from_utf8(cell).unwrap())
                    .collect(),
                other => panic!("{other:?}"),
            })
            .collect();
        prop_assert_eq!(rows, table);
    }

    #[test]
    fn any_bytes_are_read_to_the_end(bytes in prop::collection::vec(prop_oneof![Just(b'"'),
        Just(b'\n'), Just(b','), any::<u8>()], 0..300)) {
        read(&bytes, 16);
    }
}
