//! `terse health`: where the server answers health checks, by the settings.

use anyhow::Context as _;
use terse_core::ListenAddress;
use url::Url;

use crate::backends::DataDir;
use crate::config::Config;

/// The address of health checks: `admin.listen` if it is set, else `listen`. If the port is for the
/// system to choose, the one that the running server wrote down.
pub(crate) fn address(config: &Config) -> anyhow::Result<ListenAddress> {
    let listen = config.admin.listen.map_or_else(|| config.listen.clone(), Into::into);
    if listen.tcp().is_none_or(|address| address.port() != 0) {
        return Ok(listen);
    }
    let unknown = "the server's port is not known: set listen or admin.listen to a port";
    anyhow::ensure!(config.admin.listen.is_none(), unknown);
    let dir = DataDir::existing(&config.data_dir).context(unknown)?;
    let run = dir.read_run()?.context(unknown)?;
    let url = Url::parse(&run.url).context("run.json does not say where the server is")?;
    let addresses = url.socket_addrs(|| None)?;
    addresses.first().copied().map(Into::into).context(unknown)
}
