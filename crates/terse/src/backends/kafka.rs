//! Clicks over Kafka: this node publishes them, and counts what nodes publish if it is a worker.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use terse_core::clicks::{ClickLedger, ClickStore};
use terse_core::metrics::MetricsSource;
use terse_core::{CheckResult, Clock, Finding};
use terse_kafka::{
    KafkaAddress, KafkaBus, KafkaInspection, KafkaOptions, KafkaWorker, WorkerCounts,
};
use tokio::sync::{oneshot, watch};

use super::ClickBus;
use crate::config::{BusUrl, Config};

/// What the node remembers about its bus, in the data folder.
const STATE: &str = "bus.json";

/// Checks a URL, and returns it without its password.
pub(crate) fn check_url(text: &str) -> Result<String, String> {
    KafkaAddress::parse(text).map(|url| url.to_string()).map_err(|error| error.to_string())
}

fn options(url: &BusUrl) -> anyhow::Result<KafkaOptions> {
    let address = KafkaAddress::parse(url.reveal()).context("clicks.bus")?;
    Ok(KafkaOptions::new(address))
}

/// Connects, and starts the worker if this process is one.
pub(super) async fn open(
    config: &Config,
    url: &BusUrl,
    ledger: &Arc<dyn ClickLedger>,
    clicks: &Arc<dyn ClickStore>,
    clock: &Clock,
) -> anyhow::Result<ClickBus> {
    let options = options(url)?;
    let (ledger, store) = (Arc::clone(ledger), Arc::clone(clicks));
    let state = config.data_dir.join(STATE);
    let bus = KafkaBus::open(options.clone(), ledger, store, state, clock.clone()).await;
    let bus = bus.context("opening clicks.bus")?;
    let published = bus.counts();
    let mut metrics: Vec<MetricsSource> = vec![Box::new(move |to| published.write_metrics(to))];
    let mut worker = None;
    if config.roles.worker {
        let started = Worker::start(options, Arc::clone(clicks), clock.clone()).await;
        let (started, counts) = started.context("opening clicks.bus to count clicks")?;
        metrics.push(Box::new(move |to| counts.write_metrics(to)));
        worker = Some(started);
    }
    Ok(ClickBus {
        ingest: Arc::new(bus),
        batch_bytes: terse_kafka::BATCH_BYTES,
        keep_tombstones: terse_kafka::KEEP_COUNTED,
        metrics,
        stop: Box::new(move |timeout| {
            if let Some(worker) = worker {
                worker.stop(timeout);
            }
        }),
    })
}

/// A worker on a thread of its own: it unpacks thousands of clicks at a time.
struct Worker {
    stop: watch::Sender<bool>,
    /// The thread sends when it ends.
    ended: Mutex<Receiver<()>>,
    _thread: JoinHandle<()>,
}

impl Worker {
    async fn start(
        options: KafkaOptions,
        clicks: Arc<dyn ClickStore>,
        clock: Clock,
    ) -> anyhow::Result<(Self, Arc<WorkerCounts>)> {
        let (stop, stopped) = watch::channel(false);
        let (opened_sender, opened) = oneshot::channel();
        let (ended_sender, ended) = channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("bus".into()).spawn(move || {
            let run = async {
                match KafkaWorker::open(options, clicks, clock, stopped).await {
                    Ok(worker) => {
                        let _told = opened_sender.send(Ok(worker.counts()));
                        worker.run().await;
                    }
                    Err(error) => drop(opened_sender.send(Err(error))),
                }
            };
            runtime.block_on(run);
            runtime.shutdown_timeout(Duration::from_secs(1));
            let _not_waited_for = ended_sender.send(());
        })?;
        let counts = opened.await.context("the thread that consumes clicks has ended")??;
        Ok((Self { stop, ended: Mutex::new(ended), _thread: thread }, counts))
    }

    fn stop(self, timeout: Duration) {
        self.stop.send_replace(true);
        let ended = self.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(timeout).is_err() {
            tracing::warn!("the thread that consumes clicks did not end in time");
        }
    }
}

/// Looks at Kafka. Blocks, and may be called on any thread.
pub(super) fn doctor(url: &BusUrl) -> Vec<Finding> {
    let options = options(url);
    let inspected = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let now = Clock::default().now();
        anyhow::Ok(runtime.block_on(terse_kafka::inspect(&options?, now))?)
    });
    match inspected.join() {
        Ok(Ok(inspection)) => findings(&inspection),
        Ok(Err(error)) => vec![finding(
            CheckResult::Problem,
            format!("{error:#}"),
            "start Kafka, or correct the setting `clicks.bus`; until then clicks wait in the \
             journal of each node",
        )],
        Err(_) => vec![finding(CheckResult::Problem, "it could not be checked".into(), "")],
    }
}

fn finding(verdict: CheckResult, found: String, advice: &str) -> Finding {
    Finding { what: "bus".to_owned(), verdict, found, advice: advice.to_owned() }
}

fn findings(seen: &KafkaInspection) -> Vec<Finding> {
    use CheckResult::{Good, Problem, Warning};
    let Some(topic) = &seen.topic else {
        let found = "the topic does not exist yet; the first node creates it".to_owned();
        return vec![finding(Warning, found, "start a node")];
    };
    let found = format!(
        "Kafka: {} partitions on {} brokers each; {} messages, {} of them not counted yet",
        topic.partitions, topic.replicas, seen.messages, seen.lag
    );
    let mut all = vec![finding(Good, found, "")];
    for warning in topic.warnings() {
        all.push(finding(Warning, warning, "change the settings of the topic"));
    }
    if seen.is_late {
        let found = "some clicks have waited for more than half of the time that Kafka keeps them";
        let advice = "start more nodes with the role worker, or find out why they do not count; \
                      raise retention.ms of the topic meanwhile";
        all.push(finding(Problem, found.to_owned(), advice));
    }
    if seen.set_aside > 0 {
        let found = format!("{} messages could not be counted and were set aside", seen.set_aside);
        let advice = "the header terse-reason of each says why (docs/kafka.md)";
        all.push(finding(Warning, found, advice));
    }
    all
}

#[cfg(test)]
mod tests {
    use terse_kafka::TopicSettings;

    use super::*;

    #[test]
    fn lag_and_lost_messages_are_findings() {
        let topic = TopicSettings {
            partitions: 12,
            replicas: 3,
            min_in_sync: Some(2),
            retention_ms: Some(604_800_000),
            ..TopicSettings::default()
        };
        let sound = KafkaInspection { topic: Some(topic.clone()), ..KafkaInspection::default() };
        let verdicts = |seen: &KafkaInspection| -> Vec<_> {
            findings(seen).into_iter().map(|finding| finding.verdict).collect()
        };
        assert_eq!(verdicts(&sound), [CheckResult::Good]);
        let late = KafkaInspection { is_late: true, ..sound.clone() };
        assert_eq!(verdicts(&late), [CheckResult::Good, CheckResult::Problem]);
        let dead = KafkaInspection { set_aside: 2, ..sound };
        assert_eq!(verdicts(&dead), [CheckResult::Good, CheckResult::Warning]);
        let single = TopicSettings { replicas: 1, ..topic };
        let single = KafkaInspection { topic: Some(single), ..KafkaInspection::default() };
        assert_eq!(verdicts(&single), [CheckResult::Good, CheckResult::Warning]);
        assert_eq!(verdicts(&KafkaInspection::default()), [CheckResult::Warning]);
    }
}
