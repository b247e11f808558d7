//! The clicks of a link, one by one.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use jiff::tz::TimeZone;
use terse_core::clicks::{BotFilter, ClickPage, LinkId, RawQuery};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::click_rows::{COLUMNS, ClickRowBody};
use super::links::readable;
use super::period::{bad_bots, parse_time};
use super::streamed::{self, Sender};
use crate::counts::{API_REPORT_TIMEOUT, clicks_in_time};
use crate::describe;
use crate::http::extract::{Authenticated, Name};
use crate::http::params::Params;
use crate::http::problem::{Problem, STORE_UNAVAILABLE};
use crate::http::state::{App, Web};

/// The number of clicks per page. One page is in memory at a time.
const PAGE: usize = 1000;
/// The size of a portion: small enough that a slow client takes one within `SEND_TIMEOUT`.
const PORTION: usize = 32 * 1024;
/// How long a client may take for a portion.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Format {
    Lines,
    Csv,
}

/// List the clicks of a link
///
/// The earliest first, as long as they are kept. JSON lines, or CSV with a header row; cells that a
/// spreadsheet would take for a formula begin with an apostrophe. If reading fails on the way, the
/// connection is closed without a proper end.
#[describe::path(get, path = "/api/v1/urls/{code}/clicks", operation_id = "link_clicks",
    tag = "Clicks",
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("format" = inline(Option<FormatParam>), Query, description = "`json` (the default) is a \
            JSON object per line", nullable = false),
        super::schemas::UtcPeriodParams,
        ("bots" = Option<super::stats::BotsParam>, Query,
            description = "Whether clicks by bots are included (the default), excluded, or the \
                only ones. Also true and false",
            nullable = false),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The \
        clicks", headers(("Content-Disposition" = String, description = "A name for the file")),
            content((ClickRowBody<'static> = "application/x-ndjson"), (String = "text/csv"))),
        super::answers::GetProblems),
    security(("key" = [])))]
pub(super) async fn link_clicks(
    State(state): Web,
    Authenticated(caller): Authenticated,
    mut params: Params,
    Name(code): Name,
) -> Result<Response, Problem> {
    let format = match params.take("format").as_deref() {
        None | Some("json") => Format::Lines,
        Some("csv") => Format::Csv,
        Some(_) => return Err(Problem::invalid("format", "json or csv")),
    };
    let bots = params.take("bots").map(|word| BotFilter::parse(&word).ok_or_else(bad_bots));
    let bots = bots.transpose()?.unwrap_or_default();
    let at = |name, text: Option<String>| {
        text.map(|text| parse_time(name, &text, &TimeZone::UTC)).transpose()
    };
    let (from, to) = (at("from", params.take("from"))?, at("to", params.take("to"))?);
    if from.zip(to).is_some_and(|(from, to)| from >= to) {
        return Err(Problem::invalid(
            "from",
            "`to` must be after `from`; a date means its beginning, so for one day give the next \
             one as `to`",
        ));
    }
    let link = readable(&state, caller, params, &code).await?;
    let turn = std::sync::Arc::clone(&state.turns.clicks)
        .try_acquire_owned()
        .map_err(|_| Problem::new(&STORE_UNAVAILABLE, "too many clicks are being read at once"))?;
    let query = RawQuery { link: LinkId::of(&link), from, to, after: None, limit: PAGE };
    // Reads the first page before the response begins: if the store fails, the client gets a 503.
    let first = clicks_in_time(&state, API_REPORT_TIMEOUT, &query).await?;
    let (sender, body) = streamed::body();
    tokio::spawn(write(state, query, first, (format, bots), sender, turn));
    let (kind, ending) = match format {
        Format::Lines => ("application/x-ndjson", "jsonl"),
        Format::Csv => ("text/csv; charset=utf-8; header=present", "csv"),
    };
    // A code has only letters, digits, `-` and `_`, so the file name needs no escaping.
    let name = HeaderValue::try_from(format!(
        "attachment; filename=\"{}-clicks.{ending}\"",
        link.key.code
    ));
    let mut response = ([(header::CONTENT_TYPE, kind)], body).into_response();
    response.headers_mut().extend(name.ok().map(|name| (header::CONTENT_DISPOSITION, name)));
    Ok(response)
}

/// Sends page after page, and reads each when the client has taken the one before. Between pages it
/// holds no resource of the store.
async fn write(
    state: std::sync::Arc<App>,
    mut query: RawQuery,
    mut page: ClickPage,
    (format, bots): (Format, BotFilter),
    sender: Sender,
    _turn: OwnedSemaphorePermit,
) {
    let mut head = true;
    loop {
        page.clicks.retain(|click| bots.includes(click));
        let Some(mut bytes) = written(&page, format, std::mem::take(&mut head)) else { return };
        while !bytes.is_empty() {
            let portion = bytes.split_to(PORTION.min(bytes.len()));
            if !matches!(timeout(SEND_TIMEOUT, sender.send(portion)).await, Ok(true)) {
                return;
            }
        }
        query.after = page.next;
        if query.after.is_none() {
            let _ = timeout(SEND_TIMEOUT, sender.end()).await;
            return;
        }
        page = match clicks_in_time(&state, API_REPORT_TIMEOUT, &query).await {
            Ok(page) => page,
            Err(error) => {
                tracing::error!(%error, "a list of clicks ended early: the click store failed");
                return;
            }
        };
    }
}

/// A page as text. `None` if it cannot be serialised, which ends the response early.
fn written(page: &ClickPage, format: Format, head: bool) -> Option<Bytes> {
    let rows = page.clicks.iter().map(ClickRowBody::new);
    match format {
        Format::Lines => {
            let mut lines = Vec::new();
            for row in rows {
                serde_json::to_writer(&mut lines, &row).ok()?;
                lines.push(b'\n');
            }
            Some(lines.into())
        }
        Format::Csv => {
            let mut table =
                csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
            if head {
                table.write_record(COLUMNS).ok()?;
            }
            for row in rows {
                table.write_record(row.cells()).ok()?;
            }
            Some(table.into_inner().ok()?.into())
        }
    }
}

/// The formats of clicks.
#[derive(crate::describe::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "its names are what matters")]
enum FormatParam {
    Json,
    Csv,
}
