//! What the operator sees after a start: the address, the keys and the first steps.

use std::io::Write as _;

use terse_core::ListenAddress;

use super::{Server, listeners};
use crate::config::Config;

impl Server {
    /// Prints the address and the first steps to standard output. Standard error is the log, which
    /// must not contain keys.
    pub(super) fn print_first_steps(&self, config: &Config) {
        let (base, api) = (self.base_url.as_str().trim_end_matches('/'), &self.api_base);
        tracing::info!(address = %self.address, base_url = base, "terse is listening");
        let mut text = "\nterse is listening on".to_owned();
        match &self.address {
            ListenAddress::Tcp(address) => {
                for address in listeners::reachable(*address) {
                    text += &format!(" http://{address}");
                }
            }
            unix @ ListenAddress::Unix(_) => text += &format!(" {unix}"),
        }
        for address in self.tls_address.into_iter().flat_map(listeners::reachable) {
            text += &format!(" https://{address}");
        }
        text += "\n";
        if config.base_url.is_none() && !self.address.is_local() {
            text += &format!(
                "\nShort links begin with {base}/. Set base_url to the address that visitors use.\n"
            );
        }
        if let Some(link) = &self.setup_link {
            text += &format!("\nSet up your account: {link}\n");
        }
        if let Some(key) = &self.fresh_key {
            text += &format!("\nYour admin key, shown only this once:\n\n    {key}\n");
        }
        if config.roles.api {
            text += "\nCreate a first link:\n\n    ";
            text += &format!(
                "curl -s {api}/api/v1/urls -H 'Content-Type: application/json' \
                 -d '{{\"long_url\":\"https://example.com/\"}}'\n"
            );
        }
        if config.roles.web {
            text += &format!("\nor open {api}/ in a browser.\n");
        }
        // A closed standard output must not end the server.
        if let Err(error) = writeln!(std::io::stdout(), "{text}") {
            tracing::warn!(%error, "standard output is closed: the first steps were not printed");
        }
    }
}
