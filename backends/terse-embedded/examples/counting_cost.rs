//! What counting a click costs, from the journal to the file, in processor time.
//!
//! ```sh
//! cargo run --release -p terse-embedded --example counting_cost -- hot 4
//! cargo run --release -p terse-embedded --example counting_cost -- spread 4
//! ```
//!
//! The first argument chooses the links: `hot` are 100, `spread` is a million, each as likely as
//! the others. The second is how many million clicks. The clicks are those of people: two hundred
//! user agents, fifty referrers, ten languages, visitors of 20,000 networks. The example writes the
//! journal of two serving threads, has it counted, merges what waits, and then ends the day: sums
//! in runs become rows and are added to those of the day. It prints processor time, so that other
//! programs on the machine change little; for a figure that they do not change at all, keep the
//! journal and count instructions:
//!
//! ```sh
//! counting_cost journal FOLDER hot 0.2
//! valgrind --tool=callgrind counting_cost count FOLDER
//! ```
//!
//! `counting_cost count FOLDER 16` counts with page caches of 16 MiB, half of it for the writer.
#![allow(clippy::unwrap_used, reason = "an example")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use terse_clicks::{AddressPrecision, Shipper, ShipperParts};
use terse_core::clicks::{
    ClickRetention as _, HEADER, JournalRecord, JournalWriteResult, LiveFeed, Retention,
    SegmentHeader, finish,
};
use terse_core::{Clock, Timestamp};
use terse_embedded::{ClickOptions, EmbeddedClicks};

const SEGMENT: usize = 4 << 20;
const RUN: u64 = 1;
const START_MS: i64 = 1_780_000_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["journal", folder, links, millions] => journal(Path::new(folder), links, millions),
        ["count", folder] => count(Path::new(folder), None),
        ["count", folder, cache] => count(Path::new(folder), Some(cache.parse().unwrap())),
        [links, millions] => {
            let temp = tempfile::tempdir().unwrap();
            journal(temp.path(), links, millions);
            count(temp.path(), None);
        }
        _ => println!("counting_cost [journal FOLDER] hot|spread MILLIONS, or count FOLDER [MIB]"),
    }
}

/// Has the clicks of a journal counted, with page caches of so many MiB.
fn count(folder: &Path, cache_mib: Option<u64>) {
    let file = folder.join("clicks.db");
    let mut options = ClickOptions::new(&file);
    options.cache_bytes = cache_mib.map_or(options.cache_bytes, |mib| mib << 20);
    let store = Arc::new(EmbeddedClicks::open(options).unwrap());
    let parts = ShipperParts {
        folder: folder.join("journal"),
        run: RUN + 1,
        store: Arc::<EmbeddedClicks>::clone(&store),
        live: Arc::new(LiveFeed::default()),
        places: None,
        keep: AddressPrecision::Network,
        limit_bytes: u64::MAX,
        batch_bytes: 24 << 20,
        flush: Duration::from_secs(5),
        clock: Clock::default(),
    };
    let begun = ResourceUsage::now();
    let shipper = Shipper::start(parts).unwrap();
    let counts = shipper.counts();
    while counts.recorded.load(Ordering::Relaxed) == 0
        || counts.lag_bytes.load(Ordering::Relaxed) > 0
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(shipper.stop(Duration::from_secs(3600), true), "not everything was counted");
    let clicks = counts.recorded.load(Ordering::Relaxed) as f64;
    begun.print("counting", clicks);
    println!(
        "  {:.0} clicks a batch, {:.1} octets a click kept",
        clicks / counts.batches.load(Ordering::Relaxed) as f64,
        store.disk_size() as f64 / clicks
    );
    let begun = ResourceUsage::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let retention = Retention {
        raw_before: Timestamp::MIN,
        max_raw: None,
        days_before: Timestamp::MIN,
        hours_before: Timestamp::MIN,
        tombstones_before: Timestamp::MIN,
        limit: 1000,
    };
    while runtime.block_on(store.prune(retention)).unwrap().more {}
    begun.print("merging what waits", clicks);
    let sizes = |conn: &rusqlite::Connection| print_sizes(conn, clicks);
    sizes(&rusqlite::Connection::open(&file).unwrap());
    let begun = ResourceUsage::now();
    let days_before = Timestamp::from_ms(START_MS + 2 * 86_400_000);
    let retention = Retention { days_before, ..retention };
    while runtime.block_on(store.prune(retention)).unwrap().more {}
    store.close();
    begun.print("the end of the day", clicks);
    sizes(&rusqlite::Connection::open(&file).unwrap());
}

fn print_sizes(conn: &rusqlite::Connection, clicks: f64) {
    let mut sizes = conn
        .prepare("SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC LIMIT 4")
        .unwrap();
    let mut rows = sizes.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (name, size): (String, i64) = row.try_into().unwrap();
        println!("  {name:16} {:6.1} octets a click", size as f64 / clicks);
    }
}

