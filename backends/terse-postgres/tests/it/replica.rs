//! A replica for what no decision depends on.

use std::collections::BTreeMap;
use std::time::Duration;

use terse_core::clicks::{Click, ClickReports as _, ClickSubject, ClickTarget, LinkId, Period};
use terse_core::job::{Job as _, JobContext};
use terse_core::metrics::{MetricFamily, MetricValues, Metrics};
use terse_core::{Insert, LinkStore as _, ListQuery, OwnerId, Sort, Timestamp};
use terse_postgres::{DatabaseWatch, PostgresClicks, PostgresLinks, PostgresOptions};
use terse_testkit::click_store::add_clicks;
use terse_testkit::{PostgresServer, alias, key, timestamp, wait_until};

use crate::session::OpenTransaction;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_read_the_replica_and_the_primary_while_it_is_away() {
    let server = PostgresServer::start(&["fsync=off"]);
    let standby = server.synchronous_standby();
    let database = server.fresh_database();
    // The tables, before a reader of the replica looks for them.
    let options = PostgresOptions::new(server.url(&database));
    PostgresClicks::open(options.clone(), true).await.unwrap();
    let lag = "SELECT pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()";
    wait_until("the standby has the tables", || standby.sql("postgres", lag) == "t");
    let options = PostgresOptions { replica_url: Some(standby.url(&database)), ..options };
    let open = || PostgresClicks::open(options.clone(), true);
    let clicks = open().await.unwrap();
    let link = LinkId { key: key("one"), created_at: Timestamp::EPOCH };
    let subject = ClickSubject::Link(link.clone());
    let click = || Click::bare(Timestamp::from_ms(1), ClickTarget::Link(link.clone(), OwnerId(7)));
    let total = async |clicks: &PostgresClicks| {
        let report = clicks.report(&subject, Period::default(), Timestamp::EPOCH).await.unwrap();
        report.tally.clicks.all()
    };
    // Whether a connection to the standby has committed a report.
    let answers = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' \
         AND query LIKE '%COMMIT'"
    );
    add_clicks(&clicks, vec![click()]).await;
    assert_eq!(total(&clicks).await, 1);
    assert_eq!(standby.sql("postgres", &answers), "1", "the replica has answered");
    standby.sql("postgres", "SELECT pg_wal_replay_pause()");
    let paused = "SELECT pg_get_wal_replay_pause_state()";
    wait_until("the standby stands still", || standby.sql("postgres", paused) == "paused");
    add_clicks(&clicks, vec![click()]).await;
    let late = open().await.unwrap();
    assert_eq!(total(&late).await, 2, "the replica lags behind, and the primary answers");
    standby.sql("postgres", "SELECT pg_wal_replay_resume()");
    wait_until("the standby has followed", || standby.sql("postgres", lag) == "t");
    let clicks = open().await.unwrap();
    assert_eq!(total(&clicks).await, 2);
    standby.stop();
    assert_eq!(total(&clicks).await, 2, "the primary answers instead");
    let clicks = open().await.expect("nodes start while the replica is away");
    assert_eq!(total(&clicks).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_is_shown_reads_the_replica_and_has_every_link() {
    let server = PostgresServer::start(&["fsync=off"]);
    let standby = server.synchronous_standby();
    let database = server.fresh_database();
    let options = PostgresOptions::new(server.url(&database));
    let options = PostgresOptions { replica_url: Some(standby.url(&database)), ..options };
    let open = async || PostgresLinks::open(options.clone()).await.unwrap();
    let mut links = open().await;
    let put = async |links: &PostgresLinks, code: &str| {
        let link = alias(code, "https://example.com/");
        links.insert(Insert::new(link, None)).await.unwrap();
    };
    let query = ListQuery::all(Sort::Newest, 100, timestamp(1));
    let shown = async |links: &PostgresLinks| links.list_to_show(&query).await.unwrap().links.len();
    // When a connection to the standby has last ended a read.
    let reads = format!(
        "SELECT max(state_change) FROM pg_stat_activity WHERE datname = '{database}' \
         AND query LIKE '%COMMIT'"
    );
    let last_read = || standby.sql("postgres", &reads);
    put(&links, "one").await;
    let lag = "SELECT pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()";
    wait_until("the standby has the link", || standby.sql("postgres", lag) == "t");
    assert_eq!(shown(&links).await, 1);
    for _ in 0..20 {
        if !last_read().is_empty() {
            break;
        }
        // The machine was too busy for the time limit, and the node asks the primary for a while.
        links = open().await;
        assert_eq!(shown(&links).await, 1);
    }
    let read = last_read();
    assert_ne!(read, "", "the replica has answered");
    assert_eq!(links.list(&query).await.unwrap().links.len(), 1);
    assert_eq!(last_read(), read, "the primary answers what terse decides by");

    standby.sql("postgres", "SELECT pg_wal_replay_pause()");
    let paused = "SELECT pg_get_wal_replay_pause_state()";
    wait_until("the standby stands still", || standby.sql("postgres", paused) == "paused");
    put(&links, "two").await;
    assert_eq!(shown(&links).await, 2, "the replica has not caught up, and the primary answers");
    standby.stop();
    assert_eq!(shown(&links).await, 2);
}

/// A third report finds no free connection to the replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_slow_reports_do_not_turn_others_away_from_the_replica() {
    let server = PostgresServer::start(&["fsync=off"]);
    let standby = server.synchronous_standby();
    let database = server.fresh_database();
    let options = PostgresOptions::new(server.url(&database));
    PostgresClicks::open(options.clone(), true).await.unwrap();
    let lag = "SELECT pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()";
    wait_until("the standby has the tables", || standby.sql("postgres", lag) == "t");
    // No timeout ends a report.
    let statement_timeout = Duration::from_secs(600);
    let replica_url = Some(standby.url(&database));
    let options = PostgresOptions { replica_url, statement_timeout, ..options };
    let clicks = PostgresClicks::open(options.clone(), true).await.unwrap();
    let report = || {
        let clicks = clicks.clone();
        let subject = ClickSubject::Everything;
        async move { clicks.report(&subject, Period::default(), Timestamp::EPOCH).await }
    };
    // When a connection to the standby has last ended a report.
    let reads = format!(
        "SELECT max(state_change) FROM pg_stat_activity WHERE datname = '{database}' \
         AND query LIKE '%COMMIT'"
    );
    let last_read = || standby.sql("postgres", &reads);
    report().await.unwrap();
    assert_ne!(last_read(), "", "the replica has answered");
    let locks = |server: &PostgresServer, which: &str| {
        let sql = "SELECT count(*) FROM pg_locks WHERE relation = 'click_subjects'::regclass";
        server.sql(&database, &format!("{sql} AND {which}"))
    };

    let lock = OpenTransaction::begin(&options.url, "LOCK TABLE click_subjects");
    wait_until("the standby has the lock", || locks(&standby, "granted") == "1");
    let slow = [report(), report()].map(tokio::spawn);
    wait_until("both wait", || locks(&standby, "NOT granted") == "2");
    let third = tokio::spawn(report());
    wait_until("the third one asks the primary", || locks(&server, "NOT granted") == "1");
    lock.commit();
    for report in slow.into_iter().chain([third]) {
        report.await.unwrap().unwrap();
    }
    let read = last_read();
    report().await.unwrap();
    assert_ne!(last_read(), read, "the replica answers again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_measures_the_clock_and_the_lag_of_standby_and_replica() {
    let server = PostgresServer::start(&["fsync=off"]);
    let standby = server.synchronous_standby();
    let database = server.fresh_database();
    let options = PostgresOptions::new(server.url(&database));
    let options = PostgresOptions { replica_url: Some(standby.url(&database)), ..options };
    let links = PostgresLinks::open(options).await.unwrap();
    let mut watch = DatabaseWatch::new(&links.connections());
    let results = watch.results();
    let mut look = async || {
        watch.run(&JobContext::without_lease()).await.unwrap();
        let mut metrics = Metrics::default();
        results.write_metrics(&mut metrics);
        let value = |family: &MetricFamily| match &family.values {
            MetricValues::Gauges(values) => (family.name, values[0].1),
            other => panic!("{other:?}"),
        };
        metrics.families().iter().map(value).collect::<BTreeMap<_, _>>()
    };
    let replica_lag = "terse_database_replica_lag_seconds";
    let lag = "SELECT pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()";
    wait_until("the standby has the tables", || standby.sql("postgres", lag) == "t");
    // The server writes into its log at times of its own.
    let mut seen = look().await;
    for _ in 0..200 {
        if seen[replica_lag] == 0.0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        seen = look().await;
    }
    // One machine, and an answer within the time limit of a run.
    assert!(seen["terse_database_clock_ahead_seconds"].abs() < 4.0, "{seen:?}");
    assert!(seen.contains_key("terse_database_standby_lag_seconds"), "{seen:?}");
    assert_eq!(seen[replica_lag], 0.0, "{seen:?}");

    standby.sql("postgres", "SELECT pg_wal_replay_pause()");
    let paused = "SELECT pg_get_wal_replay_pause_state()";
    wait_until("the standby stands still", || standby.sql("postgres", paused) == "paused");
    let link = alias("one", "https://example.com/");
    links.insert(Insert::new(link, None)).await.unwrap();
    let first = look().await[replica_lag];
    assert!(first > 0.0, "{first}");
    assert!(look().await[replica_lag] > first, "it lags since the same time");
    standby.sql("postgres", "SELECT pg_wal_replay_resume()");
    wait_until("the standby has followed", || standby.sql("postgres", lag) == "t");
    let last = look().await[replica_lag];
    assert!(last < first, "{last}, and {first} before");
}
