//! An Apache Kafka broker for tests: the jars of Maven Central, in KRaft mode, on Java 17.
#![allow(clippy::unwrap_used, reason = "tests stop where their server does not start")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::download::{cached, run};
use crate::server_process::{ServerProcess, folder, free_port};

const VERSION: &str = "4.1.0";
/// A JVM that starts in seconds and stays small.
const JVM: [&str; 4] = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"];
const FORMAT: &str = "kafka.tools.StorageTool";
/// A cluster needs an id; any 16 bytes in base64.
const CLUSTER: &str = "AAAAAAAAAAAAAAAAAAAAAQ";

/// A running broker, which is its own controller. It belongs to one process and ends with it,
/// however that ends.
pub struct KafkaServer {
    process: ServerProcess,
    folder: PathBuf,
    port: u16,
    topics: AtomicU32,
}

/// Several brokers of one cluster; each is a controller, too.
pub struct KafkaCluster {
    brokers: Vec<KafkaServer>,
}

/// Where a broker is.
#[derive(Clone, Copy)]
struct BrokerAddress {
    id: usize,
    port: u16,
    controller: u16,
}

impl BrokerAddress {
    fn free(id: usize) -> Self {
        Self { id, port: free_port(), controller: free_port() }
    }
}

impl KafkaCluster {
    /// Starts so many brokers on free ports of 127.0.0.1.
    pub fn start(count: usize) -> Self {
        let addresses: Vec<BrokerAddress> = (1..=count).map(BrokerAddress::free).collect();
        let prepared = addresses
            .iter()
            .map(|own| KafkaServer::prepare(folder(), *own, &addresses, &[], "", &[]));
        let brokers: Vec<KafkaServer> = prepared.collect();
        // A broker answers once most controllers are there.
        std::thread::scope(|scope| {
            for broker in &brokers {
                scope.spawn(|| broker.run());
            }
        });
        Self { brokers }
    }

    /// The brokers, in the order of their numbers.
    pub fn brokers(&self) -> &[KafkaServer] {
        &self.brokers
    }

    /// The URL of a topic that does not exist yet, with a group of its own.
    pub fn fresh(&self) -> String {
        let address = |broker: &KafkaServer| format!("127.0.0.1:{}", broker.port);
        let addresses: Vec<String> = self.brokers.iter().map(address).collect();
        let topic = self.brokers[0].fresh_topic();
        format!("kafka://{}/{topic}?group={topic}", addresses.join(","))
    }
}

impl Drop for KafkaCluster {
    /// Ends the brokers at once: the last one would wait for the others for minutes.
    fn drop(&mut self) {
        for broker in &self.brokers {
            let _ran = broker.process.try_signal("-KILL", "java");
        }
    }
}

/// A broker that clients reach by TLS, and with a password. All listeners are on 127.0.0.1.
pub struct SecureKafkaServer {
    server: KafkaServer,
    /// TLS.
    pub tls: u16,
    /// TLS with a certificate of the client.
    pub client_certificate: u16,
    /// TLS, then a password: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
    pub password: u16,
    /// A password without TLS, PLAIN only.
    pub plain_password: u16,
}

impl SecureKafkaServer {
    /// The account that every broker has.
    pub const USER: &str = "terse";
    /// Its password.
    pub const PASSWORD: &str = "correct-horse";

