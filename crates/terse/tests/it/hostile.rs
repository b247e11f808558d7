//! The corpus of hostile inputs, applied to every interface.
//!
//! Each case states the input and the expected result. For every input, the server responds within
//! a second, never with a 5xx or a wrong `Location`, stays alive, and a refusal changes nothing.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Value, json};
use terse_core::registry::Role;

use crate::bans::TestAccount;
use crate::harness::{KEY, TestTerse};
use crate::hostile_corpus::{
    ABSENT, Case, Expect, TARGET, corpus, exchange, fixtures, get, is_4xx, links, post, post_as,
    refused, request, run,
};
use crate::{hostile_gen, hostile_html, process};

/// Flagged without a warning: unusual slashes cannot deceive a visitor, who sees the target.
const NOTED: &[&str] = &["url-flag-036"];

/// Bytes that must be escaped in a request target.
const ILLEGAL: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A create request of the corpus.
pub(crate) fn create(
    terse: &TestTerse,
    case: &Case,
    path: &str,
    body: &[u8],
) -> Result<Option<Value>, String> {
    create_as(KEY, terse, case, path, body)
}

fn create_as(
    key: &str,
    terse: &TestTerse,
    case: &Case,
    path: &str,
    body: &[u8],
) -> Result<Option<Value>, String> {
    let send = || exchange(terse, &post_as(key, path, body));
    match case.expect {
        Expect::Accept | Expect::AcceptButFlag => match send()? {
            Some(answer) if matches!(answer.status, 200 | 201) => Ok(Some(answer.json())),
            other => is_4xx(other).and(Err("refused".into())),
        },
        Expect::Reject => refused(terse, || is_4xx(send()?)).map(|()| None),
        Expect::EscapeInHtml => {
            let answer = send()?.ok_or("closed without an answer")?;
            Ok((answer.status < 300).then(|| answer.json()))
        }
        Expect::NotFound => Err("no such thing as a create that is not found".into()),
    }
}

/// An anonymous link to a suspicious target has a warning page that does not redirect.
fn warned(terse: &TestTerse, body: &[u8], warns: bool) -> Result<(), String> {
    let made = exchange(terse, &request("POST /api/v1/urls", &[], body))?
        .ok_or("closed without an answer")?;
    let code = made.json()["short_code"].as_str().ok_or("no code")?.to_owned();
    let visit = terse.browse(&format!("/{code}"));
    hostile_html::inert(&visit.text())?;
    match (visit.status, visit.location(), warns) {
        (200, None, true) if visit.text().contains("class=\"reasons\"") => Ok(()),
        (302, Some(_), false) => Ok(()),
        other => Err(format!("an anonymous link gets {other:?}")),
    }
}

/// Every page shows a link as inert text, and the redirect goes to the shown target.
pub(crate) fn shown(terse: &TestTerse, link: &Value) -> Result<(), String> {
    let code = link["short_code"].as_str().ok_or("no code")?;
    let preview = terse.browse(&format!("/{code}+"));
    if preview.status != 200 {
        return Err(format!("the preview is {}", preview.status));
    }
    hostile_html::inert(&preview.text())?;
    let (visit, target) = (terse.get(&format!("/{code}")), link["long_url"].as_str());
    match (visit.status, visit.location()) {
        (302, location) if location == target => Ok(()),
        other => Err(format!("a visit gets {other:?} for {target:?}")),
    }
}

fn as_json(input: &str) -> String {
    match input.strip_prefix("json:") {
        Some(token) => token.to_owned(),
        None => Value::from(hostile_gen::text(input)).to_string(),
    }
}

