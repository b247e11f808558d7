use std::sync::Arc;

use terse_core::clicks::{ClickIngest, ClickReports as _, ClickSubject, LinkId, Period};
use terse_core::{Clock, Code, Domain, Hosts, Link, LinkKey, LinkReader, StoreError, Timestamp};
use terse_testkit::{MemoryClickStore, MemoryRegistry, alias, key};

use super::*;
use crate::enrich::AddressPrecision;

/// Two links.
struct Two;

#[async_trait::async_trait]
impl LinkReader for Two {
    async fn get(&self, asked: &LinkKey) -> Result<Option<Link>, StoreError> {
        let known = ["news", "more"].into_iter().find(|code| *asked == key(code));
        Ok(known.map(link))
    }

    async fn get_folded(&self, asked: &LinkKey) -> Result<Option<Link>, StoreError> {
        let folded = Code::parse(&asked.code.as_str().to_ascii_lowercase()).unwrap();
        self.get(&LinkKey { code: folded, ..asked.clone() }).await
    }
}

fn link(code: &str) -> Link {
    Link { created_at: Timestamp::from_ms(1_000), ..alias(code, "https://example.com/") }
}

fn import(store: &Arc<MemoryClickStore>) -> EdgeLogImport {
    let base = "https://go.example/".parse().unwrap();
    EdgeLogImport {
        store: store.clone(),
        links: Arc::new(Two),
        salts: Arc::new(MemoryRegistry::new()),
        hosts: Hosts::new(&base, &[], vec![Domain::parse("b.example").unwrap()]).unwrap(),
        enricher: Enricher::new(None, AddressPrecision::Network, Timestamp::from_ms(0)).unwrap(),
        whole_addresses: false,
        loose: false,
        honour_dnt: true,
        clock: Clock::default(),
    }
}

fn line(n: usize, code: &str, hit: &str) -> String {
    format!(
        "203.0.113.{} - - [18/Nov/2026:13:{:02}:{:02} +0000] \"GET http://go.example/{code} \
         HTTP/1.1\" 302 0 \"-\" \"Mozilla/5.0\" {hit} - - {n}\n",
        n % 200,
        n / 60 % 60,
        n % 60
    )
}

async fn total(store: &MemoryClickStore, code: &str) -> u64 {
    let subject = ClickSubject::Link(LinkId::of(&link(code)));
    let report = store.report(&subject, Period::default(), Timestamp::from_ms(0)).await.unwrap();
    report.tally.clicks.all()
}

#[tokio::test]
async fn each_line_counts_once_however_often_its_log_is_read() {
    let store = Arc::new(MemoryClickStore::new());
    let log: Vec<String> = (0..12_000)
        .map(|n| match n % 4 {
            0 => line(n, "news", "miss"),
            1 => line(n, "gone", "hit"),
            2 => line(n, "more", "hit"),
            _ => line(n, "news", "hit"),
        })
        .collect();
    let read = async |lines: &str| import(&store).run(lines.as_bytes(), EdgeLogFormat::Ncsa).await;
    // It is read while the CDN writes it, and ends within a line.
    let half = log[..7_001].concat();
    let counts = read(&half[..half.len() - 10]).await.unwrap();
    assert_eq!((counts.counted, counts.no_link, counts.not_at_edge), (3_500, 1_750, 1_750));
    assert_eq!(read(&half[..half.len() - 10]).await.unwrap().counted, 0);
    let whole = log.concat();
    let counts = read(&whole).await.unwrap();
    assert_eq!((counts.counted, counts.already, counts.unreadable), (2_500, 7_000, 0));
    let again = read(&whole).await.unwrap();
    assert_eq!((again.counted, again.already), (0, 12_000));
    assert_eq!((total(&store, "news").await, total(&store, "more").await), (3_000, 3_000));
    // Another log may have the same lines after its first one.
    let other = [line(77_777, "news", "hit"), log[3].clone()].concat();
    assert_eq!(read(&other).await.unwrap().counted, 2);
}

#[tokio::test]
async fn an_answer_of_the_store_that_is_lost_counts_nothing_twice() {
    let store = Arc::new(MemoryClickStore::new());
    let log: String = (0..100).map(|n| line(n, "news", "hit")).collect();
    // It counts, and its answers are lost.
    store.lose_answers(true);
    let counts = import(&store).run(log.as_bytes(), EdgeLogFormat::Ncsa).await.unwrap();
    assert_eq!(counts.counted, 100, "the second attempt finds the batch counted");
    store.lose_answers(false);
    let again = import(&store).run(log.as_bytes(), EdgeLogFormat::Ncsa).await.unwrap();
    assert_eq!((again.counted, again.already), (0, 100));
    assert_eq!(total(&store, "news").await, 100);
}

