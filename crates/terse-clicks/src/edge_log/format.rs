//! The formats of the logs.

use std::collections::HashMap;
use std::net::IpAddr;

use percent_encoding::percent_decode_str;
use serde_json::Value;
use terse_core::Timestamp;

/// Who wrote the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EdgeLogFormat {
    /// Varnish and Fastly: the combined log format of web servers, followed by whether the edge had
    /// the answer, the host, `Sec-GPC`, the number of the request, and `DNT`.
    Ncsa,
    /// Cloudflare: an object of JSON per line.
    Cloudflare,
    /// CloudFront: standard logs, separated by tabs, with the names of the fields on top.
    CloudFront,
}

/// A visit that an edge answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct EdgeVisit {
    pub(super) at_ms: i64,
    pub(super) client: Option<IpAddr>,
    pub(super) is_head: bool,
    pub(super) host: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) referrer: String,
    pub(super) agent: String,
    pub(super) opted_out: bool,
}

/// What a line says.
#[derive(Debug, PartialEq)]
pub(super) enum ParsedLine {
    /// A redirect that an edge answered.
    Visit(EdgeVisit),
    /// Something else, or what a node answered.
    NotAtEdge,
    /// Not a request.
    Comment,
    /// Not a line of this format.
    Unreadable,
}

/// Reads line after line.
pub(super) struct LineParser {
    format: EdgeLogFormat,
    /// Where CloudFront's fields are.
    fields: HashMap<String, usize>,
}

/// The fields of a line, as text.
#[derive(Default)]
struct LogFields<'a> {
    at: String,
    client: &'a str,
    method: &'a str,
    host: &'a str,
    /// With the query.
    target: String,
    status: &'a str,
    is_hit: bool,
    referrer: String,
    agent: String,
    opted_out: bool,
}

impl LineParser {
    pub(super) fn new(format: EdgeLogFormat) -> Self {
        Self { format, fields: HashMap::new() }
    }

    pub(super) fn parse(&mut self, line: &[u8]) -> ParsedLine {
        let Ok(text) = std::str::from_utf8(line) else { return ParsedLine::Unreadable };
        if text.is_empty() {
            return ParsedLine::Comment;
        }
        let visit = match self.format {
            EdgeLogFormat::Ncsa => ncsa(text),
            EdgeLogFormat::Cloudflare => return cloudflare(text),
            EdgeLogFormat::CloudFront => {
                if let Some(comment) = text.strip_prefix('#') {
                    if let Some(names) = comment.strip_prefix("Fields:") {
                        let names = names.split_ascii_whitespace().map(str::to_owned);
                        self.fields = names.zip(0..).collect();
                    }
                    return ParsedLine::Comment;
                }
                self.cloudfront(text)
            }
        };
        visit.and_then(LogFields::visit).unwrap_or(ParsedLine::Unreadable)
    }

    fn cloudfront<'a>(&self, text: &'a str) -> Option<LogFields<'a>> {
        let values: Vec<&str> = text.split('\t').collect();
        let value = |name: &str| {
            let value = values.get(*self.fields.get(name)?).copied()?;
            Some(if value == "-" { "" } else { value })
        };
        let decoded = |name: &str| {
            // CloudFront escapes twice what the client had escaped.
            let text = value(name).unwrap_or_default();
            percent_decode_str(text).decode_utf8_lossy().into_owned()
        };
        let mut target = value("cs-uri-stem")?.to_owned();
        if let Some(query) = value("cs-uri-query").filter(|query| !query.is_empty()) {
            target = format!("{target}?{query}");
        }
        Some(LogFields {
            at: format!("{}T{}Z", value("date")?, value("time")?),
            client: value("c-ip")?,
            method: value("cs-method")?,
            host: value("x-host-header").or_else(|| value("cs(Host)"))?,
            target,
            status: value("sc-status")?,
            is_hit: matches!(value("x-edge-result-type")?, "Hit" | "OriginShieldHit"),
            referrer: decoded("cs(Referer)"),
            agent: decoded("cs(User-Agent)"),
            opted_out: false,
        })
    }
}

/// `client ident user [time] "request" status bytes "referrer" "agent" hit [host [gpc [id [dnt]]]]`.
fn ncsa(text: &str) -> Option<LogFields<'_>> {
    let words = words(text)?;
    let (mut request, rest) = (words.get(4)?.split(' '), words.get(9..)?);
    let dash = |text: &'_ str| if text == "-" { String::new() } else { text.to_owned() };
    let (method, url) = (request.next()?, request.next()?);
    // varnishncsa writes the whole URL, Fastly the path, whose query may contain a URL.
    let (host, target) = match url.split_once("://").filter(|_| !url.starts_with('/')) {
        Some((_, rest)) => rest.find('/').map_or((rest, "/"), |at| rest.split_at(at)),
        None => (*rest.get(1)?, url),
    };
    let state = rest.first()?.to_ascii_lowercase();
    Some(LogFields {
        at: ncsa_time(words.get(3)?)?,
        client: words.first()?,
        method,
        host,
        target: target.to_owned(),
        status: words.get(5)?,
        // An answer that the edge makes itself, such as the redirect to https, is no visit.
        is_hit: (state == "hit" || state.starts_with("hit-")) && !state.contains("synth"),
        referrer: dash(words.get(7)?),
        agent: dash(words.get(8)?),
        opted_out: [2, 4].iter().any(|at| rest.get(*at) == Some(&"1")),
    })
}

