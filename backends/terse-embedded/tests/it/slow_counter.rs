//! Counts compared with those of an independent, slow counter, which keeps every click and counts
//! them one by one when it is asked.
//!
//! The streams are random: the clock jumps forwards and backwards by weeks, few user agents come
//! again and again, and there are many different links, referrers and visitors. Meanwhile batches
//! are repeated, days are folded and merged, and the file is closed and opened.
#![allow(clippy::unwrap_used, reason = "a test stops where its store fails")]

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_clicks::{AddressPrecision, Shipper, ShipperParts};
use terse_core::clicks::{
    Added, Batch, BotFilter, BotKind, Click, ClickIngest as _, ClickReports as _,
    ClickRetention as _, ClickSubject, ClickTarget, Count, Dimension, HEADER, JournalId,
    JournalRecord, JournalSpan, JournalWriteResult, LinkId, Period, RawQuery, Retention,
    SegmentHeader, TopQuery, Unit, WarningVisit, finish,
};
use terse_core::{Answered, Clock, OwnerId, Timestamp};
use terse_embedded::{ClickOptions, EmbeddedClicks, RunLimits, verify_clicks};
use terse_testkit::{key, timestamp};

const DAY: i64 = Unit::Day.ms();
const BATCHES: u64 = 40;
const AGENTS: [(&str, &str, &str); 5] = [
    ("Firefox", "Linux", "desktop"),
    ("Chrome", "Windows", "desktop"),
    ("Safari", "iOS", "mobile"),
    ("Chrome", "Android", "mobile"),
    ("Edge", "Windows", "tablet"),
];

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The independent counter: all clicks.
#[derive(Default)]
struct SlowCounter(Vec<Click>);

/// What it finds about a subject.
#[derive(Debug, Default, PartialEq)]
struct Found {
    clicks: Count,
    last: Option<Timestamp>,
    warned: u64,
    days: BTreeMap<i64, Count>,
    browsers: BTreeMap<String, Count>,
    systems: BTreeMap<String, Count>,
    referrers: Count,
}

fn one(click: &Click) -> Count {
    let weight = u64::from(click.weight);
    match click.bot {
        None => Count { humans: weight, bots: 0 },
        Some(_) => Count { humans: 0, bots: weight },
    }
}

impl SlowCounter {
    fn of<'a>(&'a self, subject: &'a ClickSubject) -> impl Iterator<Item = &'a Click> {
        self.0.iter().filter(|click| subject.includes(&click.target))
    }

    fn found(&self, subject: &ClickSubject, period: Period) -> Found {
        let mut found = Found::default();
        let is_in = |click: &&Click| period.touches(Unit::Hour.floor(click.at), Unit::Hour);
        for click in self.of(subject).filter(is_in) {
            let count = one(click);
            if click.warning == WarningVisit::Shown {
                found.warned += count.all();
                continue;
            }
            found.clicks.add(count);
            found.last = found.last.max(Some(click.at));
            found.days.entry(click.at.as_ms().div_euclid(DAY)).or_default().add(count);
            for (values, value) in
                [(&mut found.browsers, &click.browser), (&mut found.systems, &click.system)]
            {
                if let Some(value) = value {
                    values.entry(value.to_string()).or_default().add(count);
                }
            }
            if click.referrer.is_some() {
                found.referrers.add(count);
            }
        }
        found
    }
}

/// The same about the store.
async fn found(store: &EmbeddedClicks, subject: &ClickSubject, period: Period) -> Found {
    let report = store.report(subject, period, timestamp(0)).await.unwrap();
    let values = |dimension: Dimension| match report.tally.values(dimension) {
        None => BTreeMap::new(),
        Some(values) => {
            assert_eq!(values.other(), Count::default(), "{dimension:?} is below the cap");
            values.named().map(|(name, count)| (name.to_string(), count)).collect()
        }
    };
    let mut days = BTreeMap::<i64, Count>::new();
    for bucket in &report.buckets {
        days.entry(bucket.start.as_ms().div_euclid(DAY)).or_default().add(bucket.clicks);
    }
    let referrers = report.tally.values(Dimension::Referrer);
    Found {
        clicks: report.tally.clicks,
        last: report.tally.last,
        warned: report.tally.warnings()[0].all(),
        days,
        browsers: values(Dimension::Browser),
        systems: values(Dimension::System),
        // There are more than are kept by name; none of them is lost.
        referrers: referrers.map(terse_core::clicks::DimensionCounts::sum).unwrap_or_default(),
    }
}

