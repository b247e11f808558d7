//! `terse backup` and `terse restore`.

use std::path::Path;

use anyhow::bail;
use terse_cli::DataFiles;

use crate::backends;
use crate::config::{Config, StoreUrl};

/// The files to copy. Refuses a database, whose server has backups of its own.
pub(crate) fn files(config: &Config) -> anyhow::Result<DataFiles> {
    match config.store {
        StoreUrl::File(_) => Ok(backends::data_files(config)),
        StoreUrl::Dynamo(_) => bail!(
            "links are in DynamoDB and owners in PostgreSQL: use the point-in-time recovery of the \
             table, and PostgreSQL's own tools, such as pg_dump (docs/dynamodb.md)"
        ),
        _ => bail!(
            "links and owners are in PostgreSQL: back them up and restore them with its own tools, \
             such as pg_dump"
        ),
    }
}

/// The files to copy, or those of another data folder.
pub(crate) fn files_in(config: &Config, dir: Option<&Path>) -> anyhow::Result<DataFiles> {
    match dir {
        Some(dir) => Ok(backends::data_files_in(config, dir)),
        None => files(config),
    }
}
