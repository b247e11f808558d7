//! Objects on S3 or in a folder: the archive of clicks, and backups.

use std::sync::Arc;

use anyhow::Context as _;
use terse_archive::{
    Archive, ArchiveCounts, ArchiveJob, ArchiveJobParts, ArchiveQuery, ArchivedFile, S3Options,
    Storage, StorageUrl,
};
use terse_cli::{BackupCounts, DrillCounts, LAST_DRILL, ScheduledBackups, ScheduledDrills};
use terse_core::clicks::Click;
use terse_core::{CheckResult, Clock, Finding, ObjectStorage};
use terse_metrics::write_drill_metrics;

use super::{ArchiveFile, ArchiveParts, ArchiveSelection, OnVerified, Stores};
use crate::config::{Config, ObjectUrl};

/// Checks a URL, and returns it in its usual form.
pub(crate) fn check_url(text: &str) -> Result<String, String> {
    StorageUrl::parse(text).map(|url| url.to_string()).map_err(|error| error.to_string())
}

/// Opens the place that a setting names.
fn storage(config: &Config, url: &ObjectUrl) -> anyhow::Result<Storage> {
    let s3 = &config.s3;
    let roots = s3.ca_certificates.as_ref().map(|path| {
        std::fs::read(path)
            .with_context(|| format!("s3.ca_certificates: reading {}", path.display()))
    });
    let options = S3Options {
        endpoint: s3.endpoint.clone(),
        region: s3.region.clone(),
        access_key_id: s3.access_key_id.clone(),
        secret_access_key: s3.secret_access_key.clone(),
        virtual_hosts: s3.virtual_hosts,
        conditional_writes: s3.conditional_writes,
        roots: roots.transpose()?,
    };
    Ok(Storage::open(&StorageUrl::parse(url.as_str())?, &options)?)
}

fn archive_storage(config: &Config) -> anyhow::Result<Storage> {
    let url = config.clicks.archive.as_ref();
    let url = url.context("the setting `clicks.archive` names no archive")?;
    storage(config, url).context("clicks.archive")
}

/// Where backups go.
pub(crate) fn backup_storage(config: &Config) -> anyhow::Result<Arc<dyn ObjectStorage>> {
    let url = config.backup.url.as_ref();
    let url = url.context("the setting `backup.url` names no place for backups")?;
    Ok(Arc::new(storage(config, url).context("backup.url")?))
}

/// Checks that a node which archives or sends backups can write. Other nodes never do.
pub(crate) async fn check_storage(config: &Config) -> anyhow::Result<()> {
    if config.clicks.archive.is_some() && config.roles.worker {
        archive_storage(config)?.check().await.context("clicks.archive")?;
    }
    if let Some(url) = &config.backup.url {
        storage(config, url)?.check().await.context("backup.url")?;
    }
    Ok(())
}

/// The jobs of the archive and of backups, if the settings name a place for them.
pub(crate) fn jobs(
    config: &Config,
    stores: &Stores,
    clock: &Clock,
) -> anyhow::Result<ArchiveParts> {
    let mut parts = ArchiveParts::default();
    if config.clicks.archive.is_some() {
        let counts = Arc::<ArchiveCounts>::default();
        parts.jobs.push(Box::new(ArchiveJob::new(ArchiveJobParts {
            clicks: Arc::clone(&stores.clicks),
            registry: stores.registry.clone(),
            storage: archive_storage(config)?,
            keep_raw: config.clicks.keep_raw.get(),
            keep: config.clicks.archive_keep.map(terse_core::HumanDuration::get),
            clock: clock.clone(),
            counts: Arc::clone(&counts),
        })));
        parts.metrics.push(Box::new(move |to| counts.write_metrics(to)));
    }
    if config.backup.url.is_some() {
        let counts = Arc::<BackupCounts>::default();
        parts.jobs.push(Box::new(ScheduledBackups::new(
            backup_storage(config)?,
            super::data_files(config),
            (config.backup.every.get(), config.backup.keep.get()),
            clock.clone(),
            Arc::clone(&counts),
        )));
        parts.metrics.push(Box::new(move |to| counts.write_metrics(to)));
    }
    let drill_every = config.backup.drill_every.get();
    if config.backup.url.is_some() && !drill_every.is_zero() {
        let (counts, template) = (Arc::<DrillCounts>::default(), config.clone());
        parts.jobs.push(Box::new(ScheduledDrills::new(
            backup_storage(config)?,
            config.data_dir.clone(),
            Arc::new(move |dir| Ok(super::data_files_in(&template, dir))),
            drill_every,
            Arc::clone(&counts),
        )));
        let last = config.data_dir.join(LAST_DRILL);
        parts.metrics.push(Box::new(move |to| {
            counts.write_metrics(to);
            write_drill_metrics(&last, drill_every, to);
        }));
    }
    Ok(parts)
}

