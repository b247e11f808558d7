//! A database that is restored from an older dump while nodes run.

use std::collections::HashSet;
use std::sync::Arc;

use terse_core::{CodeRequest, CodeSource as _, LinkStore as _, NumberedCodes, OwnerId};
use terse_postgres::{PostgresLinks, PostgresOptions};
use terse_testkit::{PostgresServer, alias};

/// A node and its codes. It leases ten numbers at a time.
struct Node {
    store: Arc<PostgresLinks>,
    codes: NumberedCodes,
}

impl Node {
    async fn start(url: &str) -> Self {
        let store = PostgresLinks::open(PostgresOptions::new(url.to_owned())).await.unwrap();
        let store = Arc::new(store);
        Self { codes: NumberedCodes::new(store.clone(), 7, 10), store }
    }

    /// Takes codes, and waits for the database where it must.
    async fn issue(&self, count: usize, issued: &mut HashSet<String>) {
        let target = alias("any", "https://example.com/").target;
        let request = CodeRequest { owner: OwnerId(1), target: &target, attempt: 0 };
        for _ in 0..count {
            let code = loop {
                match self.codes.next(request).await {
                    Ok(code) => break code,
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                }
            };
            assert!(issued.insert(code.as_str().to_owned()), "{code} was issued before");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_restored_from_an_older_dump_issues_no_code_twice() {
    let server = PostgresServer::shared();
    let database = server.fresh_database();
    let url = server.url(&database);
    let mut issued = HashSet::new();
    // After the dump one node issues codes; the other one knows nothing of them.
    let (busy, idle) = (Node::start(&url).await, Node::start(&url).await);
    busy.issue(25, &mut issued).await;
    idle.issue(1, &mut issued).await;
    let (dump, before) = (server.dump(&database), busy.store.incarnation().await.unwrap());
    busy.issue(200, &mut issued).await;
    server.restore(&database, &dump);
    idle.issue(200, &mut issued).await;
    busy.issue(200, &mut issued).await;
    // A node that starts now, and the same dump once more.
    Node::start(&url).await.issue(50, &mut issued).await;
    server.restore(&database, &dump);
    idle.issue(200, &mut issued).await;
    Node::start(&url).await.issue(50, &mut issued).await;
    assert!(idle.store.incarnation().await.unwrap() > before, "caches are forgotten, too");
}
