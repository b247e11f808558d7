//! Aliases that the operator does not want.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::code::Code;
use crate::validation::{ValidationError, ValidationErrorKind};

/// Aliases that the operator reserves from every creator. Upper and lower case count as equal.
#[derive(Clone, Default)]
pub struct UnwantedAliases {
    folded: Arc<HashSet<Box<str>>>,
    skipped: usize,
}

impl UnwantedAliases {
    /// The largest file, in bytes.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Reads one alias per line. Empty lines and the text after a `#` do not count. A line that
    /// cannot be an alias, such as two words, is skipped: it cannot be chosen anyway.
    pub fn parse(text: &str) -> Self {
        let (mut folded, mut skipped) = (HashSet::new(), 0);
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.split_once('#').map_or(line, |(before, _)| before).trim();
            match Code::parse(line) {
                _ if line.is_empty() => {}
                Some(code) => {
                    folded.insert(code.folded().into_boxed_str());
                }
                None => skipped += 1,
            }
        }
        Self { folded: Arc::new(folded), skipped }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.folded.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.folded.is_empty()
    }

    /// How many lines cannot be an alias.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Refuses an alias that is on the list.
    pub fn check(&self, alias: &Code, field: &'static str) -> Result<(), ValidationError> {
        // Most servers have no list: nothing is folded for them.
        if self.is_empty() || !self.folded.contains(alias.folded().as_str()) {
            return Ok(());
        }
        Err(ValidationError::new(
            ValidationErrorKind::ReservedAlias,
            field,
            "the operator of this server does not allow this alias; choose another one",
        ))
    }
}

impl fmt::Debug for UnwantedAliases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnwantedAliases({})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_compared_without_regard_to_case() {
        let text = "\u{feff}Brand\r\n\n  # a comment\nsale-2027   # why\nx\ntwo words\nbücher\n";
        let unwanted = UnwantedAliases::parse(text);
        assert_eq!((unwanted.len(), unwanted.skipped()), (3, 2));
        let refused = |alias: &str| {
            unwanted.check(&Code::parse(alias).unwrap(), "custom_alias").err().map(|e| e.kind)
        };
        for alias in ["brand", "BRAND", "bRaNd", "Sale-2027", "x", "X"] {
            assert_eq!(refused(alias), Some(ValidationErrorKind::ReservedAlias), "{alias}");
        }
        for alias in ["brands", "my-brand", "two", "words", "sale"] {
            assert_eq!(refused(alias), None, "{alias}");
        }
        assert!(UnwantedAliases::parse("# nothing\n\n").is_empty());
    }
}
