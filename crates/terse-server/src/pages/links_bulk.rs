//! Bulk actions on the links that were selected in the list: archive, tag, delete, export.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use terse_core::import_file::inert;
use terse_core::{Code, Domain, LinkError, LinkKey, LinkPatch, Tags};

use super::links::error_page;
use super::member::{Member, MemberForm};
use super::session::redirect_to;
use super::{BAD_FORM, UNAVAILABLE, message};
use crate::counts::counts;
use crate::http::host::short_url;
use crate::http::params::Params;
use crate::http::state::{App, Web};

/// A link in a form: `pick.CODE` or `pick.CODE@DOMAIN`, with the domain as the value.
#[derive(Clone)]
pub(super) struct Pick {
    pub(super) name: String,
    pub(super) domain: String,
}

impl Pick {
    const PREFIX: &'static str = "pick.";

    pub(super) fn new(key: &LinkKey) -> Self {
        let domain = if key.domain.is_primary() { "" } else { key.domain.as_str() };
        Self::named(key.code.as_str(), domain)
    }

    /// The domain is in the name as well: two links of one list may have the same code.
    pub(super) fn named(code: &str, domain: &str) -> Self {
        let joint = if domain.is_empty() { "" } else { "@" };
        let name = format!("{}{code}{joint}{domain}", Self::PREFIX);
        Self { name, domain: domain.to_owned() }
    }

    pub(super) fn key(&self, state: &App) -> Option<LinkKey> {
        let name = self.name.strip_prefix(Self::PREFIX)?;
        let code = Code::parse(name.split('@').next().unwrap_or_default())?;
        let domain = match self.domain.as_str() {
            "" => Domain::primary(),
            host => state.links.rules().hosts.domain_of(host)?,
        };
        Some(LinkKey { domain, code })
    }
}

/// The message after an action on `count` of `of` links, and whether the form needs something else
/// first.
pub(super) fn done_message(word: &str, count: usize, of: usize) -> Option<(String, bool)> {
    let links = match (count, of) {
        _ if count < of => format!("{count} of {of} links are"),
        (1, _) => "1 link is".to_owned(),
        _ => format!("{count} links are"),
    };
    let others = match of.saturating_sub(count) {
        0 => "",
        1 => " The other one could not be changed.",
        _ => " The others could not be changed.",
    };
    let done = match word {
        "archived" => "archived",
        "unarchived" => "in the list again",
        "restored" => "restored",
        "tagged" => "tagged",
        "untagged" => "without that tag now",
        "conflict" => {
            let words = "The link was changed in between. Nothing was done.";
            return Some((words.to_owned(), true));
        }
        "refused" => {
            let words = "The rules of this server do not allow that. Nothing was done.";
            return Some((words.to_owned(), true));
        }
        "none" => {
            return Some(("Select links first, and what to do with them.".to_owned(), true));
        }
        "tag" => {
            let words = format!("Type the tag: 1 to {} characters, no comma.", Tags::MAX_LENGTH);
            return Some((words, true));
        }
        _ => return None,
    };
    Some((format!("{links} {done}.{others}"), count < of))
}

/// The list that a form was on, if it was on one.
pub(super) fn list_of(fields: &mut Params) -> Option<String> {
    let back = fields.take("back")?;
    let is_list = back == "/links" || back.starts_with("/links?");
    let is_plain = back.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    (is_list && is_plain).then_some(back)
}

/// A bulk action on the selected links.
pub(super) async fn act(
    State(state): Web,
    MemberForm { member, mut fields }: MemberForm,
) -> Response {
    let back = list_of(&mut fields).unwrap_or_else(|| "/links".to_owned());
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (action, tag) = (take("action"), take("tag").trim().to_owned());
    let picks = fields.take_all(Pick::PREFIX).into_iter();
    let picks = picks.map(|(name, domain)| Pick { name, domain }.key(&state));
    let Some(keys) = picks.collect::<Option<Vec<LinkKey>>>() else { return message(&BAD_FORM) };
    if keys.is_empty() || action.is_empty() {
        return redirect_to(&done_path(&back, "none", 0, 0));
    }
    if action == "export" {
        return export(&state, &member, &keys).await;
    }
    if matches!(&*action, "tag" | "untag") && Tags::parse(&[&tag]).is_err() {
        return redirect_to(&done_path(&back, "tag", 0, 0));
    }
    let (mut done, of) = (Vec::new(), keys.len());
    for key in keys {
        match apply(&state, &member, &action, &tag, &key).await {
            Some(Ok(())) => done.push(key),
            // A link that is gone, or that the rules do not let change, is left out of the count.
            Some(Err(LinkError::NotFound | LinkError::Refused(_) | LinkError::Conflict)) => {}
            Some(Err(error)) => return error_page(&error),
            None => return message(&BAD_FORM),
        }
    }
    if action == "delete" {
        return redirect_to(&deleted_path(&back, &done));
    }
    let word = match &*action {
        "archive" => "archived",
        "unarchive" => "unarchived",
        "restore" => "restored",
        "tag" => "tagged",
        _ => "untagged",
    };
    redirect_to(&done_path(&back, word, done.len(), of))
}

