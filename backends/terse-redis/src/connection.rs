//! A connection to any of the layouts.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, IntoConnectionInfo as _, Pipeline, RedisError,
    RedisFuture, RedisResult, TlsCertificates, TlsMode, Value,
};

use crate::target::{Layout, RedisUrl};

/// How long connecting may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The bound of one answer that the driver itself keeps; callers have shorter ones.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// All callers share one connection, or one per node of a Cluster.
#[derive(Clone)]
pub(crate) enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::One(one) => one.req_packed_command(cmd),
            Self::Cluster(cluster) => cluster.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::One(one) => one.req_packed_commands(cmd, offset, count),
            Self::Cluster(cluster) => cluster.req_packed_commands(cmd, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(one) => one.get_db(),
            Self::Cluster(cluster) => cluster.get_db(),
        }
    }
}

fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT))
}

fn certificates(url: &RedisUrl) -> RedisResult<TlsCertificates> {
    url.certificates().map_err(|error| {
        let file = url.root_certificate.as_deref().unwrap_or(std::path::Path::new(""));
        let detail = format!("{}: {error}", file.display());
        RedisError::from((ErrorKind::InvalidClientConfig, "the certificates", detail))
    })
}

fn client(url: &RedisUrl, node: &str) -> RedisResult<Client> {
    match url.root_certificate {
        Some(_) => Client::build_with_tls(node, certificates(url)?),
        None => Client::open(node),
    }
}

/// Connects. A server behind Sentinels is the master that they name now.
pub(crate) async fn connect(url: &RedisUrl) -> RedisResult<Connection> {
    match &url.layout {
        Layout::Single(node) => client(url, node)?
            .get_multiplexed_async_connection_with_config(&config())
            .await
            .map(Connection::One),
        Layout::Cluster(nodes) => {
            let infos: Vec<_> = nodes
                .iter()
                .map(|node| node.as_str().into_connection_info())
                .collect::<RedisResult<_>>()?;
            let mut builder = ClusterClient::builder(infos)
                .connection_timeout(CONNECT_TIMEOUT)
                .response_timeout(RESPONSE_TIMEOUT)
                .retries(1);
            if url.root_certificate.is_some() {
                builder = builder.certs(certificates(url)?);
            }
            builder.build()?.get_async_connection().await.map(Connection::Cluster)
        }
        Layout::Sentinel { .. } => {
            sentinel(url)?.get_async_connection_with_config(&config()).await.map(Connection::One)
        }
    }
}

/// A connection that receives messages.
pub(crate) async fn subscriber(url: &RedisUrl) -> RedisResult<PubSub> {
    match &url.layout {
        Layout::Single(node) => client(url, node)?.get_async_pubsub().await,
        Layout::Sentinel { .. } => {
            sentinel(url)?.async_get_client().await?.get_async_pubsub().await
        }
        // Every node of a Cluster passes messages on to all others.
        Layout::Cluster(nodes) => {
            let first = getrandom::u32().unwrap_or_default() as usize % nodes.len();
            let mut failed = None;
            for n in 0..nodes.len() {
                let client = client(url, &nodes[(first + n) % nodes.len()])?;
                match tokio::time::timeout(CONNECT_TIMEOUT, client.get_async_pubsub()).await {
                    Ok(Ok(connected)) => return Ok(connected),
                    Ok(Err(error)) => failed = Some(error),
                    Err(_) => {}
                }
            }
            Err(failed.unwrap_or_else(|| {
                RedisError::from((ErrorKind::Io, "no node of the Cluster answers"))
            }))
        }
    }
}

fn sentinel(url: &RedisUrl) -> RedisResult<SentinelClient> {
    let Layout::Sentinel { sentinels, master, server } = &url.layout else {
        return Err(RedisError::from((ErrorKind::InvalidClientConfig, "there is no Sentinel")));
    };
    let infos: Vec<_> = sentinels
        .iter()
        .map(|node| node.as_str().into_connection_info().map(|info| info.addr().clone()))
        .collect::<RedisResult<_>>()?;
    let mut builder =
        SentinelClientBuilder::new(infos, master.clone(), SentinelServerType::Master)?
            .set_client_to_redis_db(server.database);
    if server.tls {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_sentinel_tls_mode(TlsMode::Secure);
        if url.root_certificate.is_some() {
            let certificates = certificates(url)?;
            builder = builder
                .set_client_to_redis_certificates(certificates.clone())
                .set_client_to_sentinel_certificates(certificates);
        }
    }
    if let Some(user) = &server.user {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = &server.password {
        builder = builder.set_client_to_redis_password(password);
    }
    builder.build()
}
