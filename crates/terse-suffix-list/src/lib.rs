//! The public suffix list: `co.uk`, `github.io` and thousands of others.
//!
//! The crate `psl` has the list as generic code, a hundred thousand lines of it, which the crate that
//! calls it compiles. It is a crate of its own, because the optimiser takes longer for this list than
//! for all of `terse-safety`: release builds optimise it for size, test builds not at all. A look-up
//! is a few comparisons of bytes either way.

/// The public suffix of a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PublicSuffix {
    /// How many octets at the end of the host it has.
    pub len: usize,
    /// Whether a company that hands out names lists it (`github.io`), not a registry (`co.uk`).
    pub is_private: bool,
}

/// The public suffix of a host in lower case. A top-level domain that the list does not have is a
/// suffix, too. `None` for an empty host.
#[inline(never)]
pub fn public_suffix(host: &str) -> Option<PublicSuffix> {
    let suffix = psl::suffix(host.as_bytes())?;
    let is_private = suffix.typ() == Some(psl::Type::Private);
    Some(PublicSuffix { len: suffix.as_bytes().len(), is_private })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_and_platforms_are_told_apart() {
        for (host, len, is_private) in [
            ("example.com", 3, false),
            ("a.example.co.uk", 5, false),
            ("someone.github.io", 9, true),
            ("github.io", 9, true),
            ("example.not-a-domain", 12, false),
        ] {
            assert_eq!(public_suffix(host), Some(PublicSuffix { len, is_private }), "{host}");
        }
        assert_eq!(public_suffix(""), None);
    }
}
