//! The account page: profile, API keys, password, sign-out and deletion.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use terse_core::accounts::{AccountError, ErasureConfirmation, KeyDraft, PreferencesEdit};
use terse_core::registry::{ApiKey, KeyId, Scope, SecretHash, Session};
use terse_core::{Credential, EmailAddress, PageLanguage, Timestamp};

use super::form::{FormError, sentence};
use super::format::{ago, grouped};
use super::frame::language_cookie;
use super::html;
use super::login::account_error_page;
use super::member::{Member, MemberForm};
use super::session::{
    app_page, app_problem_page, begin, no_cookie, redirect_to, redirect_with_cookie,
};
use super::shell::Shell;
use super::signup::mismatch;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// How many keys and sessions the page shows, so that it has less than 50 KB.
const KEYS: usize = 20;
const SESSIONS: usize = 10;
/// The lifetimes that the form offers for keys, in days.
const LIFETIMES: [(u64, &str); 4] =
    [(30, "In 30 days"), (90, "In 90 days"), (365, "In 1 year"), (0, "Never")];

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage {
    shell: Shell,
    name: String,
    role: &'static str,
    since: String,
    has_password: bool,
    /// How many recovery codes are left, if two-factor sign-in is on.
    two_factor: Option<usize>,
    /// The OpenID Connect provider's name, and whether this account is connected to it.
    provider: Option<(String, bool)>,
    /// Some of the keys, and where the others are.
    keys: Vec<Key>,
    keys_from: usize,
    next_keys: Option<usize>,
    /// The browsers that signed in last, the latest first.
    sessions: Vec<SessionRow>,
    more_sessions: usize,
    /// The API key that was just created; the page shows it only this once.
    fresh: Option<String>,
    /// The message about the action that was just done.
    done: Option<&'static str>,
    form: KeyForm,
    /// The address of a bookmark that opens the form of a new link for the page it is used on.
    bookmarklet: String,
    preferences: PreferencesEdit,
    /// Whether this server sends mails.
    mail: bool,
    wrong: Option<FormError>,
}

struct Key {
    id: u64,
    name: String,
    prefix: String,
    opens: &'static str,
    made: String,
    used: String,
    requests: String,
    /// How many links it may create, as in `100/h`.
    plan: Option<String>,
    ends: String,
    over: bool,
}

/// A browser that is signed in.
struct SessionRow {
    id: String,
    since: String,
    since_exact: String,
    ends: String,
    /// The browser and its system, as in `Firefox on Windows`; empty if they are unknown.
    browser: String,
    /// Whether it is the browser that shows this page.
    is_current: bool,
}

#[derive(Default)]
struct KeyForm {
    name: String,
    scope: String,
    days: String,
}

impl Key {
    fn new(key: ApiKey, shell: &Shell, now: Timestamp) -> Self {
        let opens = match key.scope {
            Scope::Create => "Create links",
            Scope::Read => "Read only",
            Scope::Full => "Full access",
        };
        let over = key.expires_at.is_some_and(|at| at <= now);
        Self {
            id: key.id.0,
            name: key.name,
            prefix: key.prefix,
            opens,
            plan: key.plan,
            made: ago(key.created_at, now),
            used: key.last_used_at.map_or_else(|| "never".to_owned(), |at| ago(at, now)),
            requests: match key.requests {
                1 => "1 request".to_owned(),
                requests => format!("{} requests", grouped(requests)),
            },
            ends: key.expires_at.map_or_else(|| "never".to_owned(), |at| shell.date_time(at)),
            over,
        }
    }
}

impl SessionRow {
    fn new(session: &Session, current: &Credential, shell: &Shell, now: Timestamp) -> Self {
        Self {
            id: session.token.handle(),
            since: ago(session.created_at, now),
            since_exact: shell.date_time(session.created_at),
            ends: shell.date_time(session.expires_at),
            browser: session.browser.clone().unwrap_or_default(),
            is_current: *current == Credential::Session(session.token),
        }
    }
}

