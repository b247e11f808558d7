//! The page of all accounts, for admins: invitations, roles and suspensions.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::accounts::{AccountEdit, AccountError, InvitationDraft, role_of};
use terse_core::registry::Account;
use terse_core::{OwnerId, Timestamp};

use super::cards::capital;
use super::form::{field_problem, problem_beside, problem_of};
use super::format::ago;
use super::login::account_error_page;
use super::member::{AdminForm, AdminPage, Member, MemberForm};
use super::session::{app_page, page_with_problem, redirect_to};
use super::shell::Shell;
use super::{BAD_FORM, NOT_FOUND, html, message};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web, reset_url};

/// Accounts per page, and how many open invitations it shows.
const PAGE: usize = 20;
const INVITATIONS: usize = 20;
const ROLES: [&str; 3] = ["user", "moderator", "admin"];

#[derive(Template)]
#[template(path = "accounts.html")]
struct AccountsPage {
    shell: Shell,
    rows: Vec<AccountRow>,
    /// The path of the next page.
    next: Option<String>,
    is_first: bool,
    /// The account before the first one of this page; empty on the first page.
    after: String,
    /// The link that was just made; the page shows it only this once.
    fresh: Option<FreshLink>,
    invitations: Vec<InvitationRow>,
    more_invitations: usize,
    /// Whether this server sends mails.
    mail: bool,
    done: Option<&'static str>,
    invite: InviteForm,
    wrong: Option<(String, String)>,
}

/// What was typed in the form of an invitation.
#[derive(Default)]
struct InviteForm {
    role: String,
    email: String,
}

impl InviteForm {
    fn roles(&self) -> impl Iterator<Item = (&'static str, String, bool)> {
        ROLES.into_iter().map(|role| (role, capital(role), role == self.role))
    }
}

impl AccountsPage {
    /// What is wrong with the email address of an invitation. Without mails, the form has no such
    /// field.
    fn wrong_email(&self) -> Option<&str> {
        problem_of(self.wrong.as_ref(), "email").filter(|_| self.mail)
    }

    /// Whether a form in the menu of an account has a problem.
    fn has_row_problem(&self) -> bool {
        self.rows.iter().any(|row| row.wrong.is_some())
    }

    /// Any other problem.
    fn general_problem(&self) -> Option<&str> {
        let fields: &[&str] = if self.mail { &["email"] } else { &[] };
        problem_beside(self.wrong.as_ref(), fields)
    }
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

/// An invitation that was not used yet.
struct InvitationRow {
    id: String,
    role: &'static str,
    by: String,
    end: String,
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
    /// What is wrong with the form in its menu: the field and the problem.
    wrong: Option<(String, String)>,
    /// Why it is to be suspended, as typed.
    why: String,
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
            made_exact: shell.date_time(account.created_at),
            wrong: None,
            why: String::new(),
        }
    }

    /// What is wrong with this field of the form in its menu.
    fn wrong(&self, field: &str) -> Option<&str> {
        problem_of(self.wrong.as_ref(), field)
    }

    /// A problem of that form that is about none of its fields.
    fn general_problem(&self) -> Option<&str> {
        problem_beside(self.wrong.as_ref(), &["why", "role"])
    }

    fn roles(&self) -> impl Iterator<Item = (&'static str, bool)> {
        ROLES.into_iter().map(|role| (role, role == self.role))
    }
}

