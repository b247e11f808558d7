//! The page of short domains. Admins add and change them, and see the DNS record of each.

use std::net::IpAddr;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::future::join_all;
use terse_core::moderation::{DomainDraft, ModerationError, ShortDomain};
use terse_core::registry::Role;
use terse_core::{
    CertificateState, DnsState, ExpectedAddresses, Target, Timestamp, is_public_name,
};

use super::form::{field_problem, problem_beside, problem_of, sentence};
use super::member::{AdminForm, Member, MemberForm};
use super::session::{app_page, page_with_problem, redirect_to};
use super::shell::Shell;
use super::{NOT_FOUND, UNAVAILABLE, html, message};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// Domains per page. Each costs a DNS lookup.
const PAGE: usize = 20;

#[derive(Template)]
#[template(path = "domains.html")]
struct DomainsPage {
    shell: Shell,
    rows: Vec<DomainRow>,
    is_admin: bool,
    /// The host that the records of other domains should lead to, and its addresses.
    primary: String,
    /// Whether that host is a name, which a CNAME record can lead to.
    has_name: bool,
    addresses: Vec<(&'static str, String)>,
    /// How many domains are on the pages before.
    from: usize,
    next: Option<usize>,
    done: Option<&'static str>,
    typed: Typed,
    wrong: Option<(String, String)>,
}

#[derive(Default)]
struct Typed {
    domain: String,
    root: String,
    not_found: String,
    expired: String,
}

struct DomainRow {
    name: String,
    base: String,
    is_primary: bool,
    /// Whether it is in the settings, so that only its fallbacks can be removed.
    is_settled: bool,
    root: String,
    not_found: String,
    expired: String,
    dns: Option<Dns>,
    certificate: Option<CertificateShown>,
    /// What is wrong with which field of the form in its menu.
    wrong: Option<(String, String)>,
}

/// The certificate that this server ordered, for display.
struct CertificateShown {
    word: &'static str,
    class: &'static str,
    /// What is wrong, and what to do.
    found: String,
}

impl CertificateShown {
    fn new(state: CertificateState) -> Self {
        let (word, class, found) = match state {
            CertificateState::Valid(until) => {
                ("https", "good", format!("Its certificate is valid until {}.", day(until)))
            }
            CertificateState::Awaited => {
                let found = "terse orders its certificate; that takes a minute.";
                ("certificate ordered", "over", found.to_owned())
            }
            CertificateState::Failing { valid_until, problem, next_try } => {
                let (word, class) = match valid_until {
                    Some(_) => ("certificate not renewed", "attention"),
                    None => ("no certificate", "bad"),
                };
                let ends = valid_until.map(|until| format!(" Valid until {}.", day(until)));
                let found = format!(
                    "{problem} terse tries again at {next_try}.{}",
                    ends.unwrap_or_default()
                );
                (word, class, found)
            }
        };
        Self { word, class, found }
    }
}

/// The date of a time, in UTC.
fn day(at: Timestamp) -> String {
    at.to_string().split('T').next().unwrap_or_default().to_owned()
}

/// What DNS says, for display.
struct Dns {
    word: &'static str,
    class: &'static str,
    found: String,
    /// Whether the row shows the record that is missing.
    shows_record: bool,
}

impl Dns {
    fn new(state: &DnsState, primary: &str) -> Self {
        let list = |addresses: &[IpAddr]| {
            let words: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            words.join(", ")
        };
        let (word, class, found, shows_record) = match state {
            DnsState::Here(found) => {
                let text = format!("Its DNS record leads to {}: this server.", list(found));
                ("points here", "good", text, false)
            }
            DnsState::Elsewhere(found) => {
                let text = format!(
                    "Its DNS record leads to {}, but {primary} is elsewhere. That is right only \
                     if a proxy or CDN of yours answers there. Expected is:",
                    list(found)
                );
                ("points elsewhere", "attention", text, true)
            }
            DnsState::NoRecord => {
                let text = "No DNS record was found. Add one of these where you manage the domain; \
                    it may take an hour to take effect everywhere:";
                ("no DNS record", "bad", text.to_owned(), true)
            }
            DnsState::Unknown => {
                let text = "The DNS lookup gave no result. Check again in a moment.";
                ("not checked", "over", text.to_owned(), false)
            }
            DnsState::LocalServer => {
                let text = format!(
                    "base_url names {primary}, which others cannot reach, so terse cannot tell \
                     where the DNS record should lead."
                );
                ("not checked", "over", text, false)
            }
        };
        Self { word, class, found, shows_record }
    }
}

impl DomainRow {
    fn new(domain: ShortDomain) -> Self {
        let text = |target: Option<Target>| target.map(|t| t.to_string()).unwrap_or_default();
        Self {
            name: domain.name,
            base: domain.base_url,
            is_primary: domain.is_primary,
            is_settled: domain.is_configured,
            root: text(domain.root),
            not_found: text(domain.not_found),
            expired: text(domain.expired),
            dns: None,
            certificate: None,
            wrong: None,
        }
    }

    /// What is wrong with this field of the form in its menu.
    fn wrong(&self, field: &str) -> Option<&str> {
        problem_of(self.wrong.as_ref(), field)
    }

    /// A problem of that form that is about none of its fields.
    fn general_problem(&self) -> Option<&str> {
        problem_beside(self.wrong.as_ref(), &["root", "not_found", "expired"])
    }

    /// The fallbacks, with what they are for.
    fn fallbacks(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("Home page", self.root.as_str()),
            ("Unknown links", self.not_found.as_str()),
            ("Expired links", self.expired.as_str()),
        ];
        all.into_iter().filter(|(_, target)| !target.is_empty())
    }
}