impl AccountPage {
    /// The page with its first keys.
    async fn of(state: &App, member: &Member) -> Result<Self, AccountError> {
        Self::from(state, member, 0).await
    }

    /// The page with the keys from this place on.
    async fn from(state: &App, member: &Member, keys_from: usize) -> Result<Self, AccountError> {
        let (now, account) = (state.links.now(), &member.here.account);
        let shell = member.shell(state, "/account");
        let keys = state.accounts.keys(&member.principal, account.id).await?;
        let sessions = state.accounts.sessions(&member.principal).await?;
        let current = &member.principal.credential;
        let keys_from = if keys_from < keys.len() { keys_from } else { 0 };
        let next_keys = Some(keys_from + KEYS).filter(|next| *next < keys.len());
        let keys = keys.into_iter().skip(keys_from).take(KEYS);
        let more_sessions = sessions.len().saturating_sub(SESSIONS);
        // This browser comes first, whenever it signed in.
        let (own, others): (Vec<&Session>, Vec<&Session>) = sessions
            .iter()
            .rev()
            .partition(|session| *current == Credential::Session(session.token));
        let sessions = own.into_iter().chain(others).take(SESSIONS);
        Ok(Self {
            name: account.name.to_string(),
            role: account.role.as_str(),
            since: shell.date_time(account.created_at),
            has_password: account.password.is_some(),
            two_factor: account.two_factor.as_ref().map(|state| state.recovery.len()),
            provider: state.provider().map(|provider| (provider, account.identity.is_some())),
            keys: keys.map(|key| Key::new(key, &shell, now)).collect(),
            keys_from,
            next_keys,
            more_sessions,
            sessions: sessions
                .map(|session| SessionRow::new(session, current, &shell, now))
                .collect(),
            fresh: None,
            done: None,
            form: KeyForm::default(),
            bookmarklet: bookmarklet(&state.links.rules().hosts.api_base()),
            preferences: PreferencesEdit {
                email: text(account.preferences.email.as_ref().map(EmailAddress::as_str)),
                time_zone: text(account.preferences.time_zone.as_deref()),
                language: text(account.preferences.language.map(PageLanguage::tag)),
                shortcuts_off: account.preferences.shortcuts_off,
                password: String::new(),
            },
            mail: state.mail.is_some(),
            wrong: None,
            shell,
        })
    }

    fn lives(&self) -> impl Iterator<Item = (u64, &'static str, bool)> {
        let chosen = self.form.days.parse().unwrap_or(90);
        LIFETIMES.into_iter().map(move |(days, label)| (days, label, days == chosen))
    }

    fn languages(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        PageLanguage::ALL.into_iter().map(|language| {
            (language.tag(), language.name(), language.tag() == self.preferences.language)
        })
    }

    /// Whether the problem is about this field.
    fn is_wrong(&self, field: &str) -> bool {
        self.wrong.as_ref().is_some_and(|(wrong, _)| *wrong == field)
    }

    fn message(&self) -> &str {
        self.wrong.as_ref().map(|(_, message)| message.as_str()).unwrap_or_default()
    }
}

fn bookmarklet(base: &str) -> String {
    format!("javascript:location.href='{base}/?url='+encodeURIComponent(location.href)")
}

/// The message after a redirect from a form, by the `done` word in the query.
fn done_message(word: &str) -> Option<&'static str> {
    Some(match word {
        "revoked" => "The key is revoked. Requests that use it are refused from now on.",
        "session" => "That browser is signed out.",
        "signed-out" => "All other browsers are signed out.",
        "connected" => "Connected. You can use it to sign in from now on.",
        "disconnected" => "Disconnected. You can no longer sign in with it.",
        "two-factor-off" => "Two-factor sign-in is off.",
        "preferences" => "Saved.",
        "password" => "Your password is changed. All other browsers are signed out.",
        _ => return None,
    })
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    params: Result<Params, Problem>,
) -> Response {
    let mut params = params.unwrap_or_default();
    let (done, from) = (params.take("done"), params.take("keys"));
    let from = from.and_then(|from| from.parse().ok()).unwrap_or(0);
    match AccountPage::from(&state, &member, from).await {
        Ok(mut account) => {
            account.done = done.and_then(|word| done_message(&word));
            app_page(StatusCode::OK, html(&account))
        }
        Err(error) => account_error_page(&error),
    }
}