/// What the process has used.
struct ResourceUsage {
    at: Instant,
    /// Processor time in seconds.
    processor: f64,
    /// Octets that were written to files.
    written: f64,
}

impl ResourceUsage {
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: "));
        Self {
            at: Instant::now(),
            processor: (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0,
            written: written.and_then(|octets| octets.parse().ok()).unwrap_or(0.0),
        }
    }

    fn print(&self, what: &str, clicks: f64) {
        let now = Self::now();
        println!(
            "{what}: {:.2} µs of processor time and {:.0} octets written per click, {:.0} clicks/s",
            (now.processor - self.processor) * 1e6 / clicks,
            (now.written - self.written) / clicks,
            clicks / (now.at - self.at).as_secs_f64()
        );
    }
}

/// Writes a journal as two serving threads of a process that is gone would have.
fn journal(folder: &Path, links: &str, millions: &str) {
    let links = match links {
        "hot" => 100,
        "spread" => 1_000_000,
        other => panic!("links must be hot or spread (got {other:?})"),
    };
    let clicks = (millions.parse::<f64>().unwrap() * 1e6) as i64;
    let folder = folder.join("journal");
    fs::create_dir_all(&folder).unwrap();
    let mut dice = Dice(42);
    let agents = agents();
    let referrers: Vec<String> = (0..50).map(|n| format!("www.site{n}.example")).collect();
    let languages =
        ["de-DE", "en-US", "en-GB", "fr-FR", "es", "pt-BR", "ja", "zh-CN", "it-IT", "nl"];
    let mut next_id = 0;
    let mut begin = || {
        next_id += 1;
        let header = SegmentHeader { id: next_id, run: RUN, made_ms: next_id as i64 };
        let mut bytes = vec![0; SEGMENT];
        bytes[..HEADER].copy_from_slice(&header.encode());
        (header, bytes, HEADER)
    };
    let mut threads = [begin(), begin()];
    for n in 0..clicks {
        let link = dice.below(links);
        let network = dice.below(20_000);
        let [.., a, b, c] = (0x0800_0000 + network * 977).to_be_bytes();
        let (code, campaign) = (
            format!("k{link:06}"),
            format!("utm_source=mail{}&utm_medium=email&utm_campaign=spring", dice.below(20)),
        );
        let record = JournalRecord {
            at_ms: START_MS + n / 50,
            took_nanos: 20_000 + dice.below(50_000),
            weight: 1,
            visitor: (network << 8 | dice.below(4)) + 1,
            owner: link % 50 + 1,
            created_ms: 1_700_000_000_000,
            code: code.as_bytes(),
            address: &[a, b, c],
            referrer: match dice.below(3) {
                0 => b"",
                _ => referrers[dice.below(50) as usize].as_bytes(),
            },
            language: languages[dice.below(10) as usize].as_bytes(),
            agent: agents[dice.below(agents.len() as u64) as usize].as_bytes(),
            campaign: if dice.below(5) == 0 { campaign.as_bytes() } else { b"" },
            ..JournalRecord::default()
        };
        let thread = &mut threads[(n % 2) as usize];
        let next = match record.write(&mut thread.1, thread.0.id, thread.2) {
            JournalWriteResult::Next(next) => next,
            JournalWriteResult::Full => {
                save(&folder, thread);
                *thread = begin();
                match record.write(&mut thread.1, thread.0.id, thread.2) {
                    JournalWriteResult::Next(next) => next,
                    JournalWriteResult::Full => panic!("a record is too long"),
                }
            }
        };
        thread.2 = next;
    }
    threads.iter_mut().for_each(|thread| save(&folder, thread));
}

fn save(folder: &Path, (header, bytes, at): &mut (SegmentHeader, Vec<u8>, usize)) {
    finish(bytes, header.id, *at);
    let name = format!("{:013}-{:016x}.clicks", header.made_ms, header.id);
    fs::write(folder.join(name), bytes).unwrap();
}

/// Some two hundred, as browsers and their versions make them.
fn agents() -> Vec<String> {
    let mut agents = Vec::new();
    for version in 100..133 {
        let chrome = format!("AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.0.0");
        for system in [
            "Windows NT 10.0; Win64; x64",
            "Macintosh; Intel Mac OS X 10_15_7",
            "X11; Linux x86_64",
            "Linux; Android 10; K",
        ] {
            agents.push(format!("Mozilla/5.0 ({system}) {chrome} Safari/537.36"));
        }
        agents.push(format!(
            "Mozilla/5.0 (X11; Linux x86_64; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"
        ));
        agents.push(format!(
            "Mozilla/5.0 (compatible; Googlebot/2.{version}; +http://www.google.com/bot.html)"
        ));
    }
    agents
}

/// Random numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
