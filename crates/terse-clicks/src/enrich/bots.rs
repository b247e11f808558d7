//! Recognises bots by their user agent.

use aho_corasick::{AhoCorasick, MatchKind};
use regex::{Regex, RegexSet};
use terse_core::clicks::BotKind;

const CRAWLERS: &str = include_str!("../../data/crawlers.json");

/// Patterns of the list that match browsers too: in-app browsers, and browsers of companies that
/// also run a crawler. The detector leaves them out.
const BROWSER_PATTERNS: &[&str] = &["MetaIAB Facebook", "Fluid", "Sogou"];
/// Fetchers of link previews that the list lacks or has under another name.
const PREVIEWS: &[&str] = &[
    "Facebot",
    "facebookexternalua",
    "Slackbot",
    "Slack-ImgProxy",
    "Microsoft Teams",
    "MicrosoftPreview",
    "BingPreview",
    "Google-PageRenderer",
    "Synapse",
    "Iframely",
    "Embedly",
    "Pleroma",
    "Akkoma",
    "Misskey",
    "Friendica",
    "vkShare",
    "redditbot",
    "Zoom-LinkPreview",
];
/// How the user agents of HTTP libraries and tools begin, besides those of the list.
const TOOLS: &str = "\
    (?i)^(?:curl|libcurl|wget|aria2|httpie|xh|postmanruntime|insomnia|bruno|python|aiohttp|\
    httpx|urllib|go-|java|apache-httpclient|okhttp|dalvik|ruby|faraday|rest-client|libwww|\
    lwp|perl|php|guzzle|guzzlehttp|symfony|node|axios|undici|got|deno|bun|reqwest|ureq|\
    hyper|rust|dart|winhttp|microsoft-|powershell|jakarta|scrapy|cpp-httplib|hackney|req|\
    mint|finch|elixir|lua|nim|haskell|http\\.rb|k6|vegeta|wrk|hey|ab|siege|apachebench|\
    oha)(?:$|[/ _(;.:-])|^[^/]{1,60}/[^ ]{1,40} CFNetwork/|WindowsPowerShell/";
/// Words and URLs that only bots have in their user agent. `CUBOT` is a maker of phones.
const GENERIC: &str = concat!(
    r"(?i)\+?https?://|crawler|spider|scraper|(?:^|[^a-z])bot(?:$|[^a-z])|",
    r"(?:[a-z]{2}[^u]|[abd-z]u|^u)bot[/;)]"
);

/// Distinguishes bots from browsers by their user agent.
#[derive(Debug)]
pub(crate) struct BotDetector {
    literals: AhoCorasick,
    kinds: Vec<BotKind>,
    patterns: RegexSet,
    pattern_kinds: Vec<BotKind>,
    tools: Regex,
    generic: Regex,
}

impl BotDetector {
    /// Compiles the list that is shipped.
    pub(crate) fn shipped() -> Self {
        let impossible = "the tests compile the shipped data";
        let listed: Vec<Vec<String>> = serde_json::from_str(CRAWLERS).expect(impossible);
        let (mut literals, mut kinds, mut patterns, mut pattern_kinds) =
            (vec![], vec![], vec![], vec![]);
        for entry in &listed {
            let Some((pattern, tags)) = entry.split_first() else { continue };
            if BROWSER_PATTERNS.contains(&pattern.as_str()) {
                continue;
            }
            let kind = kind_of(tags);
            match literal(pattern) {
                Some(literal) => {
                    literals.push(literal);
                    kinds.push(kind);
                }
                None => {
                    patterns.push(pattern.as_str());
                    pattern_kinds.push(kind);
                }
            }
        }
        literals.extend(PREVIEWS.iter().map(|&name| name.to_owned()));
        kinds.resize(literals.len(), BotKind::Preview);
        Self {
            literals: AhoCorasick::builder()
                .match_kind(MatchKind::Standard)
                .build(&literals)
                .expect(impossible),
            kinds,
            patterns: RegexSet::new(&patterns).expect(impossible),
            pattern_kinds,
            tools: Regex::new(TOOLS).expect(impossible),
            generic: Regex::new(GENERIC).expect(impossible),
        }
    }