fn click(dice: &mut Dice, now: i64, n: u64) -> Click {
    // A link may be clicked once or thousands of times.
    let code = if dice.one_in(3) { 1_000 + n } else { dice.below(30) };
    let link = LinkId { key: key(&format!("link-{code}")), created_at: timestamp(0) };
    let target = match dice.one_in(20) {
        true => ClickTarget::Orphan(key("nowhere"), Answered::NotFound),
        false => ClickTarget::Link(link, OwnerId(code % 7)),
    };
    let is_orphan = matches!(target, ClickTarget::Orphan(..));
    let at = timestamp(now + dice.below(60_000) as i64);
    let (browser, system, device) = AGENTS[dice.below(5) as usize];
    let referrer = match dice.below(4) {
        0 => None,
        1 => Some("news.example".into()),
        _ => Some(format!("{n}.example").into()),
    };
    Click {
        weight: if is_orphan { 1 + dice.below(9) as u32 } else { 1 },
        took_nanos: dice.below(1 << 20),
        visitor: Some(1 + (dice.below(400) + 1_000 * at.as_ms().div_euclid(DAY).cast_unsigned())),
        bot: dice.one_in(5).then(|| BotKind::ALL[dice.below(8) as usize]),
        warning: match dice.one_in(30) && !is_orphan {
            true => WarningVisit::Shown,
            false => WarningVisit::None,
        },
        browser: Some(browser.into()),
        system: Some(system.into()),
        device: Some(device.into()),
        referrer,
        ..Click::bare(at, target)
    }
}

fn open(folder: &std::path::Path) -> EmbeddedClicks {
    let options = ClickOptions {
        runs: RunLimits { from: 50, runs: 3, step: 2 },
        ..ClickOptions::new(folder.join("clicks.db"))
    };
    EmbeddedClicks::open(options).unwrap()
}

async fn compare(store: &EmbeddedClicks, slow: &SlowCounter, now: i64, what: &str) {
    let from = |days: i64| Some(Unit::Day.floor(timestamp(now + days * DAY)));
    let periods = [
        Period::default(),
        Period { from: from(-30), to: from(1) },
        Period { from: from(-2), to: from(90) },
    ];
    let of_link = |code: u64| {
        ClickSubject::Link(LinkId { key: key(&format!("link-{code}")), created_at: timestamp(0) })
    };
    let mut subjects =
        vec![ClickSubject::Everything, ClickSubject::Orphans, ClickSubject::Owner(OwnerId(3))];
    subjects.extend([0, 7, 29, 1_005, 999_999_999].map(of_link));
    for subject in &subjects {
        for period in periods {
            let (mine, theirs) = (found(store, subject, period).await, slow.found(subject, period));
            assert_eq!(mine, theirs, "{what}: {subject:?}, {period:?}");
        }
    }
    let links: Vec<LinkId> = slow.0.iter().filter_map(|click| click.link().cloned()).collect();
    let links: Vec<LinkId> = links.into_iter().collect::<HashSet<_>>().into_iter().collect();
    let mut expected = BTreeMap::<&LinkId, Count>::new();
    for click in slow.0.iter().filter(|click| click.warning != WarningVisit::Shown) {
        if let Some(link) = click.link() {
            expected.entry(link).or_default().add(one(click));
        }
    }
    let counts = store.counts(&links).await.unwrap();
    for (link, count) in links.iter().zip(counts) {
        assert_eq!(count, expected.get(link).copied().unwrap_or_default(), "{what}: {link:?}");
    }
    let query = TopQuery {
        owner: None,
        period: Period::default(),
        bots: BotFilter::Include,
        after: None,
        limit: 25,
    };
    let top: Vec<u64> =
        store.top(&query).await.unwrap().iter().map(|ranked| ranked.clicks.all()).collect();
    let mut ranked: Vec<u64> = expected.values().map(|count| count.all()).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    ranked.truncate(25);
    assert_eq!(top, ranked, "{what}");
    let visitors = store.report(&ClickSubject::Everything, Period::default(), timestamp(0)).await;
    let visitors = visitors.unwrap().visitors.count() as f64;
    let people = slow
        .of(&ClickSubject::Everything)
        .filter(|click| click.bot.is_none() && click.warning != WarningVisit::Shown);
    let people = people.filter_map(|click| click.visitor).collect::<HashSet<_>>().len() as f64;
    assert!((0.93..1.07).contains(&(visitors / people)), "{what}: {visitors} of {people}");
}

