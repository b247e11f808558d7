//! Where a server listens: at an address and a port, or at a Unix socket.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The longest path of a Unix socket on Linux, in bytes.
const MAX_SOCKET_PATH: usize = 107;

/// Where a server listens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ListenAddress {
    /// An address and a port.
    Tcp(SocketAddr),
    /// The absolute path of a Unix socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// The client address of every connection at a Unix socket: such a connection has none of its
    /// own, and its client is on this machine.
    pub const UNIX_PEER: SocketAddr =
        SocketAddr::V4(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

    /// The address and the port; `None` for a Unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// The path of a Unix socket.
    pub fn unix(&self) -> Option<&Path> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(path) => Some(path),
        }
    }

    /// Whether only clients on this machine can connect.
    pub fn is_local(&self) -> bool {
        self.tcp().is_none_or(|address| address.ip().is_loopback())
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    /// `:8080` is the port on all addresses, as other servers understand it.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let is_path = path.starts_with('/') && !path.ends_with('/') && !path.contains('\0');
            return match is_path && path.len() <= MAX_SOCKET_PATH {
                true => Ok(Self::Unix(path.into())),
                false => Err(format!(
                    "must be unix: and an absolute path of at most {MAX_SOCKET_PATH} bytes, such \
                     as unix:/run/terse/terse.sock (got {text:?})"
                )),
            };
        }
        let parsed = match text.rsplit_once(':') {
            Some(("", port)) => {
                port.parse().ok().map(|port| SocketAddr::from(([0, 0, 0, 0], port)))
            }
            Some(("localhost", port)) => {
                port.parse().ok().map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
            }
            _ => text.parse().ok(),
        };
        parsed.map(Self::Tcp).ok_or_else(|| {
            format!(
                "must be ADDRESS:PORT such as 127.0.0.1:8080 or [::1]:8080, :8080 for all \
                 addresses, or unix:PATH for a Unix socket (got {text:?})"
            )
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_a_port_or_a_path_is_read_and_shown_again() {
        for (text, shown) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:80", "[::1]:80"),
            (":8080", "0.0.0.0:8080"),
            ("localhost:1", "127.0.0.1:1"),
            ("unix:/run/terse/terse.sock", "unix:/run/terse/terse.sock"),
        ] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(shown.parse(), Ok(address));
        }
        let long = format!("unix:/{}", "a".repeat(MAX_SOCKET_PATH));
        for text in ["", "8080", "unix:", "unix:terse.sock", "unix:/run/", "unix:/a\0b", &long] {
            assert!(text.parse::<ListenAddress>().unwrap_err().starts_with("must be "), "{text}");
        }
    }
}
