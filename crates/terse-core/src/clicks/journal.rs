//! The journal's format: what the redirect plane writes and the click pipeline reads.
//!
//! A segment is a file of a fixed size: a header, then frames one after the other, then zeros. A
//! frame is a length, a checksum and a record. The checksum is seeded with the segment's id and the
//! frame's position, so stale bytes, or a frame that a power cut has torn, never pass for a record.
//! This module does no I/O.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::outcome::Answered;

/// Octets before the first frame.
pub const HEADER: usize = 64;
/// The largest frame, in octets.
pub const MAX_FRAME_SIZE: usize = 2048;

const MAGIC: &[u8; 8] = b"terseJ\x01\n";
/// Length and checksum.
const FRAME_HEAD: usize = 8;
/// The end mark, in place of a length: the writer continues in another segment.
const END: u32 = u32::MAX;
/// The size of a record's fixed part: numbers first, then the lengths of its texts.
const FIXED: usize = 52;
const LENGTHS: usize = 40;
const AGENT_UPPER: usize = 47;
const CAMPAIGN_UPPER: usize = 48;
const NANOS: usize = 49;

/// The longest form of each text; longer texts are truncated.
const MAX_DOMAIN_LEN: usize = 253;
const MAX_CODE_LEN: usize = 64;
const MAX_REFERRER_LEN: usize = 253;
const MAX_LANGUAGE_LEN: usize = 35;
pub(crate) const MAX_AGENT_LEN: usize = 512;
const MAX_CAMPAIGN_LEN: usize = 512;

/// The beginning of a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SegmentHeader {
    /// Random, so that no two segments have the same.
    pub id: u64,
    /// The run of the process that writes it. A segment of another run is complete.
    pub run: u64,
    /// When it was created.
    pub made_ms: i64,
}

impl SegmentHeader {
    /// As bytes.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.run.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.made_ms.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[..56], 0);
        bytes[56..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// `None` if this is not the beginning of a segment.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER)?;
        let word = |at: usize| bytes[at..].first_chunk().map(|word| u64::from_le_bytes(*word));
        (bytes.starts_with(MAGIC) && word(56)? == xxh3_64_with_seed(&bytes[..56], 0))
            .then_some(Self { id: word(8)?, run: word(16)?, made_ms: word(24)?.cast_signed() })
    }
}

/// Flags of a request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RequestFlags(pub u8);

impl RequestFlags {
    /// A HEAD request.
    pub const HEAD: Self = Self(1);
    /// A prefetch: the click may never follow.
    pub const PREFETCH: Self = Self(2);
    /// The visitor asked not to be tracked: the record holds no details, except the user agent of
    /// a bot, see [`names_a_bot`].
    pub const DO_NOT_TRACK: Self = Self(4);
    /// The request had no user agent. Set only together with `DO_NOT_TRACK`.
    pub const NO_USER_AGENT: Self = Self(8);

    /// The visitor saw the warning page of the link and went on.
    pub const WENT_ON: Self = Self(16);

    /// Whether all of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With `other` set too.
    #[must_use]
    pub fn with(self, other: Self, set: bool) -> Self {
        if set { Self(self.0 | other.0) } else { self }
    }
}

/// Parts of user agents that only bots have, in lower case.
const BOT_WORDS: [&[u8]; 15] = [
    b"bot",
    b"crawl",
    b"spider",
    b"scrape",
    b"http:",
    b"https:",
    b"externalhit",
    b"preview",
    b"monitor",
    b"uptime",
    b"archive",
    b"fetch",
    b"headless",
    b"windowspowershell",
    b" cfnetwork/",
];
/// The first words of user agents of tools, libraries and preview fetchers, in lower case. A person
/// may use any other program.
const BOT_NAMES: [&[u8]; 78] = [
    b"curl",
    b"libcurl",
    b"wget",
    b"aria2",
    b"httpie",
    b"xh",
    b"postmanruntime",
    b"insomnia",
    b"bruno",
    b"python",
    b"aiohttp",
    b"httpx",
    b"urllib",
    b"go-",
    b"java",
    b"apache-httpclient",
    b"okhttp",
    b"dalvik",
    b"ruby",
    b"faraday",
    b"rest-client",
    b"libwww",
    b"lwp",
    b"perl",
    b"php",
    b"guzzle",
    b"guzzlehttp",
    b"symfony",
    b"node",
    b"axios",
    b"undici",
    b"got",
    b"deno",
    b"bun",
    b"reqwest",
    b"ureq",
    b"hyper",
    b"rust",
    b"dart",
    b"winhttp",
    b"microsoft-",
    b"powershell",
    b"jakarta",
    b"scrapy",
    b"cpp-httplib",
    b"hackney",
    b"req",
    b"mint",
    b"finch",
    b"elixir",
    b"lua",
    b"nim",
    b"haskell",
    b"http.rb",
    b"k6",
    b"vegeta",
    b"wrk",
    b"hey",
    b"ab",
    b"siege",
    b"apachebench",
    b"oha",
    b"whatsapp",
    b"viber",
    b"slack-",
    b"mastodon",
    b"synapse",
    b"iframely",
    b"embedly",
    b"pleroma",
    b"akkoma",
    b"misskey",
    b"friendica",
    b"vkshare",
    b"facebookcatalog",
    b"facebookexternalua",
    b"google-pagerenderer",
    b"microsoft teams",
];

