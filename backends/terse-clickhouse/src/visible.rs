//! Which rows a report reads.

use std::collections::BTreeMap;

use terse_core::clicks::{ErasedSubject, LedgerSnapshot};

use crate::row_binary::quoted;

/// A table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Table {
    Clicks,
    Sums,
}

impl Table {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Clicks => "clicks",
            Self::Sums => "sums",
        }
    }

    /// Selects the rows of erased links: their keys, and up to which creation time.
    pub(crate) fn of_links(self, keys: &[String], created_by: i64) -> String {
        let kind = if self == Self::Sums { "kind = 0 AND " } else { "" };
        let keys = keys.join(", ");
        format!("{kind}(domain, code) IN ({keys}) AND link_created_at <= {created_by}")
    }

    /// Selects the rows of an erased owner.
    pub(crate) fn of_owner(self, owner: u64) -> String {
        match self {
            Self::Sums => {
                format!("(kind = 0 AND owner = {owner} OR kind = 1 AND sum_of = {owner})")
            }
            Self::Clicks => format!("owner = {owner}"),
        }
    }
}

/// A key for `(domain, code) IN (…)`.
pub(crate) fn key_literal(key: &terse_core::LinkKey) -> String {
    format!("({}, {})", quoted(key.domain.as_str()), quoted(key.code.as_str()))
}

/// The condition that a row counts at the time of a snapshot.
pub(crate) fn condition(table: Table, snapshot: &LedgerSnapshot) -> String {
    let mut condition = format!("sequence <= {}", snapshot.last);
    if !snapshot.unfinished.is_empty() {
        condition.push_str(&format!(" AND sequence NOT IN ({})", numbers(&snapshot.unfinished)));
    }
    // Erasures of one call have one number.
    let mut links: BTreeMap<(u64, i64), Vec<String>> = BTreeMap::new();
    for erasure in &snapshot.erasures {
        match &erasure.erased {
            ErasedSubject::Link(key, created_by) => {
                let call = (erasure.sequence, created_by.as_ms());
                links.entry(call).or_default().push(key_literal(key));
            }
            ErasedSubject::Owner(owner) => condition.push_str(&format!(
                " AND NOT (sequence <= {} AND {})",
                erasure.sequence,
                table.of_owner(owner.0)
            )),
        }
    }
    for ((sequence, created_by), keys) in links {
        let erased = table.of_links(&keys, created_by);
        condition.push_str(&format!(" AND NOT (sequence <= {sequence} AND {erased})"));
    }
    condition
}

/// Numbers with commas.
pub(crate) fn numbers(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
