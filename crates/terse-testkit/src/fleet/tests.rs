//! A history without faults passes, and one that breaks a promise is caught by that promise alone.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{
    Action, FinalCounts, History, LinkStatistics, Operation, Outcome, Predicate, VisitAnswer,
    Window, check,
};

fn op(call: u64, returned: u64, node: usize, outcome: Outcome, action: Action) -> Operation {
    Operation { call, returned, node, outcome, action, is_error: false }
}

fn create(at: u64, key: &str, target: &str, request: &str, outcome: Outcome) -> Operation {
    let action = Action::Create {
        key: key.into(),
        target: target.into(),
        owner: "ann".into(),
        request: request.into(),
        max_clicks: None,
        reused: false,
    };
    op(at, at + 5, 0, outcome, action)
}

fn limited(at: u64, key: &str, max: u64) -> Operation {
    let mut made = create(at, key, "limited", key, Outcome::Ok);
    if let Action::Create { max_clicks, .. } = &mut made.action {
        *max_clicks = Some(max);
    }
    made
}

/// A visit whose mark is its time and node.
fn read(at: u64, node: usize, key: &str, answer: VisitAnswer) -> Operation {
    let outcome = match answer {
        VisitAnswer::Nothing => Outcome::Unknown,
        VisitAnswer::Unavailable => Outcome::Failed,
        _ => Outcome::Ok,
    };
    let mark = format!("{at}-{node}");
    let is_error = outcome != Outcome::Ok;
    let action = Action::Read { key: key.into(), mark, answer, remembered: false };
    Operation { is_error, ..op(at, at + 2, node, outcome, action) }
}

fn to(target: &str) -> VisitAnswer {
    VisitAnswer::Redirect(target.into())
}

fn update(at: u64, key: &str, target: &str, revision: u64) -> Operation {
    let action = Action::Update { key: key.into(), target: target.into(), revision };
    op(at, at + 5, 0, Outcome::Ok, action)
}

fn total(at: u64, node: usize, key: &str, clicks: u64) -> Operation {
    op(at, at + 2, node, Outcome::Ok, Action::Total { key: key.into(), clicks: Some(clicks) })
}

fn block(at: u64, key: &str) -> Operation {
    op(at, at + 5, 0, Outcome::Ok, Action::Block { key: key.into() })
}

fn unblock(at: u64, key: &str) -> Operation {
    op(at, at + 5, 0, Outcome::Ok, Action::Unblock { key: key.into() })
}

fn delete(at: u64, key: &str, outcome: Outcome) -> Operation {
    op(at, at + 5, 0, outcome, Action::Delete { key: key.into() })
}

fn erase(at: u64, text: &str) -> Operation {
    op(at, at + 5, 0, Outcome::Ok, Action::Erase { text: text.into() })
}

fn show(at: u64, text: &str) -> Operation {
    op(at, at + 5, 2, Outcome::Ok, Action::Show { text: text.into() })
}

fn of(operations: Vec<Operation>) -> History {
    History { operations, healed_at: Some(60_000), ..History::default() }
}

fn counted(marks: &[&str]) -> LinkStatistics {
    let n = marks.len() as u64;
    let marks = marks.iter().map(|mark| (*mark).to_owned()).collect();
    LinkStatistics { owner: "ann".into(), total: n, hours: n, marks }
}

#[track_caller]
fn breaks(history: &History, expected: Predicate) {
    let broken = check(history);
    assert!(!broken.is_empty(), "{expected:?} was not noticed:\n{}", history.to_text());
    for violation in &broken {
        assert_eq!(violation.predicate, expected, "{broken:?}");
    }
}

#[track_caller]
fn holds(history: &History) {
    assert_eq!(check(history), [], "{}", history.to_text());
}

const OK: Outcome = Outcome::Ok;

#[test]
fn a_history_of_a_sound_fleet_passes() {
    let mut history = of(vec![
        read(1, 1, "k", VisitAnswer::Missing),
        create(10, "k", "t0", "r1", OK),
        // Remembered as missing for up to five seconds.
        read(20, 1, "k", VisitAnswer::Missing),
        read(30, 0, "k", to("t0")),
        update(6_000, "k", "t1", 1),
        read(6_100, 1, "k", to("t0")),
        read(6_200, 1, "k", to("t1")),
        read(7_000, 1, "k", VisitAnswer::Nothing),
        create(8_000, "u", "u0", "r2", Outcome::Unknown),
        read(61_000, 0, "u", VisitAnswer::Missing),
        limited(9_000, "l", 1),
        read(9_100, 2, "l", to("limited")),
        read(9_200, 1, "l", VisitAnswer::Gone),
        total(20_000, 0, "k", 2),
        total(20_100, 1, "k", 3),
        block(30_000, "k"),
        read(36_000, 1, "k", VisitAnswer::Blocked),
    ]);
    history.faults = vec![(None, Window { from: 6_990, to: 7_010 })];
    history.effects = vec![("reaper".into(), 1), ("reaper".into(), 1), ("reaper".into(), 4)];
    let mut drained = FinalCounts::default();
    drained.links.insert("k".into(), counted(&["30-0", "6100-1", "6200-1"]));
    drained.links.insert("l".into(), counted(&["9100-2"]));
    drained.owners.insert("ann".into(), 4);
    history.drained = Some(drained);
    holds(&history);
}