    /// The kind of bot; `None` for a browser.
    pub(crate) fn kind_of(&self, agent: &str) -> Option<BotKind> {
        let agent = agent.trim();
        if agent.is_empty() {
            return Some(BotKind::NoUserAgent);
        }
        let bytes = agent.as_bytes();
        let literals = self.literals.find_overlapping_iter(agent).filter(|found| {
            // A name starts at the start of a word: `008/` is a crawler, `Build/S008/1` a phone.
            let within = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
            !(within(found.start()) && found.start() > 0 && within(found.start() - 1))
        });
        let literals = literals.map(|found| self.kinds[found.pattern().as_usize()]);
        let patterns = self.patterns.matches(agent).into_iter().map(|at| self.pattern_kinds[at]);
        let listed = literals.chain(patterns).min_by_key(|&kind| rank(kind));
        listed
            .or_else(|| self.tools.is_match(agent).then_some(BotKind::Tool))
            .or_else(|| self.generic.is_match(agent).then_some(BotKind::Crawler))
    }
}

/// Orders the kinds that match one user agent; the lowest wins. A preview fetcher that names its
/// HTTP library, or a search engine, is a preview fetcher.
fn rank(kind: BotKind) -> usize {
    const ORDER: [BotKind; 4] = [BotKind::Preview, BotKind::Ai, BotKind::Monitor, BotKind::Crawler];
    ORDER.iter().position(|&other| other == kind).unwrap_or(ORDER.len())
}

fn kind_of(tags: &[String]) -> BotKind {
    let kind = |tag: &String| match tag.as_str() {
        "social-preview" => BotKind::Preview,
        "ai-crawler" => BotKind::Ai,
        "monitoring" | "scanner" => BotKind::Monitor,
        "http-library" | "browser-automation" => BotKind::Tool,
        // search-engine, seo, advertising, feed-reader, archiver, academic, and tags that later
        // versions of the list add.
        _ => BotKind::Crawler,
    };
    tags.iter().map(kind).min_by_key(|&kind| rank(kind)).unwrap_or(BotKind::Crawler)
}

