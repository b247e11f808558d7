//! The fields of the form of a link: what was typed, and the link or the change that it asks for.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value;
use terse_core::rules::{RawRules, Rules};
use terse_core::{
    CreateLink, Link, LinkDraft, LinkPatch, PatchField, RawPreview, Secret, SocialPreview, Target,
    Timestamp,
};

use super::home::with_scheme;
use super::link_rules::DryRunForm;
use super::rule_form::{RowAction, RuleRow, rows_of, shown, take_rows, to_json};
use super::shell::{Shell, named_zone};
use crate::http::params::Params;
use crate::http::problem::Problem;

/// The lifetimes that the form offers, in seconds.
const LIFETIMES: [(&str, &str); 5] = [
    ("3600", "In 1 hour"),
    ("86400", "In 1 day"),
    ("604800", "In 7 days"),
    ("2592000", "In 30 days"),
    ("31536000", "In 1 year"),
];
const REDIRECTS: [(&str, &str); 4] = [
    ("302", "302: temporary (usual)"),
    ("301", "301: permanent, browsers remember it"),
    ("307", "307: temporary, keeps the method"),
    ("308", "308: permanent, keeps the method"),
];
/// The parameters of campaigns, with their labels.
const CAMPAIGN: [(&str, &str); 5] = [
    ("utm_source", "Source"),
    ("utm_medium", "Medium"),
    ("utm_campaign", "Campaign"),
    ("utm_term", "Term"),
    ("utm_content", "Content"),
];
/// The format of times in the form, which are in the viewer's zone.
const LOCAL: &str = "%Y-%m-%dT%H:%M";

/// What was typed.
#[derive(Clone, Default)]
pub(super) struct LinkForm {
    pub(super) long_url: String,
    pub(super) alias: String,
    pub(super) domain: String,
    pub(super) title: String,
    pub(super) tags: String,
    pub(super) notes: String,
    pub(super) expires: String,
    pub(super) expires_at: String,
    pub(super) valid_from: String,
    pub(super) max_clicks: String,
    pub(super) password: String,
    pub(super) no_password: bool,
    pub(super) redirect: String,
    pub(super) forward_query: bool,
    pub(super) crawlable: bool,
    pub(super) archived: bool,
    /// Whether a new link is made even if the account has one for the same target: `reuse=false`.
    pub(super) always_new: bool,
    /// The rules as JSON.
    pub(super) rules: String,
    /// The rules as rows; `None` if the JSON applies.
    pub(super) rows: Option<Vec<RuleRow>>,
    /// A button of the rules that was pressed instead of Save.
    pub(super) row_action: Option<RowAction>,
    pub(super) tried: DryRunForm,
    pub(super) campaign: [String; 5],
    /// The parameters of the campaign that the link's target has.
    pub(super) campaign_before: [String; 5],
    /// Title, description and image of the social preview.
    pub(super) preview: [String; 3],
    pub(super) has_password: bool,
    /// The revision that is changed.
    pub(super) revision: String,
    /// The time zone that the form was shown in.
    pub(super) tz: String,
    /// Whether a password was typed, which the form does not show again.
    pub(super) password_again: bool,
}

impl LinkForm {
    pub(super) fn read(fields: &mut Params) -> Self {
        let mut take = |name| fields.take(name).unwrap_or_default();
        Self {
            long_url: with_scheme(&take("long_url")),
            alias: take("alias"),
            domain: take("domain"),
            title: take("title"),
            tags: take("tags"),
            notes: take("notes").replace("\r\n", "\n"),
            expires: take("expires"),
            expires_at: take("expires_at"),
            valid_from: take("valid_from"),
            max_clicks: take("max_clicks"),
            password: take("password"),
            no_password: !take("no_password").is_empty(),
            redirect: take("redirect"),
            forward_query: !take("forward_query").is_empty(),
            crawlable: !take("crawlable").is_empty(),
            archived: !take("archived").is_empty(),
            always_new: take("reuse") == "false",
            rules: take("rules"),
            rows: None,
            row_action: RowAction::parse(&take("rows")),
            tried: DryRunForm {
                agent: take("try.agent"),
                country: take("try.country"),
                language: take("try.language"),
                query: take("try.query"),
            },
            campaign: CAMPAIGN.map(|(name, _)| take(name)),
            campaign_before: Default::default(),
            preview: ["preview.title", "preview.description", "preview.image_url"].map(&mut take),
            has_password: false,
            revision: take("revision"),
            tz: take("tz"),
            password_again: false,
        }
    }

