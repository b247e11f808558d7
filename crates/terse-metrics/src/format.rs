//! The formats of `/metrics`: OpenMetrics 1.0 for clients that ask for it, and the text format of
//! Prometheus (0.0.4) for all others.

use http::{HeaderMap, header};
use prometheus_client::registry::Registry;

/// A format of `/metrics`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format that `Accept` prefers. OpenMetrics has to be named.
    pub(crate) fn negotiate(headers: &HeaderMap) -> Self {
        let (mut text, mut open_metrics) = (0.0, 0.0);
        let accepted = headers.get_all(header::ACCEPT).iter();
        let accepted = accepted.filter_map(|value| value.to_str().ok());
        for range in accepted.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut quality, mut version) = (1.0_f32, None);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => quality = value.trim().parse().unwrap_or(0.0),
                    "version" => version = Some(value.trim().trim_matches('"').to_owned()),
                    _ => {}
                }
            }
            let best = match (&*kind, version.as_deref()) {
                ("application/openmetrics-text", None | Some("1.0.0")) => &mut open_metrics,
                ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => &mut text,
                _ => continue,
            };
            *best = f32::max(*best, quality);
        }
        if open_metrics > 0.0 && open_metrics >= text { Self::OpenMetrics } else { Self::Text }
    }

    /// The `Content-Type`.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Writes all metrics.
    pub(crate) fn encode(self, registry: &Registry) -> Result<String, std::fmt::Error> {
        let mut open_metrics = String::new();
        prometheus_client::encoding::text::encode(&mut open_metrics, registry)?;
        Ok(match self {
            Self::OpenMetrics => open_metrics,
            Self::Text => text_of(&open_metrics),
        })
    }
}

/// Translates OpenMetrics to the text format. The samples are the same; a counter's name ends in
/// `_total` in the comments too, an info is a gauge, and units and the end mark are left out.
fn text_of(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + 1024);
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((_, words)) = help.take().filter(|(of, _)| *of == name) {
                text += &format!("# HELP {name}{suffix} {words}\n");
            }
            text += &format!("# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with('#') {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_format_that_it_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,\
            */*;q=0.2";
        for (accept, format) in [
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text; version=1.0.0,text/plain", Format::OpenMetrics),
            ("Application/OpenMetrics-Text", Format::OpenMetrics),
            ("application/openmetrics-text; version=1.0.0; q=0.2, text/plain", Format::Text),
            ("application/openmetrics-text; q=0", Format::Text),
            ("application/openmetrics-text; version=2.0.0", Format::Text),
            ("text/plain", Format::Text),
            ("text/html,*/*", Format::Text),
            ("", Format::Text),
            (";;,=,q=q", Format::Text),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(Format::negotiate(&headers), format, "{accept}");
        }
        assert_eq!(Format::negotiate(&HeaderMap::new()), Format::Text);
    }

    #[test]
    fn comments_of_the_text_format_have_the_names_of_the_samples() {
        let open_metrics = "# HELP a_visits Visits.\n# TYPE a_visits counter\na_visits_total 3\n\
            # HELP a_build Build.\n# TYPE a_build info\na_build_info{version=\"1\"} 1\n\
            # HELP a_age_seconds Age.\n# TYPE a_age_seconds gauge\n# UNIT a_age_seconds seconds\n\
            a_age_seconds 2\n# EOF\n";
        let text = "# HELP a_visits_total Visits.\n# TYPE a_visits_total counter\n\
            a_visits_total 3\n# HELP a_build_info Build.\n# TYPE a_build_info gauge\n\
            a_build_info{version=\"1\"} 1\n# HELP a_age_seconds Age.\n\
            # TYPE a_age_seconds gauge\na_age_seconds 2\n";
        assert_eq!(text_of(open_metrics), text);
    }
}
