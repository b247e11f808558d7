//! The schema of the clicks file.

use crate::schema::FileSchema;

/// "trsc".
pub(crate) const CLICKS: FileSchema = FileSchema {
    name: "clicks",
    application: 0x7472_7363,
    steps: &[
        include_str!("schema.sql"),
        include_str!("schema_2.sql"),
        include_str!("schema_3.sql"),
        include_str!("schema_4.sql"),
        include_str!("schema_5.sql"),
        include_str!("schema_6.sql"),
        include_str!("schema_7.sql"),
        include_str!("schema_8.sql"),
        include_str!("schema_9.sql"),
        include_str!("schema_10.sql"),
    ],
};

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::clicks::{
        blocks, day_ranks, erase, export, finish_days, fold, journals, key_runs, old_blocks, prune,
        queries, raw, report, runs, top, top_with_runs, writes,
    };
    use crate::schema::tests::assert_plan;

    #[test]
    fn every_query_finds_its_index() {
        let mut conn = Connection::open_in_memory().unwrap();
        CLICKS.migrate(&mut conn, 0).unwrap();
        for (sql, index) in [
            (queries::OTHER, "subjects_others (kind=? AND owner=?)"),
            (queries::COUNT, "INTEGER PRIMARY KEY (rowid=?)"),
            // There are few runs.
            (key_runs::KEY_RUNS, "SCAN key_runs"),
            (key_runs::KEY_LIST, "INTEGER PRIMARY KEY (rowid=?)"),
            (key_runs::KEY_CHUNK, "INTEGER PRIMARY KEY (rowid=?)"),
            (key_runs::LINK_BY_ID, "INTEGER PRIMARY KEY (rowid=?)"),
            (queries::NEXT_DAY, "PRIMARY KEY (rowid>?)"),
            (report::EVER, "INTEGER PRIMARY KEY (rowid=?)"),
            (report::HOURS[0], "PRIMARY KEY (rowid>? AND rowid<?)"),
            (report::HOURS[1], "PRIMARY KEY (rowid>? AND rowid<?)"),
            (report::DAYS[0], "PRIMARY KEY (rowid>? AND rowid<?)"),
            (report::DAYS[1], "PRIMARY KEY (rowid>? AND rowid<?)"),
            // It scans in order and stops at the first row.
            (raw::FIRST_HOUR, "SCAN clicks"),
            (blocks::IN_TIME, "blocks_by_time (first<?)"),
            (blocks::SMALL, "COVERING INDEX blocks_small"),
            (blocks::OLD, "blocks_by_time (first<?)"),
            (blocks::OLDEST, "INDEX blocks_by_end"),
            (blocks::NOT_CLEAN, "blocks_by_erasure (clean_to<?)"),
            (raw::CLICKS, "PRIMARY KEY (hour=? AND subject=? AND (at,number)>(?,?)"),
            (export::ERASED_LINKS, "PRIMARY KEY ((domain,code,created_by)>(?,?,?))"),
            // In the order of the table, which has few rows.
            (export::ERASED_OWNERS, "SCAN erased_owners"),
            (writes::HOUR, "PRIMARY KEY (rowid=?)"),
            (journals::EPOCH, "PRIMARY KEY (id=?)"),
            (journals::POSITION, "PRIMARY KEY (journal=? AND segment=?)"),
            (journals::POSITIONS, "PRIMARY KEY (journal=?)"),
            (erase::LINK_ERASED, "PRIMARY KEY (domain=? AND code=? AND created_by>?)"),
            (erase::OWNER_ERASED, "PRIMARY KEY (rowid=?)"),
            (erase::OLD_LINKS, "erased_links_by_age (erased_at<?)"),
            (erase::OLD_OWNERS, "erased_owners_by_age (erased_at<?)"),
            (prune::OLD_HOURS, "PRIMARY KEY (rowid<?)"),
            (prune::DONE_HOURS, "PRIMARY KEY (rowid<?)"),
            // There are few blocks.
            (old_blocks::BLOCKS, "SCAN delta_blocks"),
            (old_blocks::CHUNK, "INTEGER PRIMARY KEY (rowid=?)"),
            // There are few runs.
            (runs::RUNS, "SCAN runs"),
            (runs::CHUNKS, "INTEGER PRIMARY KEY (rowid=?)"),
            (day_ranks::DAY_RANK, "INTEGER PRIMARY KEY (rowid=?)"),
            (day_ranks::RANKED_DAYS, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
            (runs::HEADS, "INTEGER PRIMARY KEY (rowid=?)"),
            (runs::BODIES, "INTEGER PRIMARY KEY (rowid=?)"),
            (runs::STATE, "PRIMARY KEY (name=?)"),
            (fold::DAY, "PRIMARY KEY (rowid=?)"),
            (fold::UNFOLDED, "PRIMARY KEY (rowid>? AND rowid<?)"),
            (fold::PROGRESS, "PRIMARY KEY (name=?)"),
            (finish_days::OTHERS, "COVERING INDEX subjects_others"),
            (top::FIRST, "subjects_ranked"),
            (top::NEXT, "subjects_ranked ((rank,domain,code,born)>(?,?,?,?) AND rank<?)"),
            (top_with_runs::RANKED_FROM, "subjects_ranked (rank>? AND rank<?)"),
            (top::LINK_OF_ROW, "INTEGER PRIMARY KEY (rowid=?)"),
            (top::NEXT_RANKED_DAY, "INDEX days_ranked (day>?"),
            (top::LAST_RANKED_DAY, "INDEX days_ranked"),
            (top::BUSIEST_OF_DAY, "INDEX days_ranked (day=?)"),
            (top::ALL_HOURS, "PRIMARY KEY (rowid>? AND rowid<?)"),
            (prune::OLD_CLICKS, "PRIMARY KEY (hour<?)"),
            (prune::DONE_CLICKS, "PRIMARY KEY ((hour,subject,at,number)<(?,?,?,?))"),
        ] {
            assert_plan(&conn, sql, index);
        }
    }
}
