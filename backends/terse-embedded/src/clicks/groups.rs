//! The sums of a batch by the rows of their subjects.

use std::ops::Deref;

use foldhash::{HashMap, HashMapExt as _};
use terse_core::clicks::{Batch, ClickSubject, Delta, LinkId, SumSubject};
use terse_core::{OwnerId, Timestamp};

use crate::clicks::known_links::KnownLink;
use crate::clicks::visit_limit::{StoredLink, within_limit};
use crate::clicks::writes::ClickWrites;
use crate::failure::Failure;

/// Where the group of a target is.
#[derive(Clone, Copy)]
enum Place {
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

/// The order of links in the indexes.
fn by_name(LinkId { key, created_at }: &LinkId) -> (&str, &str, i64) {
    (key.domain.as_str(), key.code.as_str(), created_at.as_ms())
}

impl ClickWrites {
    /// The sums of a batch by the row of their subject, without what was erased.
    pub(crate) fn groups<'b>(&mut self, batch: &'b Batch) -> Result<Vec<Group<'b>>, Failure> {
        // The group of each target: a link and its owner.
        let mut of_targets = vec![Place::Unknown; batch.clicks.targets.len()];
        let mut of_others: HashMap<SumSubject, Place> = HashMap::new();
        let mut rows: HashMap<i64, u32> = HashMap::with_capacity(batch.sums.len());
        let mut groups: Vec<Group<'b>> = Vec::with_capacity(batch.sums.len());
        for delta in &batch.sums {
            let place = match delta.subject {
                SumSubject::Link(target) => &mut of_targets[target as usize],
                other => of_others.entry(other).or_insert(Place::Unknown),
            };
            match *place {
                Place::Erased => {}
                Place::At(at) => {
                    let group = &mut groups[at as usize];
                    // If clicks were left out, the group has the sums of all hours already.
                    if group.after.is_none() {
                        group.more.push(DeltaRef::Of(delta));
                    }
                }
                Place::Unknown => {
                    let Some(group) = self.group_of(batch, delta)? else {
                        *place = Place::Erased;
                        continue;
                    };
                    // A link that changed its owner has two targets and one row.
                    let at = *rows.entry(group.subject).or_insert(groups.len() as u32);
                    *place = Place::At(at);
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

    /// Gives the ids of new links in the order of their names. So their rows, which are written in
    /// the order of the ids, touch each page of the indexes by name once.
    pub(crate) fn number_by_name(&mut self, batch: &Batch, groups: &mut [Group<'_>]) {
        let mut new: Vec<(&LinkId, &mut Group<'_>)> = groups
            .iter_mut()
            .filter(|group| group.new)
            .filter_map(|group| match group.who {
                SumSubject::Link(target) => Some((batch.link(target)?, group)),
                _ => None,
            })
            .collect();
        let mut ids: Vec<i64> = new.iter().map(|(_, group)| group.subject).collect();
        ids.sort_unstable();
        new.sort_unstable_by(|(one, _), (other, _)| by_name(one).cmp(&by_name(other)));
        for (id, (link, group)) in ids.into_iter().zip(new) {
            group.subject = id;
            let hash = self.known.hash(link);
            if let Some(known) = self.known.get(hash) {
                self.known.insert(hash, KnownLink { id, ..known });
            }
        }
    }

    /// The group that begins with this delta; `None` if its subject was erased.
    fn group_of<'b>(
        &mut self,
        batch: &'b Batch,
        delta: &'b Delta,
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
        let known = match self.known.get(hash) {
            Some(known) => Some(known),
            None => match self.queries.link(link)? {
                Some((id, owner)) => {
                    let is_erased = self.tombstone(link)?.is_some();
                    Some(KnownLink { id, owner: self.known.owner_mark(owner), is_erased })
                }
                None => None,
            },
        };
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
                let mut statement =
                    self.conn.prepare_cached("UPDATE subjects SET owner = ?2 WHERE id = ?1")?;
                statement.execute([id, owner])?;
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

    fn next_id(&mut self) -> i64 {
        self.next_subject += 1;
        self.next_subject - 1
    }
}