    /// Takes the rules: the rows, unless the form says that the JSON applies.
    pub(super) fn take_rules(&mut self, fields: &mut Params) {
        let rows = take_rows(fields);
        self.rows = if fields.take("as_json").is_some() { None } else { rows };
    }

    /// The form with the values of a link.
    pub(super) fn of(link: &Link, zone: &TimeZone) -> Self {
        let tags: Vec<&str> = link.tags.iter().collect();
        let rules = link.rules.as_ref().map(Rules::to_json);
        let rows = match &rules {
            None => Some(Vec::new()),
            Some(rules) => rows_of(rules, zone),
        };
        let rules = rules.and_then(|rules| serde_json::to_string_pretty(&rules).ok());
        let campaign = campaign_of(&link.target);
        Self {
            campaign_before: campaign.clone(),
            campaign,
            long_url: link.target.to_string(),
            title: link.title.as_ref().map(|text| text.as_str().to_owned()).unwrap_or_default(),
            tags: tags.join(", "),
            notes: link.notes.as_ref().map(|text| text.as_str().to_owned()).unwrap_or_default(),
            expires_at: local(link.expires_at, zone),
            valid_from: local(link.valid_from, zone),
            max_clicks: link.max_clicks.map(|most| most.to_string()).unwrap_or_default(),
            redirect: link.redirect.status().to_string(),
            forward_query: link.forward_query,
            crawlable: link.crawlable,
            archived: link.archived_at.is_some(),
            rules: rules.unwrap_or_default(),
            rows,
            preview: link.preview.as_ref().map(preview_texts).unwrap_or_default(),
            has_password: link.password.is_some(),
            revision: link.revision.0.to_string(),
            ..Self::default()
        }
    }

    /// The zone of the times in the form. The cookie may be newer than the form.
    pub(super) fn zone(&self, shell: &Shell) -> TimeZone {
        named_zone(&self.tz).unwrap_or_else(|| shell.zone().clone())
    }

    /// Notes the campaign of the link that is changed, so that only changed fields of the form
    /// replace parameters of the target.
    pub(super) fn set_campaign_before(&mut self, link: &Link) {
        self.campaign_before = campaign_of(&link.target);
    }

    /// The target with the parameters of the campaign. A field that was changed replaces the
    /// parameter in the target, and one that was emptied removes it.
    pub(super) fn target(&self) -> String {
        let fields = self.campaign.iter().zip(&self.campaign_before);
        let given: Vec<(&str, &str)> = CAMPAIGN
            .iter()
            .zip(fields)
            .filter(|(_, (value, before))| value.trim() != before.trim())
            .map(|((name, _), (value, _))| (*name, value.trim()))
            .collect();
        let Ok(mut url) = url::Url::parse(&self.long_url) else { return self.long_url.clone() };
        if given.is_empty() {
            return self.long_url.clone();
        }
        let added = given.iter().filter(|(_, value)| !value.is_empty());
        // The rest of the query stays as it was typed: the target may depend on its spelling.
        let named = |pair: &&str| {
            let name = pair.split('=').next().unwrap_or_default();
            !given.iter().any(|(new, _)| *new == name)
        };
        let query = url.query().unwrap_or_default().to_owned();
        let mut parts: Vec<String> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .filter(named)
            .map(str::to_owned)
            .collect();
        let added =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(added).finish();
        parts.extend(Some(added).filter(|added| !added.is_empty()));
        url.set_query(Some(parts.join("&")).filter(|query| !query.is_empty()).as_deref());
        url.into()
    }

    fn tags(&self) -> Vec<String> {
        let tags = self.tags.split(',').map(str::trim);
        tags.filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
    }

