//! DynamoDB Local, which AWS publishes for tests, from Maven Central.
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

const VERSION: &str = "2.6.1";

/// A running server. It belongs to one process and ends with it, however that ends.
pub struct DynamoServer {
    process: ServerProcess,
    port: u16,
    tables: AtomicU32,
}

impl DynamoServer {
    /// The server that all tests of this process share.
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<DynamoServer> = OnceLock::new();
        SERVER.get_or_init(Self::start)
    }

    /// Starts a server on a free port. Its tables are in files, so that they outlive
    /// [`DynamoServer::kill`].
    pub fn start() -> Self {
        let (folder, port) = (folder(), free_port());
        std::fs::create_dir(folder.join("data")).unwrap();
        let process = ServerProcess::new(folder, None);
        let server = Self { process, port, tables: AtomicU32::new(0) };
        server.run();
        server
    }

    /// Starts the server again after [`DynamoServer::kill`].
    pub fn run(&self) {
        let library = library().display().to_string();
        let (path, classes) = (format!("-Djava.library.path={library}"), format!("{library}/*"));
        let port = self.port.to_string();
        let args = [
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            &path,
            "-cp",
            &classes,
            "com.amazonaws.services.dynamodbv2.local.main.ServerRunner",
            "-dbPath",
            "data",
            "-sharedDb",
            "-disableTelemetry",
            "-port",
            &port,
        ];
        self.process.start(Path::new("/usr/bin/java"), &args, || self.answers());
    }

    /// Ends the server at once, as `kill -9` does, and keeps its tables for [`DynamoServer::run`].
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

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The name of a table that does not exist yet.
    pub fn fresh_name(&self) -> String {
        format!("terse_{}", self.tables.fetch_add(1, Ordering::Relaxed))
    }

    fn answers(&self) -> bool {
        let ask = || {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
            let body = "{}";
            write!(
                stream,
                "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
                 Content-Type: application/x-amz-json-1.0\r\n\
                 X-Amz-Target: DynamoDB_20120810.ListTables\r\nAuthorization: AWS4-HMAC-SHA256 \
                 Credential=test/20260101/us-east-1/dynamodb/aws4_request, \
                 SignedHeaders=host, Signature=0\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            Some(answer)
        };
        ask().is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }
}

/// The folder of the server's jars and its native library.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        cached(&format!("dynamodb-local-{VERSION}"), |folder| {
            let project = format!(
                "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\
                 <modelVersion>4.0.0</modelVersion><groupId>terse</groupId>\
                 <artifactId>dynamodb-local</artifactId><version>1</version><dependencies>\
                 <dependency><groupId>com.amazonaws</groupId><artifactId>DynamoDBLocal</artifactId>\
                 <version>{VERSION}</version></dependency></dependencies></project>"
            );
            std::fs::write(folder.join("pom.xml"), project).unwrap();
            let mut maven = Command::new("mvn");
            maven.args(["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]);
            maven.arg("-DoutputDirectory=.").current_dir(folder);
            run(&mut maven);
        })
    })
}
