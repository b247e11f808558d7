//! Segments: made ahead, changed under load, missing, truncated.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use terse_core::Clock;
use terse_core::clicks::{HEADER, JournalSignals};
use terse_redirect::{Journal, JournalSettings};
use terse_testkit::{alias, wait_until};

use crate::fixture::{Fixture, Served, journal_settings};
use crate::segments::{self, Segment};

const VISIT: &str = "GET /abc1234 HTTP/1.1\r\nHost: go.example\r\nUser-Agent: x\r\n\r\n";
/// Raised to the minimum size of a segment.
const SMALL: usize = 1;

async fn fixture(threads: usize) -> Fixture {
    let fixture = Fixture::new(|settings| settings.threads = threads);
    fixture.insert(alias("abc1234", "https://example.com/")).await;
    fixture
}

/// The number of segments without a record.
fn empty(served: &Served) -> usize {
    segments::read(&served.segments())
        .iter()
        .filter(|segment| segment.visits.is_empty() && !segment.ended)
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn changing_to_the_next_segment_loses_nothing_and_keeps_the_order() {
    let fixture = fixture(2).await;
    let served = fixture.serve_journaled(|settings| settings.segment_bytes = SMALL);
    let mut streams: Vec<_> = (0..4).map(|_| served.connect()).collect();
    let mut buffer = [0; 4096];
    for round in 0..100 {
        // Without a spare segment clicks would be lost; another test covers that.
        wait_until("a spare", || empty(&served) >= 4);
        for n in 0..10 {
            for (who, stream) in streams.iter_mut().enumerate() {
                let request = format!(
                    "GET /abc1234?utm_id={} HTTP/1.1\r\nHost: go.example\r\nUser-Agent: \
                     {who}\r\nX: {}\r\n\r\n",
                    round * 10 + n,
                    "x".repeat(100)
                );
                stream.write_all(request.as_bytes()).unwrap();
                let count = stream.read(&mut buffer).unwrap();
                assert!(buffer[..count].starts_with(b"HTTP/1.1 302"));
            }
        }
    }
    let counts = served.workers.counts();
    assert_eq!((counts.redirected, counts.clicks_journaled, counts.clicks_lost), (4000, 4000, 0));
    let journaled = served.journaled();
    for who in ["0", "1", "2", "3"] {
        let of_one: Vec<_> = journaled
            .iter()
            .filter(|journaled| journaled.agent == who)
            .map(|journaled| journaled.campaign.clone())
            .collect();
        assert_eq!(of_one, (0..1000).map(|n| format!("utm_id={n}")).collect::<Vec<_>>());
    }
    let files = segments::files(&served.segments()).len();
    assert!(files > 10, "{files} segments");
    assert_eq!(served.journal().segments_made(), files as u64);
    // When the threads have ended, each segment has an end mark.
    let folder = served.segments();
    served.workers.stop(Duration::from_secs(10));
    served.journal().stop();
    assert!(
        segments::read(&folder).iter().all(|segment| segment.ended && segment.header.run == 42)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_erasure_segments_with_records_are_finished() {
    let fixture = fixture(2).await;
    let signals = Arc::<JournalSignals>::default();
    let served = fixture.serve_journaled(|settings| settings.signals = Arc::clone(&signals));
    let of = |wanted: bool| {
        let all = segments::read(&served.segments());
        all.iter().filter(|segment| !segment.visits.is_empty() && segment.ended == wanted).count()
    };
    assert!(served.exchange(VISIT.as_bytes()).starts_with("HTTP/1.1 302"));
    assert_eq!((of(false), of(true)), (1, 0));
    signals.erased();
    wait_until("the segment is finished", || (of(false), of(true)) == (0, 1));
    // Empty segments stay, and the next visit is in another one.
    assert!(served.exchange(VISIT.as_bytes()).starts_with("HTTP/1.1 302"));
    assert_eq!((of(false), of(true)), (1, 1));
    assert_eq!(served.workers.counts().clicks_journaled, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_space_clicks_are_lost_and_counted_and_redirects_go_on() {
    let fixture = fixture(1).await;
    let served = fixture.serve_journaled(|settings| {
        settings.segment_bytes = SMALL;
        settings.limit_bytes = 0;
    });
    let many = VISIT.repeat(5000);
    let mut sent = 0;
    while served.workers.counts().clicks_lost == 0 {
        assert_eq!(served.exchange(many.as_bytes()).matches("HTTP/1.1 302").count(), 5000);
        sent += 5000;
        assert!(sent < 1_000_000, "the journal never filled up");
    }
    let counts = served.workers.counts();
    assert!(counts.clicks_journaled > 0, "{counts:?}");
    assert_eq!(counts.clicks_lost + counts.clicks_journaled, sent);
    assert_eq!(served.journaled().len() as u64, counts.clicks_journaled);
    assert!(served.journal().segments_made() <= 35, "one in use, 32 spares and two past the limit");
    // When the reader deletes segments, clicks are written again.
    for file in segments::files(&served.segments()) {
        std::fs::remove_file(file).unwrap();
    }
    wait_until("a click in a new segment", || {
        served.exchange(many.as_bytes());
        !served.journaled().is_empty()
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_folder_costs_clicks_and_no_redirect() {
    let fixture = fixture(1).await;
    let served = fixture.serve_journaled(|settings| settings.segment_bytes = SMALL);
    // The folder can be removed only while no segment is being made.
    wait_until("all spares", || empty(&served) == 9);
    std::fs::remove_dir_all(served.segments()).unwrap();
    let many = VISIT.repeat(2000);
    wait_until("a click without a segment", || {
        assert_eq!(served.exchange(many.as_bytes()).matches("HTTP/1.1 302").count(), 2000);
        served.workers.counts().clicks_lost > 0
    });
    std::fs::create_dir(served.segments()).unwrap();
    wait_until("a click in a new segment", || {
        served.exchange(VISIT.as_bytes());
        !served.journaled().is_empty()
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_segment_is_read_up_to_the_cut() {
    let fixture = fixture(1).await;
    let served = fixture.serve_journaled(|_| ());
    served.exchange(VISIT.repeat(50).as_bytes());
    let written =
        segments::files(&served.segments()).into_iter().map(|path| std::fs::read(path).unwrap());
    let whole = written.max_by_key(|bytes| Segment::parse(bytes).visits.len()).unwrap();
    let Segment { visits, end, ended, .. } = Segment::parse(&whole);
    assert_eq!((visits.len(), ended), (50, false));
    for cut in HEADER..end {
        assert!(Segment::parse(&whole[..cut]).visits.len() < 50, "cut at {cut}");
        // As if the pages from there on had never reached the disk.
        let mut torn = whole.clone();
        torn[cut..].fill(0);
        let read = Segment::parse(&torn);
        assert!(
            read.visits.len() < 50 && !read.ended && visits.starts_with(&read.visits),
            "zeros from {cut}"
        );
        let mut flipped = whole.clone();
        flipped[cut] ^= 0x40;
        assert!(visits.starts_with(&Segment::parse(&flipped).visits), "flipped at {cut}");
    }
}

fn start(settings: JournalSettings) -> std::io::Result<std::sync::Arc<Journal>> {
    Journal::start(settings, 2, Clock::default())
}

#[test]
fn a_journal_starts_with_a_segment_for_each_thread_in_a_private_folder() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("data").join("journal");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("0000000000001-00000000000000aa.clicks.new"), "begun").unwrap();
    let journal = start(journal_settings(&place)).unwrap();
    assert!(journal.segments_made() >= 2);
    let files = segments::files(&place);
    assert!(files.len() >= 2);
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place), 0o700);
    for file in &files {
        assert_eq!(mode(file), 0o600);
        let name = file.file_name().unwrap().to_str().unwrap();
        let header = Segment::parse(&std::fs::read(file).unwrap()).header;
        assert_eq!(name, format!("{:013}-{:016x}.clicks", header.made_ms, header.id));
        assert_eq!(std::fs::metadata(file).unwrap().len(), 1 << 20);
    }
    journal.stop();
    let names: Vec<_> =
        std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".new")), "{names:?}");
    assert!(
        segments::read(&place).iter().all(|segment| segment.ended),
        "no thread writes to them any more"
    );
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_and_a_full_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    assert!(start(journal_settings(&file)).is_err());
    assert!(start(journal_settings(&file.join("journal"))).is_err());
    let place = folder.path().join("full");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("0000000000001-00000000000000aa.clicks"), vec![0; 40 << 20]).unwrap();
    let journal = start(JournalSettings { limit_bytes: 0, ..journal_settings(&place) }).unwrap();
    assert_eq!(journal.segments_made(), 0);
}

#[test]
fn damaged_files_do_not_count_against_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("journal");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("0000000000001-00000000000000aa.clicks.damaged"), vec![0; 10 << 20])
        .unwrap();
    let journal = start(JournalSettings { limit_bytes: 0, ..journal_settings(&place) }).unwrap();
    assert!(journal.segments_made() >= 2);
}

/// Segments are mapped, and their pages count as memory of the process once they are touched.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_journal_takes_no_memory_for_its_segments() {
    let served = Fixture::new(|_| ()).serve_journaled(|_| ());
    let folder = served.segments();
    let count = || std::fs::read_dir(&folder).unwrap().count();
    // Both threads have taken their first segment, and the allocator has replaced it.
    wait_until("a full set of segments", || count() >= 2 * (8 + 1));
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut ours, mut resident_kib) = (false, 0_u64);
    for line in maps.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        if first.contains('-') {
            ours = line.contains(folder.to_str().unwrap());
        } else if let Some(rss) = line.strip_prefix("Rss:").filter(|_| ours) {
            resident_kib += rss.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
        }
    }
    // A page or a few of each: headers, and what the kernel maps around them.
    assert!(resident_kib < 512, "{resident_kib} KiB in memory");
}
