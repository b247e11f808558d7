//! The languages that visitors' pages are shown in.

use crate::rules::weighted_ranges;

/// A language of visitors' pages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PageLanguage {
    /// For visitors who prefer none of the others.
    #[default]
    English,
    /// German.
    German,
    /// Spanish.
    Spanish,
    /// French.
    French,
    /// Portuguese.
    Portuguese,
    /// Chinese, in simplified characters.
    Chinese,
    /// Japanese.
    Japanese,
}

impl PageLanguage {
    /// How many there are.
    pub const COUNT: usize = 7;

    /// All of them, each at the place of its number.
    pub const ALL: [Self; Self::COUNT] = [
        Self::English,
        Self::German,
        Self::Spanish,
        Self::French,
        Self::Portuguese,
        Self::Chinese,
        Self::Japanese,
    ];

    /// The tag for `lang` and `Content-Language`.
    pub fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::German => "de",
            Self::Spanish => "es",
            Self::French => "fr",
            Self::Portuguese => "pt",
            Self::Chinese => "zh-Hans",
            Self::Japanese => "ja",
        }
    }

    /// Its name, in itself.
    pub fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::German => "Deutsch",
            Self::Spanish => "Español",
            Self::French => "Français",
            Self::Portuguese => "Português",
            Self::Chinese => "简体中文",
            Self::Japanese => "日本語",
        }
    }

    /// Parses a tag.
    pub fn parse(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.tag() == tag)
    }

    /// The language that fits an `Accept-Language` value best: the one with the highest weight, of
    /// equals the one that is named first. A visitor who accepts none of them gets English.
    /// Allocates nothing.
    pub fn preferred(accept_language: &[u8]) -> Self {
        let Ok(accepted) = std::str::from_utf8(accept_language) else { return Self::English };
        let mut weights: [Option<u16>; Self::COUNT] = [None; Self::COUNT];
        let (mut best, mut any) = ((0, Self::English), None);
        for (range, weight) in weighted_ranges(accepted) {
            if range == "*" {
                any = any.or(Some(weight));
                continue;
            }
            let primary = range.split('-').next().unwrap_or_default();
            let Some(language) = Self::ALL.into_iter().find(|language| {
                language
                    .tag()
                    .split('-')
                    .next()
                    .is_some_and(|tag| tag.eq_ignore_ascii_case(primary))
            }) else {
                continue;
            };
            let known = &mut weights[language as usize];
            *known = Some(known.map_or(weight, |known| known.max(weight)));
            if weight > best.0 {
                best = (weight, language);
            }
        }
        // A star stands for the languages that are not named.
        let unnamed = Self::ALL.into_iter().find(|language| weights[*language as usize].is_none());
        match (any, unnamed) {
            (Some(weight), Some(language)) if weight > best.0 => language,
            _ => best.1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weights_of_a_visitor_choose_the_language() {
        use PageLanguage::*;
        for (accepted, want) in [
            ("", English),
            ("de", German),
            ("de-AT,de;q=0.9,en;q=0.8", German),
            ("en;q=0.5,fr;q=0.9", French),
            ("en;q=0.9,fr;q=0.9", English),
            ("nl,it;q=0.9,es-MX;q=0.3,en;q=0.2", Spanish),
            ("pt-BR", Portuguese),
            ("ZH-Hant-TW, ja;q=0.5", Chinese),
            ("ja;q=1.0", Japanese),
            ("nl, sv", English),
            ("de;q=0, fr;q=0.1", French),
            ("de;q=0", English),
            ("*", English),
            ("*;q=0.9, ja;q=0.5", English),
            ("*;q=0.1, ja;q=0.5", Japanese),
            ("en;q=0, *;q=0.5", German),
            ("den, deu", English),
            ("de;q=nonsense, fr", French),
        ] {
            assert_eq!(PageLanguage::preferred(accepted.as_bytes()), want, "{accepted}");
        }
        assert_eq!(PageLanguage::preferred(b"de\xff"), English);
        for (number, language) in PageLanguage::ALL.into_iter().enumerate() {
            assert_eq!(language as usize, number);
            assert_eq!(PageLanguage::preferred(language.tag().as_bytes()), language);
        }
    }
}