/// Whether a user agent names a program that no person uses to follow links. The journal keeps it
/// even if the request asks not to be tracked: it says nothing about a person, and the pipeline
/// needs it to tell bots from humans. `Cubot` is a maker of phones.
pub fn names_a_bot(agent: &[u8]) -> bool {
    let agent = &agent[..agent.len().min(MAX_AGENT_LEN)];
    let begins = |at: usize, word: &[u8]| {
        agent[at..].get(..word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word))
    };
    let is_named = |name: &[u8]| {
        let is_whole = || !agent.get(name.len()).is_some_and(u8::is_ascii_alphanumeric);
        begins(0, name) && (name.ends_with(b"-") || is_whole())
    };
    BOT_NAMES.iter().any(|name| is_named(name))
        || (0..agent.len()).any(|at| {
            BOT_WORDS.iter().any(|word| begins(at, word))
                && !(at >= 2 && begins(at, b"bot") && begins(at - 2, b"cu"))
        })
}

/// A visit as the journal stores it. Personal data never reaches the disk: the address is
/// truncated, the referrer is only a host, the visitor a hash.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct JournalRecord<'a> {
    /// When.
    pub at_ms: i64,
    /// From the request's arrival to its answer, in nanoseconds.
    pub took_nanos: u64,
    /// The answer.
    pub outcome: Answered,
    /// Other properties of the request.
    pub marks: RequestFlags,
    /// How many visits it represents: during a flood of failures the writer keeps only a sample.
    pub weight: u16,
    /// The visitor's hash, the same for one day; 0 if there is none.
    pub visitor: u64,
    /// The link's owner. Without a link, 0.
    pub owner: u64,
    /// When the link was created; tells it from earlier links with its code. Without a link, 0.
    pub created_ms: i64,
    /// The domain; empty for the primary one.
    pub domain: &'a [u8],
    /// The code of the link, or the requested code if there is no link.
    pub code: &'a [u8],
    /// 3 or 6 octets: the truncated address. 4 or 16: a whole one, only if the operator enables it.
    /// 0: unknown.
    pub address: &'a [u8],
    /// A host, perhaps with a port.
    pub referrer: &'a [u8],
    /// The first of the accepted languages.
    pub language: &'a [u8],
    /// `User-Agent`.
    pub agent: &'a [u8],
    /// The `utm_…` pairs of the query, joined by `&`, still escaped.
    pub campaign: &'a [u8],
}

/// The outcome of writing a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JournalWriteResult {
    /// It is in the segment; the next record begins here.
    Next(usize),
    /// The segment has no space left for it.
    Full,
}

