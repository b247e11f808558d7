//! Links of suspended owners.

use std::sync::Arc;
use std::time::Duration;

use terse_core::{Link, OwnerId};
use terse_redirect::{VisitMethod, Visitor};
use terse_testkit::alias;

use crate::fixture::{Fixture, visitor};

const TARGET: &str = "https://example.com/";
const ANN: OwnerId = OwnerId(1000);
const BOB: OwnerId = OwnerId(1001);

fn link_of(owner: OwnerId, code: &str) -> Link {
    Link { owner, ..alias(code, TARGET) }
}

#[tokio::test]
async fn links_of_a_suspended_owner_are_blocked_cached_or_not_and_come_back() {
    let fixture = Fixture::new(|_| ());
    fixture.insert(link_of(ANN, "known-1")).await;
    fixture.insert(link_of(ANN, "unknown-1")).await;
    fixture.insert(link_of(BOB, "other-1")).await;
    fixture.insert(Link { forward_query: true, ..link_of(ANN, "forward-1") }).await;
    fixture.insert(Link { max_clicks: Some(9), ..link_of(ANN, "counted-1") }).await;
    fixture
        .insert(Link { deleted_at: Some(fixture.clock.now()), ..link_of(ANN, "deleted-1") })
        .await;
    for code in ["known-1", "other-1", "forward-1", "counted-1"] {
        assert_eq!(fixture.visit(code).await.0, 302, "{code}");
    }
    let reads = fixture.store.gets();
    fixture.redirector.suspend(&[ANN]);
    for code in ["known-1", "unknown-1", "forward-1", "counted-1"] {
        assert_eq!(fixture.visit(code).await, (451, None), "{code}");
        let head = Visitor { method: VisitMethod::Head, ..visitor(code) };
        assert_eq!(fixture.visit_as(head).await.0, 451, "{code}");
    }
    assert_eq!(fixture.visit("deleted-1").await.0, 404, "a deleted link stays deleted");
    assert_eq!(fixture.store.gets(), reads + 5, "they are cached as blocked");
    assert_eq!(fixture.visit("other-1").await.0, 302);
    assert_eq!(fixture.store.gets(), reads + 5, "links of other owners stay cached");
    fixture.redirector.suspend(&[BOB]);
    for code in ["known-1", "unknown-1", "forward-1", "counted-1"] {
        assert_eq!(fixture.visit(code).await.0, 302, "{code}");
    }
    assert_eq!(fixture.visit("other-1").await.0, 451);
}

#[tokio::test]
async fn a_look_up_that_began_before_a_suspension_is_not_cached() {
    let fixture = Arc::new(Fixture::new(|_| ()));
    for (code, after, status) in [("link-1", vec![ANN], 451), ("link-2", vec![], 302)] {
        fixture.insert(link_of(ANN, code)).await;
        fixture.store.delay(Duration::from_millis(50));
        let visit = {
            let fixture = Arc::clone(&fixture);
            tokio::spawn(async move { fixture.visit(code).await.0 })
        };
        tokio::time::sleep(Duration::from_millis(20)).await;
        let reads = fixture.store.gets();
        fixture.redirector.suspend(&after);
        fixture.store.delay(Duration::ZERO);
        assert_eq!(visit.await.unwrap(), status);
        assert_eq!(fixture.visit(code).await.0, status);
        assert!(fixture.store.gets() > reads, "it was looked up again");
    }
}

#[tokio::test]
async fn a_suspension_in_loose_mode_holds_for_every_spelling() {
    let fixture = Fixture::new(|settings| settings.loose = true);
    fixture.insert(link_of(ANN, "My-Link")).await;
    assert_eq!(fixture.visit("my-link").await.0, 302);
    fixture.redirector.suspend(&[ANN]);
    for code in ["my-link", "My-Link", "MY-LINK"] {
        assert_eq!(fixture.visit(code).await.0, 451, "{code}");
    }
}
