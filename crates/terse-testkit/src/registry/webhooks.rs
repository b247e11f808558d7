//! Webhooks and their queued deliveries.

use std::sync::Arc;
use std::time::Duration;

use terse_core::registry::{
    Actor, AuditAction, AuditQuery, DELIVERY_RETENTION, Deactivation, Delivery, DeliveryClaim,
    DeliveryResult, DeliveryState, DueDelivery, EnqueueResult, EventKind, MAX_SETTLED_PER_WEBHOOK,
    MAX_WAITING_PER_WEBHOOK, MAX_WEBHOOKS_PER_OWNER, NewEvent, NewWebhook, RegistryError,
    SubscribedEvents, Webhook, WebhookChange, WebhookId, WebhookToggle, subject,
};
use terse_core::{OwnerId, Target, Timestamp};

use super::{
    DAY, HOUR, RegistryHandle, acts, add, by, change, log, race, refused, reinstate, suspend,
};
use crate::timestamp;

const CLAIM_DURATION: Duration = Duration::from_secs(60);

pub(super) fn new_webhook(owner: OwnerId, events: &[EventKind]) -> NewWebhook {
    let url = Target::from_stored("https://hook.example/secret-path?secret=query".into());
    NewWebhook { owner, url, events: events.iter().copied().collect(), created_at: timestamp(0) }
}

pub(super) async fn hook(store: &RegistryHandle, owner: OwnerId) -> Webhook {
    store.add_webhook(new_webhook(owner, &EventKind::ALL), by()).await.unwrap()
}

pub(super) fn event(owner: OwnerId, n: u64) -> NewEvent {
    let (id, body) = (format!("evt_{n}"), format!("{{\"n\":{n}}}"));
    NewEvent {
        id,
        owner,
        kind: EventKind::LinkCreated,
        body,
        at: timestamp(n.cast_signed()),
        only: None,
    }
}

fn claim(now: i64) -> DeliveryClaim {
    DeliveryClaim {
        now: timestamp(now),
        claim_duration: CLAIM_DURATION,
        after: WebhookId(0),
        limit: 100,
    }
}

pub(super) async fn due(store: &RegistryHandle, now: i64) -> Vec<DueDelivery> {
    store.due(claim(now)).await.unwrap()
}

fn names(due: &[DueDelivery]) -> Vec<&str> {
    due.iter().map(|due| due.delivery.event.as_str()).collect()
}

pub(super) async fn record(
    store: &RegistryHandle,
    due: &DueDelivery,
    status: u16,
    now: i64,
) -> bool {
    store
        .record_attempt(due.attempt(
            DeliveryResult::Answered { status, retry_after: None },
            timestamp(now),
            0.0,
        ))
        .await
        .unwrap()
}

fn off() -> WebhookChange {
    let why = Deactivation { at: timestamp(3), why: "enough".into() };
    WebhookChange { switch: Some(WebhookToggle::Off(why)), ..WebhookChange::default() }
}

fn on_at(at: i64) -> WebhookChange {
    WebhookChange { switch: Some(WebhookToggle::On(timestamp(at))), ..WebhookChange::default() }
}

async fn deliveries(store: &RegistryHandle, webhook: &Webhook) -> Vec<Delivery> {
    store.deliveries(webhook.owner, webhook.id, 100_000).await.unwrap()
}

/// Times that were written by a clock a year ahead would hold deliveries back for a year.
pub async fn a_clock_that_was_wrong_holds_no_delivery_back(store: RegistryHandle) {
    const YEAR: i64 = 365 * 86_400_000;
    let ann = add(&store, "ann").await.id;
    hook(&store, ann).await;
    store.enqueue_all(vec![event(ann, 1)]).await.unwrap();
    // An attempt that failed, and one that never ended.
    let failed = due(&store, YEAR).await;
    assert!(record(&store, &failed[0], 500, YEAR).await);
    assert_eq!(due(&store, YEAR).await.len(), 0, "it waits");
    assert_eq!(due(&store, 10).await.len(), 1, "the clock is right again");
    assert_eq!(due(&store, 2 * YEAR).await.len(), 1);
    assert_eq!(due(&store, 20).await.len(), 1, "a claim does not last for a year");
    let again = due(&store, 200_000).await;
    assert!(record(&store, &again[0], 500, 200_000).await);
    assert_eq!(due(&store, 200_000).await.len(), 0, "other pauses are kept");
}