impl<'a> JournalRecord<'a> {
    /// Writes the record as a frame at `at` of a segment, leaving space for the end mark. No
    /// allocation. Writes nothing if the journal does not record such an outcome.
    pub fn write(&self, segment: &mut [u8], id: u64, at: usize) -> JournalWriteResult {
        let Some(outcome) = self.outcome.journal_byte() else {
            return JournalWriteResult::Next(at);
        };
        let texts = [
            cut(self.domain, MAX_DOMAIN_LEN),
            cut(self.code, MAX_CODE_LEN),
            cut(self.address, 16),
            cut(self.referrer, MAX_REFERRER_LEN),
            cut(self.language, MAX_LANGUAGE_LEN),
            cut(self.agent, MAX_AGENT_LEN),
            cut(self.campaign, MAX_CAMPAIGN_LEN),
        ];
        let length = FIXED + texts.iter().map(|text| text.len()).sum::<usize>();
        let Some(frame) = segment.get_mut(at..) else { return JournalWriteResult::Full };
        if frame.len() < FRAME_HEAD + length + FRAME_HEAD {
            return JournalWriteResult::Full;
        }
        let (head, payload) = frame[..FRAME_HEAD + length].split_at_mut(FRAME_HEAD);
        let (fixed, mut rest) = payload.split_at_mut(FIXED);
        fixed[0..8].copy_from_slice(&self.at_ms.to_le_bytes());
        fixed[8..16].copy_from_slice(&self.visitor.to_le_bytes());
        fixed[16..24].copy_from_slice(&self.owner.to_le_bytes());
        fixed[24..32].copy_from_slice(&self.created_ms.to_le_bytes());
        // Microseconds, and what is below them in the octets that used to be zero.
        let micros = u32::try_from(self.took_nanos / 1000).unwrap_or(u32::MAX);
        fixed[32..36].copy_from_slice(&micros.to_le_bytes());
        fixed[36] = outcome;
        fixed[37] = self.marks.0;
        fixed[38..40].copy_from_slice(&self.weight.to_le_bytes());
        for (index, text) in texts.iter().enumerate() {
            fixed[LENGTHS + index] = text.len() as u8;
            if !text.is_empty() {
                let (here, after) = rest.split_at_mut(text.len());
                here.copy_from_slice(text);
                rest = after;
            }
        }
        // Only these two can be longer than 255 octets.
        fixed[AGENT_UPPER] = (texts[5].len() >> 8) as u8;
        fixed[CAMPAIGN_UPPER] = (texts[6].len() >> 8) as u8;
        fixed[NANOS..NANOS + 2].copy_from_slice(&((self.took_nanos % 1000) as u16).to_le_bytes());
        fixed[NANOS + 2..].fill(0);
        let sum = checksum(payload, id, at);
        head[..4].copy_from_slice(&(length as u32).to_le_bytes());
        head[4..].copy_from_slice(&sum.to_le_bytes());
        JournalWriteResult::Next(at + FRAME_HEAD + length)
    }

    fn read(payload: &'a [u8]) -> Option<Self> {
        let (fixed, mut rest) = payload.split_at_checked(FIXED)?;
        let word = |at: usize| fixed[at..].first_chunk().map(|word| u64::from_le_bytes(*word));
        let mut texts = [&payload[..0]; 7];
        for (index, text) in texts.iter_mut().enumerate() {
            let upper = match index {
                5 => fixed[AGENT_UPPER],
                6 => fixed[CAMPAIGN_UPPER],
                _ => 0,
            };
            (*text, rest) = rest
                .split_at_checked(usize::from(fixed[LENGTHS + index]) | usize::from(upper) << 8)?;
        }
        let [domain, code, address, referrer, language, agent, campaign] = texts;
        rest.is_empty().then_some(())?;
        Some(Self {
            at_ms: word(0)?.cast_signed(),
            visitor: word(8)?,
            owner: word(16)?,
            created_ms: word(24)?.cast_signed(),
            took_nanos: u64::from(u32::from_le_bytes(*fixed[32..].first_chunk()?)) * 1000
                + u64::from(u16::from_le_bytes(*fixed[NANOS..].first_chunk()?)),
            outcome: Answered::from_journal_byte(fixed[36])?,
            marks: RequestFlags(fixed[37]),
            weight: u16::from_le_bytes(*fixed[38..].first_chunk()?),
            domain,
            code,
            address,
            referrer,
            language,
            agent,
            campaign,
        })
    }
}

/// Marks the end of a segment: its writer continues in another.
pub fn finish(segment: &mut [u8], id: u64, at: usize) {
    if let Some(frame) = segment.get_mut(at..at + FRAME_HEAD) {
        frame[..4].copy_from_slice(&END.to_le_bytes());
        frame[4..].copy_from_slice(&checksum(&[], id, at).to_le_bytes());
    }
}

/// The frame at a position of a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Frame<'a> {
    /// A record, and the position after it.
    Record(JournalRecord<'a>, usize),
    /// The end mark.
    End,
    /// Nothing readable. While the writer lives, a record may still follow.
    Nothing,
}

