//! Dimensions and visitors.

use terse_core::Answered;
use terse_core::clicks::{
    BotKind, Click, ClickSubject, ClickSum, Count, Dimension, Interned, MAX_VALUES_PER_HOUR,
    MAX_VALUES_TOTAL, RawQuery, WarningVisit,
};

use super::{
    ALWAYS, ClickStoreHandle, DAY, HOUR, OWNER, click, humans, link, of_link, orphan, put, report,
    since, starts,
};
use crate::timestamp;

fn count_of(tally: &ClickSum, dimension: Dimension, value: &str) -> Count {
    let values = tally.values(dimension).unwrap();
    values.named().find(|(name, _)| &***name == value).map(|(_, count)| count).unwrap_or_default()
}

fn words(n: usize) -> [Option<Interned>; 12] {
    std::array::from_fn(|dimension| Some(format!("value-{dimension}-{n}").into()))
}

/// A click with a value in every dimension.
pub(super) fn telling(n: usize, ms: i64) -> Click {
    let [referrer, country, city, device, browser, system, language, utm @ ..] = words(n);
    Click {
        referrer,
        country,
        city,
        device,
        browser,
        system,
        language,
        utm,
        ..click(&link("abc"), ms)
    }
}

pub async fn humans_and_bots_are_apart_everywhere(store: ClickStoreHandle) {
    let bot = Click { bot: Some(BotKind::Crawler), ..telling(1, 2) };
    put(&store, vec![telling(1, 1), bot.clone(), bot]).await;
    let both = Count { humans: 1, bots: 2 };
    for period in [ALWAYS, since(0, HOUR)] {
        for subject in
            [ClickSubject::Link(link("abc")), ClickSubject::Owner(OWNER), ClickSubject::Everything]
        {
            let found = store.report(&subject, period, crate::timestamp(5)).await.unwrap();
            assert_eq!((found.tally.clicks, found.recent), (both, both));
            assert_eq!(found.buckets[0].clicks, both);
            assert_eq!(count_of(&found.tally, Dimension::Referrer, "value-0-1"), both);
            assert_eq!(
                count_of(&found.tally, Dimension::BotKind, "crawler"),
                Count { humans: 0, bots: 2 }
            );
        }
    }
}

pub async fn a_repeated_click_is_a_humans_and_named(store: ClickStoreHandle) {
    let repeat = Click { repeat: true, ..telling(1, 2) };
    put(&store, vec![telling(1, 1), repeat.clone(), repeat]).await;
    for period in [ALWAYS, since(0, HOUR)] {
        let found = of_link(&store, &link("abc"), period).await;
        assert_eq!((found.tally.clicks, found.buckets[0].clicks), (humans(3), humans(3)));
        assert_eq!(count_of(&found.tally, Dimension::BotKind, "repeat"), humans(2));
    }
}

pub async fn every_dimension_is_reported(store: ClickStoreHandle) {
    put(&store, vec![telling(1, 1), telling(2, 2), telling(1, HOUR), click(&link("abc"), 3)]).await;
    put(&store, vec![telling(1, DAY)]).await;
    for period in [ALWAYS, since(0, 2 * DAY)] {
        let found = of_link(&store, &link("abc"), period).await.tally;
        for (dimension, n) in Dimension::ALL.iter().zip(0..12) {
            assert_eq!(
                count_of(&found, *dimension, &format!("value-{n}-1")),
                humans(3),
                "{dimension:?}"
            );
            assert_eq!(
                count_of(&found, *dimension, &format!("value-{n}-2")),
                humans(1),
                "{dimension:?}"
            );
            assert_eq!(
                found.values(*dimension).unwrap().sum(),
                humans(4),
                "what one click did not tell stays unknown"
            );
        }
    }
    put(&store, vec![orphan("lost", 1, Answered::NotFound), orphan("late", 2, Answered::Gone)])
        .await;
    let orphans = report(&store, &ClickSubject::Orphans, ALWAYS).await.tally;
    assert_eq!(count_of(&orphans, Dimension::Code, "lost"), humans(1));
    assert_eq!(count_of(&orphans, Dimension::Outcome, "expired"), humans(1));
}

