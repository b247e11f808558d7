//! A click as the store counts it: the journal's record, enriched.

use std::sync::Arc;

use super::columns::{ClickKind, WarningVisit};
use crate::link::{LinkKey, OwnerId};
use crate::outcome::Answered;
use crate::time::Timestamp;

/// A short text that many clicks share in memory.
pub type Interned = Arc<str>;

/// The identity of a link. Another link can get the same code later; the creation time
/// distinguishes them.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinkId {
    /// Its domain and code.
    pub key: LinkKey,
    /// When it was created.
    pub created_at: Timestamp,
}

impl LinkId {
    /// The id of a link.
    pub fn of(link: &crate::Link) -> Self {
        Self { key: link.key.clone(), created_at: link.created_at }
    }
}

/// Where a visit led.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum ClickTarget {
    /// To the target of this link of this owner.
    Link(LinkId, OwnerId),
    /// To no link: an orphan visit, with the requested domain and code, and the answer.
    Orphan(LinkKey, Answered),
}

/// Why a click counts as a bot's.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum BotKind {
    /// A search engine, an archive, a scraper.
    Crawler,
    /// A service that shows previews of shared links.
    Preview,
    /// A crawler for a language model.
    Ai,
    /// A monitor of availability or safety.
    Monitor,
    /// A library or a command-line tool.
    Tool,
    /// The request had no user agent.
    NoUserAgent,
    /// A prefetch: the click may never follow.
    Prefetch,
    /// A HEAD request.
    Head,
}

impl BotKind {
    /// All of them. Stores keep the places in this list: new ones come last.
    pub const ALL: [Self; 8] = [
        Self::Crawler,
        Self::Preview,
        Self::Ai,
        Self::Monitor,
        Self::Tool,
        Self::NoUserAgent,
        Self::Prefetch,
        Self::Head,
    ];

    /// The stable name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Crawler => "crawler",
            Self::Preview => "preview",
            Self::Ai => "ai",
            Self::Monitor => "monitor",
            Self::Tool => "tool",
            Self::NoUserAgent => "nameless",
            Self::Prefetch => "prefetch",
            Self::Head => "head",
        }
    }

    /// Parses the stable name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

macro_rules! dimensions {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $word:literal;)*) => {
        /// A property by which clicks are counted.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(u8)]
        pub enum Dimension {
            $($(#[$doc])* $variant = $number,)*
        }

        impl Dimension {
            /// All of them, in the order of their numbers, which are stored and never change.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}

dimensions! {
    /// The host that the visitor came from.
    Referrer = 0, "referrer";
    /// Two letters.
    Country = 1, "country";
    /// With its country: `Berlin, DE`.
    City = 2, "city";
    /// `desktop`, `mobile`, `tablet`, …
    Device = 3, "device";
    /// Without its version.
    Browser = 4, "browser";
    /// The operating system, without its version.
    System = 5, "system";
    /// The first of the accepted languages: `de`, `pt-BR`.
    Language = 6, "language";
    /// `utm_source`.
    Source = 7, "utm_source";
    /// `utm_medium`.
    Medium = 8, "utm_medium";
    /// `utm_campaign`.
    Campaign = 9, "utm_campaign";
    /// `utm_term`.
    Term = 10, "utm_term";
    /// `utm_content`.
    Content = 11, "utm_content";
    /// Why a click counts as a bot's. Repeated clicks of humans are in it too, as `repeat`.
    BotKind = 12, "machine";
    /// Of orphans: the answer to the visit. Of links: [`WARNED`](super::WARNED), which are not
    /// clicks, and [`WENT_ON`](super::WENT_ON).
    Outcome = 13, "outcome";
    /// Of orphans: the requested code.
    Code = 14, "code";
}

/// An enriched click. Unknown values are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Click {
    /// When.
    pub at: Timestamp,
    /// Where it led.
    pub target: ClickTarget,
    /// How many visits it represents; more than one only for orphans.
    pub weight: u32,
    /// How long its answer took, in nanoseconds.
    pub took_nanos: u64,
    /// The visitor's hash, the same for one day.
    pub visitor: Option<u64>,
    /// The cut address: `203.0.113.0/24`.
    pub address: Option<Interned>,
    /// Why it counts as a bot's; `None` for humans.
    pub bot: Option<BotKind>,
    /// Whether it is a human's click less than ten seconds after another by the same visitor on the
    /// same link, such as the second half of a double click.
    pub repeat: bool,
    /// Whether it is a view of the link's warning page, which is not a click, or a click after one.
    pub warning: WarningVisit,
    /// See [`Dimension::Referrer`].
    pub referrer: Option<Interned>,
    /// See [`Dimension::Country`].
    pub country: Option<Interned>,
    /// See [`Dimension::City`].
    pub city: Option<Interned>,
    /// See [`Dimension::Device`].
    pub device: Option<Interned>,
    /// See [`Dimension::Browser`].
    pub browser: Option<Interned>,
    /// See [`Dimension::System`].
    pub system: Option<Interned>,
    /// See [`Dimension::Language`].
    pub language: Option<Interned>,
    /// `utm_source`, `utm_medium`, `utm_campaign`, `utm_term`, `utm_content`.
    pub utm: [Option<Interned>; 5],
}

impl Click {
    /// A click with only a time and a target.
    pub fn bare(at: Timestamp, target: ClickTarget) -> Self {
        Self {
            at,
            target,
            weight: 1,
            took_nanos: 0,
            visitor: None,
            address: None,
            bot: None,
            repeat: false,
            warning: WarningVisit::None,
            referrer: None,
            country: None,
            city: None,
            device: None,
            browser: None,
            system: None,
            language: None,
            utm: [const { None }; 5],
        }
    }

    /// Who clicked.
    pub fn kind(&self) -> ClickKind {
        match self.bot {
            Some(bot) => ClickKind::of_bot(bot),
            None if self.repeat => ClickKind::REPEAT,
            None => ClickKind::HUMAN,
        }
    }

    /// The link it led to, if it did.
    pub fn link(&self) -> Option<&LinkId> {
        match &self.target {
            ClickTarget::Link(link, _) => Some(link),
            ClickTarget::Orphan(..) => None,
        }
    }
}