impl DomainsPage {
    async fn of(state: &App, member: &Member, from: usize) -> Result<Self, ModerationError> {
        let all = state.moderation.short_domains().await?.into_iter().skip(from);
        let mut rows: Vec<DomainRow> = all.take(PAGE + 1).map(DomainRow::new).collect();
        let next = (rows.len() > PAGE).then(|| from.saturating_add(PAGE));
        rows.truncate(PAGE);
        let is_admin = member.principal.require(Role::Admin).is_ok();
        let primary = state.links.rules().hosts.primary_host().to_owned();
        let mut addresses = Vec::new();
        // Only an admin can correct a record, so only an admin's page makes lookups.
        if is_admin {
            let expected = state.domain_checks.expected().await;
            let checks = rows.iter().map(|row| state.domain_checks.check(&row.name, &expected));
            let found = join_all(checks).await;
            let state_of = &state.certificates;
            for (row, state) in rows.iter_mut().zip(found) {
                let mut dns = Dns::new(&state, &primary);
                // A problem with the server's own name is shown once, at the primary domain.
                if state == DnsState::LocalServer && !row.is_primary {
                    dns.found.clear();
                }
                row.dns = Some(dns);
                let certificate = state_of.certificate_state(&row.name);
                row.certificate = certificate.map(CertificateShown::new);
            }
            if let ExpectedAddresses::Known(known) = expected {
                let kind = |address: &IpAddr| if address.is_ipv4() { "A" } else { "AAAA" };
                addresses = known.iter().map(|one| (kind(one), one.to_string())).collect();
            }
        }
        Ok(Self {
            shell: member.shell(state, "/domains"),
            rows,
            is_admin,
            has_name: is_public_name(&primary)
                && primary.trim_matches(['[', ']']).parse::<IpAddr>().is_err(),
            primary,
            addresses,
            from,
            next,
            done: None,
            typed: Typed::default(),
            wrong: None,
        })
    }

    /// What is wrong with this field.
    fn wrong(&self, field: &str) -> Option<&str> {
        problem_of(self.wrong.as_ref(), field)
    }

    /// A problem that is about none of the fields.
    fn general_problem(&self) -> Option<&str> {
        problem_beside(self.wrong.as_ref(), &["domain", "root", "not_found", "expired"])
    }

    /// Whether a form has a problem.
    fn has_problem(&self) -> bool {
        self.wrong.is_some() || self.rows.iter().any(|row| row.wrong.is_some())
    }
}

fn done_message(word: &str) -> Option<&'static str> {
    Some(match word {
        "saved" => "The domain is saved.",
        "removed" => "The domain is removed.",
        _ => return None,
    })
}

fn error_page(error: &ModerationError) -> Response {
    tracing::error!(%error, "the page of domains failed");
    message(&UNAVAILABLE)
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let from = params.take("from").and_then(|from| from.parse().ok()).unwrap_or(0);
    match DomainsPage::of(&state, &member, from).await {
        Ok(mut page) => {
            page.done = params.take("done").and_then(|word| done_message(&word));
            app_page(StatusCode::OK, html(&page))
        }
        Err(error) => error_page(&error),
    }
}

/// Shows the page again with the problem of a form. `row_page` says on which page the domain has
/// its row, if the form is the one in the row's menu.
async fn form_problem(
    state: &App,
    member: &Member,
    typed: Typed,
    row_page: Option<usize>,
    error: ModerationError,
) -> Response {
    let page = DomainsPage::of(state, member, row_page.unwrap_or(0));
    page_with_problem(error, page, error_page, |page, problem| {
        let wrong = field_problem(problem, "");
        let is_typed = |row: &&mut DomainRow| row_page.is_some() && row.name == typed.domain;
        match page.rows.iter_mut().find(is_typed) {
            Some(row) => {
                row.wrong = wrong;
                (row.root, row.not_found, row.expired) =
                    (typed.root, typed.not_found, typed.expired);
            }
            None => (page.wrong, page.typed) = (wrong, typed),
        }
    })
    .await
}

/// Adds a domain, or changes its fallbacks.
pub(super) async fn put(
    State(state): Web,
    AdminForm(MemberForm { member, mut fields }): AdminForm,
) -> Response {
    // Spaces only: a name with other characters is refused.
    let mut take = |name| fields.take(name).unwrap_or_default().trim_matches(' ').to_owned();
    let typed = Typed {
        domain: take("domain"),
        root: take("root"),
        not_found: take("not_found"),
        expired: take("expired"),
    };
    // Only the form in the menu of a row says on which page it is.
    let row_page = fields.take("from").and_then(|from| from.parse().ok());
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let draft = DomainDraft {
        root: given(&typed.root),
        not_found: given(&typed.not_found),
        expired: given(&typed.expired),
    };
    match state.moderation.put_domain(&member.principal, &typed.domain, draft).await {
        Ok(_) => redirect_to("/domains?done=saved"),
        Err(error) => form_problem(&state, &member, typed, row_page, error).await,
    }
}

pub(super) async fn remove(
    State(state): Web,
    AdminForm(MemberForm { member, mut fields }): AdminForm,
) -> Response {
    let domain = fields.take("domain").unwrap_or_default();
    match state.moderation.remove_domain(&member.principal, &domain).await {
        // One that is already gone counts as removed.
        Ok(()) | Err(ModerationError::NoDomain) => redirect_to("/domains?done=removed"),
        Err(ModerationError::DomainInUse) => {
            let page = DomainsPage::of(&state, &member, 0);
            page_with_problem(ModerationError::DomainInUse, page, error_page, |page, problem| {
                // The field with this name is that of a new domain, so the problem is shown above
                // the list.
                let words = format!("{domain} stays. {}", sentence(problem));
                page.wrong = Some((String::new(), words));
            })
            .await
        }
        Err(error) => error_page(&error),
    }
}
