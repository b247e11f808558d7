use std::sync::Mutex;

use async_trait::async_trait;
use terse_core::Timestamp;
use terse_core::registry::{JobLease, Lease, NodeId, RegistryError};
use tokio::time::sleep;

use super::*;

/// A lease that tests hand from node to node.
#[derive(Default)]
struct FakeLease {
    holder: Mutex<Option<NodeId>>,
    number: AtomicU64,
    released: AtomicU64,
}

impl FakeLease {
    fn token(&self) -> FencingToken {
        FencingToken { lease: "jobs", number: self.number.load(Ordering::SeqCst) }
    }

    fn give_to(&self, node: &str) {
        *self.holder.lock().unwrap() = NodeId::parse(node);
        self.number.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl JobLease for FakeLease {
    async fn acquire_lease(
        &self,
        _lease: &'static str,
        node: &NodeId,
        _ttl: Duration,
    ) -> Result<Option<Lease>, RegistryError> {
        let mut holder = self.holder.lock().unwrap();
        if holder.as_ref().is_some_and(|holder| holder != node) {
            return Ok(None);
        }
        *holder = Some(node.clone());
        self.number.fetch_add(1, Ordering::SeqCst);
        let (token, node) = (self.token(), node.clone());
        Ok(Some(Lease { token, node, expires_at: Timestamp::MAX }))
    }

    async fn renew_lease(
        &self,
        token: FencingToken,
        _ttl: Duration,
    ) -> Result<Timestamp, RegistryError> {
        match token == self.token() {
            true => Ok(Timestamp::MAX),
            false => Err(RegistryError::Fenced),
        }
    }

    async fn release_lease(&self, token: FencingToken) -> Result<(), RegistryError> {
        if token == self.token() {
            *self.holder.lock().unwrap() = None;
            self.released.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    async fn check_lease(&self, _token: FencingToken) -> Result<(), RegistryError> {
        Ok(())
    }
}

/// What a test job does in a run.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    Succeed,
    Fail,
    Panic,
    Hang,
}

#[derive(Default)]
struct RunCounts {
    begun: AtomicU64,
    dropped: AtomicU64,
    finished: AtomicU64,
    tokens: Mutex<Vec<Option<u64>>>,
}

impl RunCounts {
    fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }
}

struct TestJob {
    work: Work,
    leased: bool,
    interval: Duration,
    seen: Arc<RunCounts>,
}

/// Counts runs whose future was dropped or ended.
struct OnDrop(Arc<RunCounts>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Job for TestJob {
    fn name(&self) -> &'static str {
        "test"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn needs_lease(&self) -> bool {
        self.leased
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(3600)
    }

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        self.seen.begun.fetch_add(1, Ordering::SeqCst);
        self.seen.tokens.lock().unwrap().push(context.token().map(|token| token.number));
        let _dropped = OnDrop(Arc::clone(&self.seen));
        match self.work {
            Work::Succeed => Ok(NextRun::Interval),
            Work::Fail => Err("no".into()),
            Work::Panic => panic!("in a job"),
            Work::Hang => std::future::pending().await,
        }
    }

    async fn finish(&mut self) {
        self.seen.finished.fetch_add(1, Ordering::SeqCst);
    }
}

struct Node {
    scheduler: Scheduler,
}

impl Node {
    fn new(lease: &Arc<FakeLease>, name: &str) -> Self {
        let keeper = LeaseKeeper::new(lease.clone(), NodeId::parse(name).unwrap());
        Self { scheduler: Scheduler::new(keeper).without_jitter() }
    }

    fn job(&mut self, work: Work, leased: bool, seconds: u64) -> Arc<RunCounts> {
        let (interval, seen) = (Duration::from_secs(seconds), Arc::<RunCounts>::default());
        self.scheduler.add(TestJob { work, leased, interval, seen: Arc::clone(&seen) });
        seen
    }

    fn start(self) -> RunningJobs {
        self.scheduler.start(&Handle::current())
    }
}

async fn pass(seconds: u64) {
    // Beside the full seconds at which jobs run.
    sleep(Duration::from_millis(seconds * 1000 + 10)).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_at_the_start_and_then_at_its_interval() {
    let mut node = Node::new(&Arc::default(), "a");
    let job = node.job(Work::Succeed, false, 60);
    let counts = node.scheduler.counts();
    let running = node.start();
    pass(0).await;
    assert_eq!(job.begun(), 1);
    pass(59).await;
    assert_eq!(job.begun(), 1);
    pass(541).await;
    assert_eq!(job.begun(), 11);
    assert_eq!(counts["test"].runs.load(Ordering::SeqCst), 11);
    assert_eq!(counts["test"].failures.load(Ordering::SeqCst), 0);
    assert_eq!(*job.tokens.lock().unwrap(), [None; 11]);
    assert!(running.stop(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn an_admin_lets_a_job_run_before_its_interval_is_over() {
    let mut node = Node::new(&Arc::default(), "a");
    let job = node.job(Work::Fail, false, 3600);
    let (board, admin) = (node.scheduler.job_board(), terse_core::Principal::OPERATOR);
    let running = node.start();
    pass(1).await;
    assert_eq!(job.begun(), 1);
    board.run_now(&admin, "test").unwrap();
    pass(0).await;
    assert_eq!(job.begun(), 2);
    let status = board.list(&admin).unwrap().remove(0);
    assert_eq!((status.failures, status.running_since), (2, None));
    assert_eq!(status.last.unwrap().error.as_deref(), Some("no"));
    assert!(running.stop(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn a_leased_job_runs_on_the_holder_only_and_moves_with_the_lease() {
    let lease = Arc::<FakeLease>::default();
    lease.give_to("b");
    let mut node = Node::new(&lease, "a");
    let (leased, local) = (node.job(Work::Succeed, true, 1), node.job(Work::Succeed, false, 1));
    let running = node.start();
    pass(100).await;
    assert_eq!(leased.begun(), 0, "b holds the lease");
    assert!(local.begun() > 90);
    lease.give_to("a");
    pass(20).await;
    let begun = leased.begun();
    assert!(begun > 5, "{begun}");
    let number = leased.tokens.lock().unwrap()[0];
    assert!(number.is_some() && leased.tokens.lock().unwrap().iter().all(|token| *token == number));
    lease.give_to("b");
    pass(20).await;
    let begun = leased.begun();
    pass(100).await;
    assert_eq!(leased.begun(), begun, "b holds the lease again");
    assert!(running.stop(Duration::from_secs(1)).await);
    assert_eq!(lease.released.load(Ordering::SeqCst), 0, "a stranger's lease is left alone");
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_when_the_lease_is_lost() {
    let lease = Arc::<FakeLease>::default();
    let mut node = Node::new(&lease, "a");
    let job = node.job(Work::Hang, true, 1);
    let running = node.start();
    pass(1).await;
    assert_eq!((job.begun(), job.dropped.load(Ordering::SeqCst)), (1, 0));
    lease.give_to("b");
    pass(20).await;
    assert_eq!((job.begun(), job.dropped.load(Ordering::SeqCst)), (1, 1));
    assert!(running.stop(Duration::from_secs(1)).await);
}

/// As after a data folder was copied with the name of its node.
#[tokio::test(start_paused = true)]
async fn two_processes_with_one_name_do_not_take_the_lease_from_each_other_at_once() {
    let lease = Arc::<FakeLease>::default();
    let [mut one, mut two] = [Node::new(&lease, "a"), Node::new(&lease, "a")];
    let jobs = [one.job(Work::Succeed, true, 1), two.job(Work::Succeed, true, 1)];
    let running = [one.start(), two.start()];
    pass(600).await;
    // Each has it for at least as long as it lasts.
    let taken = lease.number.load(Ordering::SeqCst);
    assert!(taken <= 2 + 600 / 30, "{taken}");
    // The one that lost it still takes over when the other one ends.
    let [one, two] = running;
    assert!(one.stop(Duration::from_secs(1)).await);
    let begun = jobs[1].begun();
    pass(60).await;
    assert!(jobs[1].begun() > begun);
    assert!(two.stop(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn shutdown_cancels_runs_joins_every_job_and_releases_the_lease() {
    let lease = Arc::<FakeLease>::default();
    let mut node = Node::new(&lease, "a");
    let hanging = node.job(Work::Hang, true, 1);
    let waiting = node.job(Work::Succeed, false, 3600);
    let running = node.start();
    pass(1).await;
    assert!(running.stop(Duration::from_secs(10)).await);
    for job in [&hanging, &waiting] {
        assert_eq!((job.begun(), job.finished.load(Ordering::SeqCst)), (1, 1));
        assert_eq!(job.dropped.load(Ordering::SeqCst), 1);
        assert_eq!(Arc::strong_count(job), 1, "its task is gone");
    }
    assert_eq!(lease.released.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_panics_or_hangs_stops_no_other_and_is_tried_again() {
    let mut node = Node::new(&Arc::default(), "a");
    let panicking = node.job(Work::Panic, false, 60);
    let hanging = node.job(Work::Hang, false, 60);
    let sound = node.job(Work::Succeed, false, 60);
    let running = node.start();
    pass(3600 * 2).await;
    assert!(panicking.begun() > 100, "{}", panicking.begun());
    assert_eq!(hanging.begun(), 2, "an hour each, and the retry between");
    assert_eq!(sound.begun(), 121);
    assert!(running.stop(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_is_tried_again_soon_and_then_less_and_less_often() {
    let mut node = Node::new(&Arc::default(), "a");
    let job = node.job(Work::Fail, false, 60);
    let counts = node.scheduler.counts();
    let running = node.start();
    // Retries after 5, 10, 20 and 40 seconds, then at the interval.
    for (seconds, begun) in [(0, 1), (4, 1), (1, 2), (10, 3), (20, 4), (40, 5), (59, 5), (1, 6)] {
        pass(seconds).await;
        assert_eq!(job.begun(), begun, "after {seconds} s more");
    }
    assert_eq!(counts["test"].failures.load(Ordering::SeqCst), 6);
    assert!(running.stop(Duration::from_secs(1)).await);
}
