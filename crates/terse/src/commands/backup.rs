//! `terse backup` and `terse restore`.

use anyhow::ensure;
use terse_cli::DataFiles;

use crate::backends;
use crate::config::Config;

/// The files to copy. Refuses a database, whose server has backups of its own.
pub(crate) fn files(config: &Config) -> anyhow::Result<DataFiles> {
    ensure!(
        !config.is_shared(),
        "links and owners are in PostgreSQL: back them up and restore them with its own tools, \
         such as pg_dump"
    );
    Ok(backends::data_files(config))
}