/// Shows the page again with the problem and the typed values.
async fn form_problem(
    state: &App,
    member: &Member,
    form: KeyForm,
    field: &'static str,
    problem: &Problem,
) -> Response {
    match AccountPage::of(state, member).await {
        Ok(mut account) => {
            account.form = form;
            account.wrong = Some((field, sentence(problem)));
            app_problem_page(problem, html(&account))
        }
        Err(error) => account_error_page(&error),
    }
}

pub(super) async fn make_key(State(state): Web, form: MemberForm) -> Response {
    let MemberForm { member, mut fields } = form;
    let mut take = |name| fields.take(name).unwrap_or_default();
    let form = KeyForm { name: take("key"), scope: take("scope"), days: take("days") };
    let made = match fields.done() {
        Ok(()) => new_key(&state, &member, &form).await,
        Err(problem) => Err(problem),
    };
    match made {
        Ok(key) => match AccountPage::of(&state, &member).await {
            Ok(mut account) => {
                account.fresh = Some(key);
                app_page(StatusCode::CREATED, html(&account))
            }
            Err(error) => account_error_page(&error),
        },
        Err(problem) => {
            let field = match problem.field() {
                Some("scope") => "scope",
                Some("days" | "expires_at") => "days",
                _ => "key",
            };
            form_problem(&state, &member, form, field, &problem).await
        }
    }
}

async fn new_key(state: &App, member: &Member, form: &KeyForm) -> Result<String, Problem> {
    let offered =
        LIFETIMES.into_iter().map(|(days, _)| days).find(|days| days.to_string() == form.days);
    let days = offered.ok_or_else(|| Problem::invalid("days", "choose when the key expires"))?;
    let end = state.links.now().checked_add(Duration::from_secs(days * 86_400));
    let expires_at = end.filter(|_| days > 0).map(|at| at.to_string());
    let (name, scope) = (form.name.clone(), form.scope.clone());
    let draft = KeyDraft { name, scope, expires_at, plan: None };
    let (key, _) = state.accounts.create_own_key(&member.principal, draft).await?;
    Ok(key)
}

pub(super) async fn revoke_key(State(state): Web, form: MemberForm) -> Response {
    let MemberForm { member, mut fields } = form;
    let account = &member.here.account;
    let id = fields.take("id").and_then(|id| id.parse().ok()).map(KeyId);
    let revoked = match id {
        Some(id) => state.accounts.revoke_key(&member.principal, account.id, id).await,
        None => Ok(()),
    };
    match revoked {
        // A key that is already gone counts as revoked.
        Ok(()) | Err(AccountError::NotFound(_)) => redirect_to("/account?done=revoked"),
        Err(error) => account_error_page(&error),
    }
}

/// Signs one browser out.
pub(super) async fn end_session(State(state): Web, form: MemberForm) -> Response {
    let MemberForm { member, mut fields } = form;
    let id = fields.take("id").unwrap_or_default();
    let is_wanted = |token: &SecretHash| token.handle() == id;
    match state.accounts.end_session_where(&member.principal, is_wanted).await {
        // A session that has already ended counts as ended.
        Ok(()) | Err(AccountError::NotFound(_)) => redirect_to("/account?done=session"),
        Err(error) => account_error_page(&error),
    }
}

pub(super) async fn end_sessions(State(state): Web, form: MemberForm) -> Response {
    match state.accounts.end_other_sessions(&form.member.principal).await {
        Ok(()) => redirect_to("/account?done=signed-out"),
        Err(error) => account_error_page(&error),
    }
}

