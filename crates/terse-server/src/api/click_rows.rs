//! One click as the API shows it.

use crate::describe::ToSchema;
use serde::Serialize;
use terse_core::clicks::Click;
use terse_core::import_file::inert;

/// A click. Every field is always there; what is not known is null.
#[derive(Serialize, ToSchema)]
#[schema(as = Click, example = json!({
    "at": "2026-11-15T21:00:00.123Z", "country": "DE", "city": "Berlin, \
        DE", "device": "mobile", "browser": "Firefox",
    "operating_system": "Android", "language": "de", "referrer": "news.example",
    "utm_source": "newsletter",
    "utm_medium": "email", "utm_campaign": "spring", "utm_term": null, "utm_content": null,
    "bot": null,
    "address": "203.0.113.0/24", "redirect_ms": 0.014, "repeat": false
}))]
pub(crate) struct ClickRowBody<'a> {
    /// When.
    #[schema(format = DateTime)]
    at: String,
    /// Two letters.
    #[schema(required = true)]
    country: Option<&'a str>,
    /// With its country.
    #[schema(required = true)]
    city: Option<&'a str>,
    /// `desktop`, `mobile`, `tablet`, …
    #[schema(required = true)]
    device: Option<&'a str>,
    /// Without its version.
    #[schema(required = true)]
    browser: Option<&'a str>,
    /// Without its version.
    #[schema(required = true)]
    operating_system: Option<&'a str>,
    /// The first of the accepted ones.
    #[schema(required = true)]
    language: Option<&'a str>,
    /// The host the visitor came from.
    #[schema(required = true)]
    referrer: Option<&'a str>,
    /// As the visitor's query had it.
    #[schema(required = true)]
    utm_source: Option<&'a str>,
    /// As the visitor's query had it.
    #[schema(required = true)]
    utm_medium: Option<&'a str>,
    /// As the visitor's query had it.
    #[schema(required = true)]
    utm_campaign: Option<&'a str>,
    /// As the visitor's query had it.
    #[schema(required = true)]
    utm_term: Option<&'a str>,
    /// As the visitor's query had it.
    #[schema(required = true)]
    utm_content: Option<&'a str>,
    /// Why it counts as a bot's; null for humans.
    #[schema(required = true)]
    bot: Option<&'static str>,
    /// The address, as much of it as is kept.
    #[schema(required = true)]
    address: Option<&'a str>,
    /// How long the answer took, in milliseconds.
    redirect_ms: f64,
    /// Whether a human clicked less than ten seconds after another click of theirs.
    repeat: bool,
}

/// The column names of the CSV table.
pub(super) const COLUMNS: [&str; 17] = [
    "at",
    "country",
    "city",
    "device",
    "browser",
    "operating_system",
    "language",
    "referrer",
    "utm_source",
    "utm_medium",
    "utm_campaign",
    "utm_term",
    "utm_content",
    "bot",
    "address",
    "redirect_ms",
    "repeat",
];

impl<'a> ClickRowBody<'a> {
    pub(super) fn new(click: &'a Click) -> Self {
        let [source, medium, campaign, term, content] = &click.utm;
        Self {
            at: click.at.to_string(),
            country: click.country.as_deref(),
            city: click.city.as_deref(),
            device: click.device.as_deref(),
            browser: click.browser.as_deref(),
            operating_system: click.system.as_deref(),
            language: click.language.as_deref(),
            referrer: click.referrer.as_deref(),
            utm_source: source.as_deref(),
            utm_medium: medium.as_deref(),
            utm_campaign: campaign.as_deref(),
            utm_term: term.as_deref(),
            utm_content: content.as_deref(),
            bot: click.bot.map(terse_core::clicks::BotKind::as_str),
            address: click.address.as_deref(),
            redirect_ms: click.took_nanos as f64 / 1e6,
            repeat: click.repeat,
        }
    }

    /// One cell per column; empty if the value is unknown.
    pub(super) fn cells(&self) -> [String; COLUMNS.len()] {
        let took = self.redirect_ms.to_string();
        let cells = [
            Some(self.at.as_str()),
            self.country,
            self.city,
            self.device,
            self.browser,
            self.operating_system,
            self.language,
            self.referrer,
            self.utm_source,
            self.utm_medium,
            self.utm_campaign,
            self.utm_term,
            self.utm_content,
            self.bot,
            self.address,
            Some(took.as_str()),
            Some(if self.repeat { "true" } else { "false" }),
        ];
        cells.map(|cell| inert(cell.unwrap_or_default()).into_owned())
    }
}

/// A click as the live stream shows it, without the rest of the record.
#[derive(Serialize)]
pub(super) struct LiveClick<'a> {
    at: String,
    country: Option<&'a str>,
    city: Option<&'a str>,
    device: Option<&'a str>,
    browser: Option<&'a str>,
    operating_system: Option<&'a str>,
    language: Option<&'a str>,
    referrer: Option<&'a str>,
    bot: Option<&'static str>,
    repeat: bool,
    /// Whether the watcher made it.
    own: bool,
}

impl<'a> LiveClick<'a> {
    pub(super) fn new(click: &'a Click, own: bool) -> Self {
        let ClickRowBody {
            at,
            country,
            city,
            device,
            browser,
            operating_system,
            language,
            referrer,
            bot,
            repeat,
            ..
        } = ClickRowBody::new(click);
        Self {
            at,
            country,
            city,
            device,
            browser,
            operating_system,
            language,
            referrer,
            bot,
            repeat,
            own,
        }
    }
}

#[cfg(test)]
mod tests {
    use terse_core::clicks::{ClickTarget, LinkId};
    use terse_core::{Code, Domain, LinkKey, OwnerId, Timestamp};

    use super::*;

    #[test]
    fn the_columns_are_the_fields_in_their_order() {
        let key = LinkKey { domain: Domain::primary(), code: Code::parse("abc1234").unwrap() };
        let place =
            ClickTarget::Link(LinkId { key, created_at: Timestamp::from_ms(1) }, OwnerId(5));
        let mut click = Click::bare(Timestamp::from_ms(1), place);
        click.visitor = Some(77);
        click.utm = ["s", "m", "c", "t", "n"].map(|word| Some(word.into()));
        for (field, word) in [
            (&mut click.country, "DE"),
            (&mut click.city, "=Berlin"),
            (&mut click.device, "mobile"),
            (&mut click.browser, "Firefox"),
            (&mut click.system, "Linux"),
            (&mut click.language, "de"),
            (&mut click.referrer, "@host"),
            (&mut click.address, "203.0.113.0/24"),
        ] {
            *field = Some(word.into());
        }
        let row = ClickRowBody::new(&click);
        let json = serde_json::to_value(&row).unwrap();
        let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(fields, COLUMNS);
        for (cell, (name, value)) in row.cells().iter().zip(json.as_object().unwrap()) {
            let value = match value {
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Null => String::new(),
                serde_json::Value::Bool(value) => value.to_string(),
                _ => "0".into(),
            };
            assert_eq!(cell.trim_start_matches('\''), value, "{name}");
        }
        assert_eq!((&*row.cells()[2], &*row.cells()[7]), ("'=Berlin", "'@host"));
    }
}
