//! Numbers of codes, and the incarnation of the store: one item that is counted up atomically.

use std::ops::Range;

use aws_sdk_dynamodb::types::ReturnValue;
use terse_core::{CodeLease, LeaseMarks, MAX_CODE_LENGTH, MIN_CODE_LENGTH, Numbering, StoreError};

use crate::client::Db;
use crate::failure::Failure;
use crate::item::{Attributes as _, Item, Placeholders, corrupt, number};
use crate::keys;
use crate::requests::Condition;
use crate::retry::RetryPolicy;

const INCARNATION: &str = "incarnation";
/// The table that these marks were written in.
const TABLE: &str = "table_id";

fn mark_name(length: u8) -> String {
    format!("mark_{length}")
}

/// How far numbers of a length are leased.
pub(crate) fn mark(marks: Option<&Item>, length: u8) -> Result<u64, StoreError> {
    Ok(marks.map(|marks| marks.number(&mark_name(length))).transpose()?.flatten().unwrap_or(0))
}

/// The item of a new store.
pub(crate) fn first_marks() -> Item {
    let mut item = keys::marks().item();
    item.insert(INCARNATION.into(), number(1));
    item
}

async fn read(db: &Db) -> Result<Item, StoreError> {
    let item = db.get(db.deadline(), &keys::marks(), true).await.map_err(StoreError::from)?;
    item.ok_or_else(|| corrupt("the table has no leases: was it created by terse?"))
}

/// The leases as they are now.
pub(crate) async fn known(db: &Db) -> Result<LeaseMarks, StoreError> {
    let (item, known) = (read(db).await?, LeaseMarks::default());
    for length in MIN_CODE_LENGTH..=MAX_CODE_LENGTH {
        known.raise(length, mark(Some(&item), length)?);
    }
    Ok(known)
}

fn incarnation_of(marks: &Item) -> Result<u64, StoreError> {
    marks.number(INCARNATION)?.ok_or_else(|| corrupt("the store has no incarnation"))
}

pub(crate) async fn incarnation(db: &Db) -> Result<u64, StoreError> {
    incarnation_of(&read(db).await?)
}

/// Leases numbers.
pub(crate) async fn lease(
    db: &Db,
    numbering: &Numbering,
    lease: CodeLease,
) -> Result<Range<u64>, StoreError> {
    let CodeLease { length, count, capacity, at_least, skip } = lease;
    if !(MIN_CODE_LENGTH..=MAX_CODE_LENGTH).contains(&length) {
        return Err(StoreError::Exhausted);
    }
    let capacity = capacity.min(numbering.capacity(length));
    let at_least = at_least.min(numbering.capacity(length));
    let count = count.max(1);
    let deadline = db.deadline();
    // Usually one atomic addition is enough.
    let step = skip.checked_add(count).filter(|step| *step <= capacity);
    let seen = match step {
        Some(step) => match add(db, length, step, at_least, capacity - step).await {
            Ok(before) => return Ok(before + skip..before + step),
            Err(Failure::Condition(Some(seen))) => *seen,
            Err(Failure::Condition(None)) => read(db).await?,
            Err(other) => return Err(other.into()),
        },
        None => read(db).await?,
    };
    let mut seen = seen;
    loop {
        let mut marks = LeaseCounters::read(&seen)?;
        if at_least > marks.of(length) {
            marks.set(length, at_least);
            marks.raise_incarnation(numbering);
        }
        let start = marks.of(length).saturating_add(skip);
        let range = start..start.saturating_add(count).min(capacity);
        if start >= capacity {
            return Err(StoreError::Exhausted);
        }
        marks.set(length, range.end);
        match marks.write(db, &seen).await {
            Ok(()) => return Ok(range),
            Err(Failure::Condition(Some(now))) if !deadline.has_passed() => seen = *now,
            Err(Failure::Condition(_)) => return Err(StoreError::Busy),
            Err(other) => return Err(other.into()),
        }
    }
}

/// Adds to a mark that is at least `at_least` and at most `most`, and returns what it was.
async fn add(db: &Db, length: u8, step: u64, at_least: u64, most: u64) -> Result<u64, Failure> {
    let mut placeholders = Placeholders::default();
    let name = placeholders.name(&mark_name(length));
    let (zero, step) = (placeholders.value(number(0)), placeholders.value(number(step)));
    let expression = format!("SET {name} = if_not_exists({name}, {zero}) + {step}");
    let (low, high) = (placeholders.value(number(at_least)), placeholders.value(number(most)));
    let exists = placeholders.present(INCARNATION);
    let mut condition = format!("{name} BETWEEN {low} AND {high}");
    if at_least == 0 {
        condition = format!("({condition} OR attribute_not_exists({name}))");
    }
    let condition = Condition::new(format!("{exists} AND {condition}"), &placeholders);
    // A second addition after a lost answer wastes numbers, nothing else.
    let (key, returned) = (keys::marks(), ReturnValue::UpdatedOld);
    let deadline = db.deadline();
    let before =
        db.update(deadline, RetryPolicy::Always, &key, &expression, &condition, returned).await?;
    mark(Some(&before), length).map_err(|error| Failure::Refused(error.to_string()))
}