/// Words, and what is in quotation marks or brackets, without these.
fn words(mut text: &str) -> Option<Vec<&str>> {
    let mut words = Vec::new();
    loop {
        text = text.trim_start_matches(' ');
        let (word, rest) = match text.as_bytes().first() {
            None => return Some(words),
            Some(b'"') => {
                let bytes = text.as_bytes();
                let is_end = |at: &usize| bytes[*at] == b'"' && bytes[at - 1] != b'\\';
                let end = (1..bytes.len()).find(is_end)?;
                (&text[1..end], &text[end + 1..])
            }
            Some(b'[') => text[1..].split_once(']')?,
            Some(_) => text.split_once(' ').unwrap_or((text, "")),
        };
        words.push(word);
        text = rest;
    }
}

/// `18/Nov/2026:13:55:36 +0100` as RFC 3339.
fn ncsa_time(text: &str) -> Option<String> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (date, rest) = text.split_once(':')?;
    let (time, zone) = rest.split_once(' ')?;
    let mut date = date.split('/');
    let (day, month, year) = (date.next()?, date.next()?, date.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let (hours, minutes) = zone.split_at_checked(3)?;
    Some(format!("{year}-{month:02}-{day}T{time}{hours}:{minutes}"))
}

fn cloudflare(text: &str) -> ParsedLine {
    let Ok(Value::Object(line)) = serde_json::from_str::<Value>(text) else {
        return ParsedLine::Unreadable;
    };
    let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
    let at = match line.get("EdgeStartTimestamp") {
        Some(Value::String(at)) => at.clone(),
        // Seconds or nanoseconds since 1970, as the job of the log is set.
        Some(Value::Number(number)) => {
            let number = number.as_i64().unwrap_or_default();
            let ms = if number > 100_000_000_000 {
                number / 1_000_000
            } else {
                number.saturating_mul(1000)
            };
            Timestamp::from_ms(ms).to_string()
        }
        _ => return ParsedLine::Unreadable,
    };
    let status = line.get("EdgeResponseStatus").and_then(Value::as_u64).unwrap_or_default();
    let status = status.to_string();
    let sent = |name: &str| {
        let headers = line.get("RequestHeaders").and_then(Value::as_object);
        headers.and_then(|headers| headers.get(name)).and_then(Value::as_str) == Some("1")
    };
    let fields = LogFields {
        at,
        client: text("ClientIP"),
        method: text("ClientRequestMethod"),
        host: text("ClientRequestHost"),
        target: text("ClientRequestURI").to_owned(),
        status: &status,
        is_hit: matches!(text("CacheCacheStatus"), "hit" | "stale" | "updating"),
        referrer: text("ClientRequestReferer").to_owned(),
        agent: text("ClientRequestUserAgent").to_owned(),
        opted_out: sent("sec-gpc") || sent("dnt"),
    };
    fields.visit().unwrap_or(ParsedLine::Unreadable)
}