    /// Starts a broker with this certificate, for 127.0.0.1, and its key, in PEM. Clients whose
    /// certificate is the same one are accepted, too.
    pub fn start(certificate: &str, key: &str) -> Self {
        let [tls, client_certificate, password, plain_password] = [(); 4].map(|()| free_port());
        let (user, secret) = (Self::USER, Self::PASSWORD);
        let folder = folder();
        for (name, text) in [
            ("certificate.pem", certificate),
            ("key.pem", key),
            ("both.pem", &format!("{key}\n{certificate}")),
        ] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let plain = format!(
            "org.apache.kafka.common.security.plain.PlainLoginModule required \
             user_{user}=\"{secret}\";"
        );
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
        let listeners = [
            ("TLS", "SSL", tls),
            ("CLIENT", "SSL", client_certificate),
            ("PASSWORD", "SASL_SSL", password),
            ("CLEAR", "SASL_PLAINTEXT", plain_password),
        ];
        let settings = format!(
            "ssl.keystore.type=PEM\n\
             ssl.keystore.location={folder}/both.pem\n\
             listener.name.client.ssl.client.auth=required\n\
             listener.name.client.ssl.truststore.type=PEM\n\
             listener.name.client.ssl.truststore.location={folder}/certificate.pem\n\
             sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
             listener.name.password.plain.sasl.jaas.config={plain}\n\
             listener.name.password.scram-sha-256.sasl.jaas.config={scram}\n\
             listener.name.password.scram-sha-512.sasl.jaas.config={scram}\n\
             listener.name.clear.sasl.enabled.mechanisms=PLAIN\n\
             listener.name.clear.plain.sasl.jaas.config={plain}\n",
            folder = folder.display()
        );
        let accounts = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
            .map(|mechanism| format!("{mechanism}=[name={user},password={secret}]"));
        let accounts = [["--add-scram", &accounts[0]], ["--add-scram", &accounts[1]]];
        let server = KafkaServer::start_in(folder, &listeners, &settings, accounts.as_flattened());
        Self { server, tls, client_certificate, password, plain_password }
    }

    /// The file with the certificate.
    pub fn certificate(&self) -> PathBuf {
        self.server.folder.join("certificate.pem")
    }

    /// The file with its key.
    pub fn key(&self) -> PathBuf {
        self.server.folder.join("key.pem")
    }

    /// The name of a topic that does not exist yet.
    pub fn fresh_topic(&self) -> String {
        self.server.fresh_topic()
    }
}

