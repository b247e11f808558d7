//! What a user agent says about its device, browser and system, and whether it is a machine's.

use terse_core::clicks::{BotKind, Interned};
use ua_parser::{os, user_agent};

use super::bots::BotDetector;
use super::cache::BoundedCache;
use super::devices;
use super::text::printable;

const BROWSERS: &str = include_str!("../../data/browsers.json");
const SYSTEMS: &str = include_str!("../../data/systems.json");
/// A generation of user agents. A site's visitors have some hundreds; reading one anew takes some
/// ten microseconds.
const CAPACITY: usize = 4096;
/// A family can be a part of the user agent itself.
const MAX_FAMILY_LEN: usize = 60;

/// Browsers that are one to most people, though they differ by where they run.
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
    pub(crate) machine: Option<BotKind>,
}

/// Reads user agents.
pub(crate) struct UserAgents {
    known: BoundedCache<Box<[u8]>, UserAgent>,
    /// Made when it is first needed: it takes some ten megabytes and a twentieth of a second, and a
    /// server without visitors stays small.
    parser: Option<UserAgentParser>,
}

impl UserAgents {
    pub(crate) fn new() -> Self {
        Self { known: BoundedCache::new(CAPACITY), parser: None }
    }

    /// What this user agent says; nothing at all is a machine without a name.
    pub(crate) fn read(&mut self, agent: &[u8]) -> UserAgent {
        let parser = &mut self.parser;
        self.known.get_or(agent, |agent| {
            parser
                .get_or_insert_with(UserAgentParser::shipped)
                .read(&String::from_utf8_lossy(agent))
        })
    }

    /// Gets ready to read, so that whoever reads first does not wait for it.
    pub(crate) fn prepare(&mut self) {
        self.parser.get_or_insert_with(UserAgentParser::shipped);
    }

    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.known.len()
    }
}

struct UserAgentParser {
    browsers: user_agent::Extractor<'static>,
    systems: os::Extractor<'static>,
    bots: BotDetector,
}

impl UserAgentParser {
    fn shipped() -> Self {
        let impossible = "the shipped data was tested";
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

    fn read(&self, agent: &str) -> UserAgent {
        let machine = self.bots.kind_of(agent);
        if machine == Some(BotKind::Nameless) {
            return UserAgent { machine, ..UserAgent::default() };
        }
        let browser =
            self.browsers.extract(agent).and_then(|found| family(&found.family, BROWSER_FAMILIES));
        let system =
            self.systems.extract(agent).and_then(|found| family(&found.os, SYSTEM_FAMILIES));
        let device = if machine.is_some() { Some("bot") } else { devices::device_class(agent) };
        UserAgent { device: device.map(Into::into), browser, system, machine }
    }
}

fn family(name: &str, same: &[(&str, &str)]) -> Option<Interned> {
    let name = same.iter().find(|(from, _)| *from == name).map_or(name, |(_, to)| to);
    printable(name, MAX_FAMILY_LEN).filter(|name| !name.eq_ignore_ascii_case("other"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_and_systems_are_told_apart() {
        let mut agents = UserAgents::new();
        for (agent, device, browser, system) in super::super::samples::BROWSERS {
            let found = agents.read(agent.as_bytes());
            let word = |word: &Option<Interned>| word.as_deref().unwrap_or_default().to_owned();
            assert_eq!(
                (&*word(&found.device), &*word(&found.browser), &*word(&found.system)),
                (*device, *browser, *system),
                "{agent}"
            );
            assert_eq!(found.machine, None, "{agent}");
        }
    }

    #[test]
    fn a_machine_is_no_device_of_a_person() {
        let mut agents = UserAgents::new();
        let google = "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) \
            AppleWebKit/537.36 (KHTML, like Gecko) \
                      Chrome/126.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; \
                      +http://www.google.com/bot.html)";
        let found = agents.read(google.as_bytes());
        assert_eq!((found.device.as_deref(), found.machine), (Some("bot"), Some(BotKind::Crawler)));
        assert_eq!(found.browser.as_deref(), Some("Googlebot"));
        assert_eq!(
            agents.read(b""),
            UserAgent { machine: Some(BotKind::Nameless), ..UserAgent::default() }
        );
    }

    #[test]
    fn any_bytes_can_be_read() {
        let mut agents = UserAgents::new();
        for bytes in [
            &[0xff; 512][..],
            &[0; 512],
            b"\xf0\x9f",
            "é".repeat(256).as_bytes(),
            &[b'('; 512],
            &[b' '; 512],
        ] {
            agents.read(bytes);
        }
        for n in 0..3 * CAPACITY {
            agents.read(format!("Mozilla/5.0 (Windows NT 10.0) Thing{n}/1.0").as_bytes());
        }
        assert!(agents.remembered() <= 2 * CAPACITY);
    }
}