pub async fn a_webhook_is_made_changed_and_removed(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    let wanted = new_webhook(ann, &[EventKind::LinkCreated]);
    let made = store.add_webhook(wanted.clone(), by()).await.unwrap();
    assert_eq!(made, wanted.into_webhook(made.id));
    let other = hook(&store, ann).await;
    assert!(other.id > made.id);
    let events: SubscribedEvents = [EventKind::LinkDeleted].into_iter().collect();
    let url = Target::from_stored("https://other.example/".into());
    let change = WebhookChange {
        url: Some(url.clone()),
        events: Some(events),
        rotate: Some(timestamp(9)),
        ..WebhookChange::default()
    };
    let changed = store.change_webhook(ann, made.id, change, by()).await.unwrap();
    assert_eq!(
        (&changed.url, changed.events, changed.generation, changed.rotated_at),
        (&url, events, 2, Some(timestamp(9)))
    );
    let changed = store.change_webhook(ann, made.id, off(), by()).await.unwrap();
    assert_eq!(changed.disabled, Some(Deactivation { at: timestamp(3), why: "enough".into() }));
    assert_eq!(store.webhooks(ann).await.unwrap(), [changed.clone(), other.clone()]);
    let same = store.change_webhook(ann, made.id, WebhookChange::default(), by()).await.unwrap();
    assert_eq!(same, changed);
    store.remove_webhook(ann, made.id, by()).await.unwrap();
    refused!(store.remove_webhook(ann, made.id, by()).await, Missing);
    assert_eq!(store.webhooks(ann).await.unwrap(), [other]);
    let mut want =
        vec![AuditAction::UserAdded, AuditAction::WebhookAdded, AuditAction::WebhookAdded];
    want.extend([
        AuditAction::WebhookChanged,
        AuditAction::WebhookDisabled,
        AuditAction::WebhookRemoved,
    ]);
    assert_eq!(acts(&store).await, want);
    let about = AuditQuery {
        subject: Some(subject::webhook(made.id)),
        limit: 100,
        ..AuditQuery::default()
    };
    assert_eq!(store.audit(&about).await.unwrap().len(), 4);
    assert!(
        !format!("{:?}", log(&store).await).contains("secret-path"),
        "of an address, the host is enough"
    );
}

pub async fn webhooks_belong_to_their_owner(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    let (of_ann, of_operator) = (hook(&store, ann).await, hook(&store, OwnerId::ADMIN).await);
    for owner in [OwnerId::ANONYMOUS, OwnerId(u64::MAX)] {
        refused!(store.add_webhook(new_webhook(owner, &EventKind::ALL), by()).await, Missing);
    }
    refused!(store.change_webhook(bob, of_ann.id, off(), by()).await, Missing);
    refused!(store.remove_webhook(bob, of_ann.id, by()).await, Missing);
    refused!(store.deliveries(bob, of_ann.id, 10).await, Missing);
    refused!(store.deliveries(ann, WebhookId(u64::MAX), 10).await, Missing);
    assert!(store.webhooks(bob).await.unwrap().is_empty());
    assert_eq!(store.webhooks(ann).await.unwrap(), [of_ann]);
    assert_eq!(store.webhooks(OwnerId::ADMIN).await.unwrap(), [of_operator]);
}

pub async fn there_are_at_most_so_many_webhooks_each(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    for _ in 0..MAX_WEBHOOKS_PER_OWNER {
        hook(&store, ann).await;
    }
    refused!(store.add_webhook(new_webhook(ann, &EventKind::ALL), by()).await, TooMany);
    hook(&store, bob).await;
    assert_eq!(acts(&store).await.len(), 2 + MAX_WEBHOOKS_PER_OWNER + 1);
}

pub async fn those_with_a_webhook_that_is_on_are_known(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    assert!(store.owners_with_webhooks().await.unwrap().is_empty());
    let (one, _) = (hook(&store, bob).await, hook(&store, ann).await);
    hook(&store, ann).await;
    assert_eq!(store.owners_with_webhooks().await.unwrap(), [ann, bob]);
    store.change_webhook(bob, one.id, off(), by()).await.unwrap();
    assert_eq!(store.owners_with_webhooks().await.unwrap(), [ann]);
    store.change_webhook(bob, one.id, on_at(4), by()).await.unwrap();
    assert_eq!(store.owners_with_webhooks().await.unwrap(), [ann, bob]);
    store.remove_webhook(bob, one.id, by()).await.unwrap();
    assert_eq!(store.owners_with_webhooks().await.unwrap(), [ann]);
}

