//! Tests of runs: reports, rankings and erasures while runs are written, merged and settled.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use terse_core::clicks::{
    Batch, BotFilter, BotKind, Click, ClickSubject, ClickTarget, Count, Dimension, DimensionCounts,
    LinkId, Period, RankedLink, Retention, TopQuery, Unit,
};
use terse_core::{OwnerId, Timestamp};
use terse_testkit::key;

use crate::clicks::queries::ClickQueries;
use crate::clicks::runs::RunLimits;
use crate::clicks::schema::CLICKS;
use crate::clicks::writes::ClickWrites;

const HOUR_MS: i64 = Unit::Hour.ms();

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888);
        (self.0 >> 33) % bound
    }
}

fn link(n: u64) -> LinkId {
    LinkId { key: key(&format!("link-{n}")), created_at: Timestamp::from_ms(0) }
}

fn writes(limits: RunLimits) -> ClickWrites {
    let mut conn = Connection::open_in_memory().unwrap();
    CLICKS.migrate(&mut conn, 0).unwrap();
    let mut writes = ClickWrites::new(ClickQueries::new(conn), None).unwrap();
    writes.limits = limits;
    writes
}

fn click(dice: &mut Dice, hour: i64) -> (u64, Click) {
    let n = dice.below(12);
    let at = Timestamp::from_ms(hour * HOUR_MS + dice.below(HOUR_MS as u64) as i64);
    let word =
        |dice: &mut Dice, name: &str, of: u64| Some(format!("{name}-{}", dice.below(of)).into());
    let mut click = Click::bare(at, ClickTarget::Link(link(n), OwnerId(n % 3)));
    click.took_nanos = dice.below(1_000_000);
    match dice.below(4) {
        0 => click.bot = Some(BotKind::ALL[dice.below(8) as usize]),
        1 => click.repeat = true,
        _ => {}
    }
    click.visitor = Some(dice.below(40) * 7919 + 1);
    if dice.below(3) > 0 {
        click.referrer = word(dice, "referrer", 45);
        click.country = word(dice, "country", 3);
        click.browser = word(dice, "browser", 5);
        click.language = word(dice, "language", 4);
        click.utm[2] = word(dice, "campaign", 6);
    }
    (n, click)
}

/// What a report says, in a form that can be compared.
#[derive(Debug)]
struct Answer {
    clicks: Count,
    values: BTreeMap<(u8, String), (u64, u64)>,
    visitors: u64,
    took_ms: f64,
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        (self.clicks, &self.values, self.visitors) == (other.clicks, &other.values, other.visitors)
            && (self.took_ms - other.took_ms).abs() < 1e-9
    }
}

fn answer(tally: &terse_core::clicks::ClickSum, visitors: u64) -> Answer {
    let mut values = BTreeMap::new();
    for &dimension in Dimension::ALL {
        for (value, count) in tally.values(dimension).into_iter().flat_map(DimensionCounts::named) {
            values.insert((dimension as u8, value.to_string()), (count.humans, count.bots));
        }
    }
    Answer { clicks: tally.clicks, values, visitors, took_ms: tally.took.mean }
}

/// Counts click by click.
fn slow_answer<'c>(clicks: impl Iterator<Item = &'c Click>) -> Answer {
    let mut tally = terse_core::clicks::ClickSum::default();
    let mut visitors = BTreeSet::new();
    for click in clicks {
        tally.add(click);
        visitors.extend(click.visitor.filter(|_| click.bot.is_none()));
    }
    answer(&tally, visitors.len() as u64)
}

fn ranking(writes: &ClickWrites, query: &TopQuery) -> Vec<RankedLink> {
    let (mut all, mut query) = (Vec::new(), query.clone());
    loop {
        let page = writes.top(&query, &[]).unwrap();
        let Some(last) = page.last() else { return all };
        query.after = Some(last.rank(query.bots));
        all.extend(page);
    }
}

