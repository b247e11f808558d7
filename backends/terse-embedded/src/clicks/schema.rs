//! The shape of the clicks file.

use crate::schema::Shape;

/// "trsc".
pub(crate) const CLICKS: Shape =
    Shape { name: "clicks", application: 0x7472_7363, steps: &[include_str!("schema.sql")] };

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::clicks::{prune, queries, raw, report, writes};
    use crate::schema::tests::assert_plan;

    #[test]
    fn every_query_finds_its_index() {
        let mut conn = Connection::open_in_memory().unwrap();
        CLICKS.migrate(&mut conn, 0).unwrap();
        for (sql, index) in [
            (queries::LINK, "subjects_links (domain=? AND code=? AND born=?)"),
            (queries::OTHER, "subjects_others (kind=? AND owner=?)"),
            (queries::COUNT, "subjects_links (domain=? AND code=? AND born=?)"),
            (queries::FIRST_LINKS, "subjects_links"),
            (queries::NEXT_LINKS, "subjects_links ((domain,code,born)>(?,?,?))"),
            (queries::NEXT_DAY, "PRIMARY KEY (rowid>?)"),
            (report::EVER, "INTEGER PRIMARY KEY (rowid=?)"),
            (report::HOURS[0], "PRIMARY KEY (rowid>? AND rowid<?)"),
            (report::HOURS[1], "PRIMARY KEY (rowid>? AND rowid<?)"),
            (report::DAYS[0], "PRIMARY KEY (rowid>? AND rowid<?)"),
            (report::DAYS[1], "PRIMARY KEY (rowid>? AND rowid<?)"),
            // In order, and it ends at the first.
            (raw::FIRST_HOUR, "SCAN clicks"),
            (raw::CLICKS, "PRIMARY KEY (hour=? AND subject=? AND (at,number)>(?,?)"),
            (writes::HOUR, "PRIMARY KEY (rowid=?)"),
            (writes::LINKS_NAMED, "subjects_links (domain=? AND code=? AND born<?)"),
            (writes::LINKS_OF, "subjects_links_of (owner=?)"),
            (prune::OLD_HOURS, "PRIMARY KEY (rowid<?)"),
            (prune::DONE_HOURS, "PRIMARY KEY (rowid<?)"),
            (prune::DAY, "PRIMARY KEY (rowid=?)"),
            (prune::OLD_CLICKS, "PRIMARY KEY (hour<?)"),
            (prune::DONE_CLICKS, "PRIMARY KEY ((hour,subject,at,number)<(?,?,?,?))"),
        ] {
            assert_plan(&conn, sql, index);
        }
    }
}
