//! Mails through the operator's mail server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use terse_core::accounts::MailWriter;
use terse_core::registry::Registry;
use terse_core::{Clock, EmailAddress, Hosts, MailQueue, Operator, Secret};
use terse_outgoing::{SmtpSecurity, SmtpSettings, SmtpTransport};
use terse_worker::MailDelivery;

use crate::config::{Config, MailTls};

/// How long each step of a delivery may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The job that sends mails; `None` if no mail server is set.
pub(crate) fn delivery(
    config: &Config,
    registry: &Arc<dyn Registry>,
    operator: &Operator,
    hosts: &Hosts,
    clock: &Clock,
) -> anyhow::Result<Option<MailDelivery>> {
    let mail = &config.mail;
    let Some((host, port)) = mail.server.as_deref().and_then(|server| server.rsplit_once(':'))
    else {
        return Ok(None);
    };
    let from = mail.from.as_deref().and_then(EmailAddress::parse).context("mail.from")?;
    let site = operator.name.as_ref().map_or_else(|| "terse".to_owned(), ToString::to_string);
    let roots = mail.ca.as_deref().map(terse_tls::read_roots).transpose().context("mail.ca")?;
    let password = mail.password.as_ref().map(|password| Secret::new(password.reveal()));
    let transport = SmtpTransport::new(SmtpSettings {
        host: host.trim_matches(['[', ']']).to_owned(),
        port: port.parse().context("mail.server")?,
        security: match mail.tls {
            MailTls::StartTls => SmtpSecurity::StartTls,
            MailTls::Tls => SmtpSecurity::Tls,
            MailTls::None => SmtpSecurity::None,
        },
        credentials: mail.username.clone().zip(password),
        from_name: site.clone(),
        from,
        hello: hosts.primary_host().to_owned(),
        trust_only: roots.unwrap_or_default(),
        timeout: TIMEOUT,
    });
    let transport = Arc::new(transport.context("preparing the connection to the mail server")?);
    let writer = MailWriter::new(Arc::clone(registry), clock.clone(), hosts.api_base(), site);
    Ok(Some(MailDelivery { queue: Arc::<MailQueue>::default(), writer, transport }))
}