/// With clocks that jump, late clicks, erased links, merges and days that end at any time, every
/// answer equals that of a counter that counts click by click.
#[test]
fn every_answer_is_that_of_a_slow_counter() {
    for seed in 1..40 {
        let mut dice = Dice(seed);
        let limits = RunLimits {
            from: [0, 8][seed as usize % 2],
            runs: 2 + dice.below(3) as usize,
            step: [1, 50_000][seed as usize / 2 % 2],
        };
        let mut writes = writes(limits);
        let mut clicks: Vec<(u64, Click)> = Vec::new();
        let mut hour = 30;
        for step in 0..14 {
            // The clock goes on, stands still, or jumps.
            hour = match dice.below(6) {
                0 => dice.below(96) as i64,
                1 => hour,
                _ => hour + 1,
            };
            let some: Vec<_> = (0..dice.below(40)).map(|_| click(&mut dice, hour)).collect();
            writes.add(&Batch::of(Vec::new(), some.iter().map(|(_, c)| c.clone()))).unwrap();
            clicks.extend(some);
            for _ in 0..dice.below(4) {
                writes.merge_runs_if_due().unwrap();
            }
            if dice.below(5) == 0 {
                let n = dice.below(12);
                // Links are erased with all clicks so far.
                let erased_at = Timestamp::from_ms(-1);
                writes.erase_links(&[link(n).key], Timestamp::from_ms(0), erased_at).unwrap();
                clicks.iter_mut().filter(|(of, _)| *of == n).for_each(|(of, _)| *of = 99);
            }
            if dice.below(3) == 0 {
                let day = Timestamp::from_ms(dice.below(96) as i64 * HOUR_MS);
                let hours_before = match seed % 3 {
                    0 => Timestamp::from_ms(dice.below(96) as i64 * HOUR_MS),
                    _ => Timestamp::MIN,
                };
                let retention = Retention {
                    raw_before: Timestamp::MIN,
                    max_raw: None,
                    days_before: day,
                    hours_before,
                    tombstones_before: Timestamp::MIN,
                    limit: 1000,
                };
                for _ in 0..dice.below(30) {
                    if !writes.prune(&retention, 1 + dice.below(30) as usize).unwrap().more {
                        break;
                    }
                }
            }
            let now = Timestamp::from_ms(0);
            let from = match seed % 3 {
                // Hours may not be kept.
                0 => dice.below(4) as i64 * 24,
                _ => dice.below(96) as i64,
            };
            let part = Period { from: Some(Timestamp::from_ms(from * HOUR_MS)), to: None };
            for (period, from) in [(Period::default(), i64::MIN), (part, from)] {
                let in_period = |click: &Click| click.at.as_ms().div_euclid(HOUR_MS) >= from;
                for n in 0..12 {
                    let subject = ClickSubject::Link(link(n));
                    let report = writes.report(&subject, period, now).unwrap();
                    let of = clicks.iter().filter(|(of, c)| *of == n && in_period(c));
                    let expected = slow_answer(of.map(|(_, click)| click));
                    let found = answer(&report.tally, report.visitors.count());
                    assert_eq!(found, expected, "seed {seed}, step {step}, link {n}");
                }
                let report = writes.report(&ClickSubject::Everything, period, now).unwrap();
                let of = clicks.iter().filter(|(_, click)| in_period(click));
                let expected = slow_answer(of.map(|(_, click)| click));
                assert_eq!(answer(&report.tally, report.visitors.count()), expected);
            }
            let links: Vec<LinkId> = (0..12).map(link).collect();
            let counts = writes.counts(&links).unwrap();
            let all: Vec<RankedLink> = links
                .iter()
                .zip(&counts)
                .map(|(link, clicks)| RankedLink { link: link.clone(), clicks: *clicks })
                .collect();
            for n in 0..12 {
                let of = clicks.iter().filter(|(of, _)| *of == n).map(|(_, click)| click);
                let expected = slow_answer(of);
                assert_eq!(counts[n as usize], expected.clicks, "seed {seed} {step}");
            }
            for bots in [BotFilter::Include, BotFilter::Exclude] {
                for owner in [None, Some(OwnerId(1))] {
                    let query =
                        TopQuery { owner, period: Period::default(), bots, after: None, limit: 3 };
                    let of = all.iter().zip(0..).filter(|(link, n)| {
                        owner.is_none_or(|owner| owner.0 == n % 3) && bots.of(link.clicks) > 0
                    });
                    let whole = TopQuery { limit: 100, ..query.clone() };
                    let expected = whole.rank(of.map(|(link, _)| link.clone()));
                    let found = ranking(&writes, &query);
                    assert_eq!(found, expected, "seed {seed}, step {step}, {bots:?}");
                    let of = |clicks: Vec<&Click>| slow_answer(clicks.into_iter()).clicks;
                    let in_part = |n: u64| {
                        let is_in = |click: &&Click| click.at.as_ms() >= from * HOUR_MS;
                        let of_link = clicks.iter().filter(|(link, _)| *link == n);
                        of(of_link.map(|(_, click)| click).filter(is_in).collect())
                    };
                    let links = links.iter().zip(0..);
                    let links = links.filter(|(_, n)| owner.is_none_or(|owner| owner.0 == n % 3));
                    let expected =
                        TopQuery { period: part, ..whole }.rank(links.map(|(link, n)| {
                            RankedLink { link: link.clone(), clicks: in_part(n) }
                        }));
                    let query = TopQuery { period: part, limit: 100, ..query };
                    let found = writes.top(&query, &[]).unwrap();
                    assert_eq!(found, expected, "seed {seed}, step {step}, {bots:?}, from {from}");
                    let few = TopQuery { limit: 2, ..query };
                    let found = writes.top(&few, &[]).unwrap();
                    assert_eq!(found, few.rank(expected), "seed {seed}, step {step}, from {from}");
                }
            }
        }
    }
}

