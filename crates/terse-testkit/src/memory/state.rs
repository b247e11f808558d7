//! The content of the store in memory, and the rules of a write.

use std::collections::{BTreeMap, HashMap};

use terse_core::{
    Clock, CodeLease, Domain, EventId, FoldedAlias, IdempotencyKey, Insert, InsertCondition,
    Inserted, Link, LinkChange, LinkKey, LinkVersion, MAX_CODE_LENGTH, MIN_CODE_LENGTH,
    ModerationStatus, Numbering, OutboxEntry, OutboxEvent, OwnerId, PurgeBefore, Revision,
    StoreError, Timestamp,
};

#[derive(Debug, Default)]
pub(super) struct State {
    /// By serial number, which is never reused: a request must not be answered with a later link of
    /// the same name.
    pub(super) links: BTreeMap<u64, Link>,
    pub(super) serials: HashMap<LinkKey, u64>,
    pub(super) last: u64,
    /// When each was marked as expired.
    pub(super) marked: HashMap<u64, Timestamp>,
    /// The latest revision is last.
    pub(super) history: HashMap<u64, Vec<LinkVersion>>,
    pub(super) requests: HashMap<[u8; 32], Answered>,
    pub(super) leased: HashMap<u8, u64>,
    /// Aliases of purged links: their former owner, and the end of their quarantine.
    pub(super) quarantined: HashMap<LinkKey, (OwnerId, Timestamp)>,
    pub(super) aliases: HashMap<LinkKey, FoldedAlias>,
    /// The first change has the number `pruned + 1`.
    pub(super) changes: Vec<LinkChange>,
    pub(super) pruned: u64,
    pub(super) outbox: Vec<OutboxEntry>,
    /// Entries that only a later version of terse can read.
    pub(super) later: Vec<terse_core::LaterEntry>,
    /// How many entries the outbox ever had.
    pub(super) posted: u64,
    /// How many times the incarnation was raised.
    pub(super) raised: u64,
}

#[derive(Debug)]
pub(super) struct Answered {
    pub(super) fingerprint: [u8; 32],
    pub(super) serial: u64,
    pub(super) at: Timestamp,
    pub(super) created: bool,
}

impl State {
    /// The answer to a request that was answered before.
    pub(super) fn answered(&self, request: &IdempotencyKey) -> Option<Inserted> {
        let answered = self.requests.get(&request.id)?;
        if answered.fingerprint != request.fingerprint {
            return Some(Inserted::RequestMismatch);
        }
        let link = self.links.get(&answered.serial).cloned().map(Box::new);
        Some(Inserted::Replayed { link, created: answered.created })
    }

    /// The answer to an insert, before anything is written.
    pub(super) fn decide(
        &self,
        insert: &Insert,
        numbering: &Numbering,
    ) -> Result<Inserted, StoreError> {
        let Insert { link, absent, reuse, request, .. } = insert;
        if let Some(answer) = request.as_ref().and_then(|request| self.answered(request)) {
            return Ok(answer);
        }
        let existing =
            reuse.as_ref().and_then(|reuse| self.links.values().find(|have| reuse.matches(have)));
        if let Some(existing) = existing {
            return Ok(Inserted::Existing(Box::new(existing.clone())));
        }
        let exists = |what| self.exists(&link.key.domain, what, numbering);
        if self.serials.contains_key(&link.key) || absent.iter().any(exists) {
            return Err(StoreError::CodeTaken);
        }
        Ok(Inserted::Created)
    }

    pub(super) fn changed(&mut self, key: &LinkKey, revision: Revision) {
        let at = Clock::default().now();
        self.changes.push(LinkChange { key: key.clone(), revision, at });
    }

    pub(super) fn post(&mut self, event: OutboxEvent, link: &Link) {
        self.posted += 1;
        let id = EventId::random().expect("the system has random numbers");
        let (position, link) = (self.posted, link.clone());
        self.outbox.push(OutboxEntry { position, id, event, link });
    }

    pub(super) fn last_change(&self) -> u64 {
        self.pruned + self.changes.len() as u64
    }

    fn exists(&self, domain: &Domain, what: &InsertCondition, numbering: &Numbering) -> bool {
        match what {
            InsertCondition::Alias { folded, except } => self.aliases.iter().any(|(key, alias)| {
                key.domain == *domain && alias.folded == *folded && Some(alias.owner) != *except
            }),
            InsertCondition::QuarantinedCode(code) => {
                let key = LinkKey { domain: domain.clone(), code: code.clone() };
                self.quarantined.contains_key(&key)
            }
            InsertCondition::QuarantinedAlias { folded, except } => {
                self.quarantined.iter().any(|(key, (owner, _))| {
                    key.domain == *domain && key.code.folded() == *folded && Some(*owner) != *except
                })
            }
            InsertCondition::Issued(code) => numbering
                .number(code.as_str().as_bytes())
                .is_some_and(|(length, n)| n < self.leased.get(&length).copied().unwrap_or(0)),
        }
    }

    /// Raises the incarnation and skips numbers of every length.
    pub(super) fn raise_incarnation(&mut self, numbering: &Numbering) {
        self.raised += 1;
        for length in MIN_CODE_LENGTH..=MAX_CODE_LENGTH {
            let capacity = numbering.capacity(length);
            let next = self.leased.entry(length).or_default();
            let distance = CodeLease::restore_distance(capacity);
            *next = next.saturating_add(distance).min(capacity);
        }
    }

    pub(super) fn find(&self, key: &LinkKey) -> Option<(u64, &Link)> {
        let serial = *self.serials.get(key)?;
        Some((serial, self.links.get(&serial)?))
    }

    /// Links that a purge deletes.
    pub(super) fn purgeable(&self, before: PurgeBefore) -> impl Iterator<Item = (u64, &Link)> {
        let over = |at: Option<Timestamp>, by: Timestamp| at.is_some_and(|at| at <= by);
        self.links.iter().map(|(serial, link)| (*serial, link)).filter(move |(serial, link)| {
            let by = match link.owner {
                OwnerId::ANONYMOUS => before.ended,
                _ => before.expired_with_owner,
            };
            let is_marked = over(self.marked.get(serial).copied(), by) && over(link.expires_at, by);
            link.moderation != ModerationStatus::Blocked
                && (is_marked || over(link.deleted_at, before.ended))
        })
    }

    pub(super) fn remove(&mut self, serial: u64) -> Option<LinkKey> {
        let link = self.links.remove(&serial)?;
        self.serials.remove(&link.key);
        self.marked.remove(&serial);
        self.history.remove(&serial);
        self.aliases.remove(&link.key);
        self.changed(&link.key, link.revision);
        Some(link.key)
    }
}
