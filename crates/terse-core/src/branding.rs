//! How the pages of a server look: what admins set in the dashboard. It goes before the settings
//! `operator.*`.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::colour::Colour;
use crate::operator::{Contact, Logo, Operator, OperatorName, PageUrl};

/// The largest number of links in the footer.
pub const MAX_FOOTER_LINKS: usize = 4;
/// The longest label of a link in the footer, in characters.
pub const MAX_FOOTER_LABEL: usize = 40;
/// The largest logo in bytes. Every node keeps it in memory.
pub const MAX_BRANDING_LOGO: usize = 64 * 1024;

/// The least contrast of text (WCAG 2.2 AA).
const LEAST_CONTRAST: f64 = 4.5;
/// The backgrounds of pages that the accent colour is on, light and dark: page and surface.
const LIGHT: [Colour; 2] = [Colour::new(0xf7, 0xf4, 0xed), Colour::new(0xff, 0xfd, 0xf8)];
const DARK: [Colour; 2] = [Colour::new(0x16, 0x14, 0x11), Colour::new(0x1f, 0x1c, 0x18)];

/// The accent colour of pages. It can be read on light backgrounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AccentColour(Colour);

impl AccentColour {
    /// For light pages.
    pub fn light(self) -> Colour {
        self.0
    }

    /// For dark pages: lighter until it can be read there.
    pub fn dark(self) -> Colour {
        const WHITE: Colour = Colour::new(255, 255, 255);
        let readable = |colour: &Colour| {
            DARK.iter().all(|background| colour.contrast(*background) >= LEAST_CONTRAST)
        };
        let lighter = (0..=100).step_by(5).map(|share| self.0.mixed(WHITE, share));
        lighter.into_iter().find(readable).unwrap_or(WHITE)
    }

    /// The backgrounds that a little of the accent colour is mixed into, light and dark.
    pub fn tints(self) -> [Colour; 2] {
        [LIGHT[1].mixed(self.light(), 10), DARK[1].mixed(self.dark(), 15)]
    }
}

impl FromStr for AccentColour {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let colour: Colour = text.parse()?;
        let readable =
            LIGHT.iter().all(|background| colour.contrast(*background) >= LEAST_CONTRAST);
        match readable {
            true => Ok(Self(colour)),
            false => Err("is too light to be read on a light page; choose a darker one"),
        }
    }
}

impl fmt::Display for AccentColour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A link in the footer of pages.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FooterLink {
    label: Box<str>,
    url: PageUrl,
}

impl FooterLink {
    /// Checks both parts. The URL must be https.
    pub fn parse(label: &str, url: &str) -> Result<Self, &'static str> {
        let label = label.trim();
        let fits = (1..=MAX_FOOTER_LABEL).contains(&label.chars().count());
        if !fits || label.chars().any(char::is_control) {
            return Err("needs a label of 1 to 40 characters on one line");
        }
        let url = url.trim();
        if !url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
            return Err("must be an https:// URL");
        }
        let url = url.parse().map_err(|_| "must be an https:// URL")?;
        Ok(Self { label: label.into(), url })
    }

    /// The text of the link.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Where it leads.
    pub fn url(&self) -> String {
        self.url.to_string()
    }
}

/// What admins have set. What is not set comes from the settings.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Branding {
    /// In place of `operator.name`.
    pub name: Option<OperatorName>,
    /// In place of `operator.logo`.
    pub logo: Option<Logo>,
    /// In place of the usual accent colour.
    pub accent: Option<AccentColour>,
    /// Further links in the footer.
    pub links: Vec<FooterLink>,
    /// In place of `operator.abuse_contact`.
    pub abuse_contact: Option<Contact>,
}

/// The form in which registries keep it. Other versions of terse may keep other fields.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct StoredBranding {
    name: Option<String>,
    logo: Option<String>,
    accent: Option<String>,
    links: Vec<(String, String)>,
    abuse_contact: Option<String>,
}

impl Branding {
    /// The text that a registry keeps.
    pub fn to_stored(&self) -> String {
        json!({
            "name": self.name.as_ref().map(ToString::to_string),
            "logo": self.logo.as_ref().map(|logo| BASE64.encode(logo.bytes())),
            "accent": self.accent.map(|accent| accent.to_string()),
            "links": self.links.iter().map(|link| (link.label(), link.url())).collect::<Vec<_>>(),
            "abuse_contact": self.abuse_contact.as_ref().map(ToString::to_string),
        })
        .to_string()
    }

    /// Reads what a registry kept. A later version of terse may have allowed what this one does
    /// not: such a value counts as not set.
    pub fn from_stored(text: &str) -> Result<Self, serde_json::Error> {
        let stored: StoredBranding = serde_json::from_str(text)?;
        let logo = stored.logo.and_then(|logo| BASE64.decode(logo).ok());
        Ok(Self {
            name: stored.name.and_then(|name| name.parse().ok()),
            logo: logo.and_then(|bytes| Logo::parse(bytes).ok()),
            accent: stored.accent.and_then(|accent| accent.parse().ok()),
            links: stored
                .links
                .iter()
                .filter_map(|(label, url)| FooterLink::parse(label, url).ok())
                .collect(),
            abuse_contact: stored.abuse_contact.and_then(|contact| contact.parse().ok()),
        })
    }