pub async fn the_deliveries_that_wait_are_counted(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    let waiting = async || store.waiting_deliveries().await.unwrap();
    assert_eq!(waiting().await, 0);
    let of_ann = hook(&store, ann).await;
    hook(&store, ann).await;
    hook(&store, bob).await;
    store.enqueue_all(vec![event(ann, 1), event(ann, 2), event(bob, 3)]).await.unwrap();
    assert_eq!(waiting().await, 5);
    let first_due = due(&store, 10).await;
    assert!(record(&store, &first_due[0], 200, 10).await);
    assert!(record(&store, &first_due[1], 500, 10).await);
    assert_eq!(waiting().await, 4, "one was delivered, one waits for its next attempt");
    store.remove_webhook(ann, of_ann.id, by()).await.unwrap();
    assert_eq!(waiting().await, 3);
}

pub async fn an_event_is_enqueued_once_per_webhook(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    let first = hook(&store, ann).await;
    let events = || vec![event(ann, 1), event(ann, 2), event(ann, 1)];
    let enqueued = |deliveries| EnqueueResult { deliveries, unreadable: Vec::new() };
    assert_eq!(store.enqueue_all(events()).await.unwrap(), enqueued(2));
    // After a crash the same events come again, also when one was delivered meanwhile.
    let first_due = due(&store, 10).await;
    assert!(record(&store, &first_due[0], 200, 10).await);
    let second = hook(&store, ann).await;
    assert_eq!(store.enqueue_all(events()).await.unwrap(), enqueued(2), "for the new webhook only");
    assert_eq!(store.enqueue_all(events()).await.unwrap(), enqueued(0));
    for (webhook, waiting) in [(&first, 1), (&second, 2)] {
        assert_eq!(deliveries(&store, webhook).await.len(), 2);
        let webhooks = store.webhooks(ann).await.unwrap();
        let found = webhooks.iter().find(|found| found.id == webhook.id).unwrap();
        assert_eq!(found.waiting, waiting);
    }
}

pub async fn an_event_waits_for_those_it_concerns(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    let created =
        store.add_webhook(new_webhook(ann, &[EventKind::LinkCreated]), by()).await.unwrap();
    let deleted =
        store.add_webhook(new_webhook(ann, &[EventKind::LinkDeleted]), by()).await.unwrap();
    let (all, of_bob, silent) =
        (hook(&store, ann).await, hook(&store, bob).await, hook(&store, ann).await);
    store.change_webhook(ann, silent.id, off(), by()).await.unwrap();
    assert_eq!(store.enqueue(event(ann, 1)).await.unwrap(), 2);
    assert_eq!(store.enqueue(event(OwnerId(5), 2)).await.unwrap(), 0);
    // A test event goes to one webhook, whatever events that webhook subscribes to.
    let test = NewEvent { kind: EventKind::Test, only: Some(deleted.id), ..event(ann, 3) };
    assert_eq!(store.enqueue(test.clone()).await.unwrap(), 1);
    assert_eq!(store.enqueue(NewEvent { owner: bob, ..test.clone() }).await.unwrap(), 0);
    assert_eq!(store.enqueue(NewEvent { only: Some(silent.id), ..test }).await.unwrap(), 0);
    let found = deliveries(&store, &created).await;
    assert_eq!(found, [event(ann, 1).delivery(found[0].id, created.id)]);
    let counts = [&created, &deleted, &all, &of_bob, &silent]
        .map(async |webhook| deliveries(&store, webhook).await.len());
    let mut have = Vec::new();
    for count in counts {
        have.push(count.await);
    }
    assert_eq!(have, [1, 1, 1, 0, 0]);
    assert_eq!(
        store
            .webhooks(ann)
            .await
            .unwrap()
            .iter()
            .map(|webhook| webhook.waiting)
            .collect::<Vec<_>>(),
        [1, 1, 1, 0]
    );
}

