//! The look of this server's pages, set by admins: name, logo, colour, links and contact.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::moderation::{BrandingDraft, LogoChange, ModerationError};
use terse_core::{Branding, MAX_BRANDING_LOGO, MAX_FOOTER_LINKS};

use super::form::{field_problem, problem_beside, problem_of};
use super::member::{AdminPage, Member};
use super::session::{app_page, app_problem_page, redirect_to};
use super::shell::Shell;
use super::upload::AdminUpload;
use super::{UNAVAILABLE, html, message};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// The longest form: a logo, and room for the texts.
const MAX_FORM: usize = MAX_BRANDING_LOGO + 32 * 1024;
const FIELDS: [&str; 5] = ["name", "accent", "abuse_contact", "links", "logo"];

#[derive(Template)]
#[template(path = "branding.html")]
struct BrandingPage {
    shell: Shell,
    name: String,
    accent: String,
    abuse_contact: String,
    /// As many pairs as a footer can have.
    links: Vec<(String, String)>,
    has_logo: bool,
    /// What the settings say, shown where nothing is set.
    configured_name: String,
    configured_contact: String,
    saved: bool,
    wrong: Option<(String, String)>,
}

impl BrandingPage {
    /// The accent of `terse.css`. A browser sends this colour when the admin has chosen none.
    const USUAL_ACCENT: &str = "#c8401a";

    fn new(state: &App, member: &Member, set: &Branding, typed: BrandingDraft) -> Self {
        let site = state.site();
        let operator = site.operator();
        let mut links = typed.links;
        links.resize(MAX_FOOTER_LINKS, (String::new(), String::new()));
        let text = |shown: Option<String>, typed: &str| {
            if typed.is_empty() { shown.unwrap_or_default() } else { String::new() }
        };
        Self {
            configured_name: text(operator.name.as_ref().map(ToString::to_string), &typed.name),
            configured_contact: text(
                operator.abuse_contact.as_ref().map(ToString::to_string),
                &typed.abuse_contact,
            ),
            shell: member.shell(state, "/branding"),
            name: typed.name,
            accent: typed.accent,
            abuse_contact: typed.abuse_contact,
            links,
            has_logo: set.logo.is_some(),
            saved: false,
            wrong: None,
        }
    }

    fn wrong(&self, field: &str) -> Option<&str> {
        problem_of(self.wrong.as_ref(), field)
    }

    fn general_problem(&self) -> Option<&str> {
        problem_beside(self.wrong.as_ref(), &FIELDS)
    }
}

/// What is set, as it would be typed.
fn typed(set: &Branding) -> BrandingDraft {
    let text = |value: Option<&dyn ToString>| value.map(ToString::to_string).unwrap_or_default();
    BrandingDraft {
        name: text(set.name.as_ref().map(|name| name as &dyn ToString)),
        accent: text(set.accent.as_ref().map(|accent| accent as &dyn ToString)),
        abuse_contact: text(set.abuse_contact.as_ref().map(|contact| contact as &dyn ToString)),
        links: set.links.iter().map(|link| (link.label().to_owned(), link.url())).collect(),
        logo: LogoChange::Keep,
    }
}

fn error_page(error: &ModerationError) -> Response {
    tracing::error!(%error, "the branding could not be read");
    message(&UNAVAILABLE)
}

pub(super) async fn show(
    State(state): Web,
    AdminPage(member): AdminPage,
    params: Result<Params, Problem>,
) -> Response {
    match state.moderation.branding(&member.principal).await {
        Ok(set) => {
            let mut page = BrandingPage::new(&state, &member, &set, typed(&set));
            page.saved = params.is_ok_and(|mut params| params.take("done").is_some());
            app_page(StatusCode::OK, html(&page))
        }
        Err(error) => error_page(&error),
    }
}

pub(super) async fn save(
    State(state): Web,
    AdminUpload { member, mut form }: AdminUpload<MAX_FORM>,
) -> Response {
    let mut read = || -> Result<BrandingDraft, Problem> {
        let mut links = Vec::new();
        for n in 0..MAX_FOOTER_LINKS {
            links.push((form.text(&format!("label{n}"))?, form.text(&format!("url{n}"))?));
        }
        Ok(BrandingDraft {
            name: form.text("name")?,
            accent: match (form.text("usual_accent")?.is_empty(), form.text("accent")?) {
                (true, accent) if accent != BrandingPage::USUAL_ACCENT => accent,
                _ => String::new(),
            },
            abuse_contact: form.text("abuse_contact")?,
            links,
            logo: match (form.file("logo"), form.text("remove_logo")?.is_empty()) {
                (Some(bytes), _) => LogoChange::Replace(bytes),
                (None, false) => LogoChange::Remove,
                (None, true) => LogoChange::Keep,
            },
        })
    };
    let draft = match read() {
        Ok(draft) => draft,
        Err(problem) => return super::form::refusal(&problem),
    };
    let problem = match state.moderation.put_branding(&member.principal, draft.clone()).await {
        Ok(_) => return redirect_to("/branding?done=1"),
        Err(error) => Problem::from(error),
    };
    if problem.status() >= 500 {
        return message(&UNAVAILABLE);
    }
    match state.moderation.branding(&member.principal).await {
        Ok(set) => {
            let mut page = BrandingPage::new(&state, &member, &set, draft);
            page.wrong = field_problem(&problem, "name");
            app_problem_page(&problem, html(&page))
        }
        Err(error) => error_page(&error),
    }
}
