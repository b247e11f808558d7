//! The operator of this server, prepared for pages.

use sha2::{Digest, Sha256};
use terse_core::{Hosts, Logo, Operator};

use crate::http::host::hex;

/// The operator as pages show it.
pub(crate) struct Site {
    operator: Operator,
    /// The path of the logo. It contains a hash of the content, so browsers may cache it forever.
    logo_path: Option<String>,
    /// The base of the dashboard, if it is on another host than the links; empty otherwise.
    dashboard: String,
}

impl Site {
    pub(crate) fn new(operator: Operator, hosts: &Hosts) -> Self {
        let dashboard = hosts.api_host().map(|_| hosts.api_base()).unwrap_or_default();
        let logo_path = operator
            .logo
            .as_ref()
            .map(|logo| format!("/assets/logo-{}", hex(&Sha256::digest(logo.bytes())[..6])));
        Self { operator, logo_path, dashboard }
    }

    pub(crate) fn dashboard(&self) -> &str {
        &self.dashboard
    }

    /// The logo, if it is at this path.
    pub(crate) fn logo_at(&self, path: &str) -> Option<&Logo> {
        self.operator.logo.as_ref().filter(|_| self.logo_path.as_deref() == Some(path))
    }

    pub(crate) fn operator(&self) -> &Operator {
        &self.operator
    }

    pub(crate) fn logo_path(&self) -> Option<&str> {
        self.logo_path.as_deref()
    }
}
