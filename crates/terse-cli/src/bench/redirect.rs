//! Visitors that follow links.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;

use super::callers::spread;
use super::paths::{Paths, Picker};
use super::report::BenchReport;
use super::tally::ConnectionCounts;
use super::wire::BenchConnection;
use super::{PathChoice, RedirectOptions};

/// How long after the end the last answers may arrive before they count as timeouts.
const GRACE: Duration = Duration::from_secs(5);
/// The pause between attempts to connect to a server that refuses: without it the loop would
/// measure the refusals.
const RETRY: Duration = Duration::from_millis(10);
/// Timers have a resolution of milliseconds; for shorter waits the visitor yields in a loop.
const SPIN: Duration = Duration::from_millis(3);
/// The longest run that visits each path once.
const MAX_DURATION: Duration = Duration::from_hours(2);

struct Plan {
    options: RedirectOptions,
    paths: Paths,
    begin: Instant,
    /// Visits that begin earlier are warm-up.
    measure: Instant,
    end: Instant,
}

pub(super) fn run(options: RedirectOptions) -> anyhow::Result<BenchReport> {
    let paths = match (&options.paths, &options.path) {
        (Some(file), _) => Paths::read(file)?,
        (None, Some(path)) => Paths::parse(path.clone().into_bytes())?,
        // Random codes need no paths.
        (None, None) if options.pick == PathChoice::Unknown => Paths::parse(b"/".to_vec())?,
        (None, None) => bail!(
            "give the paths to visit: --paths FILE, as `terse bench load` writes it, or --path PATH"
        ),
    };
    let begin = Instant::now();
    let measure = begin + options.warm_up;
    let end = if options.pick == PathChoice::Each {
        measure + MAX_DURATION
    } else {
        measure + options.seconds
    };
    let (threads, connections) = (options.threads, options.connections);
    let plan = Arc::new(Plan { options, paths, begin, measure, end });
    let shared = Arc::clone(&plan);
    let tally = spread(threads, connections, move |index| {
        let plan = Arc::clone(&shared);
        async move {
            let mut tally = ConnectionCounts::default();
            if tokio::time::timeout_at((plan.end + GRACE).into(), visits(&plan, index, &mut tally))
                .await
                .is_err()
            {
                tally.errors.timeout += 1;
            }
            Ok(tally)
        }
    })?;
    let elapsed = measure.elapsed();
    let elapsed = if plan.options.pick == PathChoice::Each {
        elapsed
    } else {
        elapsed.min(plan.options.seconds)
    };
    Ok(BenchReport::new("redirect", elapsed, tally))
}