/// One stream of random clicks.
async fn stream(seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let (mut dice, mut slow) = (Dice(seed * 0x9e37_79b9 + 1), SlowCounter::default());
    let mut store = open(folder.path());
    let journal = JournalId([3; 16]);
    let mut epoch = store.open(journal).await.unwrap().epoch;
    let mut now = 0;
    for n in 0..BATCHES {
        now += match dice.below(8) {
            0 => -(dice.below(40 * DAY.cast_unsigned()) as i64),
            1 => dice.below(40 * DAY.cast_unsigned()) as i64,
            _ => dice.below(3_600_000) as i64,
        };
        let count = 1 + dice.below(400);
        let clicks: Vec<Click> = (0..count).map(|m| click(&mut dice, now, n * 1_000 + m)).collect();
        let span = JournalSpan { journal, epoch, segment: 1, from: n, to: n + 1 };
        let batch = Arc::new(Batch::of(vec![span], clicks.clone()));
        assert!(matches!(store.add(&batch).await.unwrap(), Added::Done), "seed {seed}, batch {n}");
        if dice.one_in(4) {
            let again = store.add(&batch).await.unwrap();
            assert!(matches!(again, Added::Already), "seed {seed}, batch {n}: {again:?}");
        }
        slow.0.extend(clicks);
        if dice.one_in(3) {
            let pruned = store.prune(Retention {
                raw_before: Timestamp::MIN,
                max_raw: None,
                days_before: timestamp(now - DAY),
                hours_before: timestamp(now - 20 * DAY),
                tombstones_before: Timestamp::MIN,
                limit: 200,
            });
            pruned.await.unwrap();
        }
        if dice.one_in(10) {
            store.close();
            drop(store);
            store = open(folder.path());
            epoch = store.open(journal).await.unwrap().epoch;
        }
        if n % 10 == 9 {
            compare(&store, &slow, now, &format!("seed {seed}, batch {n}")).await;
        }
    }
    // The single clicks of the busiest link, all of them.
    let link = LinkId { key: key("link-7"), created_at: timestamp(0) };
    let (mut raw, mut after) = (0, None);
    loop {
        let query = RawQuery { link: link.clone(), from: None, to: None, after, limit: 100 };
        let page = store.clicks(&query).await.unwrap();
        raw += page.clicks.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let of_link = ClickSubject::Link(link);
    let kept = slow.of(&of_link).filter(|click| click.warning != WarningVisit::Shown).count();
    assert_eq!(raw, kept, "seed {seed}");
    store.close();
    drop(store);
    let report = verify_clicks(&folder.path().join("clicks.db")).unwrap();
    assert!(report.is_clean(), "seed {seed}: {report:?}");
}

/// `TERSE_TEST_STREAMS=200` compares more of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_random_streams_are_those_of_a_slow_counter() {
    let streams = std::env::var("TERSE_TEST_STREAMS").ok().and_then(|count| count.parse().ok());
    for seed in 1..=streams.unwrap_or(6) {
        stream(seed).await;
    }
}

/// Writes a journal as a serving thread of a process that is gone would have left it.
struct JournalFiles {
    folder: PathBuf,
    header: SegmentHeader,
    octets: Vec<u8>,
    at: usize,
}

