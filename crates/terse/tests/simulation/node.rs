//! One node: the real services, the real cache, and what runs in the background.

use std::sync::Arc;
use std::time::Duration;

use terse_core::job::{Job as _, JobContext};
use terse_core::registry::{JobLease as _, NodeId};
use terse_core::*;
use terse_embedded::LocalLimiter;
use terse_redirect::{
    FailurePages, RedirectSettings, Redirector, Reply, VisitMethod, Visitor, VisitorHeaders,
};
use terse_testkit::{MemoryClickStore, MemoryRegistry};
use terse_worker::{Reaper, RemovalGuard};
use tokio::time::sleep;

use crate::alive::Alive;
use crate::dice::Dice;
use crate::network::SimStore;

const DAY: Duration = Duration::from_hours(24);
/// How long a cached link is used. Short, so that a schedule sees several.
pub(crate) const CACHE_TTL: Duration = Duration::from_secs(8);

/// The answer to a visit, and owner and creation time of the link that it followed.
#[derive(Clone, Debug)]
pub(crate) struct VisitAnswer {
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    pub(crate) followed: Option<(u64, i64)>,
}

/// A running node. Dropping it is a crash: nothing of it is left but the store.
pub(crate) struct Node {
    pub(crate) links: Arc<Links>,
    pub(crate) redirector: Arc<Redirector>,
    pub(crate) limiter: Arc<LocalLimiter>,
    /// Ends what runs on this node when it is dropped.
    pub(crate) alive: Alive,
}

impl Node {
    pub(crate) fn start(store: &Arc<SimStore>, clock: &Clock) -> Self {
        let hosts = Hosts::new(&"http://go.example/".parse().unwrap(), &[], vec![]).unwrap();
        let settings = RedirectSettings {
            threads: 1,
            cache_ttl: CACHE_TTL,
            negative_ttl: Duration::from_secs(4),
            // Small tables: a schedule starts several nodes.
            cache_bytes: 1 << 20,
            negative_entries: 256,
            ..RedirectSettings::default()
        };
        let redirector = Arc::new(Redirector::new(
            store.clone(),
            store.clone(),
            hosts.clone(),
            80,
            &FailurePages::default(),
            settings,
            clock.clone(),
        ));
        let rules = LinkPolicy {
            targets: TargetRules::default(),
            hosts,
            anonymous_create: true,
            anonymous_ttl: 8 * DAY,
            grace: 7 * DAY,
            keep_expired: 365 * DAY,
            quarantine: 365 * DAY,
            unwanted_aliases: Default::default(),
        };
        let codes = Arc::new(NumberedCodes::new(store.clone(), 7, 10));
        let links = Arc::new(Links::new(
            store.clone(),
            codes,
            redirector.clone(),
            Arc::new(NoScreening),
            rules,
            clock.clone(),
        ));
        let limiter = Arc::new(LocalLimiter::new(clock.clone()));
        Self { links, redirector, limiter, alive: Alive::default() }
    }

    /// Reads the change feed every second, as a node does.
    pub(crate) async fn follow_changes(store: Arc<SimStore>, redirector: Arc<Redirector>) {
        let mut follower = ChangeFollower::new(store, redirector);
        loop {
            let _ = follower.poll().await;
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// The answer to a visit.
    pub(crate) async fn visit(redirector: &Arc<Redirector>, code: &str) -> VisitAnswer {
        let visitor = Visitor {
            domain: 0,
            code,
            query: None,
            html: false,
            method: VisitMethod::Get,
            past_warning: false,
            password: None,
            headers: VisitorHeaders::default(),
        };
        let (reply, followed) = redirector.answer_for_journal(visitor).await;
        match reply {
            Reply::Response(response) => {
                let location = response.headers().get("location");
                let location = location.map(|value| value.to_str().unwrap().to_owned());
                VisitAnswer { status: response.status().as_u16(), location, followed }
            }
            Reply::Page(..) | Reply::WrongMethod => panic!("no link has a page"),
        }
    }
}

/// The reaper of the fleet, on a process of its own that never crashes; its clock jumps.
pub(crate) async fn reap(store: Arc<SimStore>, clock: Clock, dice: Arc<Dice>) {
    let node = Node::start(&store, &clock);
    let (links, registry) = (node.links.clone(), Arc::new(MemoryRegistry::new()));
    let name = NodeId::parse("a").unwrap();
    let lease = registry.acquire_lease("jobs", &name, DAY).await.unwrap().unwrap();
    let context = JobContext::leased(registry.clone(), lease.token);
    let guard = RemovalGuard::new(links.clone(), registry, clock, Arc::new(Notices::default()), 25);
    let mut reaper = Reaper {
        links,
        clicks: Arc::new(MemoryClickStore::new()),
        guard: Arc::new(guard),
        every: Duration::from_secs(2),
        batch: 10,
        counts: Arc::default(),
    };
    loop {
        let _ = reaper.run(&context).await;
        sleep(dice.ms(4000)).await;
    }
}