/// All words in the dictionaries of runs.
fn words(writes: &ClickWrites) -> BTreeSet<String> {
    let runs = writes.runs().unwrap();
    let mut words = BTreeSet::new();
    for run in runs.all() {
        for at in run.chunks_in(runs.begin(run), i64::MAX) {
            let bodies = writes.run_bodies(run.id, at).unwrap();
            words.extend(bodies.columns.referrers.iter().flatten().map(ToString::to_string));
        }
    }
    words
}

/// Texts of an erased link are in no run any more, also while runs are being merged or days
/// finished.
#[test]
fn no_text_of_an_erased_link_is_left_in_runs() {
    for (merges, finishing) in [(0, 0), (1, 0), (3, 0), (40, 0), (0, 1), (0, 1000), (3, 1000)] {
        let mut writes = writes(RunLimits { from: 0, runs: 3, step: 1 });
        for hour in 0..3 {
            // With so many values, the sums of everything and of the owner are rows.
            let clicks = (0..3000).map(|n| Click {
                referrer: Some(format!("{n}.example").into()),
                ..Click::bare(
                    Timestamp::from_ms(hour * HOUR_MS),
                    ClickTarget::Link(link(n), OwnerId(1)),
                )
            });
            writes.add(&Batch::of(Vec::new(), clicks)).unwrap();
        }
        for _ in 0..merges {
            writes.merge_runs_if_due().unwrap();
        }
        assert_eq!(writes.runs().unwrap().merge.is_some(), (1..40).contains(&merges));
        for _ in 0..finishing {
            writes.write_finished_days(1).unwrap();
        }
        assert_eq!(writes.runs().unwrap().finished.len(), finishing.min(1));
        assert!(words(&writes).contains("77.example") && words(&writes).len() == 3000);
        let subject = writes.link(&link(77)).unwrap().unwrap().0;
        let is_ranked = |writes: &ClickWrites| {
            let ranked = writes.day_rank_or_none(0).unwrap();
            ranked.iter().any(|(of, _)| *of == subject)
        };
        assert_eq!(is_ranked(&writes), finishing == 1000);
        let never = Timestamp::from_ms(i64::MAX >> 20);
        writes.erase_links(&[link(77).key], Timestamp::from_ms(0), never).unwrap();
        while writes.clean_blocks().unwrap() {}
        assert!(!words(&writes).contains("77.example") && !is_ranked(&writes));
        assert_eq!(words(&writes).len(), 2999);
        // SQLite overwrites what was there before.
        let secure: i64 =
            writes.conn.query_row("PRAGMA secure_delete", [], |row| row.get(0)).unwrap();
        assert_eq!(secure, 1);
        while writes.runs().unwrap().merge.is_some() {
            writes.merge_runs_if_due().unwrap();
        }
        assert_eq!(words(&writes).len(), 2999);
    }
}
