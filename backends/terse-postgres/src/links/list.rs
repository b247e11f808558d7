//! Lists, searches and tags.

use terse_core::{
    Cursor, Link, LinkPage, LinkStatus, ListQuery, OwnerId, Sort, StoreError, TagCount, Timestamp,
};

use super::PostgresLinks;
use super::row::{self, COLUMNS};
use crate::failure::corrupt;
use crate::sql::{Param, SqlTimestamp, contains_pattern, params, type_of};

/// The largest page, whatever the caller asks for.
const MAX_PAGE: usize = 1000;

/// What a list is read for.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Decision,
    Display,
}

impl PostgresLinks {
    /// Lists links by creation time, then by key. Neither ever changes, so paging misses no link.
    pub(super) async fn list_page(
        &self,
        query: &ListQuery,
        purpose: Purpose,
    ) -> Result<LinkPage, StoreError> {
        let after = query.after.as_ref().map(Position::read).transpose()?;
        let limit = query.limit.clamp(1, MAX_PAGE);
        let has_nul = |text: &Option<String>| text.as_ref().is_some_and(|t| t.contains('\0'));
        if has_nul(&query.text) || has_nul(&query.tag) {
            // PostgreSQL stores no such text.
            return Ok(LinkPage { links: Vec::new(), next: None });
        }
        let values = Values::of(query, after, limit);
        let (sql, params) = values.statement(query);
        let rows = match (purpose, &query.text) {
            (Purpose::Decision, _) => self.pool.list(&sql, &params).await?,
            // A new link must be in the list of its owner.
            (Purpose::Display, None) => self.pool.list_to_show(&sql, &params).await?,
            (Purpose::Display, Some(_)) => self.pool.search(&sql, &params).await?,
        };
        let (mut links, mut last) = (Vec::new(), None);
        for stored in rows.iter().take(limit) {
            let key = row::key_of(stored, 0)?;
            let created_at = stored.get::<_, SqlTimestamp>(5).0;
            last = Some(Position {
                created_at,
                domain: key.domain.as_str().to_owned(),
                code: key.code.as_str().to_owned(),
            });
            match row::read(stored, 0) {
                Ok(link) if contains(&link, query) => links.push(link),
                Ok(_) => {}
                // One damaged row must not hide all rows after it.
                Err(error) => tracing::error!(%error, "left a damaged link out of a list"),
            }
        }
        let next = last.filter(|_| rows.len() > limit).map(|position| position.write());
        Ok(LinkPage { links, next })
    }

    pub(super) async fn count_tags(
        &self,
        owner: OwnerId,
        limit: usize,
    ) -> Result<Vec<TagCount>, StoreError> {
        if owner == OwnerId::ANONYMOUS {
            return Ok(Vec::new());
        }
        let limit = limit.min(TagCount::MAX_TAGS) as i64;
        let rows = self
            .pool
            .search(
                "SELECT tag, count(*) FROM links, unnest(tags) AS tag \
                 WHERE owner = $1 AND owner <> 0 AND deleted_at IS NULL \
                 GROUP BY tag ORDER BY count(*) DESC, tag COLLATE \"C\" LIMIT $2",
                params![owner.0.cast_signed(), limit],
            )
            .await?;
        let count = |row: &tokio_postgres::Row| TagCount {
            tag: row.get(0),
            links: row.get::<_, i64>(1).cast_unsigned(),
        };
        Ok(rows.iter().map(count).collect())
    }
}

/// The values of the conditions of a list.
struct Values {
    after: Option<(SqlTimestamp, String, String)>,
    owner: Option<i64>,
    domain: Option<String>,
    tag: Option<String>,
    pattern: Option<String>,
    /// The same as it is written in the rules, which are JSON.
    rules_pattern: Option<String>,
    now: SqlTimestamp,
    limit: i64,
}

impl Values {
    fn of(query: &ListQuery, after: Option<Position>, limit: usize) -> Self {
        let text = query.text.as_ref().map(|text| text.to_ascii_lowercase());
        let in_json = |text: &String| {
            let quoted = serde_json::Value::from(text.as_str()).to_string();
            contains_pattern(&quoted[1..quoted.len() - 1])
        };
        Self {
            after: after.map(|at| (SqlTimestamp(at.created_at), at.domain, at.code)),
            owner: query.owner.map(|owner| owner.0.cast_signed()),
            domain: query.domain.as_ref().map(|domain| domain.as_str().to_owned()),
            tag: query.tag.clone(),
            pattern: text.as_deref().map(contains_pattern),
            rules_pattern: text.as_ref().map(in_json),
            now: SqlTimestamp(query.now),
            // One more, to know whether there is a next page.
            limit: limit as i64 + 1,
        }
    }

