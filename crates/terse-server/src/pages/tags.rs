//! The page of an account's tags: how many links have each, and forms that rename or remove one.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::{LinkError, RetagProgress, TagCount};
use url::form_urlencoded::byte_serialize;

use super::form::sentence;
use super::format::grouped;
use super::links::error_page;
use super::member::{Member, MemberForm};
use super::session::{app_page, page_with_problem, redirect_to};
use super::shell::Shell;
use super::{NOT_FOUND, html, message};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::tag_name::tag_name;

/// Tags per page: with long names the page has less than 50 KB.
const PAGE: usize = 25;
/// The first tags of the last page, so that the store does not sort more.
const MAX_FROM: usize = 1000;

#[derive(Template)]
#[template(path = "tags.html")]
struct TagsPage {
    shell: Shell,
    /// The most used first.
    rows: Vec<TagRow>,
    /// How many tags are on the pages before.
    from: usize,
    next: Option<usize>,
    done: Option<String>,
    /// A problem that belongs to none of the rows.
    problem: Option<String>,
}

struct TagRow {
    tag: String,
    /// How many links have it, in words.
    links: String,
    /// The path of the list of its links.
    path: String,
    /// The new name in the form.
    name: String,
    wrong: Option<String>,
}

impl From<TagCount> for TagRow {
    fn from(TagCount { tag, links }: TagCount) -> Self {
        let query: String = byte_serialize(tag.as_bytes()).collect();
        Self {
            links: links_words(links),
            path: format!("/links?tag={query}"),
            name: tag.clone(),
            tag,
            wrong: None,
        }
    }
}

impl TagsPage {
    async fn of(state: &App, member: &Member, from: usize) -> Result<Self, LinkError> {
        let from = from.min(MAX_FROM);
        let mut tags = state.links.tags(member.principal.caller, from + PAGE + 1).await?;
        let next = (tags.len() > from + PAGE && from < MAX_FROM).then_some(from + PAGE);
        tags.truncate(from + PAGE);
        Ok(Self {
            shell: member.shell(state, "/tags"),
            rows: tags.into_iter().skip(from).map(TagRow::from).collect(),
            from,
            next,
            done: None,
            problem: None,
        })
    }

    fn has_problem(&self) -> bool {
        self.problem.is_some() || self.rows.iter().any(|row| row.wrong.is_some())
    }
}

fn links_words(count: u64) -> String {
    if count == 1 { "1 link".to_owned() } else { format!("{} links", grouped(count)) }
}

/// The message after a form: `more` says that a further call is needed.
fn done_message(word: &str, count: u64, more: bool) -> Option<String> {
    let links = links_words(count);
    let (done, again) = match word {
        "renamed" => (format!("The tag is renamed on {links}"), "Rename it again to continue."),
        "removed" => (format!("The tag is removed from {links}"), "Remove it again to continue."),
        _ => return None,
    };
    Some(if more { format!("{done} so far. {again}") } else { format!("{done}.") })
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let mut number = |name| params.take(name).and_then(|text| text.parse::<u64>().ok());
    let (from, count, more) = (number("from"), number("count"), number("more").is_some());
    let from = from.and_then(|from| usize::try_from(from).ok()).unwrap_or(0);
    let done = params.take("done");
    match TagsPage::of(&state, &member, from).await {
        Ok(mut page) => {
            page.done = done.and_then(|word| done_message(&word, count.unwrap_or(0), more));
            app_page(StatusCode::OK, html(&page))
        }
        Err(error) => error_page(&error),
    }
}

/// What a form of the page asks for.
struct TagForm {
    tag: String,
    /// The new name, in the form that renames.
    name: String,
    /// Where the page begins that has the form.
    from: usize,
}

impl TagForm {
    fn read(fields: &mut Params) -> Self {
        let mut take = |name| fields.take(name).unwrap_or_default();
        Self { tag: take("tag"), name: take("name"), from: take("from").parse().unwrap_or(0) }
    }

    /// Back to the page, or the page with the problem in the row of the tag.
    async fn answer(
        self,
        state: &App,
        member: &Member,
        changed: Result<RetagProgress, Problem>,
        done: &str,
    ) -> Response {
        let problem = match changed {
            Ok(RetagProgress { changed, more }) => {
                let more = if more { "&more=1" } else { "" };
                return redirect_to(&format!("/tags?done={done}&count={changed}{more}"));
            }
            Err(problem) => problem,
        };
        let page = TagsPage::of(state, member, self.from);
        page_with_problem(problem, page, error_page, |page, problem| {
            let words = Some(sentence(problem));
            match page.rows.iter_mut().find(|row| row.tag == self.tag) {
                Some(row) => (row.wrong, row.name) = (words, self.name),
                None => page.problem = words,
            }
        })
        .await
    }
}

/// Renames a tag on all links of the account.
pub(super) async fn rename(
    State(state): Web,
    MemberForm { member, mut fields }: MemberForm,
) -> Response {
    let form = TagForm::read(&mut fields);
    let renamed = async {
        let (tag, name) = (tag_name(&form.tag, "tag")?, tag_name(&form.name, "name")?);
        Ok(state.links.retag_all(member.principal.caller, &tag, Some(&name)).await?)
    };
    let renamed = renamed.await;
    form.answer(&state, &member, renamed, "renamed").await
}

/// Removes a tag from all links of the account.
pub(super) async fn remove(
    State(state): Web,
    MemberForm { member, mut fields }: MemberForm,
) -> Response {
    let form = TagForm::read(&mut fields);
    let removed = async {
        let tag = tag_name(&form.tag, "tag")?;
        Ok(state.links.retag_all(member.principal.caller, &tag, None).await?)
    };
    let removed = removed.await;
    form.answer(&state, &member, removed, "removed").await
}