    fn max_clicks(&self) -> Result<Option<u64>, Problem> {
        match self.max_clicks.trim() {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| Problem::invalid("max_clicks", "give a whole number, such as 100")),
        }
    }

    fn redirect(&self) -> Result<Option<u64>, Problem> {
        match self.redirect.as_str() {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| Problem::invalid("redirect", "choose one of the listed ones")),
        }
    }

    fn ttl(&self) -> Result<Option<u64>, Problem> {
        match self.expires.as_str() {
            "" => Ok(None),
            text if LIFETIMES.iter().any(|(life, _)| *life == text) => Ok(text.parse().ok()),
            _ => Err(Problem::invalid("expires_at", "choose one of the listed times")),
        }
    }

    pub(super) fn rules(&self, zone: &TimeZone) -> Result<Option<RawRules>, Problem> {
        if let Some(rows) = &self.rows {
            let rules = to_json(rows, zone)?;
            return Ok(Some(RawRules(rules)).filter(|_| !rows.is_empty()));
        }
        if self.rules.trim().is_empty() {
            return Ok(None);
        }
        let value: Value = serde_json::from_str(&self.rules)
            .map_err(|error| Problem::invalid("rules", format!("this is not JSON: {error}")))?;
        Ok(Some(RawRules(value)))
    }

    pub(super) fn create(&self, zone: &TimeZone) -> Result<LinkDraft, Problem> {
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let link = CreateLink {
            long_url: self.target(),
            custom_alias: given(&self.alias),
            // The service refuses a period together with a date.
            expires_at: instant("expires_at", &self.expires_at, zone)?,
            ttl: self.ttl()?,
            valid_from: instant("valid_from", &self.valid_from, zone)?,
            max_clicks: self.max_clicks()?,
            redirect: self.redirect()?,
            title: given(&self.title),
            tags: Some(self.tags()),
            notes: given(&self.notes),
            rules: self.rules(zone)?,
            preview: self.preview(),
            domain: given(&self.domain),
            forward_query: Some(self.forward_query),
            crawlable: Some(self.crawlable),
            archived: Some(self.archived),
            reuse: Some(!self.always_new),
            ..CreateLink::default()
        };
        Ok(LinkDraft {
            link,
            password: Some(self.password.clone()).filter(|text| !text.is_empty()),
            request: None,
        })
    }

    pub(super) fn patch(&self, link: &Link, zone: &TimeZone) -> Result<LinkPatch, Problem> {
        let field = |text: Option<String>| text.map_or(PatchField::Clear, PatchField::Set);
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        // A time whose minute is unchanged keeps its seconds.
        let time = |name, typed: &str, now: Option<Timestamp>| {
            if typed == local(now, zone) {
                return Ok(PatchField::Keep);
            }
            instant(name, typed, zone).map(field)
        };
        let password = match (self.password.is_empty(), self.no_password) {
            (false, _) => PatchField::Set(Secret::new(&self.password)),
            (true, true) => PatchField::Clear,
            (true, false) => PatchField::Keep,
        };
        Ok(LinkPatch {
            long_url: Some(self.target()),
            // A period takes the place of the date that the link has, also of an emptied one.
            expires_at: match (self.ttl()?, self.expires_at.trim()) {
                (Some(_), "") => PatchField::Keep,
                _ => time("expires_at", &self.expires_at, link.expires_at)?,
            },
            ttl: self.ttl()?,
            valid_from: time("valid_from", &self.valid_from, link.valid_from)?,
            max_clicks: self.max_clicks()?.map_or(PatchField::Clear, PatchField::Set),
            redirect: self.redirect()?,
            title: field(given(&self.title)),
            tags: Some(self.tags()),
            notes: field(given(&self.notes)),
            password,
            rules: self.rules(zone)?.map_or(PatchField::Clear, PatchField::Set),
            preview: self.preview().map_or(PatchField::Clear, PatchField::Set),
            forward_query: Some(self.forward_query),
            crawlable: Some(self.crawlable),
            archived: Some(self.archived),
            ..LinkPatch::default()
        })
    }

    /// The social preview, if one of its fields is filled in.
    fn preview(&self) -> Option<RawPreview> {
        let given = |text: &String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let [title, description, image_url] = self.preview.each_ref().map(given);
        self.has_preview().then_some(RawPreview { title, description, image_url })
    }

    pub(super) fn has_preview(&self) -> bool {
        self.preview.iter().any(|text| !text.trim().is_empty())
    }

    pub(super) fn lives(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        LIFETIMES.into_iter().map(|(life, label)| (life, label, life == self.expires))
    }

    pub(super) fn redirects(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        REDIRECTS.into_iter().map(|(word, label)| (word, label, word == self.redirect))
    }

    /// The fields of the campaign: name, label, value, and the value that the target has.
    pub(super) fn campaign(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'static str, &str, &str)> {
        let values = self.campaign.iter().zip(&self.campaign_before);
        let pairs = CAMPAIGN.into_iter().zip(values);
        pairs.map(|((name, label), (value, before))| (name, label, value.as_str(), before.as_str()))
    }

    pub(super) fn has_campaign(&self) -> bool {
        self.campaign.iter().any(|value| !value.is_empty())
    }

    /// The rows of the editor.
    pub(super) fn shown_rows(&self) -> Vec<(usize, RuleRow)> {
        shown(self.rows.as_deref().unwrap_or_default())
    }

    pub(super) fn has_rules(&self) -> bool {
        self.row_action.is_some()
            || !self.rules.trim().is_empty()
            || self.rows.as_ref().is_some_and(|rows| !rows.is_empty())
    }

    /// Whether an option is set that the form shows only when opened.
    pub(super) fn has_options(&self) -> bool {
        let texts = [&self.valid_from, &self.max_clicks, &self.password, &self.notes];
        texts.iter().any(|text| !text.is_empty())
            || self.has_password
            || self.password_again
            || self.forward_query
            || self.crawlable
            || self.archived
            || self.always_new
            || !matches!(self.redirect.as_str(), "" | "302")
    }
}

