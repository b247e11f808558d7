//! Short domains that admins add while the server runs.

use super::{Moderation, ModerationError};
use crate::domain::Domain;
use crate::principal::Principal;
use crate::registry::{DomainConfig, Role};
use crate::target::Target;
use crate::validation::{ValidationError, ValidationErrorKind};

/// The largest number of domains. Each node keeps all of them in memory.
const MAX_DOMAINS: usize = 1_000;

/// The fallbacks of a domain. Without one, terse serves its own page.
#[derive(Clone, Debug, Default)]
pub struct DomainDraft {
    /// Where `/` leads.
    pub root: Option<String>,
    /// Where an unknown code leads.
    pub not_found: Option<String>,
    /// Where a link leads that has expired or is used up.
    pub expired: Option<String>,
}

/// A domain that links can be created on.
#[derive(Clone, Debug)]
pub struct ShortDomain {
    /// Its host name.
    pub name: String,
    /// What its short links begin with.
    pub base_url: String,
    /// Whether it is the primary domain, which new links get by default.
    pub is_primary: bool,
    /// Whether it is in the settings, so that admins cannot remove it.
    pub is_configured: bool,
    /// Where `/` leads.
    pub root: Option<Target>,
    /// Where an unknown code leads.
    pub not_found: Option<Target>,
    /// Where a link leads that has expired or is used up.
    pub expired: Option<Target>,
}

impl Moderation {
    /// All short domains: those of the settings, the primary one first, then those that admins have
    /// added, by name.
    pub async fn short_domains(&self) -> Result<Vec<ShortDomain>, ModerationError> {
        // The registry may be newer than this node's list of hosts.
        let mut configs = self.registry.domain_configs().await?;
        let hosts = &self.links.rules().hosts;
        let configured: Vec<Domain> = hosts.configured().collect();
        let mut all = Vec::with_capacity(configured.len() + configs.len());
        for domain in configured {
            let stored = configs.iter().position(|config| config.domain == domain);
            let none = DomainConfig { domain, root: None, not_found: None, expired: None };
            all.push(self.short_domain(stored.map_or(none, |at| configs.remove(at))));
        }
        // Leaves out a name that has since become an alias of the primary domain.
        configs.retain(|DomainConfig { domain, .. }| {
            hosts.domain_of(domain.as_str()).is_none_or(|known| known == *domain)
        });
        all.extend(configs.into_iter().map(|config| self.short_domain(config)));
        Ok(all)
    }

    fn short_domain(&self, config: DomainConfig) -> ShortDomain {
        let hosts = &self.links.rules().hosts;
        let DomainConfig { domain, root, not_found, expired } = config;
        ShortDomain {
            name: hosts.name_of(&domain).to_owned(),
            base_url: hosts.base_of(&domain),
            is_primary: domain.is_primary(),
            is_configured: hosts.configured().any(|configured| configured == domain),
            root,
            not_found,
            expired,
        }
    }

    /// Adds or changes a domain. The change is in force on this node when this returns.
    pub async fn put_domain(
        &self,
        principal: &Principal,
        name: &str,
        draft: DomainDraft,
    ) -> Result<ShortDomain, ModerationError> {
        principal.require(Role::Admin)?;
        let domain = self.domain_named(name)?;
        let fallback = |text: Option<String>, field| {
            text.map(|text| self.fallback(principal, &domain, &text, field)).transpose()
        };
        let config = DomainConfig {
            root: fallback(draft.root, "root")?,
            not_found: fallback(draft.not_found, "not_found")?,
            expired: fallback(draft.expired, "expired")?,
            domain: domain.clone(),
        };
        let configs = self.registry.domain_configs().await?;
        if configs.len() >= MAX_DOMAINS && !configs.iter().any(|have| have.domain == domain) {
            return Err(ModerationError::TooManyDomains(MAX_DOMAINS));
        }
        self.registry.put_domain(config.clone(), self.by(principal.owner(), None)).await?;
        self.refresh.refresh().await;
        Ok(self.short_domain(config))
    }

    /// Removes a domain that has no links. Of a domain from the settings, only the fallbacks are
    /// removed.
    pub async fn remove_domain(
        &self,
        principal: &Principal,
        name: &str,
    ) -> Result<(), ModerationError> {
        principal.require(Role::Admin)?;
        let domain = self.domain_named(name).map_err(|_| ModerationError::NoDomain)?;
        let configs = self.registry.domain_configs().await?;
        if !configs.iter().any(|config| config.domain == domain) {
            return Err(ModerationError::NoDomain);
        }
        let hosts = &self.links.rules().hosts;
        let is_configured = hosts.configured().any(|configured| configured == domain);
        if !is_configured && self.links.has_links_on(&domain).await? {
            return Err(ModerationError::DomainInUse);
        }
        self.registry.remove_domain(&domain, self.by(principal.owner(), None)).await?;
        self.refresh.refresh().await;
        Ok(())
    }

    /// The domain with this name, whether or not this server has it.
    fn domain_named(&self, name: &str) -> Result<Domain, ValidationError> {
        let invalid = |detail: &'static str| {
            ValidationError::new(ValidationErrorKind::InvalidRequest, "domain", detail)
        };
        let hosts = &self.links.rules().hosts;
        let domain = Domain::parse(name).ok_or_else(|| invalid("not a host name"))?;
        if domain.as_str() == hosts.primary_host() {
            return Ok(Domain::primary());
        }
        if hosts.domain_of(domain.as_str()).is_some_and(|known| known.is_primary()) {
            return Err(invalid("this is another name of the primary domain"));
        }
        if hosts.is_api_host(domain.as_str()) {
            return Err(invalid("this is the host of the API; it cannot have links"));
        }
        let name = domain.as_str();
        let address = name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok();
        let labels = name.split('.').all(|label| (1..=63).contains(&label.len()));
        match address || name.len() > Domain::MAX || !labels {
            true => Err(invalid("not a host name")),
            false => Ok(domain),
        }
    }

    /// Checks a fallback by the rules for targets; it must not be on the domain itself.
    fn fallback(
        &self,
        principal: &Principal,
        domain: &Domain,
        text: &str,
        field: &'static str,
    ) -> Result<Target, ValidationError> {
        let target = self.links.target(principal.caller, text, field)?;
        if target.host().is_some_and(|host| host.trim_end_matches('.') == domain.as_str()) {
            let detail = "this is a short domain of this server: it would lead back to us";
            return Err(ValidationError::new(ValidationErrorKind::SelfReference, field, detail));
        }
        Ok(target)
    }
}