pub async fn a_due_delivery_is_claimed_by_one_node(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    let (one, two) = (hook(&store, ann).await, hook(&store, ann).await);
    for n in 1..=3 {
        store.enqueue(event(ann, n)).await.unwrap();
    }
    assert!(due(&store, 0).await.is_empty(), "nothing has happened yet");
    let racing = (0..20).map(|_| {
        let store = Arc::clone(&store);
        async move { store.due(claim(10)).await.unwrap() }
    });
    let mut lent: Vec<DueDelivery> = race(racing).await.into_iter().flatten().collect();
    lent.sort_by_key(|due| due.webhook.id);
    assert_eq!(
        lent.iter().map(|due| due.webhook.id).collect::<Vec<_>>(),
        [one.id, two.id],
        "one of each, to one"
    );
    assert_eq!(names(&lent), ["evt_1", "evt_1"]);
    assert!(due(&store, 10).await.is_empty());
    // Once it is settled, the next delivery is due; the other is still claimed.
    assert!(record(&store, &lent[0], 200, 20).await);
    let next = due(&store, 30).await;
    assert_eq!((names(&next), next[0].webhook.id), (vec!["evt_2"], one.id));
    // After the claim has expired, its holder can no longer record an attempt.
    let late = CLAIM_DURATION.as_millis() as i64 + 10;
    let again = due(&store, late).await;
    assert_eq!((names(&again), again[0].webhook.id), (vec!["evt_1"], two.id));
    assert!(!record(&store, &lent[1], 200, late).await);
    assert!(record(&store, &again[0], 200, late).await);
    assert!(!record(&store, &again[0], 200, late).await, "once is enough");
    let last = deliveries(&store, &two).await.pop().unwrap();
    assert_eq!((last.state, last.attempts), (DeliveryState::Delivered, 1));
    assert_eq!(last.body, lent[1].delivery.body, "it can be sent again");
}

pub async fn an_attempt_that_failed_is_made_again_later(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    let webhook = hook(&store, ann).await;
    store.enqueue(event(ann, 1)).await.unwrap();
    store.enqueue(event(ann, 2)).await.unwrap();
    let first = due(&store, 10).await;
    let outcome = DeliveryResult::Unanswered("too_slow".into());
    assert!(store.record_attempt(first[0].attempt(outcome, timestamp(10), 0.0)).await.unwrap());
    // The other webhooks need not wait for it.
    let second = due(&store, 11).await;
    assert_eq!(names(&second), ["evt_2"]);
    assert!(record(&store, &second[0], 500, 11).await);
    assert!(due(&store, 10_009).await.is_empty());
    let again = due(&store, 10_010).await;
    assert_eq!(names(&again), ["evt_1"]);
    let delivery = &again[0].delivery;
    assert_eq!(
        (delivery.attempts, delivery.problem.as_deref(), delivery.body.as_str()),
        (1, Some("too_slow"), "{\"n\":1}")
    );
    assert!(record(&store, &again[0], 204, 10_010).await);
    let found = deliveries(&store, &webhook).await;
    let shape =
        |one: &Delivery| (one.event.clone(), one.state, one.attempts, one.status, one.tried_at);
    let want = [
        ("evt_2".to_owned(), DeliveryState::Waiting, 1, Some(500), Some(timestamp(11))),
        ("evt_1".to_owned(), DeliveryState::Delivered, 2, Some(204), Some(timestamp(10_010))),
    ];
    assert_eq!(found.iter().map(shape).collect::<Vec<_>>(), want);
    let webhook = &store.webhooks(ann).await.unwrap()[0];
    assert_eq!((webhook.waiting, webhook.delivered_at), (1, Some(timestamp(10_010))));
}

pub async fn every_webhook_has_its_turn(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(hook(&store, ann).await.id);
    }
    for n in 1..=4 {
        store.enqueue(event(ann, n)).await.unwrap();
    }
    let (mut after, mut served) = (WebhookId(0), Vec::new());
    for _ in 0..5 {
        let some = store.due(DeliveryClaim { after, limit: 2, ..claim(10) }).await.unwrap();
        assert_eq!(some.len(), 2);
        after = some[1].webhook.id;
        for due in &some {
            served.push(due.webhook.id);
            record(&store, due, 200, 10).await;
        }
    }
    assert_eq!(served, [&ids[..], &ids[..]].concat());
    assert!(store.due(DeliveryClaim { limit: 0, ..claim(10) }).await.unwrap().is_empty());
}

pub async fn what_is_off_or_suspended_is_not_due(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    let (one, _) = (hook(&store, ann).await, hook(&store, bob).await);
    store.enqueue(event(ann, 1)).await.unwrap();
    store.enqueue(event(bob, 2)).await.unwrap();
    store.change_webhook(ann, one.id, off(), by()).await.unwrap();
    change(&store, bob, suspend()).await.unwrap();
    assert!(due(&store, 10).await.is_empty());
    store.change_webhook(ann, one.id, on_at(4), by()).await.unwrap();
    assert_eq!(names(&due(&store, 10).await), ["evt_1"]);
    change(&store, bob, reinstate()).await.unwrap();
    assert_eq!(names(&due(&store, 10).await), ["evt_2"]);
}

