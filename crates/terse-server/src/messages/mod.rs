//! The words of visitors' pages, in each language that they are shown in.
//!
//! A file per language fills in the [`Catalogue`]: the compiler refuses one that lacks a text. A
//! word in braces is a placeholder, which [`around`] or [`fill`] replaces.

mod de;
mod en;
mod es;
mod fr;
mod ja;
mod pt;
mod zh;

use std::time::Duration;

use jiff::tz::TimeZone;
use terse_core::rules::RuleFactors;
use terse_core::{PageLanguage, Timestamp};

/// The words of a page with a single message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageText {
    /// Also the page's title.
    pub(crate) heading: &'static str,
    pub(crate) text: &'static str,
    pub(crate) hint: &'static str,
}

/// A text with a number, for one and for more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plural {
    one: &'static str,
    other: &'static str,
}

impl Plural {
    fn of(&self, count: u64) -> String {
        match count {
            1 => self.one.to_owned(),
            _ => fill(self.other, count),
        }
    }
}

macro_rules! catalogue {
    ($($name:ident: $kind:ty,)*) => {
        /// All texts in one language. The names say where a text is shown.
        #[derive(Debug)]
        pub(crate) struct Catalogue {
            $(pub(crate) $name: $kind,)*
        }

        #[cfg(test)]
        impl Catalogue {
            /// Every text with its name.
            fn entries(&self) -> Vec<(&'static str, &'static str)> {
                use tests::Listed as _;
                let mut all = Vec::new();
                $(self.$name.list(stringify!($name), &mut all);)*
                all
            }
        }
    };
}

catalogue! {
    skip: &'static str,
    home_label: &'static str,
    site: &'static str,
    sign_in: &'static str,
    dashboard: &'static str,
    account: &'static str,
    add_plus: &'static str,
    run_by: &'static str,
    imprint: &'static str,
    report_abuse: &'static str,
    report_security: &'static str,
    home_page: &'static str,
    not_found: MessageText,
    expired: MessageText,
    used_up: MessageText,
    blocked: MessageText,
    unavailable: MessageText,
    limited: MessageText,
    too_many_tries: MessageText,
    bad_form: MessageText,
    wrong_method: MessageText,
    cross_site: MessageText,
    failed: MessageText,
    unknown_host: MessageText,
    contact_question: &'static str,
    contact_mistake: &'static str,
    operator: &'static str,
    not_opened_yet: &'static str,
    only_preview: &'static str,
    not_opened: &'static str,
    report_link: &'static str,
    password_heading: &'static str,
    password_lead: &'static str,
    password_careful: &'static str,
    password_signs: &'static str,
    password_then: &'static str,
    password: &'static str,
    password_about: &'static str,
    password_wrong: &'static str,
    password_here: &'static str,
    go_on: &'static str,
    preview_heading: &'static str,
    preview_leads: &'static str,
    title: &'static str,
    created: &'static str,
    expires: &'static str,
    never: &'static str,
    clicks_left: &'static str,
    connection: &'static str,
    encrypted: &'static str,
    not_encrypted: &'static str,
    safety: &'static str,
    suspicious: &'static str,
    no_problems: &'static str,
    go_on_anyway: &'static str,
    protected_heading: &'static str,
    protected_lead: &'static str,
    enter_password: &'static str,
    international: &'static str,
    rules_divide: &'static str,
    rules_elsewhere: &'static str,
    rules_depend: &'static str,
    rules_depend_divide: &'static str,
    factor_device: &'static str,
    factor_language: &'static str,
    factor_country: &'static str,
    factor_query: &'static str,
    factor_time: &'static str,
    comma: &'static str,
    and: &'static str,
    other_targets: &'static str,
    warning_heading: &'static str,
    warning_reported: &'static str,
    warning_signs: &'static str,
    warning_only_if: &'static str,
    back_to_safety: &'static str,
    go_on_to: &'static str,
    reason_reported: &'static str,
    reason_mixed_script: &'static str,
    reason_look_alike: &'static str,
    reason_userinfo: &'static str,
    reason_misleading_at: &'static str,
    reason_numeric_host: &'static str,
    reason_odd_address: &'static str,
    reason_single_label: &'static str,
    reason_shortener: &'static str,
    reason_free_hosting: &'static str,
    reason_open_redirect: &'static str,
    reason_disguised_text: &'static str,
    reason_odd_slashes: &'static str,
    reason_unscreened: &'static str,
    reason_hidden_text: &'static str,
    reason_on_warn_list: &'static str,
    report_heading: &'static str,
    report_lead: &'static str,
    report_reason: &'static str,
    report_choose: &'static str,
    report_phishing: &'static str,
    report_malware: &'static str,
    report_spam: &'static str,
    report_illegal: &'static str,
    report_other: &'static str,
    report_text: &'static str,
    optional: &'static str,
    report_private: &'static str,
    report_send: &'static str,
    report_preview: &'static str,
    report_choose_problem: &'static str,
    report_long: &'static str,
    thanks_heading: &'static str,
    thanks_text: &'static str,
    date_time: &'static str,
    just_now: &'static str,
    minutes_ago: Plural,
    hours_ago: Plural,
    days_ago: Plural,
    months_ago: Plural,
    years_ago: Plural,
    copy: &'static str,
    copied: &'static str,
    copy_by_key: &'static str,
    show: &'static str,
    hide: &'static str,
    show_password: &'static str,
    hide_password: &'static str,
    home_short_links: &'static str,
    home_error: &'static str,
    home_made: &'static str,
    home_qr: &'static str,
    home_share: &'static str,
    home_preview: &'static str,
    home_qr_png: &'static str,
    home_expires: &'static str,
    home_another: &'static str,
    home_heading: &'static str,
    home_lead: &'static str,
    home_no_account: &'static str,
    home_account_lead: &'static str,
    home_long_link: &'static str,
    home_shorten: &'static str,
    home_options: &'static str,
    home_alias: &'static str,
    home_anonymous: &'static str,
    home_keep: &'static str,
    home_sign_in: &'static str,
    home_signed_in: &'static str,
    home_create_account: &'static str,
    home_closed: &'static str,
    home_by_invitation: &'static str,
    home_admin: &'static str,
    home_received: &'static str,
    problem_url: &'static str,
    problem_scheme: &'static str,
    problem_loop: &'static str,
    problem_private: &'static str,
    problem_blocked: &'static str,
    problem_alias: &'static str,
    problem_reserved: &'static str,
    problem_taken: &'static str,
    problem_expiry: &'static str,
    problem_limited: &'static str,
    problem_unavailable: &'static str,
    problem_form: &'static str,
    in_minutes: Plural,
    in_hours: Plural,
    in_days: Plural,
    in_months: Plural,
    in_years: Plural,
}

