//! Fills a server with links through the bulk API, as fast as it takes them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;

use super::LoadOptions;
use super::callers::spread;
use super::report::BenchReport;
use super::tally::ConnectionCounts;
use super::wire::BenchConnection;
use terse_core::Secret;

/// The largest number of links in one bulk request.
const BATCH: u64 = 1_000;
/// How long one bulk request may take, and how often it is tried: the same targets again give the
/// same links.
const TIMEOUT: Duration = Duration::from_secs(60);
const ATTEMPTS: u32 = 8;

#[derive(Deserialize)]
struct BulkAnswer<'a> {
    #[serde(borrow)]
    results: Vec<BulkResult<'a>>,
}

#[derive(Deserialize)]
struct BulkResult<'a> {
    index: u64,
    status: u16,
    #[serde(borrow)]
    link: Option<BulkLink<'a>>,
}

#[derive(Deserialize)]
struct BulkLink<'a> {
    short_code: &'a str,
}

/// State shared by the callers: the next batch, and the paths of finished ones.
struct Filling {
    options: LoadOptions,
    next: AtomicU64,
    paths: std::sync::Mutex<Vec<Vec<u8>>>,
    progress: ProgressBar,
}

pub(super) fn run(options: &LoadOptions) -> anyhow::Result<BenchReport> {
    // Opened first, so that a missing folder is reported before ten million links are created.
    let file = File::create(&options.paths)
        .with_context(|| format!("creating {}", options.paths.display()))?;
    let style = ProgressStyle::with_template(
        "{bar:40} {human_pos} of {human_len} links, {per_sec}, {eta} left",
    )?;
    let filling = Arc::new(Filling {
        options: options.clone(),
        next: AtomicU64::new(0),
        paths: std::sync::Mutex::new(vec![
            Vec::new();
            usize::try_from(options.links.div_ceil(BATCH))?
        ]),
        progress: ProgressBar::new(options.links).with_style(style),
    });
    let begin = Instant::now();
    let shared = Arc::clone(&filling);
    let tally = spread(1, options.callers, move |_| fill(Arc::clone(&shared)))?;
    let elapsed = begin.elapsed();
    filling.progress.finish_and_clear();
    let mut out = BufWriter::new(file);
    for paths in filling.paths.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter() {
        out.write_all(paths).context("writing the paths")?;
    }
    out.flush().context("writing the paths")?;
    Ok(BenchReport::new("load", elapsed, tally).with_links(options.links))
}

async fn fill(filling: Arc<Filling>) -> anyhow::Result<ConnectionCounts> {
    let mut tally = ConnectionCounts::default();
    let mut open = None;
    loop {
        let batch = filling.next.fetch_add(1, Ordering::Relaxed);
        let first = batch * BATCH;
        if first >= filling.options.links {
            return Ok(tally);
        }
        let links = first..(first + BATCH).min(filling.options.links);
        let request = request(&filling.options, links.clone());
        let mut attempt = 0;
        let paths = loop {
            let begin = Instant::now();
            attempt += 1;
            let sent = tokio::time::timeout(
                TIMEOUT,
                send(&filling.options, &mut open, &request, links.end - links.start),
            );
            let error = match sent.await.context("the server does not answer").flatten() {
                Ok(Ok(paths)) => {
                    tally.good(207, begin.elapsed());
                    break paths;
                }
                Err(_) if attempt < ATTEMPTS => {
                    tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
                    continue;
                }
                Ok(Err(error)) | Err(error) => error,
            };
            // Stops the other callers: they would get the same error.
            filling.next.store(filling.options.links, Ordering::Relaxed);
            return Err(error.context(format!("creating the links from number {first}")));
        };
        filling.progress.inc(links.end - links.start);
        let mut all = filling.paths.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all[usize::try_from(batch)?] = paths;
    }
}

