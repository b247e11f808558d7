//! `terse man-pages`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

/// Write the manual pages of all commands into a folder: terse.1, terse-shorten.1 and so on.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  terse man-pages /usr/local/share/man/man1")]
pub(crate) struct ManPagesArgs {
    /// The folder; it is created if it does not exist
    dir: PathBuf,
}

impl ManPagesArgs {
    pub(crate) fn run(&self, command: clap::Command) -> anyhow::Result<bool> {
        let at = || format!("writing manual pages to {}", self.dir.display());
        std::fs::create_dir_all(&self.dir).with_context(at)?;
        // Shells and packages have no page for `help`, which repeats the others.
        clap_mangen::generate_to(command.disable_help_subcommand(true), &self.dir)
            .with_context(at)?;
        Ok(true)
    }
}