/// The text that a pattern matches, if it matches exactly one.
fn literal(pattern: &str) -> Option<String> {
    let mut text = String::new();
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => text.push(characters.next().filter(char::is_ascii_punctuation)?),
            '[' | ']' | '(' | ')' | '.' | '*' | '+' | '?' | '^' | '$' | '|' | '{' | '}' => {
                return None;
            }
            c => text.push(c),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use terse_core::clicks::names_a_bot;

    use super::*;

    #[test]
    fn bots_are_recognised_by_name() {
        use BotKind::{Ai, Crawler, Monitor, NoUserAgent, Preview, Tool};
        let bots = BotDetector::shipped();
        for (agent, want) in [
            ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", Crawler),
            (
                "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; \
                 +http://www.bing.com/bingbot.htm) \
                 Chrome/116.0.1938.76 Safari/537.36",
                Crawler,
            ),
            ("Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)", Crawler),
            ("Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", Crawler),
            ("Sogou web spider/4.0(+http://www.sogou.com/docs/help/webmasters.htm#07)", Crawler),
            ("008/0.83 (http://www.advancedwebranking.com)", Crawler),
            ("SomethingNobodyKnows/1.0 (+https://example.com/about)", Crawler),
            ("Mozilla/5.0 (compatible; Newbot/1.0)", Crawler),
            ("WhatsApp/2.23.20.0 A", Preview),
            ("Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", Preview),
            ("Slackbot 1.0 (+https://api.slack.com/robots)", Preview),
            ("facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", Preview),
            ("Twitterbot/1.0", Preview),
            ("TelegramBot (like TwitterBot)", Preview),
            ("Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)", Preview),
            (
                "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 \
                 skype-url-preview@microsoft.com",
                Preview,
            ),
            (
                "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient \
                 +http://www.linkedin.com)",
                Preview,
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like \
                 Gecko) Version/9.0.1 \
                 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
                Preview,
            ),
            ("Mastodon/4.3.0 (http.rb/5.2.0; +https://mastodon.example/)", Preview),
            ("http.rb/5.1.1 (Mastodon/4.1.2; +https://mastodon.example/) Bot", Preview),
            (
                "Mozilla/5.0 (compatible; Pinterestbot/1.0; +http://www.pinterest.com/bot.html)",
                Preview,
            ),
            ("Synapse (bot; +https://github.com/matrix-org/synapse)", Preview),
            ("Viber/13.3.0.3", Preview),
            (
                "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; \
                 +https://openai.com/gptbot)",
                Ai,
            ),
            (
                "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; \
                 +claudebot@anthropic.com)",
                Ai,
            ),
            ("CCBot/2.0 (https://commoncrawl.org/faq/)", Ai),
            ("Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)", Monitor),
            ("Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)", Monitor),
            ("curl/8.5.0", Tool),
            ("Wget/1.21.4", Tool),
            ("python-requests/2.32.3", Tool),
            ("Python/3.12 aiohttp/3.9.5", Tool),
            ("Go-http-client/1.1", Tool),
            ("okhttp/4.12.0", Tool),
            ("Java/17.0.1", Tool),
            ("axios/1.7.2", Tool),
            ("node", Tool),
            ("node-fetch/1.0 (+https://github.com/bitinn/node-fetch)", Tool),
            ("PostmanRuntime/7.39.0", Tool),
            ("GuzzleHttp/7", Tool),
            ("libwww-perl/6.72", Tool),
            ("reqwest/0.12", Tool),
            ("Dalvik/2.1.0 (Linux; U; Android 13; SM-A536B Build/TP1A.220624.014)", Tool),
            ("Shortcuts/2607.1 CFNetwork/1494.0.7 Darwin/23.4.0", Tool),
            (
                "Mozilla/5.0 (Windows NT; Windows NT 10.0; de-DE) WindowsPowerShell/5.1.19041.4412",
                Tool,
            ),
            (
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
                 HeadlessChrome/126.0.0.0 Safari/537.36",
                Tool,
            ),
            ("", NoUserAgent),
            ("  ", NoUserAgent),
        ] {
            assert_eq!(bots.kind_of(agent), Some(want), "{agent}");
            // The journal keeps the names of bots that ask not to be tracked.
            assert_eq!(names_a_bot(agent.as_bytes()), want != NoUserAgent, "{agent}");
        }
    }

    #[test]
    fn the_journal_knows_the_names_of_tools_and_previews() {
        let tools = TOOLS.trim_start_matches("(?i)^(?:").split(')').next().unwrap();
        for name in tools.split('|').map(|name| name.replace('\\', "")) {
            assert!(names_a_bot(format!("{name}/1.0").as_bytes()), "{name}");
        }
        for name in PREVIEWS {
            assert!(names_a_bot(format!("{name}/1.0").as_bytes()), "{name}");
        }
        assert!(!names_a_bot(b"Abrowser/1.0") && !names_a_bot(b"UnknownBrowser/7"));
    }

    #[test]
    fn browsers_are_not_bots() {
        let bots = BotDetector::shipped();
        for agent in super::super::samples::BROWSERS.iter().map(|(agent, ..)| agent) {
            assert_eq!(bots.kind_of(agent), None, "{agent}");
            assert!(!names_a_bot(agent.as_bytes()), "{agent}");
        }
        for agent in [
            "Mozilla/5.0 (Linux; Android 9; CUBOT_X19_S) AppleWebKit/537.36 (KHTML, like Gecko) \
             Chrome/126.0.0.0 Mobile Safari/537.36",
            "Mozilla/5.0 (Linux; Android 12; CUBOT; wv) AppleWebKit/537.36 (KHTML, like Gecko) \
             Chrome/126.0.0.0 Mobile Safari/537.36",
            "Mozilla/5.0 (Linux; Android 8.1.0; X Build/S008/1) AppleWebKit/537.36 (KHTML, like \
             Gecko) Chrome/90.0.4430.91 Mobile Safari/537.36",
            "Mozilla/5.0 (Linux; Android 16; Pixel 10 Pro XL Build/CP1A.260305.018; wv) \
             AppleWebKit/537.36 (KHTML, like Gecko) \
             Version/4.0 Chrome/146.0.7680.174 Mobile Safari/537.36 MetaIAB Facebook",
            "Mozilla/5.0 (Linux; U; Android 11; zh-CN) AppleWebKit/537.36 (KHTML, like Gecko) \
             Version/4.0 Chrome/90 SogouMobileBrowser/5.30 Mobile Safari/537.36",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, \
             like Gecko) Mobile/21F79 [Pinterest/iOS]",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, \
             like Gecko) Mobile/15E148 Snapchat/12.90.0.41 (like Safari/8618.2.12.10.9, panda)",
            "Lynx/2.9.0dev.12 libwww-FM/2.14 SSL-MM/1.4.1",
            "w3m/0.5.3+git20230121",
        ] {
            assert_eq!(bots.kind_of(agent), None, "{agent}");
            assert!(!names_a_bot(agent.as_bytes()), "{agent}");
        }
    }

    #[test]
    fn the_shipped_list_is_complete() {
        let bots = BotDetector::shipped();
        assert!(bots.kinds.len() > 1000 && bots.pattern_kinds.len() > 20);
        for kind in
            [BotKind::Crawler, BotKind::Preview, BotKind::Ai, BotKind::Monitor, BotKind::Tool]
        {
            assert!(bots.kinds.contains(&kind), "{kind:?}");
        }
        for name in BROWSER_PATTERNS {
            assert!(CRAWLERS.contains(&format!("\"{name}\"")), "{name} is no longer on the list");
        }
    }
}
