//! Statements that the server of a connection has parsed and named.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

use crate::sql::Param;

/// How many statements a connection keeps. There are fewer texts; this bounds a mistake.
const MAX_STATEMENTS: usize = 64;

/// The prepared statements of one connection, by their text. Lookups repeat a few texts very often:
/// parsing and planning each time would take the server longer than finding the rows.
#[derive(Default)]
pub(crate) struct PreparedStatements(Mutex<HashMap<Box<str>, Statement>>);

impl PreparedStatements {
    fn get(&self, sql: &str) -> Option<Statement> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned()
    }

    /// Of two callers that prepare the same text at once, one statement is kept; the other one ends
    /// with its last use.
    fn keep(&self, sql: &str, statement: &Statement) {
        let mut statements = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if statements.len() < MAX_STATEMENTS {
            statements.entry(sql.into()).or_insert_with(|| statement.clone());
        }
    }

    fn forget(&self, sql: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(sql);
    }

    /// How many statements are kept.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Runs a statement, which the server parses when it is first used on this connection.
    pub(crate) async fn query(
        &self,
        client: &Client,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        let statement = match self.get(sql) {
            Some(statement) => statement,
            None => {
                let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
                let statement = client.prepare_typed(sql, &types).await?;
                self.keep(sql, &statement);
                statement
            }
        };
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
        let answer = client.query(&statement, &values).await;
        match answer {
            // An upgrade changed the type of a column, or a pooler that no setting names gave the
            // statement to another connection of the server.
            Err(error) if is_outdated(&error) => {
                self.forget(sql);
                client.query_typed(sql, params).await
            }
            answer => answer,
        }
    }
}

/// Whether a statement no longer fits its tables ("cached plan must not change result type"), or
/// is unknown.
fn is_outdated(error: &Error) -> bool {
    [SqlState::FEATURE_NOT_SUPPORTED, SqlState::INVALID_SQL_STATEMENT_NAME]
        .iter()
        .any(|state| error.code() == Some(state))
}

#[cfg(test)]
mod tests {
    use terse_testkit::PostgresServer;
    use tokio_postgres::NoTls;

    use super::*;
    use crate::sql::params;

    #[tokio::test]
    async fn a_lookup_is_parsed_once_and_follows_a_table_that_changed() {
        let server = PostgresServer::shared();
        let url = server.fresh();
        server.sql(&url, "CREATE TABLE t (n int, m int); INSERT INTO t VALUES (1, 2)");
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let prepared = PreparedStatements::default();
        let sql = "SELECT m FROM t WHERE n = $1";
        for _ in 0..3 {
            let rows = prepared.query(&client, sql, params![1]).await.unwrap();
            assert_eq!(rows[0].get::<_, i32>(0), 2);
        }
        let named = "SELECT count(*) FROM pg_prepared_statements";
        let count: i64 = client.query_typed(named, &[]).await.unwrap()[0].get(0);
        assert_eq!((count, prepared.count()), (1, 1));
        server.sql(&url, "ALTER TABLE t ALTER m TYPE bigint");
        for _ in 0..2 {
            let rows = prepared.query(&client, sql, params![1]).await.unwrap();
            assert_eq!(rows[0].get::<_, i64>(0), 2);
        }
        // A text that differs each time does not fill the server.
        for n in 0..2 * MAX_STATEMENTS {
            let sql = format!("SELECT {n}");
            prepared.query(&client, &sql, &[]).await.unwrap();
        }
        let count: i64 = client.query_typed(named, &[]).await.unwrap()[0].get(0);
        assert_eq!((count, prepared.count()), (MAX_STATEMENTS as i64, MAX_STATEMENTS));
    }
}