/// The same link numbers always lead to the same targets; `bench/harness/links.py` writes them into
/// nginx's map.
fn request(options: &LoadOptions, links: std::ops::Range<u64>) -> Vec<u8> {
    let targets = links.map(|number| {
        format!(r#"{{"long_url":"https://example.com/articles/{number}?from=bench"}}"#)
    });
    let body = format!("[{}]", targets.collect::<Vec<_>>().join(","));
    let key = options.key.as_ref().map_or("", Secret::reveal);
    let (host, length) = (options.url.host(), body.len());
    format!(
        "POST /api/v1/urls/bulk HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The paths of the created links, one per line. The outer error may be temporary; the inner one is
/// permanent.
async fn send(
    options: &LoadOptions,
    open: &mut Option<BenchConnection>,
    request: &[u8],
    links: u64,
) -> anyhow::Result<anyhow::Result<Vec<u8>>> {
    let mut wire = match open.take() {
        Some(wire) => wire,
        None => options.url.connect().await.context("connecting")?,
    };
    let answer = wire.exchange(request).await.context("sending a bulk request")?;
    let body = wire.body(&answer);
    let said = || {
        format!(
            "status {}: {}",
            answer.status,
            String::from_utf8_lossy(&body[..body.len().min(300)])
        )
    };
    match answer.status {
        207 => {}
        408 | 429 | 500.. => bail!(said()),
        _ => return Ok(Err(anyhow!(said()))),
    }
    let paths = paths(body, links)?;
    *open = answer.keep.then_some(wire);
    Ok(Ok(paths))
}

fn paths(body: &[u8], links: u64) -> anyhow::Result<Vec<u8>> {
    let answer: BulkAnswer<'_> = serde_json::from_slice(body).context("reading the bulk answer")?;
    ensure!(
        answer.results.len() as u64 == links,
        "{} results for {links} links",
        answer.results.len()
    );
    let mut paths = Vec::with_capacity(answer.results.len() * 9);
    for (result, due) in answer.results.iter().zip(0..) {
        ensure!(result.index == due, "result {due} is about link {}", result.index);
        let Some(link) = result.link.as_ref().filter(|_| matches!(result.status, 200 | 201)) else {
            bail!("a link was refused with status {}", result.status);
        };
        writeln!(paths, "/{}", link.short_code)?;
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeServer;
    use super::*;

    /// Codes derived from the targets' numbers, so that a test can check the order.
    fn bulk(request: &str) -> String {
        let numbers = request
            .split("/articles/")
            .skip(1)
            .map(|rest| rest.split('?').next().unwrap_or_default());
        let results = numbers.enumerate().map(|(index, number)| {
            format!(r#"{{"index":{index},"status":201,"link":{{"short_code":"code{number}"}}}}"#)
        });
        let body = format!(r#"{{"results":[{}]}}"#, results.collect::<Vec<_>>().join(","));
        format!("HTTP/1.1 207 Multi-Status\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    fn options(fake: &FakeServer, paths: std::path::PathBuf) -> LoadOptions {
        LoadOptions {
            url: fake.server.clone(),
            key: Some(terse_core::Secret::new("secret")),
            links: 2_500,
            callers: 3,
            paths,
        }
    }

    #[test]
    fn paths_are_written_in_the_order_of_their_targets_also_after_a_hiccup() {
        let fake = FakeServer::answering(|number, request| match number {
            1 => "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".into(),
            _ => bulk(request),
        });
        let folder = tempfile::tempdir().unwrap();
        let report = run(&options(&fake, folder.path().join("paths"))).unwrap();
        let due = (0..2_500).map(|number| format!("/code{number}\n")).collect::<String>();
        assert_eq!(std::fs::read_to_string(folder.path().join("paths")).unwrap(), due);
        assert_eq!(report.requests, 3);
        assert!(fake.requests.lock().unwrap()[0].contains("\r\nAuthorization: Bearer secret\r\n"));
    }

    #[test]
    fn a_refusal_ends_the_loading_and_says_why() {
        let refusal = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 11\r\n\r\nunknown key";
        let fake = FakeServer::answering(move |_, _| refusal.into());
        let folder = tempfile::tempdir().unwrap();
        let error = run(&options(&fake, folder.path().join("paths"))).unwrap_err();
        assert!(format!("{error:#}").contains("status 401: unknown key"), "{error:#}");
        assert!(fake.requests.lock().unwrap().len() <= 3, "a refusal is not tried again");
    }

    #[test]
    fn created_links_become_paths_in_their_order() {
        let body = br#"{"results":[{"index":0,"status":201,"link":{"short_code":"abc1234","long_url":"x"}},
            {"index":1,"status":200,"link":{"short_code":"def5678"},"extra":true}]}"#;
        assert_eq!(paths(body, 2).unwrap(), b"/abc1234\n/def5678\n");
    }

    #[test]
    fn a_refused_missing_or_displaced_link_is_noticed() {
        for wrong in [
            r#"{"results":[{"index":0,"status":422,"problem":{"code":"invalid_url"}}]}"#,
            r#"{"results":[]}"#,
            r#"{"results":[{"index":1,"status":201,"link":{"short_code":"abc1234"}}]}"#,
            "[]",
        ] {
            assert!(paths(wrong.as_bytes(), 1).is_err(), "{wrong}");
        }
    }
}
