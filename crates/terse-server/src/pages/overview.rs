//! The overview: all clicks of an account, its busiest and newest links, and the first steps of a
//! new account.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::StoreError;
use terse_core::clicks::{BotFilter, ClickReport, ClickSubject, Period};

use super::cards::{Card, bot_words, card};
use super::chart::Chart;
use super::form::FormError;
use super::format::grouped;
use super::link_stats::{Figure, chart, visitors};
use super::member::Member;
use super::overview_lists::Lists;
use super::session::app_page;
use super::shell::Shell;
use super::window::Window;
use super::{BAD_FORM, NOT_FOUND, UNAVAILABLE, html, message};
use crate::counts::{REPORT_TIMEOUT, report_in_time};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::value_lists::ValueLists;

/// How many values a card shows.
const ON_CARD: usize = 6;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    shell: Shell,
    window: Window,
    /// What is wrong with the period that was typed.
    problem: Option<FormError>,
    clicks: Figure,
    visitors: Figure,
    bots: String,
    reasons: String,
    chart: Chart,
    cards: Vec<Card>,
    lists: Lists,
    /// Ready-made calls of the API, for the first steps: the name of each, and its text.
    snippets: [(&'static str, String); 3],
}

/// The clicks of all links of an account.
pub(super) async fn report(
    state: &App,
    member: &Member,
    period: Period,
) -> Result<ClickReport, StoreError> {
    let subject = ClickSubject::Owner(member.here.account.id);
    report_in_time(state, REPORT_TIMEOUT, &subject, period).await
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut params) = params else { return message(&NOT_FOUND) };
    let shell = member.shell(&state, "/dashboard");
    let Ok((window, problem)) = Window::read(&mut params, shell.zone(), state.links.now()) else {
        return message(&BAD_FORM);
    };
    let reports = tokio::try_join!(
        report(&state, &member, window.period()),
        report(&state, &member, window.before())
    );
    let (report, before) = match reports {
        Ok(reports) => reports,
        Err(error) => {
            tracing::error!(%error, "the clicks of an account could not be read");
            return message(&UNAVAILABLE);
        }
    };
    let lists = match Lists::read(&state, &member, &shell, window.period()).await {
        Ok(lists) => lists,
        Err(error) => {
            tracing::error!(%error, "the links of an account could not be listed");
            return message(&UNAVAILABLE);
        }
    };
    let before = window.is_comparable(member.here.account.created_at).then_some(before);
    let values = ValueLists { tally: &report.tally, bots: BotFilter::Exclude, most: ON_CARD };
    let only_bots = ValueLists { tally: &report.tally, bots: BotFilter::Only, most: ON_CARD };
    let reasons = only_bots.bot_reasons();
    let reasons =
        reasons.iter().map(|named| format!("{} {}", bot_words(&named.name), grouped(named.clicks)));
    let page = OverviewPage {
        clicks: Figure::new(
            report.tally.clicks.humans,
            before.as_ref().map(|before| before.tally.clicks.humans),
        ),
        visitors: Figure::new(visitors(&report), before.as_ref().map(visitors)),
        bots: grouped(report.tally.clicks.bots),
        reasons: reasons.collect::<Vec<_>>().join(" · "),
        chart: chart(&window, &report, before.as_ref(), BotFilter::Exclude),
        cards: ["referrers", "countries"].into_iter().map(|of| card(&values, of)).collect(),
        lists,
        snippets: snippets(&state.links.rules().hosts.api_base()),
        shell,
        window,
        problem,
    };
    let status = if page.problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    app_page(status, html(&page))
}

/// Calls of the API that create a link, with the address of this server.
fn snippets(base: &str) -> [(&'static str, String); 3] {
    let curl = format!(
        "curl {base}/api/v1/urls \\\n  -H \"Authorization: Bearer $KEY\" \\\n  \
         -H \"Content-Type: application/json\" \\\n  \
         -d '{{\"long_url\": \"https://example.com/\"}}'"
    );
    let javascript = format!(
        "const answer = await fetch(\"{base}/api/v1/urls\", {{\n  method: \"POST\",\n  \
         headers: {{ Authorization: `Bearer ${{key}}`, \"Content-Type\": \"application/json\" }},\n  \
         body: JSON.stringify({{ long_url: \"https://example.com/\" }}),\n}});\n\
         console.log((await answer.json()).short_url);"
    );
    let python = format!(
        "import json, urllib.request\n\nrequest = urllib.request.Request(\n    \
         \"{base}/api/v1/urls\",\n    \
         json.dumps({{\"long_url\": \"https://example.com/\"}}).encode(),\n    \
         {{\"Authorization\": f\"Bearer {{key}}\", \"Content-Type\": \"application/json\"}},\n)\n\
         print(json.load(urllib.request.urlopen(request))[\"short_url\"])"
    );
    [("curl", curl), ("JavaScript", javascript), ("Python", python)]
}
