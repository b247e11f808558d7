//! The QR code of a link: colours, size and logo, with a preview and files to download.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::Logo;

use super::form::{field_problem, problem_of};
use super::link::{LinkHead, find_link};
use super::member::Member;
use super::session::{app_page, app_problem_page};
use super::shell::Shell;
use super::{NOT_FOUND, html, message};
use crate::http::extract::Name;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::Web;
use crate::qr::{Drawing, Matrix};

/// The sizes to choose from, in pixels.
const SIZES: [u32; 4] = [256, 512, 1024, 2048];
/// The levels to choose from, and what they are good for.
const LEVELS: [(&str, &str); 4] = [
    ("L", "Low: smallest, for clean screens"),
    ("M", "Medium"),
    ("Q", "High: for print"),
    ("H", "Highest: also with a logo"),
];

#[derive(Template)]
#[template(path = "link_qr.html")]
struct QrPage {
    shell: Shell,
    head: LinkHead,
    typed: Typed,
    path: String,
    across: u32,
    ink: String,
    paper: String,
    /// Where the logo begins and how wide it is.
    logo_place: Option<(f64, f64)>,
    /// The parameters of the files to download.
    query: String,
    /// The same of the PNG, which has the logo only if terse can draw it.
    png_query: String,
    wrong: Option<(String, String)>,
}

/// What the form shows.
struct Typed {
    fg: String,
    bg: String,
    size: String,
    margin: String,
    level: String,
    logo: bool,
}

impl Typed {
    fn take(params: &mut Params) -> Self {
        let mut text = |name: &str| params.take(name).unwrap_or_default();
        let logo = text("logo") == "true";
        // The form has a level also where the logo needs the highest one.
        let level = if logo { "H".to_owned() } else { text("level") };
        let (fg, bg, size, margin) = (text("fg"), text("bg"), text("size"), text("margin"));
        Self { fg, bg, size, margin, level, logo }
    }

    /// As parameters of the drawing, without fields that are empty.
    fn drawing(&self) -> Result<Drawing, Problem> {
        let logo = if self.logo { "true" } else { "" };
        let fields = [
            ("fg", &*self.fg),
            ("bg", &self.bg),
            ("size", &self.size),
            ("margin", &self.margin),
            ("level", &self.level),
            ("logo", logo),
        ];
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(fields.into_iter().filter(|(_, value)| !value.is_empty()));
        Drawing::parse(&mut Params::parse(&query.finish())?)
    }
}

impl QrPage {
    fn wrong(&self, field: &str) -> Option<&str> {
        problem_of(self.wrong.as_ref(), field)
    }

    fn sizes(&self) -> impl Iterator<Item = (u32, bool)> {
        let chosen: u32 = self.typed.size.parse().unwrap_or(1024);
        SIZES.into_iter().map(move |size| (size, size == chosen))
    }

    fn levels(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        let chosen = if self.typed.level.is_empty() { "M" } else { &self.typed.level };
        LEVELS.into_iter().map(move |(word, label)| (word, label, word == chosen))
    }
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    Name(code): Name,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let shell = member.shell(&state, "/links");
    let (link, owner) = match find_link(&state, &member, &mut params, &code).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    let head = LinkHead::new(&state, &shell, &link, owner, "qr", None);
    let mut typed = Typed::take(&mut params);
    let (drawing, problem) = match typed.drawing() {
        Ok(drawing) => (drawing, None),
        Err(problem) => (Drawing::default(), Some(problem)),
    };
    let Some(matrix) = Matrix::of(&head.short, drawing.level) else { return message(&NOT_FOUND) };
    let logo = drawing.logo && shell.logo().is_some();
    let matrix = matrix.with_room(logo);
    let (ink, paper) = (drawing.ink.to_string(), drawing.paper.to_string());
    let size = if typed.size.is_empty() { 1024 } else { drawing.size };
    for (field, colour) in [(&mut typed.fg, &ink), (&mut typed.bg, &paper)] {
        if problem.is_none() || field.is_empty() {
            field.clone_from(colour);
        } else if !field.starts_with('#') {
            // A field for colours shows only `#` and six digits.
            field.insert(0, '#');
        }
    }
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("size", &size.to_string());
    query.append_pair("margin", &drawing.margin.to_string());
    query.append_pair("level", drawing.level_name());
    query.append_pair("fg", ink.trim_start_matches('#'));
    query.append_pair("bg", paper.trim_start_matches('#'));
    let plain = query.finish();
    let with_logo = format!("{plain}&logo=true");
    let drawable = state.site().operator().logo.as_ref().is_some_and(Logo::fits_png);
    let png_query = if logo && drawable { &with_logo } else { &plain }.clone();
    let page = QrPage {
        path: matrix.path(drawing.margin),
        across: matrix.across(drawing.margin),
        logo_place: matrix.logo_place(drawing.margin),
        query: if logo { with_logo } else { plain },
        png_query,
        wrong: problem.as_ref().and_then(|problem| field_problem(problem, "fg")),
        shell,
        head,
        typed,
        ink,
        paper,
    };
    match problem {
        None => app_page(StatusCode::OK, html(&page)),
        Some(problem) => app_problem_page(&problem, html(&page)),
    }
}
