//! The history of a link: what its owner changed, each with a button that takes it back.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::{Link, SocialPreview, Target, Timestamp};

use super::format::middle_cut;
use super::link::{LinkHead, ago_and_exact, error_page, find_link};
use super::member::Member;
use super::rule_words::rule_sentences;
use super::session::app_page;
use super::shell::Shell;
use super::{NOT_FOUND, html, message};
use crate::http::extract::Name;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::Web;

/// The longest value, in characters.
const MAX_SHOWN_LENGTH: usize = 200;

#[derive(Template)]
#[template(path = "link_history.html")]
struct HistoryPage {
    shell: Shell,
    head: LinkHead,
    entries: Vec<Entry>,
}

/// A change.
struct Entry {
    /// The revision before it.
    revision: u64,
    ago: String,
    exact: String,
    changes: Vec<Change>,
}

/// A field before and after a change.
struct Change {
    field: &'static str,
    before: String,
    after: String,
}

/// The fields that an owner can change, as texts for the page.
fn field_texts(link: &Link, shell: &Shell) -> [(&'static str, String); 13] {
    let time =
        |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), |at| shell.date_time(at));
    let yes = |value: bool| if value { "yes" } else { "no" }.to_owned();
    let tags: Vec<&str> = link.tags.iter().collect();
    [
        ("Target", link.target.to_string()),
        ("Title", link.title.as_ref().map(|text| text.as_str().to_owned()).unwrap_or_default()),
        ("Tags", tags.join(", ")),
        ("Notes", link.notes.as_ref().map(|text| text.as_str().to_owned()).unwrap_or_default()),
        ("Expires", time(link.expires_at)),
        ("Valid from", link.valid_from.map(|at| shell.date_time(at)).unwrap_or_default()),
        ("Maximum clicks", link.max_clicks.map(|most| most.to_string()).unwrap_or_default()),
        ("Redirect", link.redirect.status().to_string()),
        ("Passes the query on", yes(link.forward_query)),
        ("Search engines may follow", yes(link.crawlable)),
        ("Archived", yes(link.archived_at.is_some())),
        ("Rules", rule_sentences(link.rules.as_ref())),
        ("Social preview", link.preview.as_ref().map(preview_words).unwrap_or_default()),
    ]
}

/// A preview as one text.
fn preview_words(preview: &SocialPreview) -> String {
    let image = preview.image_url().map(Target::as_str);
    let texts = [preview.title(), preview.description(), image];
    texts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn changes(before: &Link, after: &Link, shell: &Shell) -> Vec<Change> {
    let pairs = field_texts(before, shell).into_iter().zip(field_texts(after, shell));
    let mut changes: Vec<Change> = pairs
        .filter(|((_, before), (_, after))| before != after)
        .map(|((field, before), (_, after))| Change {
            field,
            before: middle_cut(&before, MAX_SHOWN_LENGTH),
            after: middle_cut(&after, MAX_SHOWN_LENGTH),
        })
        .collect();
    if before.password != after.password {
        let words = |link: &Link| if link.password.is_some() { "set" } else { "none" }.to_owned();
        let after = match (&before.password, &after.password) {
            (Some(_), Some(_)) => "another one".to_owned(),
            _ => words(after),
        };
        changes.push(Change { field: "Password", before: words(before), after });
    }
    changes
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    Name(code): Name,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let done = params.take("done");
    let shell = member.shell(&state, "/links");
    let (link, owner) = match find_link(&state, &member, &mut params, &code).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    let (link, history) = match state.links.history(member.principal.caller, &link.key).await {
        Ok(history) => history,
        Err(error) => return error_page(&error),
    };
    let now = state.links.now();
    let mut after = &link;
    let mut entries = Vec::with_capacity(history.len());
    for past in &history {
        let (ago, exact) = ago_and_exact(&shell, past.until, now);
        let changes = changes(&past.link, after, &shell);
        entries.push(Entry { revision: past.link.revision.0, ago, exact, changes });
        after = &past.link;
    }
    let head = LinkHead::new(&state, &shell, &link, owner, "history", done.as_deref());
    app_page(StatusCode::OK, html(&HistoryPage { shell, head, entries }))
}
