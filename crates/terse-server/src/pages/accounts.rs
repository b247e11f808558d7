//! The page of all accounts, for admins: invitations, roles and suspensions.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::accounts::{AccountEdit, AccountError, role_of};
use terse_core::registry::Account;
use terse_core::{
    EmailAddress, MailRequest, OwnerId, Timestamp, ValidationError, ValidationErrorKind,
};

use super::form::sentence;
use super::format::ago;
use super::login::away;
use super::member::{AdminForm, AdminPage, Member, MemberForm};
use super::session::{app_page, form_again, go};
use super::shell::Shell;
use super::{BAD_FORM, NOT_FOUND, html, message};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web, reset_url};

/// Accounts per page.
const PAGE: usize = 25;
const ROLES: [&str; 3] = ["user", "moderator", "admin"];

#[derive(Template)]
#[template(path = "accounts.html")]
struct AccountsPage {
    shell: Shell,
    rows: Vec<AccountRow>,
    /// The path of the next page.
    next: Option<String>,
    is_first: bool,
    /// The link that was just made; the page shows it only this once.
    fresh: Option<FreshLink>,
    open: usize,
    /// Whether this server sends mails.
    mail: bool,
    done: Option<&'static str>,
    wrong: Option<String>,
}

/// A link that is shown once.
struct FreshLink {
    url: String,
    end: String,
    /// The account of a reset link; none for an invitation.
    account: Option<String>,
    /// Whether it is sent by mail.
    mailed: bool,
}

struct AccountRow {
    id: u64,
    name: String,
    role: &'static str,
    is_me: bool,
    two_factor: bool,
    /// Why it is suspended, and since when.
    suspended: Option<(String, String)>,
    made: String,
    made_exact: String,
}

impl AccountRow {
    fn new(account: Account, member: &Member, shell: &Shell, now: Timestamp) -> Self {
        Self {
            id: account.id.0,
            name: account.name.to_string(),
            role: account.role.as_str(),
            is_me: account.id == member.here.account.id,
            two_factor: account.two_factor.is_some(),
            suspended: account.suspended.map(|found| (found.why, ago(found.at, now))),
            made: ago(account.created_at, now),
            made_exact: shell.moment(account.created_at),
        }
    }

    fn roles(&self) -> impl Iterator<Item = (&'static str, bool)> {
        ROLES.into_iter().map(|role| (role, role == self.role))
    }
}

fn said(word: &str) -> Option<&'static str> {
    Some(match word {
        "role" => "The role is changed.",
        "suspended" => "The account is suspended: its keys, sessions and links.",
        "reinstated" => "The account is reinstated.",
        "two-factor-off" => "Two-factor sign-in of the account is off.",
        _ => return None,
    })
}

async fn page_for(
    state: &App,
    member: &Member,
    after: Option<OwnerId>,
) -> Result<AccountsPage, AccountError> {
    let shell = member.shell(state, "/accounts");
    let now = state.links.now();
    let accounts = state.accounts.accounts(&member.principal, after, PAGE).await?;
    let open = state.accounts.invitations(&member.principal).await?.len();
    let next = accounts.last().filter(|_| accounts.len() == PAGE);
    Ok(AccountsPage {
        next: next.map(|last| format!("/accounts?after={}", last.id.0)),
        rows: accounts
            .into_iter()
            .map(|account| AccountRow::new(account, member, &shell, now))
            .collect(),
        is_first: after.is_none(),
        fresh: None,
        open,
        mail: state.mail.is_some(),
        done: None,
        wrong: None,
        shell,
    })
}

pub(super) async fn show(
    State(state): Web,
    AdminPage(member): AdminPage,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let after = params.take("after").and_then(|id| id.parse().ok()).map(OwnerId);
    match page_for(&state, &member, after).await {
        Ok(mut page) => {
            page.done = params.take("done").and_then(|word| said(&word));
            app_page(StatusCode::OK, html(&page))
        }
        Err(error) => away(&error),
    }
}

