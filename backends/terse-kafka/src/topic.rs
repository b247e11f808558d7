//! Checks a topic before it is used, and creates it if there is none.

use std::collections::HashMap;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::producer::{FutureProducer, Producer as _};
use rdkafka::types::RDKafkaErrorCode;
use tracing::{info, warn};

use crate::client::{self, Connection};
use crate::options::{KafkaAddress, KafkaOpenError, KafkaOptions};

/// Partitions of a topic that terse creates: so many workers can share its load.
const PARTITIONS: i32 = 12;
/// How long messages are kept, at least: an outage of the click store may last that long.
pub(crate) const KEEP: Duration = Duration::from_hours(7 * 24);
/// How long messages that were set aside are kept.
const KEEP_DEAD: Duration = Duration::from_hours(30 * 24);
/// The largest message that a broker must take, at least. Kafka's own default is a little more.
const MIN_MESSAGE: i64 = 1_000_000;
/// The largest message of a topic that terse creates: more than any batch of a node takes.
const MAX_MESSAGE: &str = "4000000";

/// The settings of a topic that matter to clicks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TopicSettings {
    /// How many partitions it has.
    pub partitions: i32,
    /// How many brokers have each message; of the partition with the fewest.
    pub replicas: usize,
    /// How many brokers must have a message before it is acknowledged; `None` if the brokers do not
    /// say.
    pub min_in_sync: Option<i64>,
    /// Whether a broker that lacks messages may become a leader.
    pub unclean_election: bool,
    /// How long messages are kept, in milliseconds; negative forever.
    pub retention_ms: Option<i64>,
    /// How large a message may be.
    pub max_message: Option<i64>,
    /// `delete`, `compact` or both.
    pub cleanup: String,
    /// `CreateTime` or `LogAppendTime`; empty if the brokers do not say.
    pub timestamps: String,
}

impl TopicSettings {
    /// What an operator should change.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.replicas < 3 {
            let (replicas, brokers) = match self.replicas {
                1 => ("one broker".to_owned(), "is it"),
                n => (format!("{n} brokers"), "are they"),
            };
            all.push(format!(
                "each message is on {replicas} only: if {brokers} lost, clicks are lost; use a \
                 replication factor of 3"
            ));
        }
        if self.min_in_sync.is_some_and(|least| least < 2) {
            all.push(
                "min.insync.replicas is 1: a message may be acknowledged that a single broker has; \
                 set it to 2"
                    .to_owned(),
            );
        }
        if self.unclean_election {
            all.push(
                "unclean.leader.election.enable is true: a broker that lacks messages may become \
                 the leader, and acknowledged clicks are lost then; set it to false"
                    .to_owned(),
            );
        }
        let short = |kept: &i64| *kept >= 0 && i128::from(*kept) < KEEP.as_millis().cast_signed();
        if let Some(kept) = self.retention_ms.filter(short) {
            all.push(format!(
                "retention.ms is {kept}: messages that workers do not count within that time are \
                 lost; set it to 604800000 (7 days) or more"
            ));
        }
        if self.timestamps == "CreateTime" {
            all.push(
                "message.timestamp.type is CreateTime: the clock of the node that sends a message \
                 decides how old the message is, and workers set aside what is older than 28 days; \
                 set it to LogAppendTime"
                    .to_owned(),
            );
        }
        all
    }

    /// Why clicks would be lost for certain.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.cleanup.contains("compact") {
            return Some(
                "its cleanup.policy is compact, which deletes all but the last message of each \
                 journal; set it to delete"
                    .to_owned(),
            );
        }
        let small = |size: &i64| *size < MIN_MESSAGE;
        self.max_message.filter(small).map(|size| {
            format!(
                "its max.message.bytes is {size}; set it to {MIN_MESSAGE} or more: a message has \
                 up to some thousand clicks"
            )
        })
    }
}

