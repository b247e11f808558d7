//! `terse health`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use terse_core::ListenAddress;

use crate::terminal::{one_line, say};
use crate::unix_agent;

/// How long the server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest answer that is read, in bytes.
const MAX_ANSWER: u64 = 64 << 10;

/// Ask the server of these settings whether it can serve, as load balancers do. For health checks
/// of containers, which contain no other program.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse health
  terse health --live

Exit code 0 if the server answers 200, else 1.")]
pub struct HealthArgs {
    /// Ask only whether the process runs, not whether it can serve (`/livez` instead of `/readyz`)
    #[arg(long)]
    live: bool,
}

impl HealthArgs {
    /// Asks the server that listens on this address for health checks.
    pub fn run(&self, listen: &ListenAddress, json: bool) -> anyhow::Result<bool> {
        let path = if self.live { "livez" } else { "readyz" };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        let (agent, url, place) = match listen {
            ListenAddress::Tcp(address) => {
                let url = format!("http://{}/{path}", on_this_machine(*address));
                (config.into(), url.clone(), url)
            }
            ListenAddress::Unix(socket) => {
                let url = format!("{}/{path}", unix_agent::BASE);
                (unix_agent::agent(config, socket), url, listen.to_string())
            }
        };
        let agent: ureq::Agent = agent;
        let answer = agent.get(&url).call().map_err(anyhow::Error::from).and_then(|mut answer| {
            let text = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_string()?;
            Ok((answer.status().as_u16(), text))
        });
        let (well, status, said) = match answer {
            Ok((status, text)) => (status == 200, Some(status), text.trim_end().to_owned()),
            Err(error) => (false, None, format!("no answer from {place}: {error:#}")),
        };
        if json {
            say(&json!({ "well": well, "status": status, "said": said }).to_string())?;
        } else {
            for line in said.lines() {
                say(&one_line(line))?;
            }
        }
        Ok(well)
    }
}

/// An address that leads to a listener from this machine: a listener on all addresses is asked on
/// the loopback address.
fn on_this_machine(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_asked_on_this_machine() {
        for (listen, asked) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("10.0.0.7:80", "10.0.0.7:80"),
        ] {
            assert_eq!(on_this_machine(listen.parse().unwrap()), asked.parse().unwrap());
        }
    }
}
