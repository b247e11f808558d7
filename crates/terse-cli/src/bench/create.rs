//! Callers that create links, one after another, each with a new target.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::CreateOptions;
use super::callers::spread;
use super::report::BenchReport;
use super::tally::ConnectionCounts;
use super::wire::BenchConnection;

/// How long a create may take after the end, for example to wait for the disk.
const GRACE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(10);

pub(super) fn run(options: CreateOptions) -> anyhow::Result<BenchReport> {
    // The server would return the links of an earlier run instead of creating new ones.
    let run = RandomState::new().hash_one(0);
    let begin = Instant::now();
    let end = begin + options.seconds;
    let (threads, callers, seconds) = (options.threads, options.callers, options.seconds);
    let options = Arc::new(options);
    let tally = spread(threads, callers, move |index| {
        let options = Arc::clone(&options);
        async move {
            let mut tally = ConnectionCounts::default();
            let calls = calls(&options, run, index, end, &mut tally);
            if tokio::time::timeout_at((end + GRACE).into(), calls).await.is_err() {
                tally.errors.timeout += 1;
            }
            Ok(tally)
        }
    })?;
    Ok(BenchReport::new("create", begin.elapsed().min(seconds), tally))
}

async fn calls(
    options: &CreateOptions,
    run: u64,
    index: usize,
    end: Instant,
    tally: &mut ConnectionCounts,
) {
    let mut head = format!(
        "POST /api/v1/urls HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n",
        options.url.host()
    );
    if let Some(key) = &options.key {
        head.push_str("Authorization: Bearer ");
        head.push_str(key.reveal());
        head.push_str("\r\n");
    }
    let (mut request, mut body) = (Vec::with_capacity(1024), Vec::with_capacity(256));
    let mut open: Option<BenchConnection> = None;
    for number in 0_u64.. {
        let begin = Instant::now();
        if begin >= end {
            return;
        }
        body.clear();
        request.clear();
        let written = write!(
            body,
            r#"{{"long_url":"https://example.com/bench/{run:016x}/{index}/{number}"}}"#
        )
        .and_then(|()| write!(request, "{head}Content-Length: {}\r\n\r\n", body.len()));
        debug_assert!(written.is_ok(), "memory takes all that is written to it");
        request.extend_from_slice(&body);
        let called = async {
            let mut wire = match open.take() {
                Some(wire) => wire,
                None => options.url.connect().await?,
            };
            let answer = wire.exchange(&request).await?;
            Ok((wire, answer))
        };
        let called = called.await;
        let now = Instant::now();
        match called {
            // Created after the end of the measurement: neither counted nor an error.
            Ok((wire, answer)) if now >= end && answer.status == 201 => {
                open = answer.keep.then_some(wire);
            }
            Ok((wire, answer)) => {
                match answer.status {
                    201 => tally.good(201, now - begin),
                    status => tally.wrong_status(status, wire.body(&answer)),
                }
                open = answer.keep.then_some(wire);
            }
            Err(error) => {
                tally.failed(&error);
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::fake::FakeServer;
    use super::*;

    #[test]
    fn only_a_201_is_a_create_and_every_target_is_new() {
        let fake = FakeServer::answering(|number, _| {
            let status = if number % 2 == 0 { "201 Created" } else { "200 OK" };
            format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}")
        });
        let key = Some(terse_core::Secret::new("secret"));
        let options = CreateOptions {
            url: fake.server.clone(),
            key,
            callers: 3,
            threads: 2,
            seconds: Duration::from_millis(100),
        };
        let report = run(options).unwrap();
        assert!(report.requests > 0 && report.errors.status > 0, "{report:?}");
        assert_eq!(report.statuses[&201], report.requests);
        let requests = fake.requests.lock().unwrap();
        assert!(
            requests.iter().all(|request| request.contains("\r\nAuthorization: Bearer secret\r\n"))
        );
        let targets = requests
            .iter()
            .map(|request| request.rsplit("\r\n\r\n").next().unwrap())
            .collect::<HashSet<_>>();
        assert_eq!(targets.len(), requests.len());
        assert!(
            targets
                .iter()
                .all(|body| body.starts_with(r#"{"long_url":"https://example.com/bench/"#))
        );
    }
}