fn done_message(word: &str) -> Option<&'static str> {
    Some(match word {
        "role" => "The role is changed.",
        "suspended" => "The account is suspended: its keys, sessions and links.",
        "reinstated" => "The account is reinstated.",
        "revoked" => "The invitation is revoked. Its link no longer works.",
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
    let mut invitations = Vec::new();
    let open = state.accounts.invitations(&member.principal).await?;
    let more_invitations = open.len().saturating_sub(INVITATIONS);
    // The latest come first: the one that was just made is among them.
    for invitation in open.into_iter().rev().take(INVITATIONS) {
        let by = state.accounts.name_of(invitation.by).await?;
        invitations.push(InvitationRow {
            id: invitation.token.handle(),
            role: invitation.role.as_str(),
            by: by.unwrap_or_else(|| "the operator".to_owned()),
            end: shell.date_time(invitation.expires_at),
        });
    }
    let next = accounts.last().filter(|_| accounts.len() == PAGE);
    Ok(AccountsPage {
        next: next.map(|last| format!("/accounts?after={}", last.id.0)),
        rows: accounts
            .into_iter()
            .map(|account| AccountRow::new(account, member, &shell, now))
            .collect(),
        is_first: after.is_none(),
        after: after.map(|id| id.0.to_string()).unwrap_or_default(),
        fresh: None,
        invitations,
        more_invitations,
        mail: state.mail.is_some(),
        done: None,
        invite: InviteForm::default(),
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
            page.done = params.take("done").and_then(|word| done_message(&word));
            app_page(StatusCode::OK, html(&page))
        }
        Err(error) => account_error_page(&error),
    }
}

/// The account that a form is about, the page it was on, and the reason that was typed.
struct AccountForm {
    id: OwnerId,
    after: Option<OwnerId>,
    why: String,
}

impl AccountForm {
    /// `None` if the form names no account.
    fn read(fields: &mut Params) -> Option<Self> {
        let mut number = |name| fields.take(name).and_then(|id| id.parse().ok()).map(OwnerId);
        let (id, after) = (number("id")?, number("after"));
        Some(Self { id, after, why: fields.take("why").unwrap_or_default().trim().to_owned() })
    }

    /// The path of the page the form was on, which says what happened.
    fn path(&self, done: &str) -> String {
        let after = self.after.map(|id| format!("&after={}", id.0)).unwrap_or_default();
        format!("/accounts?done={done}{after}")
    }
}

/// Shows the page with the problem of a form, in the menu of its account.
async fn refused(state: &App, member: &Member, form: AccountForm, error: AccountError) -> Response {
    let page = page_for(state, member, form.after);
    page_with_problem(error, page, account_error_page, |page, problem| {
        let wrong = field_problem(problem, "");
        match page.rows.iter_mut().find(|row| row.id == form.id.0) {
            Some(row) => (row.wrong, row.why) = (wrong, form.why),
            None => page.wrong = wrong,
        }
    })
    .await
}

pub(super) async fn invite(
    State(state): Web,
    AdminForm(MemberForm { member, mut fields }): AdminForm,
) -> Response {
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (word, email) = (take("role"), take("email"));
    let invited = async {
        let draft = InvitationDraft { role: role_of(&word)?, ttl: None, email: email.clone() };
        state.accounts.invite(&member.principal, draft).await
    };
    let made = match invited.await {
        Ok(made) => made,
        Err(error) => {
            let page = page_for(&state, &member, None);
            return page_with_problem(error, page, account_error_page, |page, problem| {
                page.wrong = field_problem(problem, "");
                page.invite = InviteForm { role: word, email };
            })
            .await;
        }
    };
    match page_for(&state, &member, None).await {
        Ok(mut page) => {
            let end = page.shell.date_time(made.invitation.expires_at);
            let (url, mailed) = (made.url, made.mailed);
            page.fresh = Some(FreshLink { url, end, account: None, mailed });
            app_page(StatusCode::CREATED, html(&page))
        }
        Err(error) => account_error_page(&error),
    }
}

/// Revokes an invitation that was not used yet.
pub(super) async fn revoke(
    State(state): Web,
    AdminForm(MemberForm { member, mut fields }): AdminForm,
) -> Response {
    let id = fields.take("id").unwrap_or_default();
    let revoked = state.accounts.revoke_invitation(&member.principal, |token| token.handle() == id);
    match revoked.await {
        // One that is gone counts as revoked.
        Ok(()) | Err(AccountError::NotFound(_)) => redirect_to("/accounts?done=revoked"),
        Err(error) => account_error_page(&error),
    }
}

/// Makes a reset link for an account.
pub(super) async fn reset(
    State(state): Web,
    AdminForm(MemberForm { member, mut fields }): AdminForm,
) -> Response {
    let Some(form) = AccountForm::read(&mut fields) else { return message(&BAD_FORM) };
    let made = async {
        let (secret, end) = state.accounts.make_reset(&member.principal, form.id).await?;
        Ok((secret, end, state.accounts.name_of(form.id).await?))
    };
    let (secret, end, account) = match made.await {
        Ok(made) => made,
        Err(error) => return refused(&state, &member, form, error).await,
    };
    match page_for(&state, &member, form.after).await {
        Ok(mut page) => {
            let url = reset_url(&state, &secret);
            let end = page.shell.date_time(end);
            page.fresh = Some(FreshLink { url, end, account, mailed: false });
            app_page(StatusCode::CREATED, html(&page))
        }
        Err(error) => account_error_page(&error),
    }
}

pub(super) async fn change(
    State(state): Web,
    AdminForm(MemberForm { member, mut fields }): AdminForm,
) -> Response {
    let Some(form) = AccountForm::read(&mut fields) else { return message(&BAD_FORM) };
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (action, role) = (take("action"), take("role"));
    let why = Some(form.why.clone()).filter(|why| !why.is_empty());
    if action == "two-factor-off" {
        return match state.accounts.remove_two_factor(&member.principal, form.id).await {
            Ok(_) => redirect_to(&form.path("two-factor-off")),
            Err(error) => refused(&state, &member, form, error).await,
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
    match state.accounts.edit(&member.principal, form.id, edit).await {
        Ok(_) => redirect_to(&form.path(done)),
        Err(error) => refused(&state, &member, form, error).await,
    }
}
