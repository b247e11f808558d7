//! Measures the index: `cargo run --release -p terse-safety --example throughput -- [hosts]
//! [targets]`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use sha2::{Digest as _, Sha256};
use terse_core::{Clock, Target};
use terse_safety::safe_browsing::{HashList, SafeBrowsing, SafeBrowsingStatus};
use terse_safety::{BlocklistIndex, FlagSet, ProtectedHosts, Screen, flags, parse};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let hosts: usize = numbers.next().unwrap_or(1_000_000);
    let targets: usize = numbers.next().unwrap_or(1_000_000);

    let text: String = (0..hosts)
        .map(|number| format!("0.0.0.0 host-{}.bad-{number}.com\n", number % 7))
        .collect();
    let list =
        timed("parse", hosts, || parse("made up", text.as_bytes(), &ProtectedHosts::default()));
    let index = timed("build", hosts, || BlocklistIndex::build(std::slice::from_ref(&list)));
    println!(
        "{} entries, {:.1} MiB, {:.1} octets each",
        index.len(),
        index.size() as f64 / 1_048_576.0,
        index.size() as f64 / index.len() as f64
    );

    // Half of them are listed, with two more labels than the entry. The order is random, so every
    // lookup reads cold memory.
    let step = 7_919;
    let targets: Vec<Target> = (0..targets)
        .map(|number| {
            let number = number * step % hosts.max(1);
            let kind = if number.is_multiple_of(2) { "bad" } else { "good" };
            Target::from_stored(format!(
                "https://www.shop.host-{}.{kind}-{number}.com/path/{number}?q=1",
                number % 7
            ))
        })
        .collect();
    let found = timed("find", targets.len(), || {
        targets.iter().filter(|target| index.find(target).is_some()).count()
    });
    println!("{found} of {} found", targets.len());
    timed("flags", targets.len(), || {
        targets.iter().filter(|target| !black_box(flags(target)).is_empty()).count()
    });
    let known = Arc::new(SafeBrowsing::new(Clock::default()));
    // As many prefixes as the real lists have, evenly distributed.
    let mut prefixes: Vec<u32> =
        (0..4_000_000u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32).collect();
    prefixes.sort_unstable();
    let bytes: Vec<u8> = prefixes.iter().flat_map(|prefix| prefix.to_be_bytes()).collect();
    let list = HashList::from_bytes("se-4b", vec![1], &bytes, Sha256::digest(&bytes).into())
        .expect("a list");
    known.replace(&[list], Clock::default().now());
    let unsure = timed("safe browsing", targets.len(), || {
        targets.iter().filter(|it| known.status(it) == SafeBrowsingStatus::Unknown).count()
    });
    println!("{unsure} of {} would be asked for", targets.len());
    let screen = Screen::default().with_safe_browsing(known);
    screen.replace(index);
    timed("blocks", targets.len(), || {
        targets.iter().filter(|target| screen.blocks(target)).count()
    });
    timed("check", targets.len(), || {
        targets.iter().for_each(|target| drop(black_box(screen.check(target, FlagSet::NONE))));
    });
}

fn timed<T>(what: &str, count: usize, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = work();
    let spent = begin.elapsed();
    println!(
        "{what}: {:.0} ms, {:.0} ns each, {:.2} M/s",
        spent.as_secs_f64() * 1e3,
        spent.as_nanos() as f64 / count as f64,
        count as f64 / spent.as_secs_f64() / 1e6
    );
    done
}
