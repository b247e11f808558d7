//! Keeps the codes of popular links in a file, and reads these links into memory after a restart.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::clicks::{BotFilter, ClickReports, LiveFeed, Period, TopQuery};
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, Clock, Code, Domain, LinkKey};

/// The name of the file in the data folder.
const FILE: &str = "hot-links";
/// How often the file is written, besides at shutdown: a crash loses little.
const INTERVAL: Duration = Duration::from_mins(5);
/// How many past minutes of clicks decide which links are popular.
const MINUTES: i64 = 60;
/// The most links to keep: enough for most of the visits, and read within a second.
const MAX_LINKS: usize = 10_000;
/// The clicks of this long decide which links are read besides those of the file.
const TOP_PERIOD: Duration = Duration::from_hours(7 * 24);
/// How long the search for them may take.
const TOP_TIMEOUT: Duration = Duration::from_secs(10);
/// A longer file was not written by terse.
const MAX_FILE: u64 = (MAX_LINKS * 400) as u64;

/// The file with the links in use, those with the most visits first.
#[derive(Clone)]
pub struct HotLinks {
    in_use: InUse,
    live: Arc<LiveFeed>,
    clock: Clock,
    path: PathBuf,
    /// Whether the job has not run yet.
    first_run: bool,
}

/// Passes each link in use to its argument.
type InUse = Arc<dyn Fn(&mut dyn FnMut(LinkKey)) + Send + Sync>;

impl HotLinks {
    /// `in_use` passes each link in use to its argument; `live`: the clicks of the last hour.
    pub fn new(
        in_use: impl Fn(&mut dyn FnMut(LinkKey)) + Send + Sync + 'static,
        live: Arc<LiveFeed>,
        clock: Clock,
        data_dir: &Path,
    ) -> Self {
        let in_use = Arc::new(in_use);
        Self { in_use, live, clock, path: data_dir.join(FILE), first_run: true }
    }

    /// Writes the file.
    pub fn save(&self) -> io::Result<()> {
        let busiest = self.live.busiest(None, MINUTES, self.clock.now(), MAX_LINKS);
        let busiest = busiest.into_iter().map(|busy| busy.link.key).collect();
        let mut kept = KeptLinks::new(busiest, read(&self.path));
        (self.in_use)(&mut |key| kept.add(key));
        let links = kept.most_visited_first();
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let mut text = String::new();
        for LinkKey { domain, code } in &links {
            text += &format!("{} {code}\n", domain.as_str());
        }
        file.write_all(text.as_bytes())?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }

    /// The links to read into memory after a restart: those of the file, and then the links with
    /// the most clicks of the last days. The file may be missing or old, after a crash or in a
    /// folder that was restored, and it has only links that this node served.
    pub async fn read(&self, clicks: &(impl ClickReports + ?Sized)) -> Vec<LinkKey> {
        let path = self.path.clone();
        let mut keys = tokio::task::spawn_blocking(move || read(&path)).await.unwrap_or_default();
        let from = Some(self.clock.now().saturating_sub(TOP_PERIOD));
        let query = TopQuery {
            owner: None,
            period: Period { from, to: None },
            bots: BotFilter::Include,
            after: None,
            limit: MAX_LINKS,
        };
        match tokio::time::timeout(TOP_TIMEOUT, clicks.top(&query)).await {
            Ok(Ok(top)) => {
                let mut seen: HashSet<LinkKey> = keys.iter().cloned().collect();
                let top = top.into_iter().map(|ranked| ranked.link.key);
                keys.extend(top.filter(|key| seen.insert(key.clone())));
            }
            Ok(Err(error)) => tracing::info!(%error, "the links with the most clicks are unknown"),
            Err(_) => {
                tracing::info!("the links with the most clicks are unknown: it takes too long");
            }
        }
        keys
    }
}

