//! Warning flags: each has a stable name for programs and a sentence for visitors.

use std::fmt;

use terse_core::UNSCREENED;

/// One reason to be careful with a target.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Flag {
    /// A label of the host mixes scripts, or has characters that names do not need.
    MixedScript,
    /// The host imitates a well-known name.
    LookAlike,
    /// The URL has a user name or password before the host.
    Userinfo,
    /// An `@` after the host makes the host look like a user name.
    MisleadingAt,
    /// The host is an IP address.
    NumericHost,
    /// The host is an IP address in an unusual spelling.
    OddAddress,
    /// The host has no dot.
    SingleLabel,
    /// The host is another shortener.
    Shortener,
    /// The host belongs to a free hosting service.
    FreeHosting,
    /// The page redirects visitors to any URL in its parameters.
    OpenRedirect,
    /// The host was entered with characters that URL parsing removes or replaces.
    DisguisedText,
    /// The URL was entered with other than two slashes before the host.
    OddSlashes,
    /// Safe Browsing has not answered for this target yet.
    Unscreened,
    /// The path, query or fragment contains invisible characters or controls that reverse text.
    HiddenText,
    /// The target is on one of the operator's warn lists. Always a warning.
    OnWarnList,
}

/// A small set of flags.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct FlagSet(u16);

impl Flag {
    /// All flags.
    pub const ALL: [Self; 15] = [
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
        Self::HiddenText,
        Self::OnWarnList,
    ];

    /// The stable name, used in the API and in stores.
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
            Self::HiddenText => "hidden_text",
            Self::OnWarnList => "on_warn_list",
        }
    }

    /// The flag with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|flag| flag.as_str() == name)
    }

    /// A sentence for the warning page.
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
                "The address has a user name before the site's name, which can make it look like \
                 another site's."
            }
            Self::MisleadingAt => "The text after the @ looks like the site's name, but it is not.",
            Self::NumericHost => "The site has an IP address instead of a name.",
            Self::OddAddress => {
                "The site has a number instead of a name, in a form that is hard to recognise."
            }
            Self::SingleLabel => {
                "The site's name has no dot, so it may mean something else on another network."
            }
            Self::Shortener => "The link leads to another short link, which hides where it ends.",
            Self::FreeHosting => {
                "The page is on a service where anyone can publish pages for free."
            }
            Self::OpenRedirect => {
                "The address belongs to a well-known site but redirects to another one."
            }
            Self::DisguisedText => {
                "The site's name was written with invisible or look-alike characters."
            }
            Self::OddSlashes => {
                "The address was written with an unusual number or kind of slashes."
            }
            Self::Unscreened => "This site has not been checked yet.",
            Self::HiddenText => {
                "The address contains invisible characters, or characters that show its end in \
                 another order."
            }
            Self::OnWarnList => {
                "The site is on a list of sites that need care, such as very new ones."
            }
        }
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl FlagSet {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// The flags that put a warning page before a link by default. An IP address in its usual
    /// spelling and unusual slashes are recorded only: neither can deceive a visitor, who sees the
    /// target. `Unscreened` is recorded only, because it says nothing against the target.
    /// `OnWarnList` warns without being here.
    pub fn default_warnings() -> Self {
        let left_out = |flag: &Flag| {
            matches!(
                flag,
                Flag::NumericHost | Flag::OddSlashes | Flag::Unscreened | Flag::OnWarnList
            )
        };
        Flag::ALL.into_iter().filter(|flag| !left_out(flag)).collect()
    }

    /// The flags that only the entered text can raise, not the parsed target.
    pub fn from_input() -> Self {
        [Flag::DisguisedText, Flag::OddAddress, Flag::OddSlashes].into_iter().collect()
    }

    /// Whether the set contains this flag.
    pub fn contains(self, flag: Flag) -> bool {
        self.0 & flag.bit() != 0
    }

    /// Adds a flag.
    pub fn insert(&mut self, flag: Flag) {
        self.0 |= flag.bit();
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The flags in either set.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The flags in both sets.
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The flags, in the order of [`Flag::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Flag> {
        Flag::ALL.into_iter().filter(move |flag| self.contains(*flag))
    }

    /// Parses names joined by commas, as [`Display`](fmt::Display) writes them. Unknown names are
    /// ignored: a later version may have written them to the store.
    pub fn from_names(names: &str) -> Self {
        names.split(',').filter_map(|name| Flag::parse(name.trim())).collect()
    }
}

impl FromIterator<Flag> for FlagSet {
    fn from_iter<T: IntoIterator<Item = Flag>>(flags: T) -> Self {
        let mut all = Self::NONE;
        flags.into_iter().for_each(|flag| all.insert(flag));
        all
    }
}

/// The names, joined by commas.
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
        write!(f, "FlagSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_round_trip_through_text() {
        let all: FlagSet = Flag::ALL.into_iter().collect();
        assert_eq!(all.iter().count(), Flag::ALL.len());
        assert_eq!(FlagSet::from_names(&all.to_string()), all);
        assert_eq!(
            FlagSet::from_names("shortener, of_the_future,look_alike").to_string(),
            "look_alike,shortener"
        );
        assert_eq!(FlagSet::from_names(""), FlagSet::NONE);
    }
}
