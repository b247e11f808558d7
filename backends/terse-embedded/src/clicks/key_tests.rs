//! Tests of the keys that find links.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use terse_core::clicks::{Batch, Click, ClickTarget, Count, LinkId};
use terse_core::{OwnerId, Timestamp};
use terse_testkit::key;

use crate::clicks::key_runs::{KeyKind, decode_keys, encode_keys};
use crate::clicks::queries::ClickQueries;
use crate::clicks::schema::CLICKS;
use crate::clicks::writes::ClickWrites;

fn link(n: u64) -> LinkId {
    // Two links after the other have one code.
    let created_at = Timestamp::from_ms((n % 2).cast_signed());
    LinkId { key: key(&format!("link-{}", n / 2)), created_at }
}

fn writes() -> ClickWrites {
    let mut conn = Connection::open_in_memory().unwrap();
    CLICKS.migrate(&mut conn, 0).unwrap();
    ClickWrites::new(ClickQueries::new(conn), None).unwrap()
}

fn add(writes: &mut ClickWrites, links: impl IntoIterator<Item = (u64, OwnerId)>) {
    let click =
        |(n, owner)| Click::bare(Timestamp::from_ms(1000), ClickTarget::Link(link(n), owner));
    writes.add(&Batch::of(Vec::new(), links.into_iter().map(click))).unwrap();
}

/// Checks that links are found by name and by owner, and listed once each.
fn check(writes: &ClickWrites, model: &BTreeMap<u64, (OwnerId, u64)>) {
    assert!(writes.has_right_keys().unwrap());
    let all: Vec<u64> = (0..4200).collect();
    let links: Vec<LinkId> = all.iter().map(|n| link(*n)).collect();
    let counts = writes.counts(&links).unwrap();
    for n in all {
        let expected = model.get(&n).copied();
        let found = writes.link(&link(n)).unwrap();
        assert_eq!(found.map(|(_, owner)| owner), expected.map(|(owner, _)| owner), "{n}");
        let clicks = Count { humans: expected.map_or(0, |(_, clicks)| clicks), bots: 0 };
        assert_eq!(counts[n as usize], clicks, "{n}");
    }
    for owner in (0..8).map(OwnerId) {
        let found = writes.links_of(owner, usize::MAX).unwrap();
        let found: BTreeSet<LinkId> =
            found.into_iter().map(|id| writes.link_by_id(id).unwrap().unwrap().0).collect();
        let expected = model.iter().filter(|(_, (of, _))| *of == owner);
        assert_eq!(found, expected.map(|(n, _)| link(*n)).collect(), "{owner:?}");
    }
    for limit in [7, 1000] {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = writes.links(after.as_ref(), limit).unwrap();
            let Some(last) = page.last().cloned() else { break };
            assert!(page.len() <= limit);
            listed.extend(page);
            after = Some(last);
        }
        assert_eq!(listed.len(), model.len());
        let listed: BTreeSet<LinkId> = listed.into_iter().collect();
        assert_eq!(listed, model.keys().map(|n| link(*n)).collect());
    }
}