#[tokio::test]
async fn a_file_of_another_format_changes_nothing() {
    let store = Arc::new(MemoryClickStore::new());
    let log: String = (0..10).map(|n| line(n, "news", "hit")).collect();
    let failed = import(&store).run(log.as_bytes(), EdgeLogFormat::Cloudflare).await;
    assert!(matches!(failed, Err(EdgeLogError::WrongFormat)), "{failed:?}");
    let journal = terse_core::clicks::JournalId::of_log(line(0, "news", "hit").as_bytes());
    assert!(store.open(journal).await.unwrap().positions.is_empty());
    let long = vec![b'x'; 70_000];
    let failed = import(&store).run(&long[..], EdgeLogFormat::Ncsa).await;
    assert!(matches!(failed, Err(EdgeLogError::LongLine(1))), "{failed:?}");
    import(&store).run(&b""[..], EdgeLogFormat::Ncsa).await.unwrap();
}

#[tokio::test]
async fn another_log_with_the_same_first_line_is_refused() {
    let store = Arc::new(MemoryClickStore::new());
    let lines: Vec<String> = (0..20).map(|n| line(n, "news", "hit")).collect();
    let read = async |lines: &str| import(&store).run(lines.as_bytes(), EdgeLogFormat::Ncsa).await;
    assert_eq!(read(&lines[..10].concat()).await.unwrap().counted, 10);
    // As long, and longer, and shorter; the first line is the same.
    let other = |to: usize| {
        let other = (1..to).map(|n| line(n, "more", "hit"));
        std::iter::once(lines[0].clone()).chain(other).collect::<String>()
    };
    for to in [10, 19, 4] {
        let refused = read(&other(to)).await;
        assert!(matches!(refused, Err(EdgeLogError::AnotherLog(_))), "{to}: {refused:?}");
    }
    assert_eq!(total(&store, "more").await, 0);
    let counts = read(&lines.concat()).await.unwrap();
    assert_eq!((counts.already, counts.counted), (10, 10), "the log itself goes on");
    let journal = terse_core::clicks::JournalId::of_log(lines[0].as_bytes());
    assert_eq!(store.open(journal).await.unwrap().positions.len(), 1, "one position per log");
}

#[tokio::test]
async fn a_log_of_other_hosts_is_not_consumed() {
    let store = Arc::new(MemoryClickStore::new());
    let log: String = (0..9).map(|n| line(n, "news", "hit")).collect();
    let elsewhere = log.replace("go.example", "elsewhere.example");
    let refused = import(&store).run(elsewhere.as_bytes(), EdgeLogFormat::Ncsa).await;
    assert!(
        matches!(&refused, Err(EdgeLogError::OtherHosts(host)) if host == "elsewhere.example"),
        "{refused:?}"
    );
    let journal = terse_core::clicks::JournalId::of_log(line(0, "news", "hit").as_bytes());
    assert!(store.open(journal).await.unwrap().positions.is_empty());
    // Also if an earlier import has only seen lines without visits.
    let passed: String = (0..3).map(|n| line(n, "news", "miss")).collect();
    let counts = import(&store).run(passed.as_bytes(), EdgeLogFormat::Ncsa).await.unwrap();
    assert_eq!(counts.not_at_edge, 3);
    let grown = passed.clone() + &elsewhere;
    let refused = import(&store).run(grown.as_bytes(), EdgeLogFormat::Ncsa).await;
    assert!(matches!(refused, Err(EdgeLogError::OtherHosts(_))), "{refused:?}");
    let counts = import(&store).run((passed + &log).as_bytes(), EdgeLogFormat::Ncsa).await.unwrap();
    assert_eq!((counts.already, counts.counted), (3, 9));
}

#[tokio::test]
async fn other_spellings_of_an_alias_count_where_nodes_redirect_them() {
    let store = Arc::new(MemoryClickStore::new());
    let log = [line(1, "NEWS", "hit"), line(2, "news", "hit")].concat();
    let strict = import(&store).run(log.as_bytes(), EdgeLogFormat::Ncsa).await.unwrap();
    assert_eq!((strict.counted, strict.no_link), (1, 1));
    let log = [line(3, "NEWS", "hit"), line(4, "news", "hit")].concat();
    let mut loose = import(&store);
    loose.loose = true;
    let counts = loose.run(log.as_bytes(), EdgeLogFormat::Ncsa).await.unwrap();
    assert_eq!((counts.counted, counts.no_link), (2, 0));
}
