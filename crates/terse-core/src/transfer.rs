//! The data that `terse migrate` copies from one store to another: links with their history, and
//! table rows, in a form that is the same for every store.

use xxhash_rust::xxh3::xxh3_64;

use crate::clicks::{ClickSubject, ClickSum, Sketch, Unit};
use crate::link::{Link, OwnerId};
use crate::link_codec;
use crate::store::LinkVersion;
use crate::time::Timestamp;

/// A link with what a store keeps beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct MovedLink {
    /// Its place in the order in which the store returns its links.
    pub position: i64,
    /// The link.
    pub link: Link,
    /// When the reaper marked it as expired.
    pub marked: Option<Timestamp>,
    /// Its earlier versions, the latest first.
    pub history: Vec<LinkVersion>,
}

impl MovedLink {
    /// Adds the link to a digest.
    pub fn digest(&self, digest: &mut Digest) {
        let mut bytes = link_codec::encode(&self.link);
        bytes.extend(self.marked.map_or(i64::MIN, Timestamp::as_ms).to_le_bytes());
        for LinkVersion { link, until } in &self.history {
            bytes.extend(link_codec::encode(link));
            bytes.extend(until.as_ms().to_le_bytes());
        }
        digest.add(&bytes);
    }
}

/// The clicks of a subject, summed up.
#[derive(Clone, Debug)]
pub struct MovedSums {
    /// The subject.
    pub subject: ClickSubject,
    /// The owner, if the subject is a link.
    pub owner: OwnerId,
    /// The sum of all clicks.
    pub total: (ClickSum, Sketch),
    /// The sums of each hour or day with clicks.
    pub buckets: Vec<(Unit, Timestamp, ClickSum, Sketch)>,
}

/// A value in a row.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A number, or a time in milliseconds since 1970.
    Int(i64),
    /// A text.
    Text(String),
    /// Octets.
    Bytes(Vec<u8>),
}

/// What a column holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ColumnKind {
    /// Numbers.
    Int,
    /// Times, as [`Cell::Int`].
    Time,
    /// Texts.
    Text,
    /// Octets.
    Bytes,
}

/// Which of the files of an embedded store has a table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StoreFile {
    /// Links.
    Links,
    /// Accounts and what belongs to them.
    Registry,
    /// Clicks.
    Clicks,
}

/// A table of rows that move as they are.
#[derive(Debug)]
pub struct Table {
    /// Where it is.
    pub part: StoreFile,
    /// Its name.
    pub name: &'static str,
    /// Its columns.
    pub columns: &'static [(&'static str, ColumnKind)],
    /// Whether its first column is a number that the store assigns once and never again.
    pub numbered: bool,
}

use ColumnKind::{Bytes, Int, Text, Time};

const fn table(
    part: StoreFile,
    name: &'static str,
    numbered: bool,
    columns: &'static [(&'static str, ColumnKind)],
) -> Table {
    Table { part, name, columns, numbered }
}

