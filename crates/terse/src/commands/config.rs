//! `terse config`.

use clap::Args;

use crate::cli::LocalContext;
use crate::config::Config;
use terse_cli::terminal::say;

/// Print the settings in force and the origin of each, secrets hidden.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse config
  TERSE_CACHE__TTL=1m terse config --json
  terse config --markdown      every setting with its default, as in the manual")]
pub(crate) struct ConfigArgs {
    /// Print every setting as a table for the manual
    #[arg(long)]
    markdown: bool,
}

impl ConfigArgs {
    pub(crate) fn run(&self, context: &LocalContext) -> anyhow::Result<bool> {
        if self.markdown {
            say(Config::markdown().trim_end())?;
        } else if context.json {
            say(&context.loaded.to_json().to_string())?;
        } else {
            say(context.loaded.to_toml().trim_end())?;
        }
        Ok(true)
    }
}