/// Connects, creates the topic if there is none, and checks its settings.
pub(crate) async fn prepare(options: &KafkaOptions) -> Result<TopicSettings, KafkaOpenError> {
    let address = &options.address;
    let admin = Admin::open(options)?;
    let settings = match admin.settings(&address.topic).await? {
        Some(settings) => settings,
        None => {
            let retention = KEEP.as_millis().to_string();
            admin.create(&address.topic, PARTITIONS, &retention).await?;
            admin.settings(&address.topic).await?.ok_or_else(|| KafkaOpenError::Topic {
                topic: address.topic.clone(),
                why: "it was created, and is not there yet; start terse again".to_owned(),
            })?
        }
    };
    if let Some(why) = settings.problem() {
        return Err(KafkaOpenError::Topic { topic: address.topic.clone(), why });
    }
    for warning in settings.warnings() {
        warn!(topic = address.topic, "Kafka: {warning}");
    }
    Ok(settings)
}

/// Creates the topic for messages that cannot be counted, if there is none.
pub(crate) async fn prepare_dead_letters(options: &KafkaOptions) -> Result<(), KafkaOpenError> {
    let topic = options.address.dead_letter_topic();
    let admin = Admin::open(options)?;
    if admin.settings(&topic).await?.is_none() {
        admin.create(&topic, 1, &KEEP_DEAD.as_millis().to_string()).await?;
    }
    Ok(())
}

/// Asks brokers about topics.
pub(crate) struct Admin {
    client: AdminClient<Connection>,
    /// Asks for the metadata. Unlike `client`, it is polled, and so tells why a connection fails.
    probe: FutureProducer<Connection>,
    connection: Connection,
    address: KafkaAddress,
    timeout: Duration,
}

impl Admin {
    pub(crate) fn open(options: &KafkaOptions) -> Result<Self, KafkaOpenError> {
        let (connection, address) = (Connection::default(), options.address.clone());
        let mut config = client::config(&address);
        // Broken connections are among its information.
        config.set_log_level(RDKafkaLogLevel::Info);
        let failed = |error| connection.failed(&address, error);
        let client = config.create_with_context(connection.clone()).map_err(failed)?;
        let probe = config.create_with_context(connection.clone()).map_err(failed)?;
        let timeout = options.connect_timeout;
        Ok(Self { client, probe, connection, address, timeout })
    }

    fn options(&self) -> AdminOptions {
        AdminOptions::new()
            .request_timeout(Some(self.timeout))
            .operation_timeout(Some(self.timeout))
    }

    fn failed(&self, error: KafkaError) -> KafkaOpenError {
        self.connection.failed(&self.address, error)
    }

    /// Partitions and replicas of all topics, and the number of brokers. All: a request for one
    /// topic may create it.
    async fn topics(&self) -> Result<(HashMap<String, (i32, usize)>, usize), KafkaOpenError> {
        let (probe, timeout) = (self.probe.clone(), self.timeout);
        let asked = tokio::task::spawn_blocking(move || {
            let metadata = probe.client().fetch_metadata(None, timeout)?;
            let topics = metadata.topics().iter().map(|topic| {
                let partitions = topic.partitions();
                let replicas = partitions.iter().map(|partition| partition.replicas().len());
                let count = i32::try_from(partitions.len()).unwrap_or(i32::MAX);
                (topic.name().to_owned(), (count, replicas.min().unwrap_or(0)))
            });
            Ok((topics.collect(), metadata.brokers().len()))
        });
        match asked.await {
            Ok(answer) => answer.map_err(|error| self.failed(error)),
            Err(_) => Err(self.failed(KafkaError::Canceled)),
        }
    }

    /// The settings of a topic; `None` if there is no such topic.
    pub(crate) async fn settings(
        &self,
        topic: &str,
    ) -> Result<Option<TopicSettings>, KafkaOpenError> {
        let (topics, _) = self.topics().await?;
        let Some((partitions, replicas)) = topics.get(topic).copied() else { return Ok(None) };
        if partitions == 0 {
            return Ok(None);
        }
        let (options, resource) = (self.options(), ResourceSpecifier::Topic(topic));
        let asked = self.client.describe_configs([&resource], &options);
        // Brokers may allow to write and not to look, or know no such request. Then nothing is
        // known.
        let values: HashMap<String, String> = match asked.await.map(|mut answers| answers.pop()) {
            Ok(Some(Ok(resource))) => {
                let entries = resource.entries.into_iter();
                entries.filter_map(|entry| Some((entry.name, entry.value?))).collect()
            }
            other => {
                warn!(topic, answer = ?other, "the settings of the topic cannot be read");
                HashMap::new()
            }
        };
        let text = |name: &str| values.get(name).cloned().unwrap_or_default();
        let number = |name: &str| values.get(name).and_then(|value| value.parse().ok());
        Ok(Some(TopicSettings {
            partitions,
            replicas,
            min_in_sync: number("min.insync.replicas"),
            unclean_election: values
                .get("unclean.leader.election.enable")
                .is_some_and(|v| v == "true"),
            retention_ms: number("retention.ms"),
            max_message: number("max.message.bytes"),
            cleanup: text("cleanup.policy"),
            timestamps: text("message.timestamp.type"),
        }))
    }