    /// What the audit log says of it: the logo by type, size and hash.
    pub(crate) fn audited(&self) -> Value {
        let logo = self.logo.as_ref().map(|logo| {
            let hash = Sha256::digest(logo.bytes());
            let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            json!({ "type": logo.media_type(), "octets": logo.bytes().len(), "sha256": hash })
        });
        json!({
            "name": self.name.as_ref().map(ToString::to_string),
            "logo": logo,
            "accent": self.accent.map(|accent| accent.to_string()),
            "links": self.links.iter().map(|link| (link.label(), link.url())).collect::<Vec<_>>(),
            "abuse_contact": self.abuse_contact.as_ref().map(ToString::to_string),
        })
    }
}

/// The operator that pages show: the settings, and before them what admins have set. All pages of
/// a node share one.
#[derive(Debug, Default)]
pub struct EffectiveOperator {
    settings: Operator,
    current: RwLock<Arc<Operator>>,
}

impl EffectiveOperator {
    /// As the settings say.
    pub fn new(settings: Operator) -> Self {
        Self { current: RwLock::new(Arc::new(settings.clone())), settings }
    }

    /// What is in force now.
    pub fn current(&self) -> Arc<Operator> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts what admins have set in force. Returns whether that changed anything.
    pub fn apply(&self, branding: &Branding) -> bool {
        let (settings, set) = (self.settings.clone(), branding.clone());
        let operator = Operator {
            name: set.name.or(settings.name),
            logo: set.logo.or(settings.logo),
            accent: set.accent.or(settings.accent),
            links: if set.links.is_empty() { settings.links } else { set.links },
            abuse_contact: set.abuse_contact.or(settings.abuse_contact),
            imprint: settings.imprint,
            security_contact: settings.security_contact,
        };
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let changed = **current != operator;
        if changed {
            *current = Arc::new(operator);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branding() -> Branding {
        Branding {
            name: Some("Example Ltd.".parse().unwrap()),
            logo: Some(Logo::parse(b"\x89PNG\r\n\x1a\n....".to_vec()).unwrap()),
            accent: Some("#0a5c8f".parse().unwrap()),
            links: vec![FooterLink::parse("Privacy", "https://example.com/privacy").unwrap()],
            abuse_contact: Some("abuse@example.com".parse().unwrap()),
        }
    }

    #[test]
    fn an_accent_colour_can_be_read_in_both_themes() {
        for text in ["#c8401a", "#000", "#0a5c8f", "#7a0f3d", "#005500"] {
            let accent: AccentColour = text.parse().unwrap();
            for (colour, backgrounds) in [(accent.light(), LIGHT), (accent.dark(), DARK)] {
                for background in backgrounds {
                    assert!(colour.contrast(background) >= LEAST_CONTRAST, "{text} {background}");
                }
            }
        }
        for text in ["#fff", "#ffcc00", "#8ad4ff", "#999999", "orange"] {
            assert!(text.parse::<AccentColour>().is_err(), "{text}");
        }
    }

    #[test]
    fn footer_links_are_https() {
        let link = FooterLink::parse(" Privacy ", "HTTPS://example.com/p").unwrap();
        assert_eq!((link.label(), &*link.url()), ("Privacy", "https://example.com/p"));
        for (label, url) in [
            ("", "https://example.com/"),
            ("a\nb", "https://example.com/"),
            ("Privacy", "http://example.com/"),
            ("Privacy", "javascript:alert(1)"),
            ("Privacy", "https://user:pw@example.com/"),
            ("Privacy", "https://"),
            ("Privacy", ""),
        ] {
            assert!(FooterLink::parse(label, url).is_err(), "{label:?} {url:?}");
        }
        assert!(FooterLink::parse(&"x".repeat(41), "https://example.com/").is_err());
    }

    #[test]
    fn what_a_registry_keeps_is_what_was_set() {
        for branding in [Branding::default(), branding()] {
            assert_eq!(Branding::from_stored(&branding.to_stored()).unwrap(), branding);
        }
        assert!(Branding::from_stored("{").is_err());
        let other_version = Branding::from_stored(r#"{"name":"Go","theme":"dark"}"#).unwrap();
        assert_eq!(other_version.name, Some("Go".parse().unwrap()));
        let told = branding().audited().to_string();
        assert!(told.contains("image/png") && !told.contains("iVBOR"));
    }

    #[test]
    fn what_admins_set_goes_before_the_settings_and_can_be_taken_back() {
        let settings = Operator {
            name: Some("Settings Inc.".parse().unwrap()),
            imprint: Some("https://example.com/imprint".parse().unwrap()),
            ..Operator::default()
        };
        let in_force = EffectiveOperator::new(settings.clone());
        assert!(!in_force.apply(&Branding::default()));
        assert!(in_force.apply(&branding()) && !in_force.apply(&branding()));
        let shown = in_force.current();
        assert_eq!((&shown.name, &shown.imprint), (&branding().name, &settings.imprint));
        assert!(in_force.apply(&Branding::default()));
        assert_eq!(*in_force.current(), settings);
    }
}