#[test]
fn a_created_link_that_is_missing_or_wrong_is_noticed() {
    for wrong in [VisitAnswer::Missing, to("other"), VisitAnswer::Status(500), VisitAnswer::Gone] {
        let history = of(vec![create(10, "k", "t0", "r", OK), read(20, 1, "k", wrong.clone())]);
        let found = check(&history);
        assert_eq!(found[0].predicate, Predicate::Durable, "{wrong:?}");
    }
    let late = [read(1, 1, "k", VisitAnswer::Missing), create(10, "k", "t0", "r", OK)];
    let later = read(5_016, 1, "k", VisitAnswer::Missing);
    breaks(&of([&late[..], &[later]].concat()), Predicate::Durable);
    let mut healed =
        of(vec![create(10, "k", "t", "r", OK), read(60_001, 1, "k", VisitAnswer::Nothing)]);
    healed.faults = vec![(None, Window { from: 59_000, to: 60_000 })];
    breaks(&healed, Predicate::Durable);
}

#[test]
fn a_changed_link_that_is_missing_or_wrong_in_the_end_is_noticed() {
    let changed = [create(1, "k", "t0", "r", OK), update(10, "k", "t1", 1)];
    let after = |more: &[Operation], answer: VisitAnswer| {
        let faults = vec![(None, Window { from: 59_000, to: 60_000 })];
        let read = read(61_000, 1, "k", answer);
        History { faults, ..of([&changed[..], more, &[read]].concat()) }
    };
    holds(&after(&[], to("t1")));
    for wrong in [
        VisitAnswer::Missing,
        VisitAnswer::Gone,
        VisitAnswer::Blocked,
        VisitAnswer::Unavailable,
        VisitAnswer::Nothing,
        VisitAnswer::Status(500),
    ] {
        breaks(&after(&[], wrong.clone()), Predicate::Durable);
        let cleared = [block(20, "k"), unblock(30, "k")];
        let found = check(&after(&cleared, wrong));
        assert!(found.iter().any(|broken| broken.predicate == Predicate::Durable), "{found:?}");
    }
    // A block or a deletion explains it.
    holds(&after(&[block(20, "k")], VisitAnswer::Blocked));
    let lost = update(20, "k", "t2", 2);
    let lost = Operation { outcome: Outcome::Unknown, ..lost };
    holds(&after(std::slice::from_ref(&lost), to("t1")));
    holds(&after(std::slice::from_ref(&lost), to("t2")));
    breaks(&after(std::slice::from_ref(&lost), VisitAnswer::Missing), Predicate::Durable);
    for outcome in [OK, Outcome::Unknown] {
        holds(&after(&[delete(20, "k", outcome)], VisitAnswer::Missing));
    }
    breaks(&after(&[delete(20, "k", Outcome::Failed)], VisitAnswer::Missing), Predicate::Durable);
    // Before all is healed, and while a change arrives, nothing is demanded.
    holds(&of([&changed[..], &[read(50_000, 1, "k", VisitAnswer::Missing)]].concat()));
    holds(&after(&[update(58_000, "k", "t2", 2)], to("t1")));
}

#[test]
fn a_code_with_two_links_is_noticed() {
    let twice = of(vec![create(10, "k", "t0", "r1", OK), create(20, "k", "t1", "r2", OK)]);
    breaks(&twice, Predicate::Unique);
    let replayed = of(vec![create(10, "k", "t0", "r1", OK), create(20, "k", "t0", "r1", OK)]);
    holds(&replayed);
    let mut reused = create(20, "k", "t0", "r2", OK);
    if let Action::Create { reused, .. } = &mut reused.action {
        *reused = true;
    }
    holds(&of(vec![create(10, "k", "t0", "r1", OK), reused]));
}