#[test]
fn links_are_found_whatever_is_added_erased_and_given_away() {
    let mut writes = writes();
    let mut model: BTreeMap<u64, (OwnerId, u64)> = BTreeMap::new();
    let mut seed = 7_u64;
    let mut dice = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888);
        (seed >> 33) % bound
    };
    for round in 0..60 {
        // Mostly few links, as on a quiet server.
        let count = [1, 3, 40, 700][(round % 4) as usize];
        let clicked: BTreeMap<u64, OwnerId> = (0..count)
            .map(|_| {
                let n = dice(4200);
                // Some links have another owner than before.
                let owner = if dice(20) == 0 { dice(8) } else { n % 8 };
                (n, OwnerId(owner))
            })
            .collect();
        for (n, owner) in &clicked {
            let (of, clicks) = model.entry(*n).or_insert((*owner, 0));
            (*of, *clicks) = (*owner, *clicks + 1);
        }
        add(&mut writes, clicked);
        if round % 10 == 9 {
            let erased: Vec<u64> = (0..30).map(|_| dice(2100) * 2).collect();
            let keys: Vec<_> = erased.iter().map(|n| link(*n).key).collect();
            // The earlier one of the links with a code.
            let first = Timestamp::from_ms(0);
            writes.erase_links(&keys, first, first).unwrap();
            model.retain(|n, _| !erased.contains(n));
        }
        if round % 15 == 14 {
            check(&writes, &model);
        }
    }
    // An owner is erased in steps.
    while !writes.erase_owner(OwnerId(3), Timestamp::from_ms(5000), 100).unwrap() {}
    model.retain(|_, (owner, _)| *owner != OwnerId(3));
    check(&writes, &model);
    // Their later clicks create no rows.
    add(&mut writes, (0..40).map(|n| (n * 100 + 99, OwnerId(3))));
    check(&writes, &model);
    for kind in [KeyKind::Names, KeyKind::Owners] {
        let runs = writes.key_runs(kind).unwrap().len();
        assert!(runs <= 12, "{runs} runs");
    }
}

#[test]
fn damaged_keys_are_made_again_and_no_link_gets_a_second_row() {
    let rows = |writes: &ClickWrites| -> i64 {
        let sql = "SELECT count(*) FROM subjects WHERE kind = 0";
        writes.conn.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let all = || (0..1200).map(|n| (n, OwnerId(n % 5)));
    for damage in [
        "UPDATE key_chunks SET data = zeroblob(length(data))",
        "UPDATE key_runs SET chunks = x'05'",
        "DELETE FROM key_chunks",
    ] {
        let mut writes = writes();
        add(&mut writes, all());
        writes.conn.execute_batch(damage).unwrap();
        crate::database::Writes::reload(&mut writes).unwrap();
        assert!(!matches!(writes.has_right_keys(), Ok(true)), "{damage}");
        // A reader finds the link all the same.
        assert_eq!(writes.counts(&[link(77)]).unwrap(), [Count { humans: 1, bots: 0 }]);
        add(&mut writes, all());
        assert_eq!(rows(&writes), 1200, "{damage}");
        assert!(writes.has_right_keys().unwrap(), "{damage}");
    }
}

#[test]
fn a_file_of_an_earlier_version_gets_its_keys() {
    let mut writes = writes();
    add(&mut writes, (0..1200).map(|n| (n, OwnerId(n % 5))));
    let queries = writes.queries;
    let before = "DELETE FROM key_runs; DELETE FROM key_chunks; \
        INSERT INTO meta VALUES ('keys_missing', 1)";
    queries.conn.execute_batch(before).unwrap();
    assert!(!queries.has_right_keys().unwrap());
    queries.make_missing_keys().unwrap();
    assert!(queries.has_right_keys().unwrap());
    let marker = "SELECT 1 FROM meta WHERE name = 'keys_missing'";
    assert!(!queries.conn.prepare(marker).unwrap().exists([]).unwrap());
}

#[test]
fn keys_are_read_as_they_were_written_and_damage_is_found() {
    for keys in [vec![], vec![7], vec![0, i64::MAX], (0..500).map(|n| n * 77_777_777).collect()] {
        let data = encode_keys(9, &keys);
        assert_eq!(decode_keys(9, &data), Some(keys.clone()));
        assert_eq!(decode_keys(8, &data), None);
        for at in 0..data.len() {
            let mut changed = data.clone();
            changed[at] ^= 1;
            assert_eq!(decode_keys(9, &changed), None);
            assert_eq!(decode_keys(9, &data[..at]), None);
        }
    }
    // Files hold these octets for years.
    let hash = xxhash_rust::xxh3::xxh3_64(&encode_keys(9, &[5, 77, 70_000]));
    assert_eq!(hash, 3_828_079_907_122_073_445);
}