pub async fn a_receiver_that_is_gone_is_switched_off(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    let webhook = hook(&store, ann).await;
    store.enqueue(event(ann, 1)).await.unwrap();
    store.enqueue(event(ann, 2)).await.unwrap();
    let first = due(&store, 10).await;
    assert!(record(&store, &first[0], 410, 20).await);
    let disabled = store.webhooks(ann).await.unwrap()[0].disabled.clone().unwrap();
    assert!(disabled.at == timestamp(20) && disabled.why.contains("410"), "{disabled:?}");
    assert!(due(&store, DAY).await.is_empty());
    assert_eq!(store.enqueue(event(ann, 3)).await.unwrap(), 0);
    let line = &log(&store).await[0];
    assert_eq!(
        (line.act, line.actor, line.at),
        (AuditAction::WebhookDisabled, Actor::Terse, timestamp(20))
    );
    assert_eq!(line.why.as_ref(), Some(&disabled.why));
    // Waiting deliveries are still there when the webhook is enabled again.
    store.change_webhook(ann, webhook.id, on_at(4), by()).await.unwrap();
    assert_eq!(names(&due(&store, DAY).await), ["evt_2"]);
}

/// Events wait in the outbox of the links for a while before they are enqueued.
pub async fn an_event_from_before_a_webhook_was_enabled_is_not_enqueued(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    let webhook = hook(&store, ann).await;
    assert_eq!(webhook.active_since, webhook.created_at);
    store.change_webhook(ann, webhook.id, off(), by()).await.unwrap();
    let enabled = store.change_webhook(ann, webhook.id, on_at(6), by()).await.unwrap();
    assert_eq!((enabled.disabled.clone(), enabled.active_since), (None, timestamp(6)));
    assert_eq!(store.webhooks(ann).await.unwrap(), std::slice::from_ref(&enabled));
    let enqueued = store.enqueue_all(vec![event(ann, 5), event(ann, 6)]).await.unwrap();
    assert_eq!(enqueued.deliveries, 1);
    assert_eq!(names(&due(&store, 10).await), ["evt_6"]);
    // Enabled twice, it still receives what happened in between.
    let again = store.change_webhook(ann, webhook.id, on_at(9), by()).await.unwrap();
    assert_eq!(again.active_since, timestamp(6));
}

pub async fn of_too_many_that_wait_the_oldest_go(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    let webhook = hook(&store, ann).await;
    let each = MAX_WAITING_PER_WEBHOOK / 8;
    let racing = (0..8).map(|from| {
        let store = Arc::clone(&store);
        async move {
            for n in from * each..(from + 1) * each {
                store.enqueue(event(ann, n)).await.unwrap();
            }
        }
    });
    race(racing).await;
    let oldest = store.due(claim(HOUR)).await.unwrap().remove(0);
    let first = store.deliveries(ann, webhook.id, 100_000).await.unwrap().pop();
    for n in 0..5 {
        store.enqueue(event(ann, MAX_WAITING_PER_WEBHOOK + n)).await.unwrap();
    }
    let now = store.webhooks(ann).await.unwrap().remove(0);
    assert_eq!((now.waiting, now.dropped), (MAX_WAITING_PER_WEBHOOK, 5));
    let found = store.deliveries(ann, webhook.id, 100_000).await.unwrap();
    assert_eq!(found.first().unwrap().event, format!("evt_{}", MAX_WAITING_PER_WEBHOOK + 4));
    assert!(first.is_some_and(|first| !found.contains(&first)));
    // If the claimed delivery was among those dropped, it cannot be settled.
    let is_there = found.iter().any(|one| one.id == oldest.delivery.id);
    assert_eq!(record(&store, &oldest, 200, HOUR).await, is_there);
    assert_eq!(due(&store, HOUR).await.len(), 1, "either way the loan is over");
}

pub async fn few_of_the_settled_are_kept(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    let webhook = hook(&store, ann).await;
    for n in 0..MAX_SETTLED_PER_WEBHOOK as u64 + 5 {
        store.enqueue(event(ann, n)).await.unwrap();
        record(&store, &due(&store, HOUR).await[0], 200, HOUR).await;
    }
    store.enqueue(event(ann, 1000)).await.unwrap();
    let found = deliveries(&store, &webhook).await;
    assert_eq!(found.len(), MAX_SETTLED_PER_WEBHOOK + 1);
    assert_eq!(
        (found[0].event.as_str(), found.last().unwrap().event.as_str()),
        ("evt_1000", "evt_5")
    );
    assert_eq!(store.deliveries(ann, webhook.id, 2).await.unwrap(), found[..2]);
    let keep = Duration::from_secs(24 * 3600);
    assert_eq!(
        store.prune(None, Timestamp::from_ms(timestamp(2 * DAY).as_ms()), keep, 1000).await.unwrap()
            as usize,
        MAX_SETTLED_PER_WEBHOOK + 2
    );
    assert_eq!(deliveries(&store, &webhook).await.len(), 1, "what waits is not over");
}

