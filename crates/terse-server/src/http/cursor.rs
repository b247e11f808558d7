//! Cursors as clients see them: opaque, and valid only for the list and the caller they were made
//! for.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use terse_core::{Caller, Cursor};

use super::problem::Problem;

/// The number of bytes of the HMAC in a cursor: too many to guess.
const TAG: usize = 16;

/// Seals cursors of one list.
pub(crate) struct CursorSeal(Hmac<Sha256>);

impl CursorSeal {
    pub(crate) fn new(key: &[u8; 32], caller: Caller) -> Self {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.update(b"cursor");
        mac.update(&[u8::from(caller.sees_all())]);
        mac.update(&caller.owner().0.to_be_bytes());
        Self(mac)
    }

    /// Binds a filter of the list. Each is preceded by its length, so that no two lists have the
    /// same signed input.
    pub(crate) fn bind(&mut self, filter: Option<&str>) {
        match filter {
            None => self.0.update(&u64::MAX.to_be_bytes()),
            Some(text) => {
                self.0.update(&(text.len() as u64).to_be_bytes());
                self.0.update(text.as_bytes());
            }
        }
    }

    pub(crate) fn close(&self, cursor: &Cursor) -> String {
        let mut sealed = cursor.0.clone();
        sealed.extend_from_slice(&self.tag(&cursor.0));
        URL_SAFE_NO_PAD.encode(sealed)
    }

    /// `None` if this server did not seal it, or sealed it for another list.
    pub(crate) fn open(&self, text: &str) -> Option<Cursor> {
        if text.len() > 1024 {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (cursor, tag) = sealed.split_at_checked(sealed.len().checked_sub(TAG)?)?;
        bool::from(self.tag(cursor).ct_eq(tag)).then(|| Cursor(cursor.to_vec()))
    }

    /// The number in a cursor.
    pub(crate) fn open_number(&self, text: &str) -> Result<u64, Problem> {
        let Cursor(bytes) = self.open(text).ok_or_else(bad_cursor)?;
        bytes.try_into().map(u64::from_be_bytes).map_err(|_| bad_cursor())
    }

    fn tag(&self, cursor: &[u8]) -> [u8; TAG] {
        let whole = self.0.clone().chain_update(cursor).finalize().into_bytes();
        let mut tag = [0; TAG];
        tag.copy_from_slice(&whole[..TAG]);
        tag
    }
}

/// The problem of a cursor that is invalid for this list.
pub(crate) fn bad_cursor() -> Problem {
    Problem::invalid(
        "cursor",
        "not a cursor that we gave out for this list; start again without one",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(caller: Caller, filters: &[Option<&str>]) -> CursorSeal {
        let mut seal = CursorSeal::new(&[7; 32], caller);
        filters.iter().for_each(|filter| seal.bind(*filter));
        seal
    }

    #[test]
    fn a_cursor_opens_only_for_its_own_list() {
        let ours = seal(Caller::OPERATOR, &[Some("a"), None]);
        let cursor = Cursor(vec![1, 2, 3]);
        let text = ours.close(&cursor);
        assert_eq!(ours.open(&text), Some(cursor));
        let owner = Caller::Owner(terse_core::OwnerId::ADMIN);
        for other in [
            seal(Caller::OPERATOR, &[None, Some("a")]),
            seal(Caller::OPERATOR, &[Some("a"), Some("")]),
            seal(owner, &[Some("a"), None]),
        ] {
            assert_eq!(other.open(&text), None);
        }
        for forged in [
            "",
            "AAAA",
            "~",
            &text[1..],
            &text[..text.len() - 1],
            &format!("AA{text}"),
            &"A".repeat(2000),
        ] {
            assert_eq!(ours.open(forged), None, "{forged}");
        }
    }
}
