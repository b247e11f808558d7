//! Erased links and owners are taken out of the files.

use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_core::OwnerId;
use terse_core::clicks::Click;
use terse_testkit::{S3Server, key, timestamp};

use crate::support::{DAY, HOUR, Site, click, folder, s3, sorted};

fn codes(clicks: &[Click]) -> Vec<String> {
    let code = |click: &Click| click.link().unwrap().key.code.as_str().to_owned();
    let mut codes: Vec<String> = clicks.iter().map(code).collect();
    codes.sort();
    codes
}

async fn check_erasing(site: Site, keeps_empty: bool) {
    let clicks = [("gone", 1, 0), ("stays", 1, 1), ("theirs", 2, 2), ("gone", 1, 5 * HOUR)];
    site.add(clicks.iter().map(|(code, owner, ms)| click(code, *owner, *ms)).collect()).await;
    site.run().await;
    assert_eq!(site.names().await.len(), 2);
    let untouched = site.contents().await;
    let now = site.clock.now();
    site.clicks.erase_links(&[key("gone")], timestamp(0), now).await.unwrap();
    site.clicks.erase_owner(OwnerId(2), now).await.unwrap();
    site.run().await;
    assert_eq!(site.contents().await, untouched, "files are searched every six hours");
    site.clock.advance(Duration::from_hours(7));
    site.run().await;
    assert_eq!(codes(&site.all().await), ["stays"]);
    let kept = 1 + usize::from(keeps_empty);
    assert_eq!(site.names().await.len(), kept, "a file without clicks is deleted, or empty");
    assert_eq!(site.counts.erased.load(Ordering::Relaxed), 3);
    let files = site.counts.files.load(Ordering::Relaxed);
    site.clock.advance(Duration::from_hours(7));
    site.run().await;
    assert_eq!(site.counts.files.load(Ordering::Relaxed), files);
    assert_eq!(codes(&site.all().await), ["stays"]);
    // A name that was erased is in no file, in no form.
    for (_, content) in site.contents().await {
        assert!(!content.windows(6).any(|part| part == b"theirs"));
    }
}

#[tokio::test]
async fn erased_clicks_leave_the_files_of_a_folder() {
    let temp = tempfile::tempdir().unwrap();
    check_erasing(Site::new(folder(&temp), DAY), false).await;
}

#[tokio::test]
async fn erased_clicks_leave_the_files_of_a_bucket() {
    check_erasing(Site::new(s3(), DAY), S3Server::has_conditional_writes()).await;
}

#[tokio::test]
async fn a_link_made_again_after_an_erasure_stays() {
    let temp = tempfile::tempdir().unwrap();
    let site = Site::new(folder(&temp), DAY);
    site.add(vec![click("again", 1, 0)]).await;
    site.run().await;
    // The link with this code was created before the erased one.
    let before = timestamp(-2 * DAY);
    site.clicks.erase_links(&[key("again")], before, site.clock.now()).await.unwrap();
    site.clock.advance(Duration::from_hours(7));
    site.run().await;
    assert_eq!(sorted(site.all().await), [click("again", 1, 0)]);
}

#[tokio::test]
async fn a_late_click_beside_erased_ones_is_copied_after_the_search() {
    let temp = tempfile::tempdir().unwrap();
    let site = Site::new(folder(&temp), DAY);
    site.add(vec![click("gone", 1, 0), click("gone", 1, 1), click("stays", 1, 2)]).await;
    site.run().await;
    site.clicks.erase_links(&[key("gone")], timestamp(0), site.clock.now()).await.unwrap();
    site.add(vec![click("late", 1, 3)]).await;
    site.run().await;
    assert_eq!(codes(&site.all().await), ["gone", "gone", "stays"]);
    site.clock.advance(Duration::from_hours(7));
    site.run().await;
    assert_eq!(codes(&site.all().await), ["late", "stays"]);
}
