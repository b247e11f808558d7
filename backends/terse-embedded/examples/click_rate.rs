//! How fast clicks are counted, and how fast a busy link's report is made. Run in release mode.
//!
//! `cargo run --release -p terse-embedded --example click_rate [batches] [zipf|uniform|report]`
#![allow(clippy::unwrap_used, reason = "an example")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use terse_core::clicks::{
    Batch, BotKind, Click, ClickIngest as _, ClickReports as _, ClickRetention as _, ClickSubject,
    ClickTarget, Interned, JournalId, JournalSpan, LinkId, Period, Retention, Unit,
};
use terse_core::{Code, Domain, LinkKey, OwnerId, Timestamp};
use terse_embedded::{ClickOptions, EmbeddedClicks};

const BATCH: u64 = 20_000;
const NOW: i64 = 1_780_000_000_000;

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Ranks whose frequency falls with one over the rank, about.
    fn zipf(&mut self, bound: u64) -> u64 {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((bound as f64).powf(unit) as u64).min(bound) - 1
    }
}

struct Words(Vec<Vec<Interned>>);

impl Words {
    fn new() -> Self {
        let sizes = [300, 60, 800, 4, 12, 8, 40, 20, 6, 50];
        Self(
            sizes
                .iter()
                .enumerate()
                .map(|(n, size)| (0..*size).map(|m| format!("some-{n}-value{m}").into()).collect())
                .collect(),
        )
    }

    fn pick(&self, dice: &mut Dice, dimension: usize) -> Option<Interned> {
        let words = &self.0[dimension];
        Some(words[dice.zipf(words.len() as u64) as usize].clone())
    }
}

fn link(n: u64) -> LinkId {
    let code = Code::parse(&format!("c{n:06}")).unwrap();
    LinkId {
        key: LinkKey { domain: Domain::primary(), code },
        created_at: Timestamp::from_ms(NOW - 1_000_000),
    }
}

fn click(dice: &mut Dice, words: &Words, n: u64, at: i64) -> Click {
    let mut click =
        Click::bare(Timestamp::from_ms(at), ClickTarget::Link(link(n), OwnerId(n % 50)));
    click.took_nanos = dice.below(900_000);
    click.visitor = Some(dice.next() | 1);
    click.address = Some(format!("203.{}.{}.0/24", dice.below(256), dice.below(256)).into());
    click.bot = (dice.below(10) == 0).then_some(BotKind::Crawler);
    click.referrer = words.pick(dice, 0);
    click.country = words.pick(dice, 1);
    click.city = words.pick(dice, 2);
    click.device = words.pick(dice, 3);
    click.browser = words.pick(dice, 4);
    click.system = words.pick(dice, 5);
    click.language = words.pick(dice, 6);
    if dice.below(4) == 0 {
        click.utm[..3]
            .iter_mut()
            .zip(7..)
            .for_each(|(utm, dimension)| *utm = words.pick(dice, dimension));
    }
    click
}

/// Seconds of processor time this process has used.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    fields.get(10..12).map_or(0.0, |ticks| (ticks[0] + ticks[1]) / 100.0)
}

