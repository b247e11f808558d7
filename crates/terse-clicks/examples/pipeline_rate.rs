//! How many clicks a core reads, enriches and ships.
//!
//! `cargo run --release -p terse-clicks --example pipeline_rate -- [millions of clicks]`
//!
//! Journals clicks as they come on a busy site: links by Zipf's law, some two hundred user agents,
//! fifty referrers, visitors from everywhere. Then reads and enriches them, and reads, enriches and
//! ships them to a store that does nothing.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use terse_clicks::{AddressPrecision, Enricher, Folder, Gathering, Shipper, ShipperParts};
use terse_core::clicks::{
    Added, Batch, ClickIngest, Forgotten, HEADER, JournalId, Journaled, Live, Opened, Record,
    SegmentHeader, finish,
};
use terse_core::{Clock, StoreError, Timestamp};

const SEGMENT: usize = 1 << 20;
const LINKS: usize = 100_000;
const VISITORS: u64 = 20_000;
const RUN: u64 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let millions: f64 = std::env::args().nth(1).map_or(Ok(1.0), |argument| argument.parse())?;
    let clicks = (millions * 1e6) as usize;
    let temp = tempfile::tempdir()?;
    let begun = Instant::now();
    let octets = journal(temp.path(), clicks)?;
    println!(
        "journaled {clicks} clicks of {:.0} octets in {:.1?}",
        octets as f64 / clicks as f64,
        begun.elapsed()
    );

    let before = memory();
    let mut enricher = Enricher::new(None, AddressPrecision::Network, Timestamp::from_ms(0))?;
    let begun = Instant::now();
    let curl = Record { code: b"warmup", agent: b"curl/8", ..Record::default() };
    Gathering::default().read(&curl, &mut enricher);
    println!("the first click took {:.1?} and {:.1} MiB", begun.elapsed(), memory() - before);

    for pass in ["cold", "warm"] {
        let mut folder = Folder::new(temp.path().into(), RUN, Timestamp::from_ms(0));
        folder.look()?;
        folder.end();
        let (mut buffer, mut gathering) = (Vec::new(), Gathering::default());
        let (mut read, mut bots) = (0, 0);
        let begun = (Instant::now(), processor());
        for (segment, alive) in folder.segments_mut() {
            segment.read(&mut buffer, alive, usize::MAX, |record, _| {
                gathering.read(record, &mut enricher);
                true
            })?;
            gathering.add_in_order(&mut enricher);
            let batch = gathering.finish(Vec::new());
            read += batch.clicks.len();
            bots += batch.clicks.kind.iter().filter(|kind| kind.bot().is_some()).count();
        }
        assert_eq!(read, clicks);
        print(&format!("read and enrich, {pass}"), clicks, begun);
        println!(
            "  {:.0} % machines, {:.1} MiB",
            100.0 * bots as f64 / read as f64,
            memory() - before
        );
    }
    drop(enricher);

    let parts = ShipperParts {
        folder: temp.path().into(),
        run: RUN + 1,
        store: store(),
        live: Arc::new(Live::default()),
        places: None,
        keep: AddressPrecision::Network,
        limit_bytes: u64::MAX,
        flush: Duration::from_secs(5),
        clock: Clock::default(),
    };
    let begun = (Instant::now(), processor());
    let shipper = Shipper::start(parts)?;
    let counts = shipper.counts();
    assert!(shipper.stop(Duration::from_secs(600), true), "not everything was counted");
    assert_eq!(counts.recorded.load(Ordering::Relaxed), clicks as u64);
    print("read, enrich and ship", clicks, begun);
    Ok(())
}

fn print(what: &str, clicks: usize, (begun, spent): (Instant, f64)) {
    let (took, spent) = (begun.elapsed().as_secs_f64(), processor() - spent);
    let clicks = clicks as f64;
    println!(
        "{what}: {:.0} clicks/s, {:.0} per core and second, {:.2} µs each",
        clicks / took,
        clicks / spent,
        spent * 1e6 / clicks
    );
}

/// The store that clicks are shipped to.
fn store() -> Arc<dyn ClickIngest> {
    Arc::new(Nothing)
}

