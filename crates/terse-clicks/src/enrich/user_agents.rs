//! Reads a user agent: its device, browser and system, and the kind of bot it names.

use terse_core::clicks::{BotKind, Interned};
use ua_parser::{os, user_agent};

use super::bots::BotDetector;
use super::cache::BoundedCache;
use super::devices;
use super::text::printable;

const BROWSERS: &str = include_str!("../../data/browsers.json");
const SYSTEMS: &str = include_str!("../../data/systems.json");
/// User agents of one cache generation. The visitors of a site have some hundreds; parsing one
/// again takes about ten microseconds.
const CAPACITY: usize = 4096;
/// A family name can be a part of the user agent itself.
const MAX_FAMILY_LEN: usize = 60;

/// Families that the parser tells apart by platform and the statistics count as one browser.
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

/// Parses user agents for one thread and caches the results.
pub(crate) struct UserAgents {
    cache: BoundedCache<Box<[u8]>, UserAgent>,
    /// Made for the first user agent. It takes about ten megabytes and 50 milliseconds; a server
    /// without visitors stays small.
    parser: Option<UserAgentParser>,
}

impl UserAgents {
    pub(crate) fn new() -> Self {
        Self { cache: BoundedCache::new(CAPACITY), parser: None }
    }

    /// The parsed user agent. An empty one is a bot without a name.
    pub(crate) fn get(&mut self, agent: &[u8]) -> UserAgent {
        let parser = &mut self.parser;
        self.cache.get_or_insert_with(agent, |agent| {
            parser.get_or_insert_with(UserAgentParser::shipped).parse(agent)
        })
    }

    #[cfg(test)]
    pub(crate) fn cached(&self) -> usize {
        self.cache.len()
    }
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
        if bot == Some(BotKind::Nameless) {
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
        let mut agents = UserAgents::new();
        for (agent, device, browser, system) in super::super::samples::BROWSERS {
            let found = agents.get(agent.as_bytes());
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
        let mut agents = UserAgents::new();
        let google = "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) \
            AppleWebKit/537.36 (KHTML, like Gecko) \
                      Chrome/126.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; \
                      +http://www.google.com/bot.html)";
        let found = agents.get(google.as_bytes());
        assert_eq!((found.device.as_deref(), found.bot), (Some("bot"), Some(BotKind::Crawler)));
        assert_eq!(found.browser.as_deref(), Some("Googlebot"));
        assert_eq!(
            agents.get(b""),
            UserAgent { bot: Some(BotKind::Nameless), ..UserAgent::default() }
        );
    }

    #[test]
    fn any_bytes_can_be_parsed() {
        let mut agents = UserAgents::new();
        for bytes in [
            &[0xff; 512][..],
            &[0; 512],
            b"\xf0\x9f",
            "é".repeat(256).as_bytes(),
            &[b'('; 512],
            &[b' '; 512],
        ] {
            agents.get(bytes);
        }
        for n in 0..3 * CAPACITY {
            agents.get(format!("Mozilla/5.0 (Windows NT 10.0) Thing{n}/1.0").as_bytes());
        }
        assert!(agents.cached() <= 2 * CAPACITY);
    }
}