/// One visitor after another on one connection, or on a connection each.
async fn visits(plan: &Plan, index: usize, tally: &mut ConnectionCounts) {
    let options = &plan.options;
    let expected = if options.pick == PathChoice::Unknown { 404 } else { 302 };
    let all = usize::try_from(options.connections).unwrap_or(usize::MAX);
    let mut picker = Picker::new(options.pick, plan.paths.len(), index, all);
    let tail = format!(
        " HTTP/1.1\r\nHost: {}\r\nUser-Agent: terse-bench\r\nAccept: */*\r\n{}\r\n",
        options.url.host(),
        if options.new_connections { "Connection: close\r\n" } else { "" }
    );
    let mut pace = options.rate.map(|rate| Pace::new(rate, index, all, plan.begin));
    let mut request = Vec::with_capacity(256);
    let mut open: Option<BenchConnection> = None;
    loop {
        let begin = match &mut pace {
            Some(pace) => pace.next().await,
            None => Instant::now(),
        };
        if begin >= plan.end {
            return;
        }
        request.clear();
        request.extend_from_slice(b"GET /");
        if !picker.append(&plan.paths, &mut request) {
            return;
        }
        request.extend_from_slice(tail.as_bytes());
        let visited = async {
            let mut wire = match open.take() {
                Some(wire) => wire,
                None => options.url.connect().await?,
            };
            let answer = wire.exchange(&request).await?;
            Ok((wire, answer))
        };
        let visited = visited.await;
        let now = Instant::now();
        let measured = begin >= plan.measure && now < plan.end;
        match visited {
            Ok((wire, answer)) => {
                match answer.status {
                    _ if !measured => {}
                    status if status != expected => tally.wrong_status(status, wire.body(&answer)),
                    302 if !answer.location => tally.no_location(302),
                    status => tally.good(status, now - begin),
                }
                open = (answer.keep && !options.new_connections).then_some(wire);
            }
            Err(error) => {
                tally.failed(&error);
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Evenly spaced start times that do not wait for responses: if the server stalls, every visit that
/// was due counts the delay.
struct Pace {
    due: Instant,
    every: Duration,
}

impl Pace {
    /// Visitors alternate: each visits at 1/`all` of the rate, offset from the one before.
    fn new(rate: u64, index: usize, all: usize, begin: Instant) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "times, not counts")]
        let (gap, index, all) = (1.0 / rate as f64, index as f64, all as f64);
        Self {
            due: begin + Duration::from_secs_f64(gap * index),
            every: Duration::from_secs_f64(gap * all),
        }
    }

    /// Waits for the next start time and returns it; returns at once if it has passed.
    async fn next(&mut self) -> Instant {
        let due = self.due;
        self.due += self.every;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return due;
            }
            if left > SPIN {
                tokio::time::sleep(left - SPIN).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::fake::FakeServer;
    use super::*;

    const GOOD: &str =
        "HTTP/1.1 302 Found\r\nLocation: https://example.com/\r\nContent-Length: 0\r\n\r\n";
    const MISSING: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone";

    fn options(fake: &FakeServer, pick: PathChoice) -> RedirectOptions {
        RedirectOptions {
            url: fake.server.clone(),
            paths: None,
            path: Some("/abc1234".into()),
            pick,
            connections: 2,
            threads: 1,
            seconds: Duration::from_millis(200),
            warm_up: Duration::ZERO,
            new_connections: false,
            rate: None,
        }
    }

    #[test]
    fn only_a_302_that_leads_somewhere_counts() {
        let fake = FakeServer::answering(|number, _| match number % 4 {
            0 => MISSING.into(),
            1 => "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n".into(),
            2 => GOOD.replace("302", "301"),
            _ => GOOD.into(),
        });
        let report = run(options(&fake, PathChoice::Single)).unwrap();
        let (good, all) = (report.requests, report.statuses.values().sum::<u64>());
        assert!(
            good > 0 && report.errors.status > good && report.errors.location > 0,
            "{report:?}"
        );
        assert_eq!(report.errors.total() + good, all);
        assert_eq!(report.sample.as_deref(), Some("gone"));
        assert!(
            fake.requests
                .lock()
                .unwrap()
                .iter()
                .all(|request| request.starts_with("GET /abc1234 HTTP/1.1\r\n"))
        );
    }

    #[test]
    fn a_scanner_expects_to_find_nothing() {
        let fake = FakeServer::answering(
            |number, _| if number == 3 { GOOD.into() } else { MISSING.into() },
        );
        let report = run(options(&fake, PathChoice::Unknown)).unwrap();
        assert_eq!(report.statuses[&404], report.requests);
        assert_eq!(report.errors.total(), 1);
    }

    #[test]
    fn each_path_is_asked_for_once_and_then_it_ends() {
        let fake = FakeServer::answering(|_, _| GOOD.into());
        let report = run(options(&fake, PathChoice::Each)).unwrap();
        assert_eq!((report.requests, report.errors.total()), (1, 0));
    }

    #[test]
    fn a_closed_connection_is_an_error_only_before_the_answer() {
        let fake = FakeServer::answering(|_, _| {
            GOOD.replace("Content-Length", "Connection: close\r\nContent-Length")
        });
        let report =
            run(RedirectOptions { new_connections: true, ..options(&fake, PathChoice::Single) })
                .unwrap();
        assert_eq!(report.errors.total(), 0);
        // Visits after the end open connections too, but do not count as requests.
        let connections = fake.connections.load(Ordering::SeqCst) as u64;
        assert!(
            (report.requests..=report.requests + 2).contains(&connections),
            "{connections} for {}",
            report.requests
        );
        assert!(
            fake.requests
                .lock()
                .unwrap()
                .iter()
                .all(|request| request.contains("\r\nConnection: close\r\n"))
        );
    }

    #[test]
    fn a_stall_is_charged_for_everyone_who_had_to_wait() {
        let fake = FakeServer::answering(|number, _| {
            if number == 10 {
                std::thread::sleep(Duration::from_millis(300));
            }
            GOOD.into()
        });
        let paced = RedirectOptions {
            connections: 1,
            rate: Some(200),
            seconds: Duration::from_millis(800),
            ..options(&fake, PathChoice::Single)
        };
        let report = run(paced).unwrap();
        // Sixty visits were due during the stall: a closed loop would have delayed only one of
        // them.
        assert!(report.latency.p90_us > 100_000.0, "{report:?}");
        assert!((130..=160).contains(&report.requests), "{report:?}");
    }

    #[test]
    fn nobody_there_is_an_error_and_not_a_hang() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server =
            super::super::BenchTarget::parse(&format!("http://{}", listener.local_addr().unwrap()))
                .unwrap();
        drop(listener);
        let fake = FakeServer::answering(|_, _| GOOD.into());
        let report =
            run(RedirectOptions { url: server, ..options(&fake, PathChoice::Single) }).unwrap();
        assert!(report.requests == 0 && report.errors.connection > 0);
    }
}
