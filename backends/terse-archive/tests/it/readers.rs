//! Other programs read the files.

use std::process::Command;

use terse_core::clicks::{BotKind, Click};
use terse_testkit::duckdb_python;

use crate::support::{DAY, HOUR, Site, click, folder};

#[tokio::test]
async fn duckdb_reads_the_files() {
    let temp = tempfile::tempdir().unwrap();
    let site = Site::new(folder(&temp), 3 * DAY);
    let bot = Click { bot: Some(BotKind::Ai), country: Some("PL".into()), ..click("abc", 1, 4) };
    let clicks = vec![
        click("abc", u64::MAX, 0),
        bot,
        click("xyz-1", 7, DAY + 5 * HOUR),
        click("xyz-1", 7, DAY + 5 * HOUR + 1),
    ];
    site.add(clicks).await;
    site.run().await;
    let sql = "SELECT day::VARCHAR, hour::INT, code, count(*), max(owner), count(visitor), \
               string_agg(DISTINCT kind ORDER BY kind), min(time)::VARCHAR, max(city), \
               count(country), sum(weight)::INT \
               FROM read_parquet('clicks/**/*.parquet', hive_partitioning = true) \
               GROUP BY ALL ORDER BY 1, 2, 3";
    let script = format!(
        "import duckdb\nfor row in duckdb.sql(\"\"\"SET TimeZone='UTC'; {sql}\"\"\").fetchall(): print(*row, sep='|')"
    );
    let mut duckdb = Command::new(duckdb_python());
    let output = duckdb.args(["-c", &script]).current_dir(temp.path()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let expected = format!(
        "2026-01-01|0|abc|2|{}|2|ai,human|2026-01-01 00:00:00+00|Łódź, PL|1|2\n\
         2026-01-02|5|xyz-1|2|7|1|human|2026-01-02 05:00:00+00|Łódź, PL|0|2\n",
        u64::MAX
    );
    assert_eq!(printed, expected);
}