/// Even if other rows are kept longer.
pub async fn settled_deliveries_are_kept_for_a_month(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    let webhook = hook(&store, ann).await;
    for n in 1..=2 {
        store.enqueue(event(ann, n)).await.unwrap();
    }
    record(&store, &due(&store, HOUR).await[0], 200, HOUR).await;
    let [waits, settled] = &deliveries(&store, &webhook).await[..] else { panic!("two") };
    let years = Duration::from_secs(2 * 365 * 24 * 3600);
    let month = settled.created_at.checked_add(DELIVERY_RETENTION).unwrap();
    assert_eq!(store.prune(None, month, years, 1000).await.unwrap(), 0);
    let later = Timestamp::from_ms(month.as_ms() + 1);
    assert_eq!(store.prune(None, later, years, 1000).await.unwrap(), 1);
    let left = deliveries(&store, &webhook).await;
    assert_eq!(left.iter().map(|one| &one.event).collect::<Vec<_>>(), [&waits.event]);
}

pub async fn a_delivery_is_sent_again_when_its_owner_asks(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    let webhook = hook(&store, ann).await;
    store.enqueue(event(ann, 1)).await.unwrap();
    let first = due(&store, 10).await;
    assert!(record(&store, &first[0], 200, 11).await);
    assert!(due(&store, 20).await.is_empty());
    let again =
        |owner, name: &str, now| store.resend(owner, webhook.id, name.to_owned(), timestamp(now));
    assert!(matches!(again(bob, "evt_1", 20).await, Err(RegistryError::Missing)));
    assert!(matches!(again(ann, "evt_2", 20).await, Err(RegistryError::Missing)));
    again(ann, "evt_1", 20).await.unwrap();
    assert_eq!(store.webhooks(ann).await.unwrap()[0].waiting, 1);
    let second = due(&store, 20).await;
    assert_eq!((names(&second), second[0].delivery.attempts), (vec!["evt_1"], 0));
    assert_eq!(second[0].delivery.body, first[0].delivery.body);
    // It fails and waits; asking again makes it due at once, and it is still counted once.
    assert!(record(&store, &second[0], 500, 21).await);
    assert!(due(&store, 22).await.is_empty());
    again(ann, "evt_1", 22).await.unwrap();
    let third = due(&store, 22).await;
    assert_eq!((third[0].delivery.attempts, third[0].webhook.waiting), (1, 1));
    assert!(record(&store, &third[0], 204, 23).await);
    assert_eq!(store.webhooks(ann).await.unwrap()[0].waiting, 0);
}

pub async fn with_a_webhook_goes_all_that_waits(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    let (one, two, of_bob) =
        (hook(&store, ann).await, hook(&store, ann).await, hook(&store, bob).await);
    for owner in [ann, bob] {
        store.enqueue(event(owner, 1)).await.unwrap();
    }
    let lent = due(&store, 10).await;
    store.remove_webhook(ann, one.id, by()).await.unwrap();
    assert!(!record(&store, &lent[0], 200, 10).await);
    store.erase_account(ann, by()).await.unwrap();
    assert!(!record(&store, &lent[1], 200, 10).await);
    assert!(store.webhooks(ann).await.unwrap().is_empty());
    refused!(store.deliveries(ann, two.id, 10).await, Missing);
    assert_eq!(store.enqueue(event(ann, 2)).await.unwrap(), 0);
    assert_eq!(store.owners_with_webhooks().await.unwrap(), [bob]);
    assert!(hook(&store, bob).await.id > of_bob.id);
    let mine = [one.id, two.id].map(subject::webhook);
    let lines = log(&store)
        .await
        .into_iter()
        .filter(|line| mine.contains(&line.subject))
        .collect::<Vec<_>>();
    assert!(lines.len() == 3 && !format!("{lines:?}").contains("hook.example"), "{lines:?}");
    assert!(record(&store, &lent[2], 200, 10).await);
}
