//! The certificates of the listener for TLS, and those that this node orders for other nodes.

use std::sync::Arc;

use anyhow::Context as _;
use terse_core::{Clock, DomainChecks, Hosts, HttpExchange, Notices};
use terse_outgoing::SystemLookup;
use terse_tls::{
    AcmeCertificates, AcmeSettings, CertificateError, CertificateFiles, CertificateOrders,
    CertificateReload, CertificateSync, Certificates, ChallengeKind, ServerConfig,
    readable_by_others,
};
use terse_worker::Scheduler;

use crate::backends::Stores;
use crate::config::{AcmeChallenge, Config};
use crate::outgoing;

/// The certificates in use, the files that some come from, and those that terse orders.
pub(super) struct Tls {
    pub(super) certificates: Arc<Certificates>,
    files: CertificateFiles,
    /// Reaches the certificate authority, if terse orders certificates itself.
    authority: Option<Arc<dyn HttpExchange>>,
    /// The certificates that it orders.
    pub(super) acme: Option<Arc<AcmeCertificates>>,
}

impl Tls {
    /// Reads the certificates of the settings.
    pub(super) fn open(config: &Config) -> anyhow::Result<Self> {
        let files = open_files(config).context("tls.certificate and tls.key")?;
        for key in config.tls.key.0.iter().filter(|key| readable_by_others(key)) {
            let key = key.display().to_string();
            tracing::warn!(key, "every user of this machine can read a private key of tls.key");
        }
        let certificates = Arc::new(Certificates::of(&files.certificates()));
        let authority = config.tls.acme.enabled.then(|| outgoing::authority_client(config));
        Ok(Self { certificates, files, authority: authority.transpose()?, acme: None })
    }

    /// Reads the certificates that terse has ordered, if the settings say that it does.
    pub(super) async fn read_ordered(
        &mut self,
        config: &Config,
        store: &Stores,
        hosts: &Hosts,
        clock: &Clock,
    ) -> anyhow::Result<()> {
        if config.tls.acme.enabled {
            let (registry, certificates) = (&store.registry, Arc::clone(&self.certificates));
            let directory = config.tls.acme.directory.clone();
            let (registry, hosts) = (Arc::clone(registry), hosts.clone());
            let node =
                AcmeCertificates::open(registry, certificates, hosts, directory, clock.clone());
            self.acme = Some(node.await.context("reading the certificates of the registry")?);
        }
        Ok(())
    }

    /// What the listener needs. Adds the jobs that read changed files and order certificates.
    pub(super) fn start(
        self,
        config: &Config,
        hosts: &Hosts,
        clock: &Clock,
        notices: &Arc<Notices>,
        jobs: &mut Scheduler,
    ) -> anyhow::Result<Arc<ServerConfig>> {
        let Self { certificates, files, authority, acme } = self;
        let server = terse_tls::server_config(Arc::clone(&certificates), acme.is_some());
        let (clock, shown) = (clock.clone(), Arc::clone(notices));
        jobs.add(CertificateReload::new(certificates, files, clock, shown));
        if let Some((node, authority)) = acme.zip(authority) {
            jobs.add(CertificateSync { node: Arc::clone(&node), notices: Arc::clone(notices) });
            if config.roles.worker {
                jobs.add(orders(config, hosts, node, authority));
            }
        }
        server.context("setting up TLS")
    }
}

/// The job that orders certificates.
fn orders(
    config: &Config,
    hosts: &Hosts,
    node: Arc<AcmeCertificates>,
    authority: Arc<dyn HttpExchange>,
) -> CertificateOrders {
    let acme = &config.tls.acme;
    let settings = AcmeSettings {
        directory: acme.directory.clone(),
        email: acme.email.clone(),
        challenge: match acme.challenge {
            AcmeChallenge::Auto => None,
            AcmeChallenge::Http01 => Some(ChallengeKind::Http01),
            AcmeChallenge::TlsAlpn01 => Some(ChallengeKind::TlsAlpn01),
        },
    };
    let checks = DomainChecks::new(Arc::<SystemLookup>::default(), hosts.clone());
    CertificateOrders::new(node, authority, settings, checks, config.is_shared())
}

/// Reads all files of the settings.
pub(crate) fn open_files(config: &Config) -> Result<CertificateFiles, CertificateError> {
    let certificates = config.tls.certificate.0.iter().cloned();
    CertificateFiles::open(certificates.zip(config.tls.key.0.iter().cloned()).collect())
}