/// Does one action on one link; `None` if there is no such action.
async fn apply(
    state: &App,
    member: &Member,
    action: &str,
    tag: &str,
    key: &LinkKey,
) -> Option<Result<(), LinkError>> {
    let caller = member.principal.caller;
    let archive = |archived| LinkPatch { archived: Some(archived), ..LinkPatch::default() };
    let patch = match action {
        "archive" => archive(true),
        "unarchive" => archive(false),
        "delete" => return Some(state.links.delete(caller, key).await),
        "restore" => return Some(state.links.restore(caller, key).await.map(|_| ())),
        "tag" => return Some(state.links.add_tag(caller, key, tag).await.map(|_| ())),
        "untag" => return Some(state.links.retag(caller, key, tag, None).await.map(|_| ())),
        _ => return None,
    };
    Some(state.links.patch(caller, key, &patch, None).await.map(|_| ()))
}

/// The path of the list after these links were deleted.
pub(super) fn deleted_path(back: &str, keys: &[LinkKey]) -> String {
    let codes = keys.iter().map(|LinkKey { domain, code }| match domain.is_primary() {
        true => code.to_string(),
        false => format!("{code}@{}", domain.as_str()),
    });
    with(back, &[("deleted", &codes.collect::<Vec<_>>().join(","))])
}

/// The path of the list after an action on `count` of `of` links.
pub(super) fn done_path(back: &str, word: &str, count: usize, of: usize) -> String {
    let (count, of) = (count.to_string(), (count < of).then(|| of.to_string()));
    let mut params = vec![("done", word), ("count", &*count)];
    params.extend(of.as_deref().map(|of| ("of", of)));
    with(back, &params)
}

/// A path of the list with further parameters.
fn with(back: &str, params: &[(&str, &str)]) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(params).finish();
    let joint = if back.contains('?') { '&' } else { '?' };
    format!("{back}{joint}{query}")
}

/// The selected links as CSV, in the columns that `terse import` reads.
async fn export(state: &App, member: &Member, keys: &[LinkKey]) -> Response {
    let mut table =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let mut links = Vec::new();
    for key in keys {
        match state.links.get(member.principal.caller, key).await {
            Ok(link) => links.push(link),
            Err(LinkError::NotFound) => {}
            Err(error) => return error_page(&error),
        }
    }
    let counts = counts(state, links.iter()).await;
    let mut written = table.write_record([
        "short_code",
        "short_url",
        "long_url",
        "title",
        "tags",
        "created_at",
        "expires_at",
        "click_count",
    ]);
    for (link, count) in links.iter().zip(counts) {
        let tags: Vec<&str> = link.tags.iter().collect();
        let count = count.map(|count| count.all().saturating_add(link.imported_clicks));
        let cells = [
            short_url(&link.key, &state.links.rules().hosts),
            link.target.to_string(),
            link.title.as_ref().map(|title| title.as_str().to_owned()).unwrap_or_default(),
            tags.join(","),
            link.created_at.to_string(),
            link.expires_at.map(|at| at.to_string()).unwrap_or_default(),
            count.map(|count| count.to_string()).unwrap_or_default(),
        ];
        // A code has letters, digits, `-` and `_` only, and an import reads it back as it is.
        let code = std::iter::once(link.key.code.to_string());
        let row = code.chain(cells.iter().map(|cell| inert(cell).into_owned()));
        written = written.and_then(|()| table.write_record(row));
    }
    let (Ok(()), Ok(bytes)) = (written, table.into_inner()) else { return message(&UNAVAILABLE) };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8; header=present")),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment; filename=\"links.csv\""),
        ),
    ];
    (headers, bytes).into_response()
}
