//! Keeps the codes of links in use in a file, and reads these links into memory after a restart.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use terse_core::{BoxError, Code, Domain, LinkKey};
use terse_redirect::Redirector;
use terse_worker::{Context, Job, Next};

/// The name of the file in the data folder.
const FILE: &str = "hot-links";
/// How often the file is written, besides at shutdown: a crash loses little.
const INTERVAL: Duration = Duration::from_mins(5);
/// The most links to keep: enough for most of the visits, and read within a second.
const MAX_LINKS: usize = 10_000;
/// A longer file was not written by terse.
const MAX_FILE: u64 = (MAX_LINKS * 400) as u64;

/// The file with the links in use.
#[derive(Clone)]
pub(crate) struct HotLinks {
    redirector: Arc<Redirector>,
    path: PathBuf,
    /// Whether the job has not run yet.
    first_run: bool,
}

impl HotLinks {
    pub(crate) fn new(redirector: Arc<Redirector>, data_dir: &Path) -> Self {
        Self { redirector, path: data_dir.join(FILE), first_run: true }
    }

    /// Writes the file.
    pub(crate) fn save(&self) -> anyhow::Result<()> {
        let links = self.redirector.links_in_use(MAX_LINKS);
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).context("making a file")?;
        let mut text = String::new();
        for LinkKey { domain, code } in &links {
            text += &format!("{} {code}\n", domain.as_str());
        }
        file.write_all(text.as_bytes()).context("writing")?;
        file.persist(&self.path).with_context(|| format!("naming {}", self.path.display()))?;
        Ok(())
    }

    /// Reads the links of the file into memory, and returns how many.
    pub(crate) async fn load(self) -> usize {
        let (path, size) = (self.path.clone(), std::fs::metadata(&self.path).map(|of| of.len()));
        if !size.is_ok_and(|size| size <= MAX_FILE) {
            return 0;
        }
        let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
        let Ok(Ok(text)) = text else { return 0 };
        let keys: Vec<LinkKey> = text.lines().take(MAX_LINKS).filter_map(key_of).collect();
        let loaded = self.redirector.load_ahead(&keys).await;
        tracing::info!(links = loaded, "read the links that were in use before the restart");
        loaded
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

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        // At the start the links of the last run are still being read.
        if !std::mem::take(&mut self.first_run) {
            let links = self.clone();
            tokio::task::spawn_blocking(move || links.save()).await??;
        }
        Ok(Next::Interval)
    }
}
