//! The certificates of the listener for TLS.

use std::sync::Arc;

use anyhow::Context as _;
use terse_core::{Clock, Notices};
use terse_tls::{
    CertificateError, CertificateFiles, CertificateReload, Certificates, ServerConfig,
    readable_by_others,
};

use crate::config::Config;

/// The certificates in use and the files that they come from.
pub(super) struct Tls {
    pub(super) certificates: Arc<Certificates>,
    files: CertificateFiles,
}

impl Tls {
    /// Reads the certificates of the settings.
    pub(super) fn open(config: &Config) -> anyhow::Result<Self> {
        let files = open_files(config).context("tls.certificate and tls.key")?;
        for key in config.tls.key.0.iter().filter(|key| readable_by_others(key)) {
            let key = key.display().to_string();
            tracing::warn!(key, "every user of this machine can read a private key of tls.key");
        }
        Ok(Self { certificates: Arc::new(Certificates::of(&files.certificates())), files })
    }

    /// What the listener needs, and the job that reads changed files.
    pub(super) fn start(
        self,
        clock: &Clock,
        notices: &Arc<Notices>,
    ) -> anyhow::Result<(Arc<ServerConfig>, CertificateReload)> {
        let Self { certificates, files } = self;
        let server = terse_tls::server_config(Arc::clone(&certificates));
        let (clock, notices) = (clock.clone(), Arc::clone(notices));
        let reload = CertificateReload::new(certificates, files, clock, notices);
        Ok((server.context("setting up TLS")?, reload))
    }
}

/// Reads all files of the settings.
pub(crate) fn open_files(config: &Config) -> Result<CertificateFiles, CertificateError> {
    let certificates = config.tls.certificate.0.iter().cloned();
    CertificateFiles::open(certificates.zip(config.tls.key.0.iter().cloned()).collect())
}
