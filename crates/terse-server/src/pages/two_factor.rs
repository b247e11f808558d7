//! Turns two-factor sign-in on: the secret as a QR code and as text, then the recovery codes.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::accounts::AccountError;

use super::form::{FormError, sentence};
use super::html;
use super::login::account_error_page;
use super::member::{Member, MemberForm};
use super::session::{app_page, app_problem_page, redirect_to};
use super::shell::Shell;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::qr::Matrix;

#[derive(Template)]
#[template(path = "two_factor.html")]
struct TwoFactorPage {
    shell: Shell,
    name: String,
    seed: String,
    /// The secret in groups of four.
    secret: String,
    qr_path: String,
    qr_across: u32,
    /// The recovery codes, after it was turned on; the page shows them only this once.
    codes: Vec<String>,
    wrong: Option<FormError>,
}

impl TwoFactorPage {
    fn new(state: &App, member: &Member, seed: Option<&str>) -> Result<Self, AccountError> {
        let (shell, account) = (member.shell(state, "/account"), &member.here.account);
        let offer = state.accounts.offer_two_factor(account, &shell.site_name(), seed)?;
        let matrix = Matrix::of(&offer.url, qrcode::EcLevel::M);
        let groups: Vec<&str> = offer
            .secret
            .as_bytes()
            .chunks(4)
            .filter_map(|four| str::from_utf8(four).ok())
            .collect();
        Ok(Self {
            name: account.name.to_string(),
            secret: groups.join(" "),
            seed: offer.seed,
            qr_path: matrix.as_ref().map(|matrix| matrix.path(2)).unwrap_or_default(),
            qr_across: matrix.as_ref().map_or(1, |matrix| matrix.across(2)),
            codes: Vec::new(),
            wrong: None,
            shell,
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

pub(super) async fn show(State(state): Web, member: Member) -> Response {
    let account = &member.here.account;
    if account.two_factor.is_some() || account.password.is_none() {
        return redirect_to("/account");
    }
    match TwoFactorPage::new(&state, &member, None) {
        Ok(page) => app_page(StatusCode::OK, html(&page)),
        Err(error) => account_error_page(&error),
    }
}

pub(super) async fn turn_on(State(state): Web, form: MemberForm) -> Response {
    let MemberForm { member, mut fields } = form;
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (seed, password, code) = (take("seed"), take("password"), take("code"));
    let account = &member.here.account;
    let turned_on = state.accounts.turn_on_two_factor(account, &seed, password, &code).await;
    let mut page = match TwoFactorPage::new(&state, &member, Some(&seed)) {
        Ok(page) => page,
        Err(error) => return account_error_page(&error),
    };
    match turned_on {
        Ok((_, codes)) => {
            page.codes = codes;
            app_page(StatusCode::CREATED, html(&page))
        }
        Err(error) => {
            let problem = Problem::from(error);
            let field = if problem.field() == Some("code") { "code" } else { "password" };
            page.wrong = Some((field, sentence(&problem)));
            app_problem_page(&problem, html(&page))
        }
    }
}