async fn rate(name: &str, batches: u64, keep_raw: bool, pick: impl Fn(&mut Dice) -> u64) {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedClicks::open(ClickOptions {
        keep_raw,
        ..ClickOptions::new(folder.path().join("clicks.db"))
    })
    .unwrap();
    let journal = JournalId::generate().unwrap();
    let epoch = store.open(journal).await.unwrap().epoch;
    let (mut dice, words) = (Dice(1), Words::new());
    let (mut wall, mut used, mut worst) = (Duration::ZERO, 0.0, Duration::ZERO);
    for n in 0..batches {
        let clicks = (0..BATCH).map(|_| {
            let n = pick(&mut dice);
            let at = NOW + dice.below(1000) as i64;
            click(&mut dice, &words, n, at)
        });
        let span = JournalSpan { journal, epoch, segment: 1, from: n, to: n + 1 };
        let batch = Arc::new(Batch::of(vec![span], clicks));
        let (begun, before) = (Instant::now(), cpu());
        store.add(&batch).await.unwrap();
        worst = worst.max(begun.elapsed());
        wall += begun.elapsed();
        used += cpu() - before;
    }
    let begun = Instant::now();
    store.close();
    wall += begun.elapsed();
    let all = (batches * BATCH) as f64;
    println!(
        "{name}, raw {keep_raw}: {:.0} clicks/s, {:.0} clicks per second of processor, worst \
         batch {worst:?}, {:.0} bytes a click",
        all / wall.as_secs_f64(),
        all / used,
        store.disk_size() as f64 / all
    );
    let conn = rusqlite::Connection::open(folder.path().join("clicks.db")).unwrap();
    let mut sizes = conn
        .prepare(
            "SELECT name, sum(pgsize) FROM dbstat GROUP BY name HAVING count(*) > 9 \
            ORDER BY 2 DESC",
        )
        .unwrap();
    let mut rows = sizes.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        println!(
            "  {:16} {:6.1} bytes a click",
            row.get::<_, String>(0).unwrap(),
            row.get::<_, i64>(1).unwrap() as f64 / all
        );
    }
}

/// A link with full hours for 30 days and full days for three years before.
async fn report() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        ClickOptions { keep_raw: false, ..ClickOptions::new(folder.path().join("clicks.db")) };
    let store = EmbeddedClicks::open(options).unwrap();
    let mut dice = Dice(2);
    let day = NOW / Unit::Day.ms();
    for (first, last, every) in [(day - 30 - 3 * 365, day - 30, 24), (day - 30, day, 1)] {
        for hour in (first * 24..last * 24).step_by(every) {
            let clicks = (0..400).map(|n: u64| {
                let word = |dimension: u64| {
                    Some(Interned::from(format!("quite-a-typical-value-{dimension}-{}", n % 120)))
                };
                let mut click = Click::bare(
                    Timestamp::from_ms(hour * Unit::Hour.ms()),
                    ClickTarget::Link(link(1), OwnerId(1)),
                );
                (click.referrer, click.country, click.city) = (word(0), word(1), word(2));
                (click.device, click.browser, click.system, click.language) =
                    (word(3), word(4), word(5), word(6));
                click.utm = [7, 8, 9, 10, 11].map(word);
                click.visitor = Some(dice.next() | 1);
                click
            });
            terse_testkit::add_clicks(&store, clicks.collect()).await;
        }
    }
    let before = Timestamp::from_ms((day - 30) * Unit::Day.ms());
    let retention = Retention {
        raw_before: before,
        hours_before: before,
        max_raw: None,
        days_before: Timestamp::from_ms(day * Unit::Day.ms()),
        tombstones_before: before,
        limit: 5000,
    };
    while store.prune(retention).await.unwrap().more {}
    let now = Timestamp::from_ms(NOW);
    for (name, days) in [
        ("all time", None),
        ("7 days", Some(7)),
        ("30 days", Some(30)),
        ("a year", Some(365)),
        ("3 years", Some(1125)),
    ] {
        let from = days.map(|days| Timestamp::from_ms((day - days) * Unit::Day.ms()));
        let mut best = Duration::MAX;
        let mut buckets = 0;
        for _ in 0..5 {
            let begun = Instant::now();
            let report = store
                .report(&ClickSubject::Link(link(1)), Period { from, to: None }, now)
                .await
                .unwrap();
            best = best.min(begun.elapsed());
            buckets = report.buckets.len();
        }
        println!("report over {name}: {best:?}, {buckets} buckets");
    }
    println!("{} bytes in all", store.disk_size());
}

#[tokio::main]
async fn main() {
    let batches = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(25);
    let only = std::env::args().nth(2);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if wanted("zipf") {
        rate("100,000 links, zipf", batches, true, |dice| dice.zipf(100_000)).await;
        rate("100,000 links, zipf", batches, false, |dice| dice.zipf(100_000)).await;
    }
    if wanted("uniform") {
        rate("1,000,000 links, uniform", batches, true, |dice| dice.below(1_000_000)).await;
    }
    if wanted("report") {
        report().await;
    }
}