#[test]
fn every_target_is_accepted_or_refused_as_it_should_be() {
    run("create.long_url", 188, |terse, case, input| {
        // A new link each time: an older one to the same target was entered differently.
        let body = format!(r#"{{"long_url":{},"reuse":false}}"#, as_json(input));
        let made = create(terse, case, "/urls", body.as_bytes())?;
        if let Some(link) = &made {
            // What a browser makes of the same text.
            let whole = url::Url::parse(input).map_err(|error| error.to_string())?;
            if link["long_url"] != whole.as_str() {
                return Err(format!("{whole} was stored as {}", link["long_url"]));
            }
            shown(terse, link)?;
            let flagged = !link["flags"].as_array().ok_or("no flags")?.is_empty();
            if case.expect == Expect::AcceptButFlag {
                // The operator's links are only flagged; visitors of anonymous links are also
                // warned.
                if !flagged {
                    return Err("not flagged".into());
                }
                warned(terse, body.as_bytes(), !NOTED.contains(&case.id.as_str()))?;
            }
        }
        // The form on the home page shows the entered text, accepted or not.
        let form: String = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("long_url", input)
            .finish();
        let kind = "Content-Type: application/x-www-form-urlencoded";
        let page =
            exchange(terse, &request("POST /", &[kind, "Accept: text/html"], form.as_bytes()))?;
        let page = page.ok_or("the form was closed without an answer")?;
        match (case.expect, page.status) {
            (Expect::Reject, 201) if url::Url::parse(input).is_ok() => {
                Err("refused by the API, accepted by the form".into())
            }
            _ => Ok(()),
        }
    });
}

#[test]
fn what_was_typed_comes_back_inert() {
    let terse = fixtures();
    for breakout in
        ["\"><script>alert(1)</script>", "' onfocus='alert(1)", "\" autofocus onfocus=\"alert(1)"]
    {
        for (target, alias) in
            [(format!("javascript:{breakout}"), ""), ("https://example.com/".into(), breakout)]
        {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            let form = form.append_pair("long_url", &target).append_pair("alias", alias).finish();
            let kind = "Content-Type: application/x-www-form-urlencoded";
            let page =
                exchange(&terse, &request("POST /", &[kind, "Accept: text/html"], form.as_bytes()));
            assert_eq!(
                page.map(|page| page.map(|page| page.status)),
                Ok(Some(400)),
                "{target} {alias}"
            );
        }
    }
}

#[test]
fn every_alias_is_accepted_or_refused_as_it_should_be() {
    // The rules for owners: admins may choose shorter aliases.
    let key = std::cell::OnceCell::new();
    run("create.alias", 60, |terse, case, input| {
        let key = key.get_or_init(|| TestAccount::new(terse, "chooser", Role::User).key);
        let body = format!(r#"{{"long_url":"{TARGET}","alias":{}}}"#, as_json(input));
        let made = create_as(key, terse, case, "/urls", body.as_bytes())?;
        match made {
            Some(link) if link["short_code"] != input => {
                Err(format!("was made as {}", link["short_code"]))
            }
            Some(link) => shown(terse, &link),
            None => Ok(()),
        }
    });
}

#[test]
fn every_expiry_is_accepted_or_refused_as_it_should_be() {
    run("create.expires_at", 30, |terse, case, input| {
        let body = format!(r#"{{"long_url":"{TARGET}","expires_at":{}}}"#, as_json(input));
        create(terse, case, "/urls", body.as_bytes())?.map_or(Ok(()), |link| shown(terse, &link))
    });
}

#[test]
fn every_body_is_accepted_or_refused_as_it_should_be() {
    run("body", 33, |terse, case, input| {
        if input.starts_with("gen:chunked_body") {
            return refused(terse, || match exchange(terse, &hostile_gen::chunked(input))? {
                None => Ok(()), // cut off at the limit
                answer => is_4xx(answer),
            });
        }
        let body = hostile_gen::bytes(input);
        if input.starts_with("gen:bulk") {
            return create(terse, case, "/urls/bulk", &body).map(|_| ());
        }
        if input.contains(r#""reason":"#) {
            return reported(terse, case, &body);
        }
        if input.starts_with(r#"{"links":"#) {
            let answer =
                exchange(terse, &post("/urls/bulk", &body))?.ok_or("closed without an answer")?;
            let statuses: Vec<_> = answer.json()["results"]
                .as_array()
                .ok_or("no results")?
                .iter()
                .map(|one| one["status"].as_u64())
                .collect();
            let bad = statuses.last().copied().flatten();
            if answer.status != 207 || !bad.is_some_and(|status| (400..500).contains(&status)) {
                return Err(format!("{} {statuses:?}", answer.status));
            }
        }
        create(terse, case, "/urls", &body)?.map_or(Ok(()), |link| shown(terse, &link))
    });
}

/// Reports through the API and the form: stored unchanged for moderators and shown as inert text.
fn reported(terse: &TestTerse, case: &Case, body: &[u8]) -> Result<(), String> {
    let sent: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let (code, text) =
        (sent["code"].as_str().ok_or("no code")?, sent["reason"].as_str().ok_or("no reason")?);
    // One account each, because only the first report of an account is kept.
    let key =
        format!("Authorization: Bearer {}", TestAccount::new(terse, &case.id, Role::User).key);
    let line = format!("POST /api/v1/urls/{code}/report");
    let report =
        |body: &Value| exchange(terse, &request(&line, &[&key], body.to_string().as_bytes()));
    is_4xx(report(&json!({"reason": text}))?)?;
    match report(&json!({"reason": "other", "text": text}))? {
        Some(answer) if answer.status == 202 => {}
        other => return Err(format!("{other:?}")),
    }
    // An unknown reason: the form comes back with the entered text.
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("reason", "?")
        .append_pair("text", text)
        .finish();
    let fields = [
        "Content-Type: application/x-www-form-urlencoded",
        "Sec-Fetch-Site: same-origin",
        "Accept: text/html",
    ];
    let line = format!("POST /{code}?report");
    let page = exchange(terse, &request(&line, &fields, form.as_bytes()))?
        .ok_or("closed without an answer")?;
    if page.status != 400 || page.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("bcc")) {
        return Err(format!("{} {:?}", page.status, page.headers));
    }
    let queue = terse.api("GET", "/admin/reports", None);
    let said = queue.json()["reports"][0]["texts"].clone();
    match queue.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        true if said.as_array().is_some_and(|texts| texts.contains(&text.into())) => Ok(()),
        _ => Err(format!("moderators see {said}, as {:?}", queue.header("content-type"))),
    }
}

#[test]
fn every_query_is_accepted_or_refused_as_it_should_be() {
    run("query", 30, |terse, case, input| {
        let line = utf8_percent_encode(input, ILLEGAL).to_string().replacen("%20", " ", 1);
        // The operator's key sees everything, so another account searches for what must stay
        // hidden.
        let key = match case.expect {
            Expect::NotFound => TestAccount::new(terse, &case.id, Role::User).key,
            _ => KEY.to_owned(),
        };
        let ask = |line: &str| {
            exchange(terse, &request(line, &[&format!("Authorization: Bearer {key}")], &[]))
        };
        let answer = ask(&line)?;
        if input.contains("others1")
            && answer.as_ref().map(|answer| &answer.body)
                != ask(&line.replace("others1", "nobodys1"))?.as_ref().map(|answer| &answer.body)
        {
            return Err("another owner's link can be distinguished from a missing one".into());
        }
        match (case.expect, answer) {
            (Expect::Accept, Some(answer)) if (200..300).contains(&answer.status) => Ok(()),
            (Expect::Reject, answer) => is_4xx(answer),
            (Expect::NotFound, Some(answer)) if answer.status == 404 => Ok(()),
            (_, answer) => Err(format!("{answer:?}")),
        }
    });
}

#[test]
fn every_path_leads_where_it_should_or_nowhere() {
    run("path", 44, |terse, case, input| {
        let line = if input.starts_with('/') { format!("GET {input}") } else { input.to_owned() };
        for accept in ["Accept: */*", "Accept: text/html,*/*;q=0.8"] {
            let answer = exchange(terse, &request(&line, &[accept], &[]))?
                .ok_or("closed without an answer")?;
            if answer.text().contains("secret-") {
                return Err(format!("tells a target: {}", answer.text()));
            }
            let own_page = input == "/robots.txt";
            let fine = match case.expect {
                Expect::Accept if own_page => answer.status == 200 && answer.location().is_none(),
                Expect::Accept => {
                    answer.status == 302
                        && answer.location() == Some(TARGET)
                        && answer.body.is_empty()
                }
                Expect::Reject => {
                    (400..500).contains(&answer.status) && answer.location().is_none()
                }
                Expect::NotFound => {
                    let status = if is_legal(input) { 404..405 } else { 400..405 };
                    status.contains(&answer.status) && answer.location().is_none()
                }
                Expect::EscapeInHtml => answer.location().is_none(),
                Expect::AcceptButFlag => false,
            };
            if !fine {
                return Err(format!("{} {:?} {}", answer.status, answer.location(), answer.text()));
            }
            // The template is not evaluated: another one gives the same page.
            if input.contains("7*7")
                && answer.body
                    != exchange(terse, &get("/{{8*8}}", &[accept]))?.ok_or("closed")?.body
            {
                return Err("a template in a path changes the page".into());
            }
        }
        Ok(())
    });
}

/// Whether a target can be sent unchanged.
fn is_legal(target: &str) -> bool {
    target.is_ascii() && utf8_percent_encode(target, ILLEGAL).to_string() == target
}

#[test]
fn every_header_is_accepted_or_refused_as_it_should_be() {
    run("header", 54, |terse, case, input| {
        let bytes = match input.strip_prefix("RAW:") {
            Some(raw) => {
                raw.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect()
            }
            None => {
                let text = hostile_gen::text(input);
                let mut lines: Vec<&str> = text.split("\r\n").collect();
                // An oversized key matters only where keys are read.
                let default = if input.starts_with("gen:header('Authorization'") {
                    "GET /api/v1/urls"
                } else {
                    "GET /ok1234"
                };
                let has_line = ["GET /", "POST /", "PATCH /", "HEAD /"]
                    .iter()
                    .any(|method| lines[0].starts_with(method));
                let line = if has_line { lines.remove(0) } else { default };
                let body = format!(r#"{{"long_url":"{TARGET}"}}"#);
                let sends = line.starts_with("POST") || line.starts_with("PATCH");
                request(line, &lines, if sends { body.as_bytes() } else { &[] })
            }
        };
        let send = || exchange(terse, &bytes);
        match case.expect {
            Expect::Accept => match send()? {
                Some(answer) if answer.status == 302 && answer.location() == Some(TARGET) => Ok(()),
                other => Err(format!("{other:?}")),
            },
            Expect::Reject => refused(terse, || match send()? {
                None if input.starts_with("RAW:") => Ok(()),
                Some(answer)
                    if answer.location().is_some() || answer.text().contains("attacker") =>
                {
                    Err(format!("{answer:?}"))
                }
                answer => is_4xx(answer),
            }),
            Expect::EscapeInHtml => match send()? {
                Some(answer) if answer.status == 302 || answer.status == 400 => Ok(()),
                other => Err(format!("{other:?}")),
            },
            other => Err(format!("{other:?} is not for headers")),
        }
    });
}

#[test]
fn every_sign_in_is_accepted_or_refused_as_it_should_be() {
    run("login", 31, |terse, case, input| {
        if let Some(error) = input.strip_prefix("error=") {
            let query: String = url::form_urlencoded::byte_serialize(error.as_bytes()).collect();
            let page =
                exchange(terse, &get(&format!("/login?error={query}"), &["Accept: text/html"]))?
                    .ok_or("closed")?;
            let plain = exchange(terse, &get("/login", &["Accept: text/html"]))?.ok_or("closed")?;
            return if page.body == plain.body {
                Ok(())
            } else {
                Err("it repeats its input".into())
            };
        }
        let marks =
            ["fixed-session", "no-csrf", "stale-csrf", "cross-site", "repeat11", "setup", "json"];
        let (mark, form) = match input.split_once(':') {
            Some((mark, form)) if marks.contains(&mark) => (mark, form.to_owned()),
            _ if input.starts_with("gen:form_password") => {
                ("", format!("email=user@example.com&password={}", "x".repeat(1 << 20)))
            }
            _ => ("", input.to_owned()),
        };
        let kind =
            if mark == "json" { "application/json" } else { "application/x-www-form-urlencoded" };
        // Forms have no CSRF token: the browser names the origin, and requests without it are
        // refused.
        let from = match mark {
            "no-csrf" => "X-Nothing: said",
            "stale-csrf" => "Sec-Fetch-Site: same-site",
            "cross-site" => "Origin: https://attacker.example.net",
            _ => "Sec-Fetch-Site: same-origin",
        };
        let mut fields =
            vec![format!("Content-Type: {kind}"), from.to_owned(), "Accept: text/html".to_owned()];
        if mark == "fixed-session" {
            fields.push("Cookie: terse_session=fixed".into());
        }
        let path = match mark {
            "setup" => "/setup",
            _ if form.starts_with("reset-token=") => "/reset",
            _ => "/login",
        };
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let bytes =
            request(&format!("POST {path}"), &fields, form.replace("email", "name").as_bytes());
        if mark == "repeat11" {
            return repeated(&bytes);
        }
        let Some(answer) = exchange(terse, &bytes)? else {
            return Err("closed without an answer".into());
        };
        let cookie = answer.header("set-cookie").unwrap_or_default();
        match case.expect {
            Expect::Accept => {
                let next = if input.ends_with("next=/dashboard/links") {
                    "/dashboard/links"
                } else {
                    "/dashboard"
                };
                let fresh = cookie.starts_with("terse_session=")
                    && !cookie.starts_with("terse_session=fixed");
                let fine = (answer.status, answer.location()) == (303, Some(next)) && fresh;
                if fine {
                    Ok(())
                } else {
                    Err(format!("{} {:?} {cookie}", answer.status, answer.location()))
                }
            }
            Expect::Reject if !cookie.is_empty() => Err(format!("a cookie: {cookie}")),
            Expect::Reject => is_4xx(Some(answer)),
            other => Err(format!("{other:?} is not for signing in")),
        }
    });
}

/// The eleventh failure with default limits.
fn repeated(bytes: &[u8]) -> Result<(), String> {
    let terse = TestTerse::with(|config| config.limits = terse::config::LimitsConfig::default());
    for _ in 0..10 {
        let status = terse.exchange(bytes).map(|answer| answer.status);
        if status != Some(403) {
            return Err(format!("{status:?}"));
        }
    }
    match terse.exchange(bytes) {
        Some(answer) if answer.status == 429 && answer.header("retry-after").is_some() => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn every_file_is_imported_or_refused_as_it_should_be() {
    run("import", 21, |terse, case, input| {
        let name = if input.contains("json") { "import.jsonl" } else { "import.csv" };
        let file = terse.folder().join(name);
        std::fs::write(&file, hostile_gen::bytes(input)).map_err(|error| error.to_string())?;
        // The command finds the running server through its folder and imports through the API.
        let import = || {
            let mut command = process::command(&terse.config.data_dir);
            let output = command
                .args(["--json", "import", "--restart"])
                .arg(&file)
                .output()
                .expect("the command runs");
            let said =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            (output.status.code(), said)
        };
        let _ = std::fs::remove_file(terse.folder().join(format!("{name}.terse-progress")));
        match case.expect {
            Expect::Accept | Expect::EscapeInHtml => {
                let before = links(terse).len();
                let (code, said) = import();
                let after = links(terse);
                if code != Some(0) || after.len() != before + 1 {
                    return Err(format!("{code:?} {said}; {before} links became {}", after.len()));
                }
                shown(
                    terse,
                    after
                        .iter()
                        .find(|link| input.contains(link["short_code"].as_str().unwrap_or("?")))
                        .unwrap_or(&after[0]),
                )
            }
            Expect::Reject => refused(terse, || match import() {
                (Some(1), said) if !said.contains("panicked") => Ok(()),
                other => Err(format!("{other:?}")),
            }),
            other => Err(format!("{other:?} is not for imports")),
        }
    });
}

#[test]
fn no_surface_of_the_corpus_is_forgotten_and_few_cases_wait_for_something() {
    let run = [
        "create.long_url",
        "create.alias",
        "create.expires_at",
        "body",
        "query",
        "path",
        "header",
        "import",
        "login",
    ];
    for case in corpus() {
        assert!(run.contains(&&*case.surface), "{}", case.surface);
    }
    let waits = |case: &Case| ABSENT.iter().any(|(mark, _)| case.input.contains(mark));
    let (waiting, running): (Vec<_>, Vec<_>) = corpus().into_iter().partition(waits);
    assert_eq!((running.len(), waiting.len()), (491, 7), "{waiting:?}");
}
