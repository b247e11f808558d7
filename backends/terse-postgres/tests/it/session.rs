//! Another program in the database, with an open transaction.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

/// A transaction that keeps its locks until it is committed or dropped.
pub(crate) struct OpenTransaction(Child);

impl OpenTransaction {
    /// Begins a transaction and runs `sql` in it.
    pub(crate) fn begin(url: &str, sql: &str) -> Self {
        let mut psql = Command::new("psql")
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = format!("BEGIN;\n{sql};\nSELECT 'begun';\n");
        psql.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
        let mut answers = BufReader::new(psql.stdout.as_mut().unwrap()).lines();
        assert!(answers.any(|line| line.unwrap() == "begun"), "{sql}");
        Self(psql)
    }

    /// Commits, and waits until that is done.
    pub(crate) fn commit(mut self) {
        let mut input = self.0.stdin.take().unwrap();
        input.write_all(b"COMMIT;\n").unwrap();
        drop(input);
        assert!(self.0.wait().unwrap().success());
    }
}

/// Rolls back.
impl Drop for OpenTransaction {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ended = self.0.wait();
    }
}
