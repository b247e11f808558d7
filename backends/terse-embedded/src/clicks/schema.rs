//! The shape of the clicks file.

use crate::schema::Shape;

/// "trsc".
pub(crate) const CLICKS: Shape = Shape { name: "clicks", application: 0x7472_7363, steps: &[include_str!("schema.sql")] };

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::clicks::{raw, report, scribe, shelf, tidy};
    use crate::schema::tests::assert_plan;

    #[test]
    fn every_query_finds_its_index() {
        let mut conn = Connection::open_in_memory().unwrap();
        CLICKS.migrate(&mut conn, 0).unwrap();
        for (sql, index) in [
            (shelf::LINK, "subjects_links (domain=? AND code=? AND born=?)"),
            (shelf::OTHER, "subjects_others (kind=? AND owner=?)"),
            (shelf::COUNT, "subjects_links (domain=? AND code=? AND born=?)"),
            (shelf::FIRST_LINKS, "subjects_links"),
            (shelf::NEXT_LINKS, "subjects_links ((domain,code,born)>(?,?,?))"),
            (shelf::NEXT_DAY, "PRIMARY KEY (rowid>?)"),
            (report::EVER, "INTEGER PRIMARY KEY (rowid=?)"),
            (report::HOURS[0], "PRIMARY KEY (rowid>? AND rowid<?)"),
            (report::HOURS[1], "PRIMARY KEY (rowid>? AND rowid<?)"),
            (report::DAYS[0], "PRIMARY KEY (rowid>? AND rowid<?)"),
            (report::DAYS[1], "PRIMARY KEY (rowid>? AND rowid<?)"),
            // In order, and it ends at the first.
            (raw::FIRST_HOUR, "SCAN clicks"),
            (raw::CLICKS, "PRIMARY KEY (hour=? AND subject=? AND (at,number)>(?,?)"),
            (scribe::HOUR, "PRIMARY KEY (rowid=?)"),
            (scribe::LINKS_NAMED, "subjects_links (domain=? AND code=? AND born<?)"),
            (scribe::LINKS_OF, "subjects_links_of (owner=?)"),
            (tidy::OLD_HOURS, "PRIMARY KEY (rowid<?)"),
            (tidy::DONE_HOURS, "PRIMARY KEY (rowid<?)"),
            (tidy::DAY, "PRIMARY KEY (rowid=?)"),
            (tidy::OLD_CLICKS, "PRIMARY KEY (hour<?)"),
            (tidy::DONE_CLICKS, "PRIMARY KEY ((hour,subject,at,number)<(?,?,?,?))"),
        ] {
            assert_plan(&conn, sql, index);
        }
    }
}