/// Looks at the archive; no findings without one. Blocks, and may be called on any thread.
pub(crate) fn doctor(config: &Config) -> Vec<Finding> {
    if config.clicks.archive.is_none() {
        return Vec::new();
    }
    let config = config.clone();
    let inspected = std::thread::spawn(move || {
        runtime()?.block_on(async {
            let storage = archive_storage(&config)?;
            storage.check().await?;
            let files = Archive::new(storage).files(&ArchiveQuery::default()).await?;
            let octets: u64 = files.iter().map(|file| file.octets).sum();
            let until = files.last().map(|file| format!(", the newest up to {}", file.to));
            let until = until.unwrap_or_default();
            anyhow::Ok(format!("{} files, {} MiB{until}", files.len(), octets >> 20))
        })
    });
    let finding = |verdict, found, advice: &str| Finding {
        what: "archive".to_owned(),
        verdict,
        found,
        advice: advice.to_owned(),
    };
    vec![match inspected.join() {
        Ok(Ok(found)) => finding(CheckResult::Good, found, ""),
        Ok(Err(error)) => finding(
            CheckResult::Problem,
            format!("{error:#}"),
            "correct the settings `clicks.archive` and `s3.*`, or start the server of objects; \
             clicks that are older than `clicks.keep_raw` by then are not archived",
        ),
        Err(_) => finding(CheckResult::Problem, "it could not be checked".into(), ""),
    }]
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

fn query_of(selection: &ArchiveSelection) -> ArchiveQuery {
    ArchiveQuery { link: selection.link.clone(), period: selection.period }
}

fn shown(file: &ArchivedFile, clicks: u64) -> ArchiveFile {
    let ArchivedFile { name, from, to, octets, .. } = file;
    ArchiveFile { name: name.clone(), from: *from, to: *to, octets: *octets, clicks }
}

/// The files with clicks of a period.
pub(crate) fn list(
    config: &Config,
    selection: &ArchiveSelection,
) -> anyhow::Result<Vec<ArchiveFile>> {
    let archive = Archive::new(archive_storage(config)?);
    runtime()?.block_on(async {
        let mut files = Vec::new();
        for file in archive.files(&query_of(selection)).await? {
            files.push(shown(&file, archive.count(&file).await?));
        }
        Ok(files)
    })
}

/// Reads all files with clicks of a period, and says of each how many clicks it has or what is
/// wrong with it.
pub(crate) fn verify(
    config: &Config,
    selection: &ArchiveSelection,
    each: OnVerified<'_>,
) -> anyhow::Result<()> {
    let archive = Archive::new(archive_storage(config)?);
    let runtime = runtime()?;
    for file in runtime.block_on(archive.files(&query_of(selection)))? {
        let clicks = runtime.block_on(archive.verify(&file)).map_err(|error| error.to_string());
        each(&shown(&file, clicks.as_ref().copied().unwrap_or(0)), clicks)?;
    }
    Ok(())
}

/// Reads clicks, the earliest first.
pub(crate) fn query(
    config: &Config,
    selection: &ArchiveSelection,
    each: &mut dyn FnMut(&Click) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let archive = Archive::new(archive_storage(config)?);
    let (runtime, query) = (runtime()?, query_of(selection));
    for file in runtime.block_on(archive.files(&query))? {
        for click in runtime.block_on(archive.read(&file, &query))? {
            each(&click)?;
        }
    }
    Ok(())
}