#[test]
fn a_create_that_comes_and_goes_is_noticed() {
    let unknown = create(10, "k", "t0", "r", Outcome::Unknown);
    let both = |first, second| {
        of(vec![unknown.clone(), read(61_000, 0, "k", first), read(61_100, 1, "k", second)])
    };
    breaks(&both(to("t0"), VisitAnswer::Missing), Predicate::UnknownSettles);
    breaks(&both(VisitAnswer::Missing, to("t0")), Predicate::UnknownSettles);
    holds(&both(to("t0"), to("t0")));
    holds(&both(VisitAnswer::Missing, VisitAnswer::Missing));
    let lost = [read(100, 0, "k", to("t0")), read(9_000, 0, "k", VisitAnswer::Missing)];
    breaks(&of([&[unknown][..], &lost].concat()), Predicate::UnknownSettles);
    let failed = create(10, "k", "t0", "r", Outcome::Failed);
    breaks(&of(vec![failed, read(100, 0, "k", to("t0"))]), Predicate::UnknownSettles);
}

#[test]
fn a_stale_answer_is_noticed() {
    let changed = [create(1, "k", "t0", "r", OK), update(10, "k", "t1", 1)];
    let stale = of([&changed[..], &[read(5_016, 1, "k", to("t0"))]].concat());
    breaks(&stale, Predicate::Fresh);
    let mut cut = stale.clone();
    cut.cuts = vec![(1, Window { from: 4_000, to: 4_500 })];
    holds(&cut);
    cut.cuts = vec![(2, Window { from: 4_000, to: 4_500 })];
    breaks(&cut, Predicate::Fresh);
    // A node that reaches the store again has five seconds, as any other.
    let healed = of([&changed[..], &[read(9_502, 1, "k", to("t0"))]].concat());
    let healed = History { cuts: vec![(1, Window { from: 4_000, to: 4_500 })], ..healed };
    breaks(&healed, Predicate::Fresh);
    let back = [read(100, 1, "k", to("t1")), read(110, 1, "k", to("t0"))];
    breaks(&of([&changed[..], &back].concat()), Predicate::Fresh);
    let apart = [read(100, 1, "k", to("t1")), read(110, 2, "k", to("t0"))];
    holds(&of([&changed[..], &apart].concat()));
    let blocked = [create(1, "k", "t0", "r", OK), block(10, "k")];
    breaks(&of([&blocked[..], &[read(5_016, 1, "k", to("t0"))]].concat()), Predicate::Fresh);
    let deleted = [create(1, "k", "t0", "r", OK), delete(10, "k", OK)];
    breaks(&of([&deleted[..], &[read(5_016, 1, "k", to("t0"))]].concat()), Predicate::Fresh);
    breaks(&of([&deleted[..], &[read(61_000, 1, "k", to("t0"))]].concat()), Predicate::Fresh);
    holds(&of([&deleted[..], &[read(61_000, 1, "k", VisitAnswer::Gone)]].concat()));
    breaks(&of(vec![read(10, 1, "k", to("invented"))]), Predicate::Fresh);
}

#[test]
fn clicks_that_are_lost_doubled_or_invented_are_noticed() {
    let visits = |marks: LinkStatistics, owner: u64| {
        let mut history = of(vec![
            create(1, "k", "t0", "r", OK),
            read(10, 0, "k", to("t0")),
            read(20, 1, "k", VisitAnswer::Nothing),
        ]);
        history.faults = vec![(None, Window { from: 15, to: 25 })];
        let mut drained = FinalCounts::default();
        drained.links.insert("k".into(), marks);
        drained.owners.insert("ann".into(), owner);
        history.drained = Some(drained);
        history
    };
    holds(&visits(counted(&["10-0"]), 1));
    holds(&visits(counted(&["10-0", "20-1"]), 2));
    for (marks, owner) in [
        (counted(&["20-1"]), 1),
        (counted(&["10-0", "10-0"]), 2),
        (counted(&["10-0", "20-1", "20-1"]), 3),
        (counted(&["10-0", "never"]), 2),
        (LinkStatistics { hours: 2, ..counted(&["10-0"]) }, 1),
        (LinkStatistics { total: 2, hours: 2, ..counted(&["10-0"]) }, 2),
        (counted(&["10-0"]), 7),
    ] {
        breaks(&visits(marks, owner), Predicate::Clicks);
    }
}

