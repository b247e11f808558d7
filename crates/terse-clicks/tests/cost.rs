//! The cost of reading one click into a batch, in things that can be counted: no allocation for
//! values that were seen before.
#![allow(clippy::unwrap_used, reason = "a test")]

use terse_clicks::{AddressPrecision, Enricher, GrowingBatch};
use terse_core::Timestamp;
use terse_core::clicks::JournalRecord;
use terse_testkit::CountingAllocator;

const CLICKS: u64 = 20_000;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// The only test of its binary, because it counts the allocations of the whole process.
#[test]
fn a_click_with_known_values_allocates_nothing() {
    let codes: Vec<String> = (0..100).map(|n| format!("code{n}")).collect();
    let agents: Vec<String> = (100..120)
        .map(|n| format!("Mozilla/5.0 (X11; Linux x86_64; rv:{n}.0) Gecko/20100101 Firefox/{n}.0"))
        .collect();
    let referrers: Vec<String> = (0..50).map(|n| format!("site{n}.example")).collect();
    let campaigns: Vec<String> =
        (0..10).map(|n| format!("utm_source=mail{n}&utm_campaign=spring+sale")).collect();
    let languages = ["de-DE", "en-US", "fr", "ja"];
    fn of<T: AsRef<[u8]>>(list: &[T], n: u64) -> &[u8] {
        list[n as usize % list.len()].as_ref()
    }
    let precision = AddressPrecision::Network;
    let mut enricher = Enricher::new(None, precision, Timestamp::from_ms(0)).unwrap();
    let mut gathering = GrowingBatch::default();
    let mut read = |clicks: std::ops::Range<u64>| {
        for n in clicks {
            let record = JournalRecord {
                at_ms: n as i64,
                weight: 1,
                visitor: n % 1000 + 1,
                owner: n % 7,
                code: of(&codes, n),
                address: &[9, 9, (n % 30) as u8],
                referrer: of(&referrers, n / 3),
                language: of(&languages, n / 5),
                agent: of(&agents, n / 7),
                campaign: of(&campaigns, n / 11),
                ..JournalRecord::default()
            };
            gathering.read(&record, &mut enricher);
            if n % 1000 == 999 {
                gathering.add_in_order(&mut enricher);
            }
        }
        ALLOCATOR.allocations()
    };
    let before = read(0..4 * CLICKS);
    let allocated = read(4 * CLICKS..5 * CLICKS) - before;
    // Columns and lists of visitors grow by doubling.
    assert!(allocated < CLICKS / 100, "{allocated} allocations in {CLICKS} clicks");
    assert_eq!((gathering.len() as u64, gathering.unreadable()), (5 * CLICKS, 0));
}