impl KafkaServer {
    /// The broker that all tests of this process share.
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<KafkaServer> = OnceLock::new();
        SERVER.get_or_init(Self::start)
    }

    /// Starts a broker on a free port of 127.0.0.1.
    pub fn start() -> Self {
        Self::start_in(folder(), &[], "", &[])
    }

    /// Starts a broker with more listeners (name, protocol and port), settings and accounts.
    fn start_in(
        folder: PathBuf,
        more: &[(&str, &str, u16)],
        settings: &str,
        accounts: &[&str],
    ) -> Self {
        let address = BrokerAddress::free(1);
        let server = Self::prepare(folder, address, &[address], more, settings, accounts);
        server.run();
        server
    }

    /// Makes the folder of a broker of the cluster that `addresses` are.
    fn prepare(
        folder: PathBuf,
        BrokerAddress { id, port, controller }: BrokerAddress,
        addresses: &[BrokerAddress],
        more: &[(&str, &str, u16)],
        settings: &str,
        accounts: &[&str],
    ) -> Self {
        let voter =
            |address: &BrokerAddress| format!("{}@127.0.0.1:{}", address.id, address.controller);
        let voters: Vec<String> = addresses.iter().map(voter).collect();
        let (voters, replicas) = (voters.join(","), addresses.len().min(3));
        let in_sync = replicas.div_ceil(2);
        let all = [&[("PLAINTEXT", "PLAINTEXT", port)], more].concat();
        let joined = |part: &dyn Fn(&(&str, &str, u16)) -> String| -> String {
            all.iter().map(part).collect::<Vec<_>>().join(",")
        };
        let listeners = joined(&|(name, _, port)| format!("{name}://127.0.0.1:{port}"));
        let protocols = joined(&|(name, protocol, _)| format!("{name}:{protocol}"));
        let data = folder.join("data").display().to_string();
        let settings = format!(
            "process.roles=broker,controller\n\
             node.id={id}\n\
             controller.quorum.voters={voters}\n\
             listeners={listeners},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners={listeners}\n\
             controller.listener.names=CONTROLLER\n\
             inter.broker.listener.name=PLAINTEXT\n\
             listener.security.protocol.map={protocols},CONTROLLER:PLAINTEXT\n\
             log.dirs={data}\n\
             auto.create.topics.enable=false\n\
             offsets.topic.replication.factor={replicas}\n\
             offsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor={replicas}\n\
             transaction.state.log.min.isr={in_sync}\n\
             transaction.state.log.num.partitions=1\n\
             group.initial.rebalance.delay.ms=0\n\
             group.min.session.timeout.ms=1000\n\
             num.network.threads=1\n\
             num.io.threads=2\n\
             {settings}"
        );
        std::fs::write(folder.join("server.properties"), settings).unwrap();
        let process = ServerProcess::new(folder.clone(), None);
        let server = Self { process, folder, port, topics: AtomicU32::new(0) };
        let format = ["format", "-t", CLUSTER, "-c", "server.properties"];
        let mut command = Command::new("java");
        command.args(JVM).arg(jars()).arg(FORMAT).args(format).args(accounts);
        run(command.current_dir(&server.folder));
        server
    }

    /// Starts the broker again after [`KafkaServer::kill`].
    pub fn run(&self) {
        let jars = jars().display().to_string();
        let mut args = JVM.to_vec();
        args.extend([&*jars, "kafka.Kafka", "server.properties"]);
        let java = Path::new("/usr/bin/java");
        self.process.start(java, &args, || self.answers());
    }

    /// Ends the broker at once, as `kill -9` does, and keeps its data for [`KafkaServer::run`].
    pub fn kill(&self) {
        self.process.signal("-KILL", "java");
        self.process.stop();
    }

    /// Stops the process without ending it: connections stay and nothing is answered.
    pub fn freeze(&self) {
        self.process.signal("-STOP", "java");
    }

    /// Lets it continue.
    pub fn thaw(&self) {
        self.process.signal("-CONT", "java");
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a topic.
    pub fn url(&self, topic: &str) -> String {
        format!("kafka://127.0.0.1:{}/{topic}?group={topic}", self.port)
    }

    /// The URL of a topic that does not exist yet, with a group of its own.
    pub fn fresh(&self) -> String {
        self.url(&self.fresh_topic())
    }

    /// How many bytes the broker has written for a topic.
    pub fn octets(&self, topic: &str) -> u64 {
        let mut octets = 0;
        for partition in std::fs::read_dir(self.folder.join("data")).unwrap() {
            let path = partition.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.rsplit_once('-').is_none_or(|(of, _)| of != topic) {
                continue;
            }
            // Indexes are sparse files of a fixed length.
            for file in std::fs::read_dir(path).unwrap().map(Result::unwrap) {
                let is_log = file.path().extension().is_some_and(|name| name == "log");
                octets += if is_log { file.metadata().unwrap().len() } else { 0 };
            }
        }
        octets
    }

    fn fresh_topic(&self) -> String {
        format!("clicks-{}", self.topics.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether the broker answers a request for the versions of its requests: then it serves.
    fn answers(&self) -> bool {
        let ask = || -> Option<i16> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
            // ApiVersions 0, correlation id 7, no client id.
            let request = [0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];
            stream.write_all(&[0, 0, 0, request.len() as u8]).ok()?;
            stream.write_all(&request).ok()?;
            let mut answer = [0; 10];
            stream.read_exact(&mut answer).ok()?;
            Some(i16::from_be_bytes([answer[8], answer[9]]))
        };
        ask() == Some(0)
    }
}

/// All jars, as a class path.
fn jars() -> &'static Path {
    static JARS: OnceLock<PathBuf> = OnceLock::new();
    JARS.get_or_init(|| {
        let folder = cached(&format!("kafka-{VERSION}"), |folder| {
            let project = format!(
                "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n\
                 <modelVersion>4.0.0</modelVersion>\n\
                 <groupId>terse</groupId><artifactId>kafka</artifactId><version>1</version>\n\
                 <dependencies><dependency><groupId>org.apache.kafka</groupId>\n\
                 <artifactId>kafka_2.13</artifactId><version>{VERSION}</version>\n\
                 </dependency></dependencies></project>\n"
            );
            std::fs::write(folder.join("pom.xml"), project).unwrap();
            let copy = ["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"];
            let to = format!("-DoutputDirectory={}", folder.display());
            run(Command::new("mvn").args(copy).arg(to).current_dir(folder));
        });
        folder.join("*")
    })
}
