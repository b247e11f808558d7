//! Whether the time of a refusal reveals what was wrong. Enabled by a variable, as it needs an idle
//! host and a while: `TERSE_TEST_TIMING=1 cargo test -p terse-server --release --test it timing`.
//!
//! The test tries two kinds of wrong secrets in a random order and compares their times by Welch's
//! t-test. It leaves out the slowest tenth, which other processes cause. Without a difference, |t|
//! stays below 4.5 in all but one of 100,000 measurements. A leak shows every time, so the test
//! fails only after three in a row.

use std::hint::black_box;
use std::time::{Duration, Instant};

use terse_core::PasswordHasher as _;
use terse_server::{AdminKeys, Passwords};

use crate::web::{KEY, OWNER, Web};

const TELLING: f64 = 4.5;
const ROUNDS: usize = 3;

fn is_wanted() -> bool {
    let wanted = std::env::var_os("TERSE_TEST_TIMING").is_some();
    if !wanted {
        println!("skipped: times are compared with TERSE_TEST_TIMING=1");
    }
    wanted
}

/// The times of two kinds of tries.
#[derive(Default)]
struct Times([Vec<f64>; 2]);

impl Times {
    fn add(&mut self, kind: usize, took: Duration) {
        self.0[kind].push(took.as_secs_f64() * 1e9);
    }

    /// Welch's t, without the slowest tenth.
    fn t(&self) -> f64 {
        let mut all: Vec<f64> = self.0.iter().flatten().copied().collect();
        all.sort_by(f64::total_cmp);
        let slow = all[all.len() * 9 / 10];
        let [(mean_0, error_0), (mean_1, error_1)] = [0, 1].map(|kind| {
            let times: Vec<f64> =
                self.0[kind].iter().copied().filter(|time| *time <= slow).collect();
            let count = times.len() as f64;
            let mean = times.iter().sum::<f64>() / count;
            let variance =
                times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
            (mean, variance / count)
        });
        println!("{mean_0:.0} ns and {mean_1:.0} ns");
        (mean_0 - mean_1) / (error_0 + error_1).sqrt()
    }
}

/// Chooses the next kind at random, so that no passing load favours one of them.
struct Coin(u64);

impl Coin {
    fn new() -> Self {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).unwrap();
        Self(u64::from_le_bytes(seed) | 1)
    }

    fn toss(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % sides
    }
}

/// Wrong keys as long as the real one: some differ only at the end, some have nothing in common
/// with it.
fn wrong_keys(real: &str) -> [Vec<String>; 2] {
    let letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".chars();
    let near = letters
        .map(|last| format!("{}{last}", &real[..real.len() - 1]))
        .filter(|key| key != real)
        .take(50);
    let far = (0..50)
        .map(|_| AdminKeys::generate().unwrap().0.chars().rev().cycle().take(real.len()).collect());
    [near.collect(), far.collect()]
}

async fn assert_alike(what: &str, real: &str, web: &Web) {
    let (keys, mut coin, mut ts) = (wrong_keys(real), Coin::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut times = Times::default();
        for n in 0..30_000 {
            let kind = coin.toss(2);
            let key = &keys[kind][coin.toss(50)];
            let (status, took) = web.timed("/api/v1/urls", key).await;
            assert_eq!(status, 401);
            // The first tries warm up caches.
            if n > 1000 {
                times.add(kind, took);
            }
        }
        ts.push(times.t());
        if ts.last().is_some_and(|t| t.abs() < TELLING) {
            return;
        }
    }
    panic!("{what}: how much of a wrong key is right shows in the time that it takes: t = {ts:?}");
}

#[tokio::test]
async fn a_wrong_key_that_is_almost_right_takes_as_long_as_any_other() {
    if !is_wanted() {
        return;
    }
    let web = Web::new();
    assert_alike("the operator's", KEY, &web).await;
    let (real, _) = AdminKeys::generate().unwrap();
    web.give_key(OWNER.1, &real, |_| ()).await;
    assert_alike("an owner's", &real, &web).await;
}

#[tokio::test]
async fn a_wrong_password_takes_as_long_as_an_unknown_name() {
    if !is_wanted() {
        return;
    }
    let passwords = Passwords::new(1);
    let kept = passwords.hash("correct horse".into()).await.unwrap();
    let (mut coin, mut ts) = (Coin::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut times = Times::default();
        for n in 0..400 {
            let kind = coin.toss(2);
            let kept = (kind == 0).then(|| kept.clone());
            let began = Instant::now();
            assert_eq!(passwords.verify("wrong horse".into(), kept).await, Ok(false));
            if n > 10 {
                times.add(kind, began.elapsed());
            }
        }
        ts.push(times.t());
        if ts.last().is_some_and(|t| t.abs() < TELLING) {
            return;
        }
    }
    panic!("whether there is an account shows in the time that a wrong password takes: t = {ts:?}");
}

/// Tests the measurement itself, on a comparison that stops at the first difference.
#[test]
fn a_comparison_that_stops_early_is_found_out() {
    if !is_wanted() {
        return;
    }
    let (real, _) = AdminKeys::generate().unwrap();
    let (keys, mut coin, mut times) = (wrong_keys(&real), Coin::new(), Times::default());
    for _ in 0..30_000 {
        let kind = coin.toss(2);
        let key = &keys[kind][coin.toss(50)];
        let began = Instant::now();
        let equal =
            real.bytes().zip(key.bytes()).all(|(one, other)| black_box(one) == black_box(other));
        times.add(kind, began.elapsed());
        assert!(!black_box(equal));
    }
    let t = times.t();
    assert!(t > 3.0 * TELLING, "t = {t}");
}
