//! Reads a user agent: its device, browser and system, and the kind of bot it names.

use terse_core::clicks::{BotKind, Interned};
use ua_parser::{os, user_agent};

use super::bots::BotDetector;
use super::devices;
use super::text::printable;

const BROWSERS: &str = include_str!("../../data/browsers.json");
const SYSTEMS: &str = include_str!("../../data/systems.json");
/// A family name can be a part of the user agent itself.
const MAX_FAMILY_LEN: usize = 60;

/// Families that the parser distinguishes by platform and the statistics count as one browser.
const BROWSER_FAMILIES: &[(&str, &str)] = &[
    ("Chrome Mobile", "Chrome"),
    ("Chrome Mobile iOS", "Chrome"),
    ("Chrome Mobile WebView", "Android WebView"),
    ("Mobile Safari", "Safari"),
    ("Mobile Safari UI/WKWebView", "iOS WebView"),
    ("Firefox Mobile", "Firefox"),
    ("Firefox iOS", "Firefox"),
    ("Edge Mobile", "Edge"),
    ("Opera Mobile", "Opera"),
];
const SYSTEM_FAMILIES: &[(&str, &str)] =
    &[("Mac OS X", "macOS"), ("Windows Mobile", "Windows Phone"), ("Web0S", "webOS")];

/// What a user agent says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UserAgent {
    pub(crate) device: Option<Interned>,
    pub(crate) browser: Option<Interned>,
    pub(crate) system: Option<Interned>,
    pub(crate) bot: Option<BotKind>,
}

/// The parser, with the pattern lists that are shipped.
pub(crate) struct UserAgentParser {
    browsers: user_agent::Extractor<'static>,
    systems: os::Extractor<'static>,
    bots: BotDetector,
}

impl UserAgentParser {
    /// Compiles the shipped lists.
    pub(crate) fn shipped() -> Self {
        let impossible = "the tests compile the shipped data";
        let browsers: Vec<user_agent::Parser<'static>> =
            serde_json::from_str(BROWSERS).expect(impossible);
        let systems: Vec<os::Parser<'static>> = serde_json::from_str(SYSTEMS).expect(impossible);
        Self {
            browsers: user_agent::Builder::new()
                .push_all(browsers)
                .expect(impossible)
                .build()
                .expect(impossible),
            systems: os::Builder::new()
                .push_all(systems)
                .expect(impossible)
                .build()
                .expect(impossible),
            bots: BotDetector::shipped(),
        }
    }

    /// Parses a user agent.
    pub(crate) fn parse(&self, agent: &[u8]) -> UserAgent {
        let agent = &*String::from_utf8_lossy(agent);
        let bot = self.bots.kind_of(agent);
        if bot == Some(BotKind::NoUserAgent) {
            return UserAgent { bot, ..UserAgent::default() };
        }
        let browser =
            self.browsers.extract(agent).and_then(|found| family(&found.family, BROWSER_FAMILIES));
        let system =
            self.systems.extract(agent).and_then(|found| family(&found.os, SYSTEM_FAMILIES));
        let device = if bot.is_some() { Some("bot") } else { devices::device_class(agent) };
        UserAgent { device: device.map(Into::into), browser, system, bot }
    }
}

/// The name under which the statistics count a family.
fn family(name: &str, families: &[(&str, &str)]) -> Option<Interned> {
    let name = families.iter().find(|(from, _)| *from == name).map_or(name, |(_, to)| to);
    printable(name, MAX_FAMILY_LEN).filter(|name| !name.eq_ignore_ascii_case("other"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_and_systems_are_recognised() {
        let agents = UserAgentParser::shipped();
        for (agent, device, browser, system) in super::super::samples::BROWSERS {
            let found = agents.parse(agent.as_bytes());
            let text = |text: &Option<Interned>| text.as_deref().unwrap_or_default().to_owned();
            assert_eq!(
                (&*text(&found.device), &*text(&found.browser), &*text(&found.system)),
                (*device, *browser, *system),
                "{agent}"
            );
            assert_eq!(found.bot, None, "{agent}");
        }
    }

    #[test]
    fn the_device_of_a_bot_is_bot() {
        let agents = UserAgentParser::shipped();
        let google = "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) \
            AppleWebKit/537.36 (KHTML, like Gecko) \
                      Chrome/126.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; \
                      +http://www.google.com/bot.html)";
        let found = agents.parse(google.as_bytes());
        assert_eq!((found.device.as_deref(), found.bot), (Some("bot"), Some(BotKind::Crawler)));
        assert_eq!(found.browser.as_deref(), Some("Googlebot"));
        assert_eq!(
            agents.parse(b""),
            UserAgent { bot: Some(BotKind::NoUserAgent), ..UserAgent::default() }
        );
    }

    #[test]
    fn any_bytes_can_be_parsed() {
        let agents = UserAgentParser::shipped();
        for bytes in [
            &[0xff; 512][..],
            &[0; 512],
            b"\xf0\x9f",
            "é".repeat(256).as_bytes(),
            &[b'('; 512],
            &[b' '; 512],
        ] {
            agents.parse(bytes);
        }
    }
}
