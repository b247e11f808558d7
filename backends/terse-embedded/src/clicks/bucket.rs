//! The keys of the sums of hours and days.
//!
//! One integer holds subject and time, so that SQLite finds and walks rows without reading the
//! large sums, as it would with a key of several columns. Generated columns in the schema split the
//! numbers again for queries in SQL.

use terse_core::Timestamp;
use terse_core::clicks::Unit;

/// The bits of a subject, of a day and of an hour of the day: 63 together.
const SUBJECT: u32 = 36;
const DAY: u32 = 22;
const HOUR: u32 = 5;

/// Days since the first day of `Timestamp`.
fn days(day: i64) -> i64 {
    day - Timestamp::MIN.as_ms().div_euclid(Unit::Day.ms())
}

/// The key of an hour: the day (since 1970) first, so that what is written today lies together.
pub(crate) fn hour_id(day: i64, subject: i64, hour: i64) -> i64 {
    days(day) << (SUBJECT + HOUR) | subject << HOUR | hour
}

/// Day, subject and hour.
pub(crate) fn of_hour_id(id: i64) -> (i64, i64, i64) {
    let first = Timestamp::MIN.as_ms().div_euclid(Unit::Day.ms());
    ((id >> (SUBJECT + HOUR)) + first, id >> HOUR & ((1 << SUBJECT) - 1), id & ((1 << HOUR) - 1))
}

/// The key of an hour in a run of finished days: the subject first, so that a report finds all days
/// of a subject together.
pub(crate) fn finished_id(subject: i64, day: i64, hour: i64) -> i64 {
    subject << (DAY + HOUR) | days(day) << HOUR | hour
}

/// Day, subject and hour of such a key.
pub(crate) fn of_finished_id(id: i64) -> (i64, i64, i64) {
    let first = Timestamp::MIN.as_ms().div_euclid(Unit::Day.ms());
    let day = (id >> HOUR & ((1 << DAY) - 1)) + first;
    (day, id >> (DAY + HOUR), id & ((1 << HOUR) - 1))
}

/// The first key of the same subject and day, of a finished day.
pub(crate) fn start_of_finished_day(id: i64) -> i64 {
    id >> HOUR << HOUR
}

/// The first key after those of the same subject and day, of a finished day.
pub(crate) fn after_finished_day(id: i64) -> i64 {
    start_of_finished_day(id) + (1 << HOUR)
}

/// The key of a day: the subject first, because a finished day is only read.
pub(crate) fn day_id(subject: i64, day: i64) -> i64 {
    subject << DAY | days(day)
}

/// The day.
pub(crate) fn of_day_id(id: i64) -> i64 {
    (id & ((1 << DAY) - 1)) + Timestamp::MIN.as_ms().div_euclid(Unit::Day.ms())
}

/// The subject of a day.
pub(crate) fn subject_of_day_id(id: i64) -> i64 {
    id >> DAY
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::clicks::schema::CLICKS;

    #[test]
    fn numbers_lead_back_here_and_in_sql() {
        let mut conn = Connection::open_in_memory().unwrap();
        CLICKS.migrate(&mut conn, 0).unwrap();
        let day = |at: Timestamp| at.as_ms().div_euclid(Unit::Day.ms());
        for day in [day(Timestamp::MIN), -1, 0, 20_000, day(Timestamp::MAX)] {
            for subject in [1, 77, (1 << SUBJECT) - 1] {
                for hour in [0, 23] {
                    let id = hour_id(day, subject, hour);
                    assert_eq!(of_hour_id(id), (day, subject, hour));
                    let finished = finished_id(subject, day, hour);
                    assert!(finished > 0);
                    assert_eq!(of_finished_id(finished), (day, subject, hour));
                    conn.execute(
                        "INSERT INTO hours (id, people, machines, sum) VALUES (?1, 0, 0, x'')",
                        [id],
                    )
                    .unwrap();
                    let read = |row: &rusqlite::Row<'_>| row.try_into();
                    let actual: (i64, i64, i64) = conn
                        .query_row("SELECT day, subject, hour FROM hours WHERE id = ?1", [id], read)
                        .unwrap();
                    assert_eq!(actual, (day, subject, hour));
                }
                let id = day_id(subject, day);
                assert!(id > 0 && of_day_id(id) == day && subject_of_day_id(id) == subject);
                conn.execute(
                    "INSERT INTO days (id, people, machines, sum) VALUES (?1, 0, 0, x'')",
                    [id],
                )
                .unwrap();
                let actual: (i64, i64) = conn
                    .query_row("SELECT day, subject FROM days WHERE id = ?1", [id], |row| {
                        row.try_into()
                    })
                    .unwrap();
                assert_eq!(actual, (day, subject));
            }
        }
    }
}