/// Writes a journal as two serving threads of a process that is gone would have.
fn journal(folder: &Path, clicks: usize) -> Result<usize, Box<dyn Error>> {
    let (mut dice, zipf) = (Dice(42), Zipf::new(LINKS));
    let codes: Vec<String> = (0..LINKS)
        .map(|n| format!("k{:06x}", (n as u64).wrapping_mul(0x9e37_79b9) & 0xff_ffff))
        .collect();
    let agents = agents();
    let referrers: Vec<String> = (0..50).map(|n| format!("www.site{n}.example")).collect();
    let languages =
        ["de-DE", "en-US", "en-GB", "fr-FR", "es", "pt-BR", "ja", "zh-CN", "it-IT", "nl"];
    let mut threads: Vec<(SegmentHeader, Vec<u8>, usize)> = Vec::new();
    let mut ids = 0;
    let mut octets = 0;
    let mut begin = || {
        ids += 1;
        let header = SegmentHeader { id: ids, run: RUN, made_ms: ids as i64 };
        let mut bytes = vec![0; SEGMENT];
        bytes[..HEADER].copy_from_slice(&header.encode());
        (header, bytes, HEADER)
    };
    threads.extend([begin(), begin()]);
    for n in 0..clicks {
        let visitor = dice.below(VISITORS);
        let [.., a, b, c] = (0x0800_0000 + visitor * 977).to_be_bytes();
        let campaign =
            format!("utm_source=mail{}&utm_medium=email&utm_campaign=spring+sale", dice.below(20));
        let record = Record {
            at_ms: 1_763_000_000_000 + n as i64 / 50,
            took_nanos: 20_000 + dice.below(50_000),
            weight: 1,
            visitor: visitor + 1,
            owner: 7,
            created_ms: 1_700_000_000_000,
            code: codes[zipf.roll(&mut dice)].as_bytes(),
            address: &[a, b, c],
            referrer: if dice.below(3) > 0 {
                referrers[dice.below(50) as usize].as_bytes()
            } else {
                b""
            },
            language: languages[dice.below(10) as usize].as_bytes(),
            agent: agents[dice.below(agents.len() as u64) as usize].as_bytes(),
            campaign: if dice.below(5) == 0 { campaign.as_bytes() } else { b"" },
            ..Record::default()
        };
        let (header, bytes, at) = &mut threads[n % 2];
        if let Journaled::Next(next) = record.write(bytes, header.id, *at) {
            octets += next - *at;
            *at = next;
            continue;
        }
        save(folder, &mut threads[n % 2])?;
        threads[n % 2] = begin();
        let (header, bytes, at) = &mut threads[n % 2];
        let Journaled::Next(next) = record.write(bytes, header.id, *at) else {
            return Err("a record is too long".into());
        };
        octets += next - *at;
        *at = next;
    }
    threads.iter_mut().try_for_each(|thread| save(folder, thread))?;
    Ok(octets)
}

fn save(
    folder: &Path,
    (header, bytes, at): &mut (SegmentHeader, Vec<u8>, usize),
) -> std::io::Result<()> {
    finish(bytes, header.id, *at);
    fs::write(folder.join(format!("{:013}-{:016x}.clicks", header.made_ms, header.id)), bytes)
}

/// Some two hundred, as browsers and their versions make them.
fn agents() -> Vec<String> {
    let mut agents = Vec::new();
    for version in 100..130 {
        let chrome = format!("AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.0.0");
        agents.push(format!("Mozilla/5.0 (Windows NT 10.0; Win64; x64) {chrome} Safari/537.36"));
        agents.push(format!(
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) {chrome} Safari/537.36 Edg/{version}.0.0.0"
        ));
        agents.push(format!(
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) {chrome} Safari/537.36"
        ));
        agents.push(format!("Mozilla/5.0 (Linux; Android 10; K) {chrome} Mobile Safari/537.36"));
        agents.push(format!(
            "Mozilla/5.0 (X11; Linux x86_64; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"
        ));
        let iphone =
            format!("Mozilla/5.0 (iPhone; CPU iPhone OS 17_{} like Mac OS X)", version % 7);
        agents.push(format!(
            "{iphone} AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.{} Mobile/15E148 \
             Safari/604.1",
            version % 7
        ));
    }
    agents.extend([
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)".into(),
        "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)".into(),
        "WhatsApp/2.23.20.0 A".into(),
        "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)".into(),
        "curl/8.5.0".into(),
        String::new(),
    ]);
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

struct Zipf(Vec<f64>);

impl Zipf {
    fn new(ranks: usize) -> Self {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = (1..=ranks)
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        sums.iter_mut().for_each(|part| *part /= sum);
        Self(sums)
    }

    fn roll(&self, dice: &mut Dice) -> usize {
        let at = dice.below(1 << 30) as f64 / f64::from(1 << 30);
        self.0.partition_point(|&part| part < at).min(self.0.len() - 1)
    }
}

/// Processor time of this process, in seconds.
fn processor() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks =
        |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) / 100.0
}

/// Memory of this process, in mebibytes.
fn memory() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse::<f64>().ok()).unwrap_or_default()
        / 1024.0
}

/// A store that takes everything and keeps nothing.
struct Nothing;

#[async_trait]
impl ClickIngest for Nothing {
    async fn open(&self, _: JournalId) -> Result<Opened, StoreError> {
        Ok(Opened::default())
    }
    async fn add(&self, _: &Arc<Batch>) -> Result<Added, StoreError> {
        Ok(Added::Done)
    }
    async fn forget(
        &self,
        _: JournalId,
        _: u32,
        _: u64,
        _: &[u64],
    ) -> Result<Forgotten, StoreError> {
        Ok(Forgotten::Done)
    }
    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
