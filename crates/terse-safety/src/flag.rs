//! Warning signs: a stable word for programs, a sentence for people.

use std::fmt;

use terse_core::UNSCREENED;

/// One reason to look twice at a target.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Flag {
    /// A label of the host mixes scripts, or has characters that names do not need.
    MixedScript,
    /// The host imitates a well-known name.
    LookAlike,
    /// A user name or password stands before the host.
    Userinfo,
    /// An `@` behind the host makes it look like a user name.
    MisleadingAt,
    /// The host is an address.
    NumericHost,
    /// The host is an address in a spelling meant for machines.
    OddAddress,
    /// The host has no dot.
    SingleLabel,
    /// The host is another shortener.
    Shortener,
    /// The host is one that anybody gets for free.
    FreeHosting,
    /// A page that sends visitors on to any URL.
    OpenRedirect,
    /// The host was typed with characters that vanish or become others.
    DisguisedText,
    /// The slashes before the host were not two.
    OddSlashes,
    /// Those who know could not be asked about it yet.
    Unscreened,
}

/// A small set of flags.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct FlagSet(u16);

impl Flag {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::MixedScript,
        Self::LookAlike,
        Self::Userinfo,
        Self::MisleadingAt,
        Self::NumericHost,
        Self::OddAddress,
        Self::SingleLabel,
        Self::Shortener,
        Self::FreeHosting,
        Self::OpenRedirect,
        Self::DisguisedText,
        Self::OddSlashes,
        Self::Unscreened,
    ];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MixedScript => "mixed_script",
            Self::LookAlike => "look_alike",
            Self::Userinfo => "userinfo",
            Self::MisleadingAt => "misleading_at",
            Self::NumericHost => "numeric_host",
            Self::OddAddress => "odd_address",
            Self::SingleLabel => "single_label",
            Self::Shortener => "shortener",
            Self::FreeHosting => "free_hosting",
            Self::OpenRedirect => "open_redirect",
            Self::DisguisedText => "disguised_text",
            Self::OddSlashes => "odd_slashes",
            Self::Unscreened => UNSCREENED,
        }
    }

    /// The flag with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|flag| flag.as_str() == word)
    }

    /// What is odd, in a sentence for the visitor who is asked to look twice.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::MixedScript => {
                "The site's name mixes letters of different alphabets, which can make it look \
                 like another name."
            }
            Self::LookAlike => {
                "The site's name looks like that of a well-known site, but it is not that site."
            }
            Self::Userinfo => {
                "A user name stands before the site's name, which can make the address look like \
                 another site's."
            }
            Self::MisleadingAt => {
                "What stands behind the @ is not the site's name, though it looks like it."
            }
            Self::NumericHost => "The site has a number instead of a name.",
            Self::OddAddress => {
                "The site has a number instead of a name, written so that it is hard to recognise."
            }
            Self::SingleLabel => {
                "The site's name has no dot, so it may mean something else on another network."
            }
            Self::Shortener => {
                "The link leads to another short link, so its end cannot be seen from here."
            }
            Self::FreeHosting => {
                "The page is on a service where anybody can put up pages for free."
            }
            Self::OpenRedirect => {
                "The address belongs to a well-known site but sends you on to another one."
            }
            Self::DisguisedText => {
                "The site's name was written with characters that vanish or turn into others."
            }
            Self::OddSlashes => {
                "The address was written with an unusual number or kind of slashes."
            }
            Self::Unscreened => "Nobody has been able to check this site yet.",
        }
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl FlagSet {
    /// None at all.
    pub const NONE: Self = Self(0);

    /// Those that put a warning page before a link unless an operator says otherwise. An address in
    /// its usual spelling and a slip of the slash key are worth a note, but neither can deceive a
    /// visitor, who sees only where the link leads. That nobody could be asked about a target says
    /// nothing against it.
    pub fn that_warn() -> Self {
        let only_noted =
            |flag: &Flag| matches!(flag, Flag::NumericHost | Flag::OddSlashes | Flag::Unscreened);
        Flag::ALL.into_iter().filter(|flag| !only_noted(flag)).collect()
    }

    /// Those that the typed text may raise though the target does not.
    pub fn of_typing() -> Self {
        [Flag::DisguisedText, Flag::OddAddress, Flag::OddSlashes].into_iter().collect()
    }

    /// Whether this flag is raised.
    pub fn contains(self, flag: Flag) -> bool {
        self.0 & flag.bit() != 0
    }

    /// Raises a flag.
    pub fn insert(&mut self, flag: Flag) {
        self.0 |= flag.bit();
    }

    /// Whether none is raised.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of either.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of both.
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// One by one, in the order of [`Flag::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Flag> {
        Flag::ALL.into_iter().filter(move |flag| self.contains(*flag))
    }

    /// From words joined by commas, as [`Display`](fmt::Display) writes them. A word we do not know
    /// is passed over: a store may hold what a later version wrote.
    pub fn from_words(words: &str) -> Self {
        words.split(',').filter_map(|word| Flag::parse(word.trim())).collect()
    }
}

impl FromIterator<Flag> for FlagSet {
    fn from_iter<T: IntoIterator<Item = Flag>>(flags: T) -> Self {
        let mut all = Self::NONE;
        flags.into_iter().for_each(|flag| all.insert(flag));
        all
    }
}

/// The words, joined by commas.
impl fmt::Display for FlagSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, flag) in self.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            f.write_str(flag.as_str())?;
        }
        Ok(())
    }
}

impl fmt::Debug for FlagSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_survive_being_written_down() {
        let all: FlagSet = Flag::ALL.into_iter().collect();
        assert_eq!(all.iter().count(), Flag::ALL.len());
        assert_eq!(FlagSet::from_words(&all.to_string()), all);
        assert_eq!(
            FlagSet::from_words("shortener, of_the_future,look_alike").to_string(),
            "look_alike,shortener"
        );
        assert_eq!(FlagSet::from_words(""), FlagSet::NONE);
    }
}
