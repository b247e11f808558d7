//! Which stores may stand beside each other, and what nodes need to share them.

use url::Url;

use crate::config::{Config, HumanDuration, StoreUrl};

/// More partitions make each query slower and help no more.
const MAX_PARTITIONS: u32 = 256;

/// What a node needs to share its stores with others, and what only such nodes can have.
pub(super) fn shared_stores(c: &Config) -> Result<(), (&'static str, String)> {
    if !c.is_shared() && !c.roles.worker {
        let why = "must include worker while store is a file: only one process can use the file, \
                   and without that role nothing deletes expired links and old salts or sends \
                   webhook events";
        return Err(("roles", why.into()));
    }
    for (name, given) in [("store_direct", &c.store_direct), ("store_replica", &c.store_replica)] {
        if given.is_some() && c.registry_database().is_none() {
            return Err((name, "is for a store or registry on PostgreSQL only".into()));
        }
    }
    if c.store_partitions > MAX_PARTITIONS {
        return Err(("store_partitions", format!("must be at most {MAX_PARTITIONS}")));
    }
    if c.cache.url.is_some() && !c.is_shared() {
        let why = "is for a store that several nodes share, such as postgres://…";
        return Err(("cache.url", why.into()));
    }
    if c.cache.write_through && c.cache.url.is_none() {
        return Err(("cache.write_through", "needs cache.url".into()));
    }
    stores(c)?;
    if c.clicks.bus.is_some() && (!c.is_shared() || c.has_clicks_file()) {
        let why = "needs a store and a clicks.store that nodes share: postgres://… or, for clicks, \
                   clickhouse://…";
        return Err(("clicks.bus", why.into()));
    }
    Ok(())
}

/// Which stores may stand beside each other.
fn stores(config: &Config) -> Result<(), (&'static str, String)> {
    use StoreUrl::{ClickHouse, Dynamo, File, Postgres};
    let refuse = |name, why: &str| Err((name, why.to_owned()));
    match (&config.store, &config.registry) {
        (ClickHouse(_), _) => {
            return refuse("store", "must not be ClickHouse, which is for clicks.store only");
        }
        (_, Some(ClickHouse(_) | Dynamo(_))) => {
            return refuse("registry", "must be postgres://… or file:…");
        }
        (File(_), Some(Postgres(_))) => {
            return refuse("registry", "must be a file while store is a file");
        }
        (Postgres(_), Some(File(_))) | (Dynamo(_), None | Some(File(_))) => {
            let why = "must be postgres://… while nodes share the store: they share accounts, \
                       sessions and the leases of jobs, too";
            return refuse("registry", why);
        }
        (Postgres(store), Some(Postgres(registry))) if store != registry => {
            return refuse("registry", "must be the database of store, or not be set");
        }
        (File(_), None | Some(File(_)))
        | (Postgres(_), None | Some(Postgres(_)))
        | (Dynamo(_), Some(Postgres(_))) => {}
    }
    match (&config.store, &config.clicks.store) {
        (_, Some(Dynamo(_))) => {
            return refuse("clicks.store", "must not be DynamoDB, which is for store only");
        }
        (File(_), Some(Postgres(_) | ClickHouse(_))) => {
            return refuse("clicks.store", "must be a file while store is a file");
        }
        (Dynamo(_), Some(File(_))) => {
            let why = "must be postgres://… or clickhouse://… while store is on DynamoDB; without \
                       it, clicks are in the database of registry";
            return refuse("clicks.store", why);
        }
        _ => {}
    }
    if config.is_shared() {
        return Ok(());
    }
    if config.clicks_file() == config.store_file() {
        return refuse("clicks.store", "must be another file than store");
    }
    if [config.store_file(), config.clicks_file()].contains(&config.registry_file()) {
        return refuse("registry", "must be another file than store and clicks.store");
    }
    Ok(())
}

/// The archive of clicks, backups, and S3.
pub(super) fn object_storage(config: &Config) -> Result<(), (&'static str, String)> {
    let (clicks, s3, day) = (&config.clicks, &config.s3, HumanDuration::days(1));
    if clicks.archive.is_some() && clicks.keep_raw < day {
        let why = "must be at least 1d with clicks.archive, which copies single clicks";
        return Err(("clicks.keep_raw", why.into()));
    }
    if clicks.archive.is_some() && config.is_shared() && config.has_clicks_file() {
        let why = "must be a database with clicks.archive: one node archives the clicks of all";
        return Err(("clicks.store", why.into()));
    }
    match clicks.archive_keep {
        Some(_) if clicks.archive.is_none() => {
            return Err(("clicks.archive_keep", "needs clicks.archive".into()));
        }
        Some(keep) if keep < day => {
            return Err(("clicks.archive_keep", format!("must be at least 1d (got {keep})")));
        }
        _ => {}
    }
    let drill_every = config.backup.drill_every;
    if drill_every > HumanDuration::secs(0) && drill_every < HumanDuration::secs(3600) {
        let why = format!("must be 0s for never, or at least 1h (got {drill_every})");
        return Err(("backup.drill_every", why));
    }
    if config.backup.url.is_some() && config.is_shared() {
        let why = "is for a store in files: back databases up with their own tools";
        return Err(("backup.url", why.into()));
    }
    if s3.access_key_id.is_some() != s3.secret_access_key.is_some() {
        let why = "is needed with s3.secret_access_key, and only there";
        return Err(("s3.access_key_id", why.into()));
    }
    let is_server = |text: &String| {
        Url::parse(text).is_ok_and(|url| {
            let is_plain = matches!(url.path(), "" | "/") && url.query().is_none();
            let no_user = url.username().is_empty() && url.password().is_none();
            matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain && no_user
        })
    };
    match s3.endpoint.as_ref().filter(|endpoint| !is_server(endpoint)) {
        Some(text) => Err((
            "s3.endpoint",
            format!("must be a URL such as https://minio.example:9000 (got {text:?})"),
        )),
        None => Ok(()),
    }
}
