//! Deletes the clicks of a link or an owner, and writes the tombstones that stay.

use rusqlite::params;
use terse_core::clicks::{ClickSubject, LinkId, Period};
use terse_core::{LinkKey, OwnerId, Timestamp};

use crate::clicks::bucket::{day_id, hour_id};
use crate::clicks::report::TimeRange;
use crate::clicks::writes::ClickWrites;
use crate::failure::Failure;

pub(crate) const LINK_ERASED: &str = "SELECT max(erased_at) FROM erased_links \
     WHERE domain = ?1 AND code = ?2 AND created_by >= ?3";
pub(crate) const OWNER_ERASED: &str = "SELECT 1 FROM erased_owners WHERE owner = ?1";
const ERASE_LINK: &str = "INSERT INTO erased_links VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT DO UPDATE SET erased_at = max(erased_at, excluded.erased_at)";
const ERASE_OWNER: &str = "INSERT INTO erased_owners VALUES (?1, ?2) \
     ON CONFLICT DO UPDATE SET erased_at = max(erased_at, excluded.erased_at)";
pub(crate) const OLD_LINKS: &str = "SELECT domain, code, created_by FROM erased_links \
     WHERE erased_at < ?1 ORDER BY erased_at LIMIT ?2";
pub(crate) const OLD_OWNERS: &str =
    "SELECT owner FROM erased_owners WHERE erased_at < ?1 ORDER BY erased_at LIMIT ?2";

impl ClickWrites {
    pub(crate) fn erase_links(
        &mut self,
        links: &[LinkKey],
        created_by: Timestamp,
        erased_at: Timestamp,
    ) -> Result<(), Failure> {
        for key in links {
            let (domain, code) = (key.domain.as_str(), key.code.as_str());
            for (_, id, link, _) in self.find_links_or_rebuild(&[key])? {
                if link.created_at <= created_by {
                    self.delete(id)?;
                }
            }
            self.conn.prepare_cached(ERASE_LINK)?.execute(params![
                domain,
                code,
                created_by.as_ms(),
                erased_at.as_ms()
            ])?;
        }
        self.clear_link_cache();
        Ok(())
    }

    /// Erases up to `limit` links of an owner, and the owner after the last one. Returns whether it
    /// is done. The first step writes the tombstone.
    pub(crate) fn erase_owner(
        &mut self,
        owner: OwnerId,
        erased_at: Timestamp,
        limit: usize,
    ) -> Result<bool, Failure> {
        self.conn
            .prepare_cached(ERASE_OWNER)?
            .execute([owner.0.cast_signed(), erased_at.as_ms()])?;
        let mut left = match self.erasing.take() {
            Some((of, left)) if of == owner => left,
            _ => match self.links_of(owner, usize::MAX) {
                Err(Failure::Refused(error)) => {
                    self.rebuild_keys(&error)?;
                    self.links_of(owner, usize::MAX)?
                }
                ids => ids?,
            },
        };
        for id in left.split_off(left.len().saturating_sub(limit)) {
            // Two owners may share a group of keys.
            if self.link_by_id(id)?.is_some_and(|(_, of)| of == owner) {
                self.delete(id)?;
            }
        }
        let done = left.is_empty();
        self.erasing = (!done).then_some((owner, left));
        if done && let Some(id) = self.id(&ClickSubject::Owner(owner))? {
            self.delete(id)?;
        }
        self.clear_link_cache();
        Ok(done)
    }

    /// When a link was erased, if it was.
    pub(crate) fn link_erased_at(&self, link: &LinkId) -> Result<Option<Timestamp>, Failure> {
        let LinkId { key, created_at } = link;
        let erased_at: Option<i64> = self.conn.prepare_cached(LINK_ERASED)?.query_row(
            params![key.domain.as_str(), key.code.as_str(), created_at.as_ms()],
            |row| row.get(0),
        )?;
        Ok(erased_at.map(Timestamp::from_ms))
    }

    /// Deletes up to `limit` tombstones from before a time. Returns how many, and whether there are
    /// more.
    pub(crate) fn drop_tombstones(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<(usize, bool), Failure> {
        let before = before.as_ms();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let links = self
            .conn
            .prepare_cached(&format!(
                "DELETE FROM erased_links WHERE (domain, code, created_by) IN ({OLD_LINKS})"
            ))?
            .execute([before, limit])?;
        let owners = self
            .conn
            .prepare_cached(&format!("DELETE FROM erased_owners WHERE owner IN ({OLD_OWNERS})"))?
            .execute([before, limit - links as i64])?;
        let more = self.conn.prepare_cached(OLD_LINKS)?.exists([before, 1])?
            || self.conn.prepare_cached(OLD_OWNERS)?.exists([before, 1])?;
        Ok((links + owners, more))
    }

    /// Deletes everything about a subject.
    fn delete(&self, subject: i64) -> Result<(), Failure> {
        let ever = TimeRange::of(Period::default());
        let mut clicks =
            self.conn.prepare_cached("DELETE FROM clicks WHERE hour = ?1 AND subject = ?2")?;
        for hour in self.hours_with_clicks(subject, ever)? {
            clicks.execute([hour, subject])?;
        }
        let mut hours = self.conn.prepare_cached("DELETE FROM hours WHERE id >= ?1 AND id < ?2")?;
        let (first, last) = ever.days();
        for day in self.days_with_rows(first, last)? {
            hours.execute([hour_id(day, subject, 0), hour_id(day, subject, 24)])?;
        }
        let mut days = self.conn.prepare_cached("DELETE FROM days WHERE id >= ?1 AND id <= ?2")?;
        days.execute([day_id(subject, first), day_id(subject, last)])?;
        self.remove_keys(subject)?;
        self.conn.prepare_cached("DELETE FROM subjects WHERE id = ?1")?.execute([subject])?;
        self.note_erasure()?;
        // Single clicks are in blocks with those of others, which are rewritten soon.
        self.conn
            .prepare_cached("INSERT OR IGNORE INTO erased_subjects (subject) VALUES (?1)")?
            .execute([subject])?;
        Ok(())
    }
}
