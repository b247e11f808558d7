//! The engines that `TERSE_FLEET_STORES` puts underneath: DynamoDB for links, ClickHouse and Kafka
//! for clicks. Everything else stays on PostgreSQL.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use terse_testkit::{ClickHouseServer, DynamoServer, KafkaServer, TcpProxy};

const TABLE: &str = "fleet";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Engine {
    DynamoDb,
    Kafka,
    ClickHouse,
}

impl Engine {
    /// Those of `TERSE_FLEET_STORES`, by name and separated by commas.
    pub(crate) fn selected() -> Vec<Self> {
        let names = std::env::var("TERSE_FLEET_STORES").unwrap_or_default();
        let engine = |name: &str| match name.trim() {
            "dynamodb" => Self::DynamoDb,
            "kafka" => Self::Kafka,
            "clickhouse" => Self::ClickHouse,
            other => panic!("TERSE_FLEET_STORES: {other:?} is none of dynamodb, kafka, clickhouse"),
        };
        names.split(',').filter(|name| !name.trim().is_empty()).map(engine).collect()
    }
}

/// How an engine is broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EngineFault {
    Killed,
    Frozen,
}

/// The running servers.
pub(crate) struct Engines {
    /// With the way of each node to it.
    dynamodb: Option<(DynamoServer, Vec<TcpProxy>)>,
    kafka: Option<(KafkaServer, String)>,
    clickhouse: Option<(ClickHouseServer, String)>,
}

impl Engines {
    pub(crate) fn start(nodes: usize) -> Self {
        let selected = Engine::selected();
        let is_used = |engine| selected.contains(&engine);
        let dynamodb = is_used(Engine::DynamoDb).then(|| {
            let server = DynamoServer::start();
            let folder = tempfile::tempdir().unwrap();
            let mut migrate = crate::process::command(&folder.path().join("data"));
            migrate.args(["migrate", "--to", &table(server.port())]);
            set_credentials(&mut migrate);
            let created = migrate.output().unwrap();
            assert!(created.status.success(), "{created:?}");
            let proxies = (0..nodes).map(|_| TcpProxy::start(server.port())).collect();
            (server, proxies)
        });
        let kafka = is_used(Engine::Kafka).then(|| {
            let server = KafkaServer::start();
            let url = server.fresh();
            (server, url)
        });
        let clickhouse = is_used(Engine::ClickHouse).then(|| {
            let server = ClickHouseServer::start();
            let url = server.fresh();
            (server, url)
        });
        Self { dynamodb, kafka, clickhouse }
    }

    /// The settings of a node whose PostgreSQL database is at this URL.
    pub(crate) fn settings(&self, node: usize, database: &str) -> Vec<String> {
        let mut settings = match &self.dynamodb {
            Some((_, proxies)) => vec![
                format!("store={}", table(proxies[node].port())),
                format!("registry={database}"),
                // The first answers of DynamoDB Local, a JVM, take longer than half a second.
                "redirect.store_timeout=10s".to_owned(),
            ],
            // A sync of a busy disk can take longer than half a second. That is no fault of a node,
            // and the checker judges answers, not their times.
            None => {
                vec![format!("store={database}"), "redirect.store_timeout=3s".to_owned()]
            }
        };
        settings.extend(self.clickhouse.iter().map(|(_, url)| format!("clicks.store={url}")));
        settings.extend(self.kafka.iter().map(|(_, url)| format!("clicks.bus={url}")));
        settings
    }

    /// Breaks an engine for three seconds.
    pub(crate) fn break_one(&self, engine: Engine, fault: EngineFault) {
        let wait = || std::thread::sleep(Duration::from_secs(3));
        macro_rules! break_server {
            ($running:expr) => {{
                let (server, _) = $running.as_ref().expect("TERSE_FLEET_STORES names it");
                match fault {
                    EngineFault::Killed => {
                        server.kill();
                        wait();
                        server.run();
                    }
                    EngineFault::Frozen => {
                        server.freeze();
                        wait();
                        server.thaw();
                    }
                }
            }};
        }
        match engine {
            Engine::DynamoDb => break_server!(self.dynamodb),
            Engine::Kafka => break_server!(self.kafka),
            Engine::ClickHouse => break_server!(self.clickhouse),
        }
    }

    /// Waits until the worker of the only node that runs has counted everything on the bus.
    pub(crate) fn wait_until_counted(&self, data: &Path, settings: &[String]) {
        if self.kafka.is_none() {
            return;
        }
        terse_testkit::wait_until("everything on the bus is counted", || {
            let mut doctor = crate::process::command(data);
            doctor.args(["--json", "doctor"]);
            for setting in settings {
                doctor.args(["--set", setting]);
            }
            set_credentials(&mut doctor);
            let said = doctor.output().unwrap();
            String::from_utf8_lossy(&said.stdout).contains(" 0 of them not counted yet")
        });
    }
}

fn table(port: u16) -> String {
    format!("dynamodb://{TABLE}?region=eu-central-1&endpoint=http://127.0.0.1:{port}")
}

/// DynamoDB Local accepts any.
pub(crate) fn set_credentials(command: &mut Command) {
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
}
