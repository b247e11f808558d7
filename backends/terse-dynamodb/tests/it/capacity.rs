//! What requests cost, as the server counts it.

use terse_core::{
    ChangeFeed, ClickSpender, IdempotencyKey, Insert, Link, LinkReader, LinkStore, Revision,
};
use terse_dynamodb::{ConsumedCapacity, DynamoLinks};
use terse_testkit::{alias, generated, timestamp};

use crate::support::{fresh, open};

async fn cost<T>(store: &DynamoLinks, work: impl Future<Output = T>) -> (f64, f64) {
    let before = store.consumed();
    work.await;
    let ConsumedCapacity { read, written } = store.consumed();
    (read - before.read, written - before.written)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_requests_cost_the_units_that_aws_documents() {
    let store = open(&fresh().await).await;
    let target = "https://example.com/a/path/of/usual/length?with=a&query=string";
    let insert = |link: Link, request: u8| {
        let id =
            (request > 0).then_some(IdempotencyKey { id: [request; 32], fingerprint: [1; 32] });
        Insert::new(link, id)
    };
    let reusable = |code: &str, target: &str| Link { reusable: true, ..generated(code, target) };
    let plain = generated("plain1", target);
    let mut costs = Vec::new();
    let mut note = |what: &str, cost: (f64, f64)| costs.push((what.to_owned(), cost));
    note("new code", cost(&store, store.insert(insert(plain.clone(), 0))).await);
    note(
        "new code that is reused",
        cost(&store, store.insert(insert(reusable("reuse1", target), 0))).await,
    );
    note("the same again", cost(&store, store.insert(insert(reusable("reuse2", target), 0))).await);
    note(
        "new code with a request id",
        cost(&store, store.insert(insert(generated("idem1", target), 1))).await,
    );
    let named = alias("an-alias", target);
    note("new alias", cost(&store, store.insert(insert(named.clone(), 0))).await);
    let expiring = Link { expires_at: Some(timestamp(1)), ..generated("brief1", target) };
    note("new code that expires", cost(&store, store.insert(insert(expiring, 0))).await);
    note("look-up", cost(&store, store.get(&plain.key)).await);
    note("look-up of nothing", cost(&store, store.get(&terse_testkit::key("nothing"))).await);
    let new = Link { crawlable: true, revision: Revision(2), ..plain.clone() };
    note("change", cost(&store, store.update(&new, Revision(1), &[])).await);
    let limited = Link { max_clicks: Some(2), ..generated("limit1", target) };
    store.insert(insert(limited.clone(), 0)).await.unwrap();
    note("spent click", cost(&store, store.spend(&limited.key)).await);
    store.last_change().await.unwrap();
    note("poll of the feed", cost(&store, store.last_change()).await);
    note("mark", cost(&store, store.mark_expired(timestamp(5), 1, &[])).await);
    for (what, (read, written)) in &costs {
        println!("{what}: {read} read, {written} written");
    }
    let of = |what: &str| costs.iter().find(|(have, _)| have == what).unwrap().1;
    assert_eq!(of("new code"), (0.0, 3.0), "the link and two indexes");
    assert_eq!(of("look-up"), (1.0, 0.0));
    assert_eq!(of("look-up of nothing"), (1.0, 0.0));
    assert_eq!(of("spent click"), (0.0, 1.0), "no index has the number");
    assert_eq!(of("the same again").1, 0.0, "nothing is written");
}