pub(super) async fn change_password(
    State(state): Web,
    headers: HeaderMap,
    form: MemberForm,
) -> Response {
    let MemberForm { member, mut fields } = form;
    let here = &member.here;
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (current, password, again_typed) = (take("current"), take("password"), take("again"));
    // Password managers fill in this field; the server ignores it.
    take("username");
    let changed = async {
        if password != again_typed {
            return Err(mismatch());
        }
        Ok(state.accounts.change_password(&here.account, current, password).await?)
    };
    match changed.await {
        // The password change ended all sessions, including this one, so begin a new one.
        Ok(account) => match begin(&state, &headers, &account).await {
            Ok(cookie) => redirect_with_cookie("/account?done=password", cookie),
            Err(_) => redirect_with_cookie("/login", no_cookie(&state)),
        },
        Err(problem) => {
            let field = match problem.field() {
                Some("password") => "password",
                _ => "current",
            };
            form_problem(&state, &member, KeyForm::default(), field, &problem).await
        }
    }
}

pub(super) async fn set_preferences(State(state): Web, form: MemberForm) -> Response {
    let MemberForm { member, mut fields } = form;
    let mut take = |name| fields.take(name).unwrap_or_default();
    let edit = PreferencesEdit {
        // Without a mail server, the form has no field for the address.
        email: match state.mail {
            Some(_) => take("email"),
            None => text(member.here.account.preferences.email.as_ref().map(EmailAddress::as_str)),
        },
        time_zone: take("time_zone"),
        language: take("language"),
        shortcuts_off: take("shortcuts").is_empty(),
        password: take("proof"),
    };
    let problem = match state.accounts.set_preferences(&member.principal, edit.clone()).await {
        Ok(account) => {
            let tag = account.preferences.language.map(PageLanguage::tag);
            return redirect_with_cookie("/account?done=preferences", language_cookie(&state, tag));
        }
        Err(error) => Problem::from(error),
    };
    let field = match problem.field() {
        Some("email") => "email",
        Some("time_zone") => "time_zone",
        Some("language") => "language",
        _ => "preferences",
    };
    match AccountPage::of(&state, &member).await {
        Ok(mut page) => {
            page.preferences = PreferencesEdit { password: String::new(), ..edit };
            page.wrong = Some((field, sentence(&problem)));
            app_problem_page(&problem, html(&page))
        }
        Err(error) => account_error_page(&error),
    }
}

/// A text that may be absent.
fn text(text: Option<&str>) -> String {
    text.unwrap_or_default().to_owned()
}

pub(super) async fn turn_off_two_factor(State(state): Web, form: MemberForm) -> Response {
    let MemberForm { member, mut fields } = form;
    let proof = fields.take("proof").unwrap_or_default();
    match state.accounts.turn_off_two_factor(&member.here.account, proof).await {
        Ok(_) => redirect_to("/account?done=two-factor-off"),
        Err(error) => {
            form_problem(&state, &member, KeyForm::default(), "two-factor", &error.into()).await
        }
    }
}

pub(super) async fn delete(State(state): Web, form: MemberForm) -> Response {
    let MemberForm { member, mut fields } = form;
    let here = &member.here;
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (typed, password) = (take("typed"), take("proof"));
    let erased = async {
        if !typed.trim().eq_ignore_ascii_case(here.account.name.as_str()) {
            return Err(Problem::invalid(
                "typed",
                "type your account name to confirm the deletion",
            ));
        }
        let proof = ErasureConfirmation {
            password: Some(password),
            confirm: Some(here.account.name.to_string()),
        };
        state.accounts.erase_own(&state.erasures, &member.principal, proof).await?;
        Ok(())
    };
    match erased.await {
        Ok(()) => redirect_with_cookie("/", no_cookie(&state)),
        Err(problem) => {
            let field = if problem.field() == Some("typed") { "typed" } else { "proof" };
            form_problem(&state, &member, KeyForm::default(), field, &problem).await
        }
    }
}