impl LogFields<'_> {
    /// `None` if a field makes no sense.
    fn visit(self) -> Option<ParsedLine> {
        let status: u16 = self.status.parse().ok()?;
        let at_ms = Timestamp::parse(&self.at)?.as_ms();
        let is_redirect = matches!(status, 301 | 302 | 307 | 308);
        if !self.is_hit || !is_redirect || !matches!(self.method, "GET" | "HEAD") {
            return Some(ParsedLine::NotAtEdge);
        }
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        Some(ParsedLine::Visit(EdgeVisit {
            at_ms,
            client: self.client.parse().ok().map(|ip: IpAddr| ip.to_canonical()),
            is_head: self.method == "HEAD",
            host: self.host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            referrer: self.referrer,
            agent: self.agent,
            opted_out: self.opted_out,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same visit in each format.
    #[test]
    fn every_format_says_the_same() {
        let lines: [(EdgeLogFormat, &[&str]); 4] = [
            (
                EdgeLogFormat::Ncsa,
                &["203.0.113.7 - - [18/Nov/2026:14:55:36 +0100] \"GET \
                   http://go.example/news?utm_source=a HTTP/1.1\" 302 0 \
                   \"https://n.example/x\" \"Mozilla/5.0 (X11)\" hit"],
            ),
            (
                EdgeLogFormat::Ncsa,
                &["203.0.113.7 - - [18/Nov/2026:13:55:36 +0000] \"GET /news?utm_source=a \
                   HTTP/2\" 302 0 \"https://n.example/x\" \"Mozilla/5.0 (X11)\" HIT-CLUSTER \
                   go.example"],
            ),
            (
                EdgeLogFormat::Cloudflare,
                &["{\"CacheCacheStatus\":\"hit\",\"ClientIP\":\"203.0.113.7\",\
                   \"ClientRequestHost\":\"go.example\",\"ClientRequestMethod\":\"GET\",\
                   \"ClientRequestReferer\":\"https://n.example/x\",\
                   \"ClientRequestURI\":\"/news?utm_source=a\",\
                   \"ClientRequestUserAgent\":\"Mozilla/5.0 (X11)\",\
                   \"EdgeResponseStatus\":302,\"EdgeStartTimestamp\":\"2026-11-18T13:55:36Z\",\
                   \"RayID\":\"8c1\"}"],
            ),
            (
                EdgeLogFormat::CloudFront,
                &[
                    "#Version: 1.0",
                    "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) \
                     cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) \
                     x-edge-result-type x-edge-request-id x-host-header",
                    "2026-11-18\t13:55:36\tFRA2\t200\t203.0.113.7\tGET\td1.cloudfront.net\t/news\
                     \t302\thttps://n.example/x\tMozilla/5.0%20(X11)\tutm_source=a\t-\tHit\tr1==\
                     \tgo.example",
                ],
            ),
        ];
        for (format, lines) in lines {
            let mut parser = LineParser::new(format);
            let mut last = ParsedLine::Comment;
            for line in lines {
                assert_eq!(last, ParsedLine::Comment, "{format:?}");
                last = parser.parse(line.as_bytes());
            }
            let expected = EdgeVisit {
                at_ms: 1_795_010_136_000,
                client: Some("203.0.113.7".parse().unwrap()),
                is_head: false,
                host: "go.example".into(),
                path: "/news".into(),
                query: "utm_source=a".into(),
                referrer: "https://n.example/x".into(),
                agent: "Mozilla/5.0 (X11)".into(),
                opted_out: false,
            };
            assert_eq!(last, ParsedLine::Visit(expected), "{format:?}");
        }
    }

    #[test]
    fn what_a_node_answered_and_what_is_no_redirect_is_left_out() {
        let line = |hit: &str, status: u16, method: &str| {
            format!(
                "::1 - - [18/Nov/2026:13:55:36 +0000] \"{method} http://go.example/news HTTP/1.1\" \
                 {status} 0 \"-\" \"a \\\" b\" {hit} - 1"
            )
        };
        let mut parser = LineParser::new(EdgeLogFormat::Ncsa);
        let mut parse = |hit, status, method| parser.parse(line(hit, status, method).as_bytes());
        let dnt = |fields: &str| {
            let mut parser = LineParser::new(EdgeLogFormat::Ncsa);
            let line = line("hit", 302, "GET").replace("hit - 1", fields);
            match parser.parse(line.as_bytes()) {
                ParsedLine::Visit(visit) => visit.opted_out,
                other => panic!("{fields}: {other:?}"),
            }
        };
        assert!(dnt("hit go.example \"-\" 7 \"1\"") && dnt("hit go.example \"1\" 7 \"-\""));
        assert!(!dnt("hit go.example \"-\" 1 \"0\"") && !dnt("hit go.example \"-\" 1"));
        let ParsedLine::Visit(visit) = parse("hit", 301, "HEAD") else { panic!("a visit") };
        assert!(visit.is_head && visit.opted_out && visit.referrer.is_empty());
        assert_eq!(visit.agent, "a \\\" b");
        for (hit, status, method) in [
            ("miss", 302, "GET"),
            ("pass", 302, "GET"),
            ("hit", 404, "GET"),
            ("hit", 302, "POST"),
            ("HIT-SYNTH", 301, "GET"),
            ("HITPASS", 302, "GET"),
        ] {
            assert_eq!(parse(hit, status, method), ParsedLine::NotAtEdge, "{hit} {status}");
        }
        // The URL in the query is not the one that the visitor asked for.
        let fastly = "::1 - - [18/Nov/2026:13:55:36 +0000] \"GET /news?u=https://go.example/other \
                      HTTP/1.1\" 302 0 \"-\" \"-\" HIT-CLUSTER go.example -";
        let ParsedLine::Visit(visit) = parser.parse(fastly.as_bytes()) else { panic!("a visit") };
        assert_eq!((visit.host.as_str(), visit.path.as_str()), ("go.example", "/news"));
        for line in ["x", "\"", "[", "a b c", "{}", "{\"EdgeStartTimestamp\":1}", "\u{fffd}"] {
            for format in [EdgeLogFormat::Ncsa, EdgeLogFormat::CloudFront] {
                let parsed = LineParser::new(format).parse(line.as_bytes());
                assert_eq!(parsed, ParsedLine::Unreadable, "{format:?} {line}");
            }
            let parsed = LineParser::new(EdgeLogFormat::Cloudflare).parse(line.as_bytes());
            assert!(!matches!(parsed, ParsedLine::Visit(_)), "{line}");
        }
    }
}