    /// Creates a topic, with as many replicas as there are brokers, at most three.
    async fn create(
        &self,
        topic: &str,
        partitions: i32,
        retention: &str,
    ) -> Result<(), KafkaOpenError> {
        let (_, brokers) = self.topics().await?;
        let replicas = brokers.clamp(1, 3);
        let least = replicas.div_ceil(2).to_string();
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(replicas as i32))
            .set("cleanup.policy", "delete")
            .set("min.insync.replicas", &least)
            .set("unclean.leader.election.enable", "false")
            .set("message.timestamp.type", "LogAppendTime")
            .set("max.message.bytes", MAX_MESSAGE)
            .set("retention.ms", retention);
        let options = self.options();
        let asked = self.client.create_topics([&new], &options).await;
        let refused = |why: String| KafkaOpenError::Topic {
            topic: topic.to_owned(),
            why: format!(
                "there is no such topic, and it cannot be created ({why}). Create it: \
                 kafka-topics.sh --create --topic {topic} --partitions {partitions} \
                 --replication-factor 3 --config min.insync.replicas=2 --config \
                 message.timestamp.type=LogAppendTime --config \
                 max.message.bytes={MAX_MESSAGE} --config retention.ms={retention}"
            ),
        };
        match asked.map_err(|error| self.failed(error))?.pop() {
            // Another node has just created it.
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => self.wait_for(topic).await,
            Some(Err((_, code))) => Err(refused(code.to_string())),
            Some(Ok(_)) => {
                info!(topic, partitions, replicas, "created a topic");
                self.wait_for(topic).await
            }
            None => Err(refused("no answer".to_owned())),
        }
    }

    /// Waits until the brokers tell of a new topic.
    async fn wait_for(&self, topic: &str) -> Result<(), KafkaOpenError> {
        for _ in 0..50 {
            if self.topics().await?.0.get(topic).is_some_and(|(partitions, _)| *partitions > 0) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_may_lose_clicks_are_named() {
        let safe = TopicSettings {
            partitions: 12,
            replicas: 3,
            min_in_sync: Some(2),
            unclean_election: false,
            retention_ms: Some(604_800_000),
            max_message: Some(1_048_588),
            cleanup: "delete".to_owned(),
            timestamps: "LogAppendTime".to_owned(),
        };
        assert_eq!((safe.warnings(), safe.problem()), (vec![], None));
        let ever = TopicSettings { retention_ms: Some(-1), ..safe.clone() };
        assert_eq!(ever.warnings(), [""; 0]);
        let cases = [
            (TopicSettings { replicas: 1, ..safe.clone() }, "on one broker only"),
            (TopicSettings { replicas: 2, ..safe.clone() }, "on 2 brokers only"),
            (TopicSettings { min_in_sync: Some(1), ..safe.clone() }, "min.insync.replicas is 1"),
            (TopicSettings { unclean_election: true, ..safe.clone() }, "unclean.leader"),
            (
                TopicSettings { retention_ms: Some(86_400_000), ..safe.clone() },
                "retention.ms is 86400000",
            ),
            (
                TopicSettings { timestamps: "CreateTime".to_owned(), ..safe.clone() },
                "message.timestamp.type is CreateTime",
            ),
        ];
        for (settings, part) in cases {
            let warnings = settings.warnings();
            assert!(matches!(&warnings[..], [one] if one.contains(part)), "{part}: {warnings:?}");
        }
        let compacted = TopicSettings { cleanup: "compact,delete".to_owned(), ..safe.clone() };
        assert!(compacted.problem().unwrap().contains("cleanup.policy is compact"));
        let small = TopicSettings { max_message: Some(1000), ..safe };
        assert!(small.problem().unwrap().contains("max.message.bytes is 1000"));
    }
}