/// Shows the page with the problem of a form.
async fn refused(state: &App, member: &Member, error: AccountError) -> Response {
    form_again(error, page_for(state, member, None), away, |page, problem| {
        page.wrong = Some(sentence(problem));
    })
    .await
}

pub(super) async fn invite(
    State(state): Web,
    AdminForm(MemberForm { member, mut fields }): AdminForm,
) -> Response {
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (word, email) = (take("role"), take("email"));
    let to = EmailAddress::parse(&email);
    let invited = async {
        let role = role_of(&word)?;
        if to.is_none() && !email.trim().is_empty() {
            let detail = "this is not an email address such as ann@example.com";
            let kind = ValidationErrorKind::InvalidRequest;
            return Err(ValidationError::new(kind, "email", detail).into());
        }
        state.accounts.invite(&member.principal, role, None).await
    };
    let (secret, invitation) = match invited.await {
        Ok(made) => made,
        Err(error) => return refused(&state, &member, error).await,
    };
    match page_for(&state, &member, None).await {
        Ok(mut page) => {
            let base = state.links.rules().hosts.api_base();
            let end = page.shell.moment(invitation.expires_at);
            let url = format!("{base}/join?token={secret}");
            let mailed = to.zip(state.mail.as_ref()).is_some_and(|(to, queue)| {
                let (url, expires_at) = (url.clone(), invitation.expires_at);
                let request = MailRequest::Invitation { to, url, expires_at };
                queue.push(request, state.links.now())
            });
            page.fresh = Some(FreshLink { url, end, account: None, mailed });
            app_page(StatusCode::CREATED, html(&page))
        }
        Err(error) => away(&error),
    }
}

/// Makes a reset link for an account.
pub(super) async fn reset(
    State(state): Web,
    AdminForm(MemberForm { member, mut fields }): AdminForm,
) -> Response {
    let id = fields.take("id").and_then(|id| id.parse().ok()).map(OwnerId);
    let Some(id) = id else { return message(&BAD_FORM) };
    let made = async {
        let (secret, end) = state.accounts.make_reset(&member.principal, id).await?;
        Ok((secret, end, state.accounts.name_of(id).await?))
    };
    let (secret, end, account) = match made.await {
        Ok(made) => made,
        Err(error) => return refused(&state, &member, error).await,
    };
    match page_for(&state, &member, None).await {
        Ok(mut page) => {
            let url = reset_url(&state, &secret);
            let end = page.shell.moment(end);
            page.fresh = Some(FreshLink { url, end, account, mailed: false });
            app_page(StatusCode::CREATED, html(&page))
        }
        Err(error) => away(&error),
    }
}

pub(super) async fn change(
    State(state): Web,
    AdminForm(MemberForm { member, mut fields }): AdminForm,
) -> Response {
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (id, action, role) = (take("id"), take("action"), take("role"));
    let why = Some(take("why").trim().to_owned()).filter(|why| !why.is_empty());
    let Ok(id) = id.parse().map(OwnerId) else { return message(&BAD_FORM) };
    if action == "two-factor-off" {
        return match state.accounts.remove_two_factor(&member.principal, id).await {
            Ok(_) => go("/accounts?done=two-factor-off"),
            Err(error) => refused(&state, &member, error).await,
        };
    }
    let (edit, done) = match action.as_str() {
        "role" => (AccountEdit { role: Some(role), why, ..AccountEdit::default() }, "role"),
        "suspend" => {
            (AccountEdit { suspended: Some(true), why, ..AccountEdit::default() }, "suspended")
        }
        "reinstate" => {
            (AccountEdit { suspended: Some(false), why, ..AccountEdit::default() }, "reinstated")
        }
        _ => return message(&BAD_FORM),
    };
    match state.accounts.edit(&member.principal, id, edit).await {
        Ok(_) => go(&format!("/accounts?done={done}")),
        Err(error) => refused(&state, &member, error).await,
    }
}