pub async fn past_the_cap_values_are_other_and_nothing_is_lost(store: ClickStoreHandle) {
    let total = 3 * MAX_VALUES_TOTAL;
    for part in (0..total).collect::<Vec<_>>().chunks(250) {
        put(&store, part.iter().map(|&n| telling(n, 1)).collect()).await;
    }
    for (period, cap) in [(ALWAYS, MAX_VALUES_TOTAL), (since(0, HOUR), MAX_VALUES_PER_HOUR)] {
        let found = of_link(&store, &link("abc"), period).await.tally;
        for dimension in &Dimension::ALL[..12] {
            let values = found.values(*dimension).unwrap();
            // A store may make the sum of all time from the sums of hours.
            let named = values.named().count();
            assert!((MAX_VALUES_PER_HOUR..=cap).contains(&named), "{dimension:?}: {named}");
            assert_eq!(values.sum(), humans(total as u64), "{dimension:?}");
            assert_eq!(values.other().humans, (total - named) as u64);
        }
    }
}

pub async fn what_is_frequent_keeps_its_name(store: ClickStoreHandle) {
    for part in 0..10 {
        let rare = (0..100).map(|n| telling(1 + part * 100 + n, 1));
        put(&store, rare.chain((0..50).map(|_| telling(0, 1))).collect()).await;
    }
    for period in [ALWAYS, since(0, HOUR)] {
        let found = of_link(&store, &link("abc"), period).await.tally;
        assert_eq!(count_of(&found, Dimension::Referrer, "value-0-0"), humans(500));
    }
}

pub async fn visitors_are_counted_once_a_day(store: ClickStoreHandle) {
    let visit = |visitor: u64, ms: i64| Click { visitor: Some(visitor), ..click(&link("abc"), ms) };
    // The same visitor has another hash every day.
    let today = (0..60).map(|n: i64| visit(1000 + n as u64 % 20, n * HOUR / 4));
    let tomorrow = (0..60).map(|n: i64| visit(2000 + n as u64 % 30, DAY + n * HOUR / 4));
    put(&store, today.collect()).await;
    put(&store, tomorrow.collect()).await;
    put(&store, vec![click(&link("abc"), 5), Click { bot: Some(BotKind::Ai), ..visit(3000, 7) }])
        .await;
    for subject in
        [ClickSubject::Link(link("abc")), ClickSubject::Owner(OWNER), ClickSubject::Everything]
    {
        for (period, want) in [
            (ALWAYS, 50),
            (since(0, DAY), 20),
            (since(DAY, 2 * DAY), 30),
            (since(2 * DAY, 3 * DAY), 0),
        ] {
            assert_eq!(report(&store, &subject, period).await.visitors.count(), want, "{period:?}");
        }
    }
    put(&store, (0..20_000).map(|n| visit(10_000 + n % 10_000, 3 * DAY + n as i64)).collect())
        .await;
    let many = of_link(&store, &link("abc"), since(3 * DAY, 4 * DAY)).await.visitors.count();
    assert!((9_500..10_500).contains(&many), "{many}");
}

pub async fn a_view_of_a_warning_page_is_no_click(store: ClickStoreHandle) {
    let at = |ms: i64, warning| Click {
        warning,
        visitor: Some(ms.cast_unsigned() + 1),
        took_nanos: 5,
        ..click(&link("abc"), ms)
    };
    put(&store, vec![at(HOUR, WarningVisit::Shown), at(HOUR + 1, WarningVisit::Shown)]).await;
    for subject in [ClickSubject::Link(link("abc")), ClickSubject::Everything] {
        let found = report(&store, &subject, ALWAYS).await;
        assert_eq!(found.tally.warnings(), [humans(2), humans(0)]);
        assert_eq!((found.tally.clicks, found.tally.last), (humans(0), None));
        assert_eq!((found.visitors.count(), found.tally.took.count), (0, 0));
        assert_eq!(found.buckets, []);
    }
    let bot = Click { bot: Some(BotKind::Crawler), ..at(HOUR, WarningVisit::Shown) };
    put(&store, vec![at(2, WarningVisit::Passed), at(3, WarningVisit::None), bot]).await;
    for period in [ALWAYS, since(0, 2 * HOUR)] {
        let found = of_link(&store, &link("abc"), period).await;
        assert_eq!(found.tally.warnings(), [Count { humans: 2, bots: 1 }, humans(1)]);
        assert_eq!((found.tally.clicks, found.visitors.count()), (humans(2), 2));
        assert_eq!(starts(&found), [(timestamp(0), humans(2))]);
    }
    assert_eq!(store.counts(&[link("abc")]).await.unwrap(), [humans(2)]);
    let query = RawQuery { link: link("abc"), from: None, to: None, after: None, limit: 9 };
    assert_eq!(store.clicks(&query).await.unwrap().clicks.len(), 2, "only clicks");
}
