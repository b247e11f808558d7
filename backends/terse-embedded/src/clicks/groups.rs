//! The sums of a batch by the rows of their subjects.

use std::ops::Deref;

use foldhash::{HashMap, HashMapExt as _};
use terse_core::clicks::{Batch, ClickSubject, ClickTarget, Delta, LinkId, SumSubject};
use terse_core::{LinkKey, OwnerId, Timestamp};

use crate::clicks::key_merge::NewKeys;
use crate::clicks::known_links::KnownLink;
use crate::clicks::visit_limit::{StoredLink, within_limit};
use crate::clicks::writes::ClickWrites;
use crate::failure::Failure;

/// Where the group of a target is.
#[derive(Clone, Copy)]
enum GroupSlot {
    Unknown,
    Erased,
    At(u32),
}

/// A delta of the batch, or one without the clicks from before an erasure.
pub(crate) enum DeltaRef<'b> {
    Of(&'b Delta),
    Own(Box<Delta>),
}

impl Deref for DeltaRef<'_> {
    type Target = Delta;

    fn deref(&self) -> &Delta {
        match self {
            Self::Of(delta) => delta,
            Self::Own(delta) => delta,
        }
    }
}

/// What a batch adds to one subject.
pub(crate) struct Group<'b> {
    pub(crate) who: SumSubject,
    /// For a link, its latest owner.
    pub(crate) owner: OwnerId,
    /// The row of the subject, and whether it is to be inserted.
    pub(crate) subject: i64,
    pub(crate) new: bool,
    /// Only clicks after this time count: the link was erased then.
    pub(crate) after: Option<Timestamp>,
    /// By hours. Nearly always one.
    pub(crate) first: DeltaRef<'b>,
    pub(crate) more: Vec<DeltaRef<'b>>,
}

impl Group<'_> {
    pub(crate) fn deltas(&self) -> impl Iterator<Item = &Delta> {
        std::iter::once(&*self.first).chain(self.more.iter().map(|delta| &**delta))
    }
}

