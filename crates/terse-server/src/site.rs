//! The operator of this server, prepared for pages.

use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use terse_core::{AccentColour, EffectiveOperator, Hosts, Logo, Operator};

use crate::http::host::hex;

/// The operator as pages show it.
pub(crate) struct Site {
    operator: Arc<Operator>,
    /// The path of the logo. It contains a hash of the content, so browsers may cache it forever.
    logo_path: Option<String>,
    /// The same of the style sheet with the accent colour, and its text.
    style: Option<(String, String)>,
    /// The base of the dashboard, if it is on another host than the links; empty otherwise.
    dashboard: String,
}

impl Site {
    pub(crate) fn new(operator: Arc<Operator>, hosts: &Hosts) -> Self {
        let dashboard = hosts.api_host().map(|_| hosts.api_base()).unwrap_or_default();
        let hash = |bytes: &[u8]| hex(&Sha256::digest(bytes)[..6]);
        let logo_path =
            operator.logo.as_ref().map(|logo| format!("/assets/logo-{}", hash(logo.bytes())));
        let style = operator.accent.map(|accent| {
            let text = style_sheet(accent);
            (format!("/assets/brand-{}.css", hash(text.as_bytes())), text)
        });
        Self { operator, logo_path, style, dashboard }
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

    /// The path of the style sheet with the accent colour.
    pub(crate) fn style_path(&self) -> Option<&str> {
        self.style.as_ref().map(|(path, _)| path.as_str())
    }

    /// The style sheet with the accent colour, if it is at this path.
    pub(crate) fn style_at(&self, at: &str) -> Option<&str> {
        self.style.as_ref().filter(|(path, _)| path == at).map(|(_, text)| text.as_str())
    }
}

/// Sets the colours that depend on the accent colour. Pages load it after their other style sheets.
fn style_sheet(accent: AccentColour) -> String {
    let ([tint, dark_tint], light, dark) = (accent.tints(), accent.light(), accent.dark());
    format!(
        ":root {{ --accent: {light}; --on-accent: #fffdf8; --tint: {tint}; }}\n\
         @media (prefers-color-scheme: dark) {{ \
         :root {{ --accent: {dark}; --on-accent: #161411; --tint: {dark_tint}; }} }}\n"
    )
}

/// Prepares the operator in force, once per change.
pub(crate) struct CurrentSite {
    operator: Arc<EffectiveOperator>,
    hosts: Hosts,
    prepared: Mutex<Arc<Site>>,
}

impl CurrentSite {
    pub(crate) fn new(operator: Arc<EffectiveOperator>, hosts: Hosts) -> Self {
        let prepared = Mutex::new(Arc::new(Site::new(operator.current(), &hosts)));
        Self { operator, hosts, prepared }
    }

    pub(crate) fn get(&self) -> Arc<Site> {
        let operator = self.operator.current();
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&prepared.operator, &operator) {
            *prepared = Arc::new(Site::new(operator, &self.hosts));
        }
        Arc::clone(&prepared)
    }
}
