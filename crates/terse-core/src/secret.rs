//! Text that must not reach logs or terminals.

use std::fmt;

/// A password or key whose `Debug` output is `[hidden]`.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps the text unchanged.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new("correct horse battery");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "[hidden] Some([hidden])");
    }
}