/// Where the clicks that are stored one by one are in the batch, with the rows of their links.
pub(crate) fn raw_rows(batch: &Batch, groups: &[Group<'_>]) -> Vec<(i64, u32)> {
    let mut links = vec![None; batch.clicks.targets.len()];
    for group in groups {
        let clicks: u64 = group.deltas().map(|delta| delta.clicks.all()).sum();
        for delta in group.deltas() {
            if let SumSubject::Link(target) = delta.subject {
                let (subject, after) = (group.subject, group.after);
                links[target as usize] = Some(StoredLink { subject, after, clicks });
            }
        }
    }
    within_limit(&batch.clicks, &links)
}

impl ClickWrites {
    /// The sums of a batch by the row of their subject, without what was erased.
    pub(crate) fn groups<'b>(
        &mut self,
        batch: &'b Batch,
        new: &mut NewKeys,
    ) -> Result<Vec<Group<'b>>, Failure> {
        self.look_up(batch)?;
        // The group of each target: a link and its owner.
        let mut of_targets = vec![GroupSlot::Unknown; batch.clicks.targets.len()];
        let mut of_others: HashMap<SumSubject, GroupSlot> = HashMap::new();
        let mut rows: HashMap<i64, u32> = HashMap::with_capacity(batch.sums.len());
        let mut groups: Vec<Group<'b>> = Vec::with_capacity(batch.sums.len());
        for delta in &batch.sums {
            let slot = match delta.subject {
                SumSubject::Link(target) => &mut of_targets[target as usize],
                other => of_others.entry(other).or_insert(GroupSlot::Unknown),
            };
            match *slot {
                GroupSlot::Erased => {}
                GroupSlot::At(at) => {
                    let group = &mut groups[at as usize];
                    // If clicks were left out, the group has the sums of all hours already.
                    if group.after.is_none() {
                        group.more.push(DeltaRef::Of(delta));
                    }
                }
                GroupSlot::Unknown => {
                    let Some(group) = self.group_of(batch, delta, new)? else {
                        *slot = GroupSlot::Erased;
                        continue;
                    };
                    // A link that changed its owner has two targets and one row.
                    let at = *rows.entry(group.subject).or_insert(groups.len() as u32);
                    *slot = GroupSlot::At(at);
                    match groups.get_mut(at as usize) {
                        Some(same) => {
                            same.owner = group.owner;
                            same.more.push(group.first);
                            same.more.extend(group.more);
                        }
                        None => groups.push(group),
                    }
                }
            }
        }
        Ok(groups)
    }

    /// Looks for the rows of links that the cache does not have, all at once.
    fn look_up(&mut self, batch: &Batch) -> Result<(), Failure> {
        let links = batch.clicks.targets.iter().filter_map(|target| match target {
            ClickTarget::Link(link, _) => Some(link),
            ClickTarget::Orphan(..) => None,
        });
        let mut unknown: Vec<(u64, &LinkId)> = Vec::new();
        for link in links {
            let hash = self.known.hash(link);
            if self.known.get(hash).is_none() {
                unknown.push((hash, link));
            }
        }
        let names: Vec<&LinkKey> = unknown.iter().map(|(_, link)| &link.key).collect();
        for (at, id, link, owner) in self.find_links_or_rebuild(&names)? {
            let (hash, wanted) = unknown[at];
            if link == *wanted {
                let is_erased = self.tombstone(&link)?.is_some();
                let owner = self.known.owner_mark(owner.0.cast_signed());
                self.known.insert(hash, KnownLink { id, owner, is_erased });
            }
        }
        Ok(())
    }

    /// The rows of the links with these names. See [`ClickQueries::find_links`].
    pub(crate) fn find_links_or_rebuild(
        &self,
        names: &[&LinkKey],
    ) -> Result<Vec<(usize, i64, LinkId, OwnerId)>, Failure> {
        match self.find_links(names) {
            Err(Failure::Refused(error)) => {
                self.rebuild_keys(&error)?;
                self.find_links(names)
            }
            found => found,
        }
    }

    /// The group that begins with this delta; `None` if its subject was erased.
    fn group_of<'b>(
        &mut self,
        batch: &'b Batch,
        delta: &'b Delta,
        new: &mut NewKeys,
    ) -> Result<Option<Group<'b>>, Failure> {
        let whole = |(subject, new)| Group {
            who: delta.subject,
            owner: delta.owner,
            subject,
            new,
            after: None,
            first: DeltaRef::Of(delta),
            more: Vec::new(),
        };
        let target = match delta.subject {
            SumSubject::Link(target) => target,
            SumSubject::Owner(owner) => {
                return Ok(self.other_subject(&ClickSubject::Owner(owner))?.map(whole));
            }
            SumSubject::Everything => {
                return Ok(self.other_subject(&ClickSubject::Everything)?.map(whole));
            }
            SumSubject::Orphans => {
                return Ok(self.other_subject(&ClickSubject::Orphans)?.map(whole));
            }
        };
        let Some(link) = batch.link(target) else { return Ok(None) };
        let owner = delta.owner.0.cast_signed();
        let (hash, owner_mark) = (self.known.hash(link), self.known.owner_mark(owner));
        let known = self.known.get(hash);
        // The erasure of an owner deletes the rows, and later clicks of that owner create none.
        let is_same_owner = known.is_some_and(|known| known.owner == owner_mark);
        if !is_same_owner && self.is_owner_erased(delta.owner)? {
            return Ok(None);
        }
        let erased_at = match known {
            Some(KnownLink { is_erased: false, .. }) => None,
            _ => self.tombstone(link)?,
        };
        let mut group = whole(known.map_or((0, true), |known| (known.id, false)));
        // Nearly always, all clicks of a batch are later.
        if let Some(erased_at) = erased_at.filter(|at| batch.first_ms() <= at.as_ms()) {
            let mut left = batch.sums_after(target, erased_at).into_iter();
            let Some(first) = left.next() else { return Ok(None) };
            group.first = DeltaRef::Own(Box::new(first));
            group.more = left.map(|delta| DeltaRef::Own(Box::new(delta))).collect();
            group.after = Some(erased_at);
        }
        match known {
            Some(KnownLink { id, .. }) if !is_same_owner => {
                self.change_owner(id, delta.owner, new)?;
            }
            Some(_) => {}
            None => group.subject = self.next_id(),
        }
        // The row of a new link is written after the groups are known.
        let is_erased = erased_at.is_some();
        self.known.insert(hash, KnownLink { id: group.subject, owner: owner_mark, is_erased });
        group.owner = delta.owner;
        Ok(Some(group))
    }

    fn other_subject(&mut self, subject: &ClickSubject) -> Result<Option<(i64, bool)>, Failure> {
        if let Some(id) = self.queries.id(subject)? {
            return Ok(Some((id, false)));
        }
        if let ClickSubject::Owner(owner) = subject
            && self.is_owner_erased(*owner)?
        {
            return Ok(None);
        }
        Ok(Some((self.next_id(), true)))
    }

    pub(crate) fn next_id(&mut self) -> i64 {
        self.next_subject += 1;
        self.next_subject - 1
    }
}