/// The parameters of a campaign in the query of a target: the first of each name.
fn campaign_of(target: &Target) -> [String; 5] {
    let Ok(url) = url::Url::parse(target.as_str()) else { return Default::default() };
    CAMPAIGN.map(|(name, _)| {
        let found = url.query_pairs().find(|(given, _)| given == name);
        found.map(|(_, value)| value.into_owned()).unwrap_or_default()
    })
}

/// The fields of a social preview as texts.
fn preview_texts(preview: &SocialPreview) -> [String; 3] {
    let image = preview.image_url().map(Target::as_str);
    [preview.title(), preview.description(), image].map(|text| text.unwrap_or_default().to_owned())
}

/// A time as the form shows it.
pub(super) fn local(at: Option<Timestamp>, zone: &TimeZone) -> String {
    let at = at.and_then(|at| jiff::Timestamp::from_millisecond(at.as_ms()).ok());
    at.map(|at| at.to_zoned(zone.clone()).strftime(LOCAL).to_string()).unwrap_or_default()
}

/// A time in the form as the services read it.
pub(super) fn instant(
    field: &'static str,
    typed: &str,
    zone: &TimeZone,
) -> Result<Option<String>, Problem> {
    let typed = typed.trim();
    if typed.is_empty() {
        return Ok(None);
    }
    let refuse = || Problem::invalid(field, "give a date and a time, such as 2026-11-30T18:00");
    let time: DateTime = typed.parse().map_err(|_| refuse())?;
    let at = time.to_zoned(zone.clone()).map_err(|_| refuse())?;
    Ok(Some(at.timestamp().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_campaign_is_added_to_the_target() {
        let form = LinkForm {
            long_url: "https://e.com/a?utm_source=old&b=%20x+y;z#c".to_owned(),
            campaign: ["news letter", "", "q&a", "", ""].map(str::to_owned),
            ..LinkForm::default()
        };
        assert_eq!(
            form.target(),
            "https://e.com/a?b=%20x+y;z&utm_source=news+letter&utm_campaign=q%26a#c"
        );
        let plain =
            LinkForm { long_url: "https://e.com/a?x=%20".to_owned(), ..LinkForm::default() };
        assert_eq!(plain.target(), "https://e.com/a?x=%20", "without a campaign it stays");
        let before = ["old", "mail", "", "", ""];
        for (typed, target) in [
            // Nothing was changed, also not how the target is spelled.
            (before, "https://e.com/?utm_source=%6fld&utm_medium=mail&x=1"),
            (["new", "mail", "", "", ""], "https://e.com/?utm_medium=mail&x=1&utm_source=new"),
            (["", "mail", "", "", ""], "https://e.com/?utm_medium=mail&x=1"),
            (["", "", "", "", "t"], "https://e.com/?x=1&utm_content=t"),
        ] {
            let form = LinkForm {
                long_url: "https://e.com/?utm_source=%6fld&utm_medium=mail&x=1".to_owned(),
                campaign: typed.map(str::to_owned),
                campaign_before: before.map(str::to_owned),
                ..LinkForm::default()
            };
            assert_eq!(form.target(), target, "{typed:?}");
        }
    }

    #[test]
    fn times_are_in_the_zone_of_the_viewer() {
        let zone = TimeZone::get("Asia/Tokyo").unwrap();
        let at = instant("expires_at", "2026-11-30T18:00", &zone).unwrap().unwrap();
        assert_eq!(at, "2026-11-30T09:00:00Z");
        assert_eq!(local(Timestamp::parse(&at), &zone), "2026-11-30T18:00");
        assert!(instant("expires_at", "soon", &zone).is_err());
        assert_eq!(instant("expires_at", " ", &zone).unwrap(), None);
    }
}