#[test]
fn a_limit_that_is_passed_or_reached_too_early_is_noticed() {
    let visits = |answers: &[VisitAnswer]| {
        let mut all = vec![limited(1, "k", 2)];
        for (n, answer) in (0u64..).zip(answers) {
            all.push(read(100 + 10 * n, 1, "k", answer.clone()));
        }
        let mut history = of(all);
        history.faults = vec![(None, Window { from: 0, to: 1_000 })];
        history
    };
    let redirect = || to("limited");
    holds(&visits(&[redirect(), redirect(), VisitAnswer::Gone]));
    holds(&visits(&[redirect(), VisitAnswer::Nothing, VisitAnswer::Gone]));
    breaks(&visits(&[redirect(), redirect(), redirect()]), Predicate::Limit);
    breaks(&visits(&[redirect(), VisitAnswer::Gone]), Predicate::Limit);
}

#[test]
fn a_job_that_writes_after_it_was_replaced_is_noticed() {
    let mut history = of(Vec::new());
    let effect = |job: &str, token| (job.to_owned(), token);
    history.effects = vec![effect("a", 3), effect("b", 1), effect("a", 4), effect("b", 2)];
    holds(&history);
    history.effects.push(effect("a", 3));
    breaks(&history, Predicate::Fence);
}

#[test]
fn a_request_with_two_links_is_noticed() {
    let history = of(vec![create(1, "k1", "t0", "r", OK), create(10, "k2", "t0", "r", OK)]);
    breaks(&history, Predicate::Idempotent);
}

#[test]
fn what_was_erased_and_is_shown_is_noticed() {
    holds(&of(vec![show(1, "secret.example"), erase(10, "secret.example"), show(20, "else")]));
    breaks(&of(vec![erase(10, "secret.example"), show(20, "x secret.example")]), Predicate::Erased);
    let made = create(1, "k", "https://secret.example/", "r", OK);
    let visit = |at: u64| read(at, 2, "k", to("https://secret.example/"));
    holds(&of(vec![made.clone(), visit(5), erase(10, "secret.example")]));
    breaks(&of(vec![made, erase(10, "secret.example"), visit(20)]), Predicate::Erased);
}

#[test]
fn an_error_without_a_fault_is_noticed() {
    let mut history =
        of(vec![create(1, "k", "t0", "r", OK), read(20_000, 1, "k", VisitAnswer::Unavailable)]);
    breaks(&history, Predicate::Available);
    history.faults = vec![(None, Window { from: 9_000, to: 9_500 })];
    breaks(&history, Predicate::Available);
    history.faults = vec![(None, Window { from: 9_000, to: 10_500 })];
    holds(&history);
    history.faults[0].0 = Some(1);
    holds(&history);
    // A fault of another node excuses nothing.
    history.faults[0].0 = Some(2);
    breaks(&history, Predicate::Available);
    history.faults[0].0 = None;
    // A link that the node knows is answered also while the store is away.
    history.store_away = vec![Window { from: 19_000, to: 21_000 }];
    holds(&history);
    if let Action::Read { remembered, .. } = &mut history.operations[1].action {
        *remembered = true;
    }
    breaks(&history, Predicate::Available);
}

#[test]
fn statistics_that_fail_without_a_fault_are_noticed() {
    let action = Action::Total { key: "k".into(), clicks: None };
    let failed = Operation { is_error: true, ..op(20_000, 20_002, 1, Outcome::Failed, action) };
    let mut history = of(vec![total(10, 0, "k", 3), failed]);
    breaks(&history, Predicate::Available);
    history.faults = vec![(None, Window { from: 19_000, to: 21_000 })];
    holds(&history);
}

#[test]
fn a_total_that_decreases_is_noticed() {
    holds(&of(vec![total(10, 0, "k", 3), total(11, 1, "k", 2), total(20, 1, "k", 3)]));
    breaks(&of(vec![total(10, 0, "k", 3), total(20, 1, "k", 2)]), Predicate::Monotone);
    holds(&of(vec![total(10, 0, "k", 3), erase(15, "k"), total(30, 1, "k", 0)]));
}

#[test]
fn a_node_that_blocks_what_was_cleared_is_noticed() {
    let cleared = vec![
        create(10, "k", "t0", "r1", OK),
        block(1_000, "k"),
        unblock(2_000, "k"),
        read(6_000, 1, "k", VisitAnswer::Blocked),
    ];
    holds(&of(cleared.clone()));
    let late = read(8_000, 1, "k", VisitAnswer::Blocked);
    let mut history = of([cleared.clone(), vec![late.clone()]].concat());
    breaks(&history, Predicate::Fresh);
    history.cuts = vec![(1, Window { from: 1_500, to: 4_000 })];
    holds(&history);
    holds(&of([cleared, vec![block(7_000, "k"), late]].concat()));
}