    fn statement(&self, query: &ListQuery) -> (String, Vec<Param<'_>>) {
        let (compare, order) = match query.sort {
            Sort::Newest => ("<", "DESC"),
            Sort::Oldest => (">", "ASC"),
        };
        let mut params: Vec<Param<'_>> = Vec::new();
        let mut conditions = vec!["true".to_owned()];
        macro_rules! value {
            ($value:expr) => {{
                params.push(($value, type_of($value)));
                format!("${}", params.len())
            }};
        }
        if let Some((at, domain, code)) = &self.after {
            let (at, domain, code) = (value!(at), value!(domain), value!(code));
            conditions.push(format!(
                "(l.created_at, l.domain, l.code) {compare} \
                 ({at}, {domain} COLLATE \"C\", {code} COLLATE \"C\")"
            ));
        }
        if let Some(owner) = &self.owner {
            // The index leaves out anonymous links; the second condition shows that it may be used.
            let and_not = if *owner == 0 { "" } else { " AND l.owner <> 0" };
            conditions.push(format!("l.owner = {}{and_not}", value!(owner)));
        }
        if let Some(domain) = &self.domain {
            conditions.push(format!("l.domain = {}", value!(domain)));
        }
        if let Some(tag) = &self.tag {
            conditions.push(format!("l.tags @> ARRAY[{}]", value!(tag)));
        }
        if let (Some(pattern), Some(rules)) = (&self.pattern, &self.rules_pattern) {
            // Each side has an index.
            let (pattern, rules) = (value!(pattern), value!(rules));
            conditions.push(format!(
                "(lower((l.code || E'\\n' || l.target || E'\\n' || coalesce(l.title, '')) \
                 COLLATE \"C\") LIKE {pattern} \
                 OR (l.rules IS NOT NULL AND lower(l.rules COLLATE \"C\") LIKE {rules}))"
            ));
        }
        if let Some(archived) = query.archived {
            let is = if archived { "IS NOT NULL" } else { "IS NULL" };
            conditions.push(format!("l.archived_at {is}"));
        }
        match query.status {
            None => conditions.push("l.deleted_at IS NULL".to_owned()),
            Some(LinkStatus::Deleted) => conditions.push("l.deleted_at IS NOT NULL".to_owned()),
            Some(status) => {
                let number = order_of(status);
                conditions.push(format!("({}) = {number}", status_sql(&value!(&self.now))));
            }
        }
        let limit = value!(&self.limit);
        let sql = format!(
            "SELECT {COLUMNS} FROM links l WHERE {} \
             ORDER BY l.created_at {order}, l.domain {order}, l.code {order} LIMIT {limit}",
            conditions.join(" AND ")
        );
        (sql, params)
    }
}

/// The place of a status among those that [`status_sql`] gives.
fn order_of(status: LinkStatus) -> usize {
    LinkStatus::ALL.iter().position(|each| *each == status).unwrap_or(usize::MAX)
}

/// `Link::status` as an expression, so that the server can filter by it.
fn status_sql(now: &str) -> String {
    let n = order_of;
    format!(
        "CASE WHEN l.deleted_at IS NOT NULL THEN {} WHEN l.moderation = 2 THEN {} \
         WHEN l.expires_at <= {now} THEN {} WHEN l.spent_clicks >= l.max_clicks THEN {} \
         WHEN l.valid_from > {now} THEN {} WHEN l.moderation = 1 THEN {} ELSE {} END",
        n(LinkStatus::Deleted),
        n(LinkStatus::Blocked),
        n(LinkStatus::Expired),
        n(LinkStatus::UsedUp),
        n(LinkStatus::Scheduled),
        n(LinkStatus::Suspicious),
        n(LinkStatus::Active),
    )
}

/// Whether the link contains the text. The server's condition joins code, target and title with
/// line breaks, so that a text with one could match across two, and compares the rules as JSON.
fn contains(link: &Link, query: &ListQuery) -> bool {
    query.text.as_ref().is_none_or(|text| link.contains(&text.to_ascii_lowercase()))
}

/// A position in a list: the creation time, then domain and code with a zero octet between them.
struct Position {
    created_at: Timestamp,
    domain: String,
    code: String,
}

impl Position {
    fn write(&self) -> Cursor {
        let mut bytes = self.created_at.as_ms().to_be_bytes().to_vec();
        bytes.extend(self.domain.as_bytes());
        bytes.push(0);
        bytes.extend(self.code.as_bytes());
        Cursor(bytes)
    }

    fn read(cursor: &Cursor) -> Result<Self, StoreError> {
        let foreign = || corrupt("not a place in this list");
        let (time, key) = cursor.0.split_first_chunk::<8>().ok_or_else(foreign)?;
        let key = std::str::from_utf8(key).map_err(|_| foreign())?;
        let (domain, code) = key.split_once('\0').ok_or_else(foreign)?;
        if domain.contains('\0') || terse_core::Code::parse(code).is_none() {
            return Err(foreign());
        }
        Ok(Self {
            created_at: Timestamp::from_ms(i64::from_be_bytes(*time)),
            domain: domain.to_owned(),
            code: code.to_owned(),
        })
    }
}