/// Raises the incarnation if it is still `seen`.
pub(crate) async fn raise_incarnation(
    db: &Db,
    numbering: &Numbering,
    seen: u64,
) -> Result<u64, StoreError> {
    let deadline = db.deadline();
    let mut item = read(db).await?;
    loop {
        let mut marks = LeaseCounters::read(&item)?;
        if marks.incarnation != seen {
            return Ok(marks.incarnation);
        }
        marks.raise_incarnation(numbering);
        match marks.write(db, &item).await {
            Ok(()) => return Ok(marks.incarnation),
            Err(Failure::Condition(Some(now))) if !deadline.has_passed() => item = *now,
            Err(Failure::Condition(_)) => return Err(StoreError::Busy),
            Err(other) => return Err(other.into()),
        }
    }
}

/// Recognises a table that was restored from a backup, which has another id: it lacks every lease
/// since. Raises the incarnation then, once for all nodes that notice.
pub(crate) async fn detect_restore(
    db: &Db,
    numbering: &Numbering,
    id: &str,
) -> Result<(), StoreError> {
    let deadline = db.deadline();
    let mut item = read(db).await?;
    loop {
        let mut marks = LeaseCounters::read(&item)?;
        match marks.table.replace(id.to_owned()) {
            Some(known) if known == id => return Ok(()),
            Some(_) => {
                tracing::warn!(
                    "the table was restored from a backup: all ranges of codes skip ahead"
                );
                marks.raise_incarnation(numbering);
            }
            None => {}
        }
        match marks.write(db, &item).await {
            Ok(()) => return Ok(()),
            Err(Failure::Condition(Some(now))) if !deadline.has_passed() => item = *now,
            Err(Failure::Condition(_)) => return Err(StoreError::Busy),
            Err(other) => return Err(other.into()),
        }
    }
}

/// All marks, to be replaced together.
struct LeaseCounters {
    table: Option<String>,
    incarnation: u64,
    marks: Vec<(u8, u64)>,
}

impl LeaseCounters {
    fn read(item: &Item) -> Result<Self, StoreError> {
        let lengths = MIN_CODE_LENGTH..=MAX_CODE_LENGTH;
        let marks = lengths.map(|length| Ok((length, mark(Some(item), length)?)));
        let marks = marks.collect::<Result<_, StoreError>>()?;
        let table = item.text(TABLE).ok().map(str::to_owned);
        Ok(Self { table, incarnation: incarnation_of(item)?, marks })
    }

    fn of(&self, length: u8) -> u64 {
        self.marks.iter().find(|(have, _)| *have == length).map_or(0, |(_, mark)| *mark)
    }

    fn set(&mut self, length: u8, mark: u64) {
        self.marks.iter_mut().filter(|(have, _)| *have == length).for_each(|(_, m)| *m = mark);
    }

    fn raise_incarnation(&mut self, numbering: &Numbering) {
        self.incarnation += 1;
        for (length, mark) in &mut self.marks {
            let capacity = numbering.capacity(*length);
            *mark = mark.saturating_add(CodeLease::restore_distance(capacity)).min(capacity);
        }
    }

    /// Writes them if the stored ones are still those of `seen`.
    async fn write(&self, db: &Db, seen: &Item) -> Result<(), Failure> {
        let mut placeholders = Placeholders::default();
        let mut conditions = vec![unchanged(&mut placeholders, INCARNATION, seen)];
        let mut item = keys::marks().item();
        item.insert(INCARNATION.into(), number(self.incarnation));
        conditions.push(unchanged(&mut placeholders, TABLE, seen));
        if let Some(table) = &self.table {
            item.insert(TABLE.into(), crate::item::text(table));
        }
        for (length, mark) in &self.marks {
            let name = mark_name(*length);
            conditions.push(unchanged(&mut placeholders, &name, seen));
            item.insert(name, number(mark));
        }
        let condition = Condition::new(conditions.join(" AND "), &placeholders);
        db.put(db.deadline(), &item, &condition).await
    }
}

fn unchanged(placeholders: &mut Placeholders, name: &str, seen: &Item) -> String {
    match seen.get(name) {
        Some(value) => placeholders.equal(name, value.clone()),
        None => placeholders.absent(name),
    }
}