/// All tables that move row by row. Not among them: leases of jobs, which end by themselves, and
/// the ids of requests (`Idempotency-Key`) of the last day.
pub const TABLES: &[Table] = &[
    table(
        StoreFile::Links,
        "quarantine",
        false,
        &[("domain", Text), ("code", Text), ("owner", Int), ("until", Time)],
    ),
    table(
        StoreFile::Links,
        "outbox",
        false,
        &[("kind", Text), ("at", Time), ("event", Bytes), ("link", Bytes)],
    ),
    table(StoreFile::Registry, "facts", false, &[("name", Text), ("value", Bytes)]),
    table(
        StoreFile::Registry,
        "accounts",
        true,
        &[
            ("id", Int),
            ("name", Text),
            ("role", Text),
            ("created_at", Time),
            ("password", Text),
            ("issuer", Text),
            ("subject", Text),
            ("suspended_at", Time),
            ("suspended_why", Text),
            ("revision", Int),
            ("plan", Text),
            ("reset_token", Bytes),
            ("reset_expires_at", Time),
            ("totp_seed", Bytes),
            ("totp_step", Int),
            ("recovery_codes", Bytes),
            ("preferences", Text),
        ],
    ),
    table(
        StoreFile::Registry,
        "api_keys",
        true,
        &[
            ("id", Int),
            ("token", Bytes),
            ("owner", Int),
            ("name", Text),
            ("prefix", Text),
            ("scope", Text),
            ("created_at", Time),
            ("expires_at", Time),
            ("plan", Text),
            ("last_used_at", Time),
            ("requests", Int),
        ],
    ),
    table(
        StoreFile::Registry,
        "sessions",
        false,
        &[
            ("token", Bytes),
            ("owner", Int),
            ("created_at", Time),
            ("expires_at", Time),
            ("browser", Text),
        ],
    ),
    table(
        StoreFile::Registry,
        "invitations",
        false,
        &[("token", Bytes), ("role", Text), ("author", Int), ("expires_at", Time)],
    ),
    table(
        StoreFile::Registry,
        "domains",
        false,
        &[("domain", Text), ("root", Text), ("not_found", Text), ("expired", Text)],
    ),
    table(
        StoreFile::Registry,
        "blocked_hosts",
        false,
        &[("host", Text), ("at", Time), ("why", Text)],
    ),
    table(
        StoreFile::Registry,
        "reports",
        true,
        &[
            ("id", Int),
            ("domain", Text),
            ("code", Text),
            ("link_created_at", Time),
            ("reporter", Bytes),
            ("account", Int),
            ("reason", Text),
            ("text", Text),
            ("at", Time),
            ("state", Text),
        ],
    ),
    table(
        StoreFile::Registry,
        "audit",
        true,
        &[
            ("number", Int),
            ("at", Time),
            ("actor", Int),
            ("act", Text),
            ("subject", Text),
            ("about", Int),
            ("why", Text),
            ("before", Text),
            ("after", Text),
        ],
    ),
    table(
        StoreFile::Registry,
        "webhooks",
        true,
        &[
            ("id", Int),
            ("owner", Int),
            ("url", Text),
            ("events", Text),
            ("created_at", Time),
            ("generation", Int),
            ("rotated_at", Time),
            ("disabled_at", Time),
            ("disabled_why", Text),
            ("waiting", Int),
            ("dropped", Int),
            ("delivered_at", Time),
            ("loan", Int),
            ("lent_until", Time),
            ("active_since", Time),
        ],
    ),
    table(
        StoreFile::Registry,
        "deliveries",
        true,
        &[
            ("id", Int),
            ("webhook", Int),
            ("event", Text),
            ("kind", Text),
            ("body", Text),
            ("created_at", Time),
            ("state", Text),
            ("attempts", Int),
            ("next_at", Time),
            ("tried_at", Time),
            ("status", Int),
            ("problem", Text),
        ],
    ),
    table(StoreFile::Registry, "job_progress", false, &[("job", Text), ("progress", Bytes)]),
    table(StoreFile::Registry, "salts", false, &[("day", Int), ("salt", Bytes)]),
    table(
        StoreFile::Registry,
        "acme_records",
        false,
        &[("kind", Text), ("name", Text), ("revision", Int), ("value", Text)],
    ),
    table(
        StoreFile::Clicks,
        "journals",
        false,
        &[("id", Bytes), ("epoch", Int), ("generation", Int)],
    ),
    table(
        StoreFile::Clicks,
        "positions",
        false,
        &[("journal", Bytes), ("segment", Int), ("counted", Int)],
    ),
    table(
        StoreFile::Clicks,
        "erased_links",
        false,
        &[("domain", Text), ("code", Text), ("created_by", Int), ("erased_at", Int)],
    ),
    table(StoreFile::Clicks, "erased_owners", false, &[("owner", Int), ("erased_at", Int)]),
];

/// The number and the checksum of rows, in any order.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Digest {
    /// How many.
    pub count: u64,
    sum: u64,
}

impl Digest {
    /// Adds one item, given as bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(xxh3_64(bytes));
    }

    /// Adds a row.
    pub fn add_row(&mut self, row: &[Cell]) {
        let mut bytes = Vec::new();
        for cell in row {
            let (kind, content): (u8, &[u8]) = match cell {
                Cell::Null => (0, &[]),
                Cell::Int(number) => (1, &number.to_le_bytes()),
                Cell::Text(text) => (2, text.as_bytes()),
                Cell::Bytes(octets) => (3, octets),
            };
            bytes.push(kind);
            bytes.extend((content.len() as u64).to_le_bytes());
            bytes.extend(content);
        }
        self.add(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_every_cell_and_not_on_the_order() {
        let digest = |rows: &[&[Cell]]| {
            let mut digest = Digest::default();
            rows.iter().for_each(|row| digest.add_row(row));
            digest
        };
        let (a, b) = ([Cell::Int(1), Cell::Null], [Cell::Int(2), Cell::Text("x".into())]);
        assert_eq!(digest(&[&a, &b]), digest(&[&b, &a]));
        assert_ne!(digest(&[&a]), digest(&[&b]));
        assert_ne!(digest(&[&a]), digest(&[&a, &a]));
        assert_ne!(
            digest(&[&[Cell::Text("ab".into()), Cell::Text("c".into())]]),
            digest(&[&[Cell::Text("a".into()), Cell::Text("bc".into())]])
        );
        assert_ne!(digest(&[&[Cell::Bytes(vec![120])]]), digest(&[&[Cell::Text("x".into())]]));
    }
}