/// The links of the file; none if there is no file, or one that terse did not write.
fn read(path: &Path) -> Vec<LinkKey> {
    if !std::fs::metadata(path).is_ok_and(|of| of.len() <= MAX_FILE) {
        return Vec::new();
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().take(MAX_LINKS).filter_map(key_of).collect()
}

/// The links to keep: those with the most visits of the last hour, then other links in use, and of
/// these the ones that were kept before first. The visits before a restart are no longer known; the
/// order of the file stands for them.
///
/// However many links are in use, it holds at most three times [`MAX_LINKS`].
struct KeptLinks {
    busiest: Vec<LinkKey>,
    /// The links of the file, each with its place in it, and whether it is still in use.
    before: HashMap<LinkKey, (usize, bool)>,
    /// Other links in use, as many as may be kept.
    others: Vec<LinkKey>,
}

impl KeptLinks {
    fn new(busiest: Vec<LinkKey>, before: Vec<LinkKey>) -> Self {
        let before = before.into_iter().zip(0..).map(|(key, place)| (key, (place, false)));
        Self { busiest, before: before.collect(), others: Vec::new() }
    }

    /// Takes note of a link in use.
    fn add(&mut self, key: LinkKey) {
        if let Some((_, in_use)) = self.before.get_mut(&key) {
            *in_use = true;
        } else if self.others.len() < MAX_LINKS {
            self.others.push(key);
        }
    }

    /// How many links it holds in memory.
    #[cfg(test)]
    fn held(&self) -> usize {
        self.busiest.len() + self.before.len() + self.others.len()
    }

    fn most_visited_first(self) -> Vec<LinkKey> {
        let mut before: Vec<(usize, LinkKey)> = self
            .before
            .into_iter()
            .filter_map(|(key, (place, in_use))| in_use.then_some((place, key)))
            .collect();
        before.sort_unstable_by_key(|(place, _)| *place);
        let before = before.into_iter().map(|(_, key)| key);
        let mut seen = HashSet::new();
        let all = self.busiest.into_iter().chain(before).chain(self.others);
        all.filter(|key| seen.insert(key.clone())).take(MAX_LINKS).collect()
    }
}

/// The link of a line: its domain, a space, its code.
fn key_of(line: &str) -> Option<LinkKey> {
    let (domain, code) = line.split_once(' ')?;
    let domain = match domain {
        "" => Domain::primary(),
        name => Domain::parse(name)?,
    };
    Some(LinkKey { domain, code: Code::parse(code)? })
}

#[async_trait]
impl Job for HotLinks {
    fn name(&self) -> &'static str {
        "hot links"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        // At the start the links of the last run are still being read.
        if !std::mem::take(&mut self.first_run) {
            let links = self.clone();
            tokio::task::spawn_blocking(move || links.save()).await??;
        }
        Ok(NextRun::Interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(from: usize, to: usize) -> Vec<LinkKey> {
        (from..to).filter_map(|n| key_of(&format!(" link-{n}"))).collect()
    }

    #[test]
    fn of_more_links_than_are_kept_those_with_the_most_visits_are() {
        let (in_use, busiest) = (keys(0, 2 * MAX_LINKS), keys(15_000, 15_100));
        let before = [keys(90_000, 90_010), keys(12_000, 12_050), keys(15_000, 15_001)].concat();
        let mut kept = KeptLinks::new(busiest.clone(), before);
        in_use.into_iter().for_each(|key| kept.add(key));
        let kept = kept.most_visited_first();
        assert_eq!(kept.len(), MAX_LINKS);
        assert_eq!(kept[..100], busiest);
        assert_eq!(kept[100..150], keys(12_000, 12_050), "not what is no longer in use");
        assert_eq!(kept.iter().collect::<HashSet<_>>().len(), MAX_LINKS);
    }

    #[test]
    fn the_links_held_in_memory_do_not_grow_with_the_links_in_use() {
        let mut kept = KeptLinks::new(keys(0, MAX_LINKS), keys(5_000, 5_000 + MAX_LINKS));
        for round in 0..20 {
            keys(round * MAX_LINKS, (round + 1) * MAX_LINKS).into_iter().for_each(|k| kept.add(k));
            assert!(kept.held() <= 3 * MAX_LINKS, "{} after {round}", kept.held());
        }
        assert_eq!(kept.most_visited_first().len(), MAX_LINKS);
    }
}