/// Reads the frame at `at` of a segment. `bytes` are those of the segment from there on.
pub fn read_frame(bytes: &[u8], id: u64, at: usize) -> Frame<'_> {
    let Some((head, rest)) = bytes.split_at_checked(FRAME_HEAD) else { return Frame::Nothing };
    let (Some(length), Some(sum)) = (head.first_chunk(), head[4..].first_chunk()) else {
        return Frame::Nothing;
    };
    let (length, sum) = (u32::from_le_bytes(*length), u32::from_le_bytes(*sum));
    if length == END {
        return if sum == checksum(&[], id, at) { Frame::End } else { Frame::Nothing };
    }
    let length = length as usize;
    let payload = rest.get(..length).filter(|_| (FIXED..=MAX_FRAME_SIZE).contains(&length));
    let record =
        payload.filter(|payload| checksum(payload, id, at) == sum).and_then(JournalRecord::read);
    record.map_or(Frame::Nothing, |record| Frame::Record(record, at + FRAME_HEAD + length))
}

fn checksum(payload: &[u8], id: u64, at: usize) -> u32 {
    let sum = xxh3_64_with_seed(payload, id ^ at as u64);
    // Never zero, so that zeros are never a frame.
    ((sum >> 32) ^ sum) as u32 | 1
}

fn cut(text: &[u8], longest: usize) -> &[u8] {
    &text[..text.len().min(longest)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> JournalRecord<'static> {
        JournalRecord {
            at_ms: 1_763_000_000_123,
            took_nanos: 42_007,
            outcome: Answered::Gone,
            marks: RequestFlags::HEAD.with(RequestFlags::DO_NOT_TRACK, true),
            weight: 64,
            visitor: u64::MAX,
            owner: 7,
            created_ms: -5,
            domain: b"go.example",
            code: b"x7Kq2Lm",
            address: &[203, 0, 113],
            referrer: b"news.example",
            language: b"de-DE",
            agent: b"Mozilla/5.0",
            campaign: b"utm_source=mail&utm_medium=a%20b",
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let long = vec![b'x'; 10_000];
        let longest = JournalRecord {
            agent: &long,
            campaign: &long,
            referrer: &long,
            code: &long,
            domain: &long,
            ..record()
        };
        let mut segment = vec![0; 8192];
        let JournalWriteResult::Next(second) = record().write(&mut segment, 9, HEADER) else {
            panic!("full")
        };
        let JournalWriteResult::Next(third) = longest.write(&mut segment, 9, second) else {
            panic!("full")
        };
        assert!(third - second <= MAX_FRAME_SIZE);
        assert_eq!(read_frame(&segment[HEADER..], 9, HEADER), Frame::Record(record(), second));
        let Frame::Record(read, after) = read_frame(&segment[second..], 9, second) else {
            panic!("nothing")
        };
        assert_eq!(
            (read.agent.len(), read.campaign.len(), read.code.len(), after),
            (512, 512, 64, third)
        );
        assert_eq!(read_frame(&segment[third..], 9, third), Frame::Nothing);
        finish(&mut segment, 9, third);
        assert_eq!(read_frame(&segment[third..], 9, third), Frame::End);
    }

    #[test]
    fn a_frame_is_one_only_in_its_own_place_and_whole() {
        let mut segment = vec![0; 1024];
        let JournalWriteResult::Next(next) = record().write(&mut segment, 9, HEADER) else {
            panic!("full")
        };
        assert_eq!(read_frame(&segment[HEADER..], 10, HEADER), Frame::Nothing, "another segment's");
        assert_eq!(
            read_frame(&segment[HEADER..], 9, HEADER + 8),
            Frame::Nothing,
            "another place's"
        );
        for at in HEADER..next {
            let mut torn = segment.clone();
            torn[at] ^= 0x10;
            assert_eq!(read_frame(&torn[HEADER..], 9, HEADER), Frame::Nothing, "octet {at}");
            assert!(
                matches!(read_frame(&segment[HEADER..at], 9, HEADER), Frame::Nothing),
                "cut at {at}"
            );
        }
    }

    #[test]
    fn room_for_the_end_mark_is_always_left() {
        let mut segment = vec![0; 4096];
        let mut at = HEADER;
        while let JournalWriteResult::Next(next) = record().write(&mut segment, 1, at) {
            at = next;
        }
        finish(&mut segment, 1, at);
        assert_eq!(read_frame(&segment[at..], 1, at), Frame::End);
    }

    #[test]
    fn a_header_is_recognised() {
        let header = SegmentHeader { id: 1, run: 2, made_ms: -3 };
        let mut bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Some(header));
        bytes[9] ^= 1;
        assert_eq!(SegmentHeader::decode(&bytes), None);
        assert_eq!(SegmentHeader::decode(&[0; HEADER]), None);
        assert_eq!(SegmentHeader::decode(b"terseJ"), None);
    }
}
