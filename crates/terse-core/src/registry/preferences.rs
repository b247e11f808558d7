//! What an account chose for itself: its email address, time zone, language and keyboard shortcuts.

use serde::{Deserialize, Serialize};

use crate::mail::EmailAddress;
use crate::page_language::PageLanguage;

/// The choices of an account. What is absent follows from the browser.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AccountPreferences {
    /// Where reset links are sent.
    pub email: Option<EmailAddress>,
    /// The time zone of its pages: a name of the IANA database.
    pub time_zone: Option<String>,
    /// The language of its mails and of the pages for visitors.
    pub language: Option<PageLanguage>,
    /// Whether the keyboard shortcuts of the dashboard are off.
    pub shortcuts_off: bool,
}

/// The stored form.
#[derive(Deserialize, Serialize)]
struct Stored {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shortcuts_off: bool,
}

impl AccountPreferences {
    /// The stored form; `None` if nothing is chosen.
    pub fn to_stored(&self) -> Option<String> {
        if *self == Self::default() {
            return None;
        }
        let stored = Stored {
            email: self.email.as_ref().map(|email| email.as_str().to_owned()),
            time_zone: self.time_zone.clone(),
            language: self.language.map(|language| language.tag().to_owned()),
            shortcuts_off: self.shortcuts_off,
        };
        serde_json::to_string(&stored).ok()
    }

    /// Reads the stored form. What a later version wrote and this one cannot read counts as not
    /// chosen: an account must not become unreadable for it.
    pub fn from_stored(text: Option<&str>) -> Self {
        let stored: Option<Stored> = text.and_then(|text| serde_json::from_str(text).ok());
        let Some(Stored { email, time_zone, language, shortcuts_off }) = stored else {
            return Self::default();
        };
        Self {
            email: email.as_deref().and_then(EmailAddress::parse),
            time_zone,
            language: language.as_deref().and_then(PageLanguage::parse),
            shortcuts_off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_come_back_and_what_is_unknown_is_left_out() {
        assert_eq!(AccountPreferences::default().to_stored(), None);
        let chosen = AccountPreferences {
            email: EmailAddress::parse("ann@example.com"),
            time_zone: Some("Europe/Berlin".to_owned()),
            language: Some(PageLanguage::German),
            shortcuts_off: true,
        };
        let stored = chosen.to_stored().unwrap();
        assert_eq!(AccountPreferences::from_stored(Some(&stored)), chosen);
        let newer = r#"{"email":"ann@example.com","language":"tlh","colour":"red"}"#;
        let read = AccountPreferences::from_stored(Some(newer));
        assert_eq!((read.email, read.language), (chosen.email, None));
        assert_eq!(AccountPreferences::from_stored(Some("[")), AccountPreferences::default());
    }
}