impl JournalFiles {
    fn new(folder: PathBuf) -> Self {
        std::fs::create_dir(&folder).unwrap();
        let (header, octets) = (SegmentHeader { id: 0, run: 1, made_ms: 0 }, Vec::new());
        let mut files = Self { folder, header, octets, at: 0 };
        files.begin();
        files
    }

    fn begin(&mut self) {
        let id = self.header.id + 1;
        self.header = SegmentHeader { id, run: 1, made_ms: id as i64 };
        self.octets = vec![0; 4 << 20];
        self.octets[..HEADER].copy_from_slice(&self.header.encode());
        self.at = HEADER;
    }

    fn save(&mut self) {
        let Self { header, octets, at, .. } = self;
        finish(octets, header.id, *at);
        let name = format!("{:013}-{:016x}.clicks", header.made_ms, header.id);
        std::fs::write(self.folder.join(name), &self.octets).unwrap();
    }

    fn add(&mut self, record: &JournalRecord<'_>) {
        loop {
            match record.write(&mut self.octets, self.header.id, self.at) {
                JournalWriteResult::Next(next) => return self.at = next,
                JournalWriteResult::Full => {
                    self.save();
                    self.begin();
                }
            }
        }
    }
}

/// One link with very many different referrers, user agents and visitors, from the journal on:
/// every click is in the sums, and the frequent values keep their names. A hundred thousand of
/// each, or two million with `TERSE_TEST_ALL=1`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_different_values_lose_no_click() {
    let all: u64 = match std::env::var_os("TERSE_TEST_ALL") {
        Some(_) => 2_000_000,
        None => 100_000,
    };
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("journal");
    let mut files = JournalFiles::new(folder.clone());
    for n in 0..all {
        let referrer = match n.is_multiple_of(4) {
            true => "news.example".to_owned(),
            false => format!("{n}.example"),
        };
        let agent = format!("Mozilla/5.0 (X11; Linux x86_64; build {n}) Gecko/2010 Firefox/140.0");
        files.add(&JournalRecord {
            at_ms: timestamp(n as i64).as_ms(),
            weight: 1,
            visitor: (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            owner: 1,
            created_ms: timestamp(0).as_ms(),
            code: b"busy",
            address: &[8, 8, 8],
            referrer: referrer.as_bytes(),
            agent: agent.as_bytes(),
            ..JournalRecord::default()
        });
    }
    files.save();
    let store = Arc::new(open(temp.path()));
    let shipper = Shipper::start(ShipperParts {
        folder,
        run: 2,
        store: Arc::<EmbeddedClicks>::clone(&store),
        live: Arc::default(),
        places: None,
        keep: AddressPrecision::Network,
        limit_bytes: u64::MAX,
        batch_bytes: 24 << 20,
        flush: Duration::from_secs(5),
        clock: Clock::default(),
    })
    .unwrap();
    let counts = shipper.counts();
    assert!(shipper.stop(Duration::from_mins(10), true), "not everything was counted");
    assert_eq!(counts.recorded.load(Ordering::Relaxed), all);
    let link = LinkId { key: key("busy"), created_at: timestamp(0) };
    for subject in [ClickSubject::Link(link), ClickSubject::Everything] {
        let report = store.report(&subject, Period::default(), timestamp(0)).await.unwrap();
        assert_eq!(report.tally.clicks, Count { humans: all, bots: 0 });
        for dimension in [Dimension::Referrer, Dimension::Country, Dimension::Browser] {
            assert_eq!(report.tally.values(dimension).unwrap().sum().humans, all, "{dimension:?}");
        }
        let named = |dimension: Dimension, wanted: &str| {
            let values = report.tally.values(dimension).unwrap();
            let found = values.named().find(|(name, _)| &***name == wanted);
            found.map(|(_, count)| count.humans)
        };
        assert_eq!(named(Dimension::Referrer, "news.example"), Some(all / 4));
        assert_eq!(named(Dimension::Browser, "Firefox"), Some(all));
        let visitors = report.visitors.count() as f64;
        assert!((0.95..1.05).contains(&(visitors / all as f64)), "{visitors}");
    }
    store.close();
}