/// The texts in a language.
pub(crate) fn catalogue(language: PageLanguage) -> &'static Catalogue {
    match language {
        PageLanguage::English => &en::MESSAGES,
        PageLanguage::German => &de::MESSAGES,
        PageLanguage::Spanish => &es::MESSAGES,
        PageLanguage::French => &fr::MESSAGES,
        PageLanguage::Portuguese => &pt::MESSAGES,
        PageLanguage::Chinese => &zh::MESSAGES,
        PageLanguage::Japanese => &ja::MESSAGES,
    }
}

/// What comes before and after the placeholder of a text, for pages that put an element there.
pub(crate) fn around(text: &'static str) -> (&'static str, &'static str) {
    let (before, rest) = text.split_once('{').unwrap_or((text, ""));
    (before, rest.split_once('}').map_or(rest, |(_, after)| after))
}

/// A text with its placeholder replaced.
pub(crate) fn fill(text: &'static str, value: impl std::fmt::Display) -> String {
    let (before, after) = around(text);
    format!("{before}{value}{after}")
}

impl Catalogue {
    /// Why a page warns: what a flag of the link means. `None` for flags without a text.
    pub(crate) fn reason(&self, flag: &str) -> Option<&'static str> {
        Some(match flag {
            "reported" => self.reason_reported,
            "mixed_script" => self.reason_mixed_script,
            "look_alike" => self.reason_look_alike,
            "userinfo" => self.reason_userinfo,
            "misleading_at" => self.reason_misleading_at,
            "numeric_host" => self.reason_numeric_host,
            "odd_address" => self.reason_odd_address,
            "single_label" => self.reason_single_label,
            "shortener" => self.reason_shortener,
            "free_hosting" => self.reason_free_hosting,
            "open_redirect" => self.reason_open_redirect,
            "disguised_text" => self.reason_disguised_text,
            "odd_slashes" => self.reason_odd_slashes,
            "unscreened" => self.reason_unscreened,
            "hidden_text" => self.reason_hidden_text,
            "on_warn_list" => self.reason_on_warn_list,
            _ => return None,
        })
    }

    /// What is wrong with the form of the home page, by the stable code of the problem and its
    /// field. `None` for problems that the form of a browser does not have.
    pub(crate) fn problem(&self, code: &str, field: Option<&str>) -> Option<&'static str> {
        Some(match code {
            "invalid_request" if field == Some("ttl") => self.problem_expiry,
            "invalid_expiry" => self.problem_expiry,
            "invalid_url" => self.problem_url,
            "invalid_request" if field == Some("long_url") => self.problem_url,
            "scheme_not_allowed" => self.problem_scheme,
            "self_reference" => self.problem_loop,
            "destination_not_public" => self.problem_private,
            "blocked_destination" => self.problem_blocked,
            "invalid_alias" => self.problem_alias,
            "reserved_alias" => self.problem_reserved,
            "alias_taken" => self.problem_taken,
            "rate_limited" => self.problem_limited,
            "store_unavailable" => self.problem_unavailable,
            "invalid_request" | "too_large" | "unsupported_media_type" | "request_timeout" => {
                self.problem_form
            }
            _ => return None,
        })
    }

    /// What decides where a link with rules leads.
    pub(crate) fn rules(&self, factors: &RuleFactors) -> String {
        let names = [
            (factors.device, self.factor_device),
            (factors.language, self.factor_language),
            (factors.country, self.factor_country),
            (factors.query, self.factor_query),
            (factors.time, self.factor_time),
        ];
        let names: Vec<&str> =
            names.into_iter().filter(|(used, _)| *used).map(|(_, name)| name).collect();
        let list = match names.as_slice() {
            [first @ .., last] if !first.is_empty() => {
                format!("{}{}{last}", first.join(self.comma), self.and)
            }
            names => names.concat(),
        };
        match (list.is_empty(), factors.divides) {
            (true, true) => self.rules_divide.to_owned(),
            (true, false) => self.rules_elsewhere.to_owned(),
            (false, false) => fill(self.rules_depend, list),
            (false, true) => fill(self.rules_depend_divide, list),
        }
    }

    /// A date and time in UTC.
    pub(crate) fn date_time(&self, at: Timestamp) -> String {
        match jiff::Timestamp::from_millisecond(at.as_ms()) {
            Ok(at) => at.to_zoned(TimeZone::UTC).strftime(self.date_time).to_string(),
            Err(_) => at.to_string(),
        }
    }

    /// In how much time something happens, in the largest unit.
    pub(crate) fn after(&self, time: Duration) -> String {
        let minutes = time.as_secs() / 60;
        match minutes {
            0..60 => self.in_minutes.of(minutes),
            60..1440 => self.in_hours.of(minutes / 60),
            1440..43_200 => self.in_days.of(minutes / 1440),
            43_200..525_600 => self.in_months.of(minutes / 43_200),
            _ => self.in_years.of(minutes / 525_600),
        }
    }

    /// How long ago a time was, in its largest unit.
    pub(crate) fn ago(&self, at: Timestamp, now: Timestamp) -> String {
        let minutes = u64::try_from((now.as_ms() - at.as_ms()) / 60_000).unwrap_or_default();
        match minutes {
            0 => self.just_now.to_owned(),
            1..60 => self.minutes_ago.of(minutes),
            60..1440 => self.hours_ago.of(minutes / 60),
            1440..43_200 => self.days_ago.of(minutes / 1440),
            43_200..525_600 => self.months_ago.of(minutes / 43_200),
            _ => self.years_ago.of(minutes / 525_600),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds the texts of one field.
    pub(super) trait Listed {
        fn list(&self, name: &'static str, all: &mut Vec<(&'static str, &'static str)>);
    }

    impl Listed for &'static str {
        fn list(&self, name: &'static str, all: &mut Vec<(&'static str, &'static str)>) {
            all.push((name, self));
        }
    }

    impl Listed for MessageText {
        fn list(&self, name: &'static str, all: &mut Vec<(&'static str, &'static str)>) {
            all.extend([self.heading, self.text, self.hint].map(|text| (name, text)));
        }
    }

    impl Listed for Plural {
        fn list(&self, name: &'static str, all: &mut Vec<(&'static str, &'static str)>) {
            all.extend([self.one, self.other].map(|text| (name, text)));
        }
    }

    /// The words in braces, in their order.
    fn placeholders(text: &str) -> Vec<&str> {
        text.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()).collect()
    }

    #[test]
    fn no_text_is_missing_and_the_placeholders_of_all_languages_agree() {
        let english = catalogue(PageLanguage::English).entries();
        assert!(english.len() > 100);
        for language in PageLanguage::ALL {
            for ((name, text), (_, want)) in catalogue(language).entries().iter().zip(&english) {
                assert!(!text.trim().is_empty(), "{language:?} {name}");
                assert_eq!(placeholders(text), placeholders(want), "{language:?} {name}");
                assert!(placeholders(text).len() < 2, "{name}: `fill` replaces only one");
                assert!(!text.contains("  ") && !text.contains('<'), "{language:?} {name}");
            }
        }
    }

    #[test]
    fn long_texts_are_translated() {
        let english = catalogue(PageLanguage::English).entries();
        for language in PageLanguage::ALL.into_iter().skip(1) {
            for ((name, text), (_, want)) in catalogue(language).entries().iter().zip(&english) {
                assert!(want.len() < 20 || text != want, "{language:?} {name}");
            }
        }
    }

    /// Reads all sources and templates of the crate, except the catalogue itself.
    fn sources(folder: &std::path::Path, all: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("messages") {
                sources(&path, all);
            } else if path.is_file() {
                *all += &std::fs::read_to_string(&path).unwrap();
            }
        }
    }

    #[test]
    fn no_text_is_unused() {
        let crate_folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut all = include_str!("mod.rs").to_owned();
        for folder in ["src", "templates"] {
            sources(&crate_folder.join(folder), &mut all);
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        for (name, _) in catalogue(PageLanguage::English).entries() {
            let dotted = format!(".{name}");
            let used = all.match_indices(&dotted).any(|(at, _)| {
                !all.as_bytes().get(at + dotted.len()).copied().is_some_and(is_name)
            });
            assert!(used, "no page shows {name}");
        }
    }

    #[test]
    fn times_and_rules_read_well() {
        let at = Timestamp::from_ms;
        for (minutes, english, german) in [
            (0, "just now", "gerade eben"),
            (1, "1 minute ago", "vor 1 Minute"),
            (120, "2 hours ago", "vor 2 Stunden"),
            (1440, "1 day ago", "vor 1 Tag"),
            (59 * 1440, "1 month ago", "vor 1 Monat"),
            (800 * 1440, "2 years ago", "vor 2 Jahren"),
        ] {
            let now = at(minutes * 60_000);
            assert_eq!(catalogue(PageLanguage::English).ago(at(0), now), english);
            assert_eq!(catalogue(PageLanguage::German).ago(at(0), now), german);
        }
        for (language, want) in [
            (PageLanguage::English, "1 January 1970, 00:00 UTC"),
            (PageLanguage::German, "1.1.1970, 00:00 UTC"),
            (PageLanguage::Japanese, "1970年1月1日 00:00 UTC"),
        ] {
            assert_eq!(catalogue(language).date_time(at(0)), want);
        }
        let mut factors = RuleFactors { divides: true, ..RuleFactors::default() };
        let english = catalogue(PageLanguage::English);
        assert_eq!(
            english.rules(&factors),
            "This link divides its visitors among several targets."
        );
        (factors.device, factors.country, factors.time) = (true, true, true);
        assert_eq!(
            english.rules(&factors),
            "Where this link leads depends on device, country and time, and it divides some \
             visitors among several targets."
        );
        factors.divides = false;
        assert_eq!(
            catalogue(PageLanguage::German).rules(&factors),
            "Wohin dieser Link führt, hängt ab von: Gerät, Land und Zeit."
        );
    }
}
