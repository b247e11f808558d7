//! Reports about links.

use async_trait::async_trait;
use terse_core::registry::{
    AbuseReport, Attribution, AuditRecord, FencingToken, NewReport, ReportId, ReportResult,
    ReportState, ReportStore, ReportedLink, TEXTS_SHOWN,
};
use terse_core::{LinkKey, Timestamp};

use super::rows::{self, REPORT_COLUMNS, get, id};
use super::step::step;
use super::{Answer, PostgresRegistry, all, at_most, bound};
use crate::failure::Failure;
use crate::sql::{SqlTimestamp, params};

#[async_trait]
impl ReportStore for PostgresRegistry {
    async fn report(&self, report: NewReport) -> Answer<ReportResult> {
        step!(self, Registry, |step| {
            let NewReport { link, created_at, reporter, account, reason, text, at } = &report;
            let (domain, code) = (link.domain.as_str(), link.code.as_str());
            let created_at = SqlTimestamp(*created_at);
            let sql = "SELECT id FROM reports WHERE domain = $1 AND code = $2 \
                 AND link_created_at = $3 AND reporter = $4 AND state = 'open'";
            let params = params![domain, code, created_at, &reporter[..]];
            let number = match step.one(sql, params, |row| id(row, 0)).await? {
                Some(earlier) => earlier,
                None => {
                    let account = account.map(|id| id.0.cast_signed());
                    step.insert(
                        "INSERT INTO reports (domain, code, link_created_at, reporter, account, \
                         reason, text, at, state) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'open') \
                         RETURNING id",
                        params![
                            domain,
                            code,
                            created_at,
                            &reporter[..],
                            account,
                            *reason,
                            *text,
                            SqlTimestamp(*at)
                        ],
                    )
                    .await?
                }
            };
            let sql = "SELECT count(*) FROM reports WHERE domain = $1 AND code = $2 \
                 AND link_created_at = $3 AND state = 'open'";
            let params = params![domain, code, created_at];
            let reporters = step.one(sql, params, |row| id(row, 0)).await?;
            Ok(ReportResult { id: ReportId(number), reporters: reporters.unwrap_or(0) })
        })
    }

    async fn reports(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Answer<Vec<AbuseReport>> {
        let after = after.map_or(i64::MIN, |id| bound(id.0));
        let sql = format!(
            "SELECT {REPORT_COLUMNS} FROM reports r WHERE r.state = $1 AND r.id > $2 \
             ORDER BY r.id LIMIT $3"
        );
        let rows = self.pool.list(&sql, params![state.as_str(), after, at_most(limit)]).await?;
        Ok(all(&rows, rows::report)?)
    }

    async fn reported(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Answer<Vec<ReportedLink>> {
        let after = after.map_or(i64::MIN, |id| bound(id.0));
        // The first report about each link.
        let sql = format!(
            "SELECT {REPORT_COLUMNS} FROM reports r WHERE r.state = $1 AND r.id > $2 \
             AND NOT EXISTS (SELECT FROM reports e WHERE e.domain = r.domain AND e.code = r.code \
             AND e.link_created_at = r.link_created_at AND e.state = $1 AND e.id < r.id) \
             ORDER BY r.id LIMIT $3"
        );
        let rows = self.pool.list(&sql, params![state.as_str(), after, at_most(limit)]).await?;
        let mut links = Vec::with_capacity(rows.len());
        for first in all(&rows, rows::report)? {
            links.push(self.reported_link(first).await?);
        }
        Ok(links)
    }

    async fn settle_reports(
        &self,
        token: Option<FencingToken>,
        link: &LinkKey,
        created_at: Timestamp,
        state: ReportState,
        by: Attribution,
    ) -> Answer<u64> {
        if state == ReportState::Open {
            return Ok(0);
        }
        step!(self, Registry, |step| {
            if let Some(token) = token {
                step.check_lease(token).await?;
            }
            let count = step
                .run(
                    "UPDATE reports SET state = $4 WHERE domain = $1 AND code = $2 \
                     AND link_created_at = $3 AND state = 'open'",
                    params![
                        link.domain.as_str(),
                        link.code.as_str(),
                        SqlTimestamp(created_at),
                        state.as_str()
                    ],
                )
                .await?;
            if count > 0 {
                step.write(&AuditRecord::reports_settled(link, count, state), &by).await?;
            }
            Ok(count)
        })
    }
}

impl PostgresRegistry {
    /// All reports about the link of a report.
    async fn reported_link(
        &self,
        AbuseReport { id: first, link, created_at, at, state, .. }: AbuseReport,
    ) -> Result<ReportedLink, Failure> {
        let (domain, code, born) =
            (link.domain.as_str(), link.code.as_str(), SqlTimestamp(created_at));
        let rows = self
            .query(
                "SELECT reason, count(*), min(at), max(at) FROM reports WHERE domain = $1 \
                 AND code = $2 AND link_created_at = $3 AND state = $4 \
                 GROUP BY reason ORDER BY reason",
                params![domain, code, born, state.as_str()],
            )
            .await?;
        let (mut count, mut since, mut last, mut reasons) = (0, at, at, Vec::new());
        for (n, row) in rows.iter().enumerate() {
            let (number, from, to): (u64, SqlTimestamp, SqlTimestamp) =
                (id(row, 1)?, get(row, 2)?, get(row, 3)?);
            count += number;
            since = if n == 0 { from.0 } else { since.min(from.0) };
            last = if n == 0 { to.0 } else { last.max(to.0) };
            reasons.push((get(row, 0)?, number));
        }
        let most = TEXTS_SHOWN as i64;
        let texts = self
            .query(
                "SELECT text FROM reports WHERE domain = $1 AND code = $2 \
                 AND link_created_at = $3 AND state = $4 AND text IS NOT NULL \
                 ORDER BY id DESC LIMIT $5",
                params![domain, code, born, state.as_str(), most],
            )
            .await?;
        let texts = all(&texts, |row| get(row, 0))?;
        Ok(ReportedLink { first, count, since, last, reasons, link, created_at, texts })
    }
}
