//! The state of Redis, for `terse doctor`.

use std::time::Duration;

use redis::{FromRedisValue as _, RedisError, Value};
use tokio::time::timeout;

use crate::connection::connect;
use crate::target::RedisUrl;

const TIMEOUT: Duration = Duration::from_secs(5);

/// The state of a server; of a Cluster, that of the node with the least memory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RedisInspection {
    /// Its version.
    pub version: String,
    /// How many servers answered.
    pub servers: usize,
    /// The memory in use.
    pub used_memory: u64,
    /// The most that it may use; 0 is no limit.
    pub max_memory: u64,
    /// What it does when the memory is full.
    pub eviction_policy: String,
}

/// Reads the state of Redis.
pub async fn inspect(url: &RedisUrl) -> Result<RedisInspection, RedisError> {
    let looked = timeout(TIMEOUT, async {
        let mut connection = connect(url).await?;
        let mut texts = Vec::new();
        for section in ["server", "memory"] {
            let info: Value = redis::cmd("INFO").arg(section).query_async(&mut connection).await?;
            collect(&info, &mut texts);
        }
        Ok(read(&texts))
    });
    looked.await.unwrap_or_else(|_| {
        Err(RedisError::from((redis::ErrorKind::Io, "no answer within 5 seconds")))
    })
}

fn collect(answer: &Value, found: &mut Vec<String>) {
    match answer {
        Value::Map(nodes) => nodes.iter().for_each(|(_, answer)| collect(answer, found)),
        other => found.extend(String::from_redis_value_ref(other)),
    }
}

fn read(texts: &[String]) -> RedisInspection {
    let all = |name: &str| -> Vec<&str> {
        let lines = texts.iter().flat_map(|text| text.lines());
        lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(':')).collect()
    };
    let numbers = |name: &str| -> Vec<u64> {
        all(name).iter().filter_map(|number| number.trim().parse().ok()).collect()
    };
    let first = |name: &str| all(name).first().map_or("", |text| text.trim()).to_owned();
    RedisInspection {
        version: first("redis_version"),
        servers: all("run_id").len(),
        used_memory: numbers("used_memory").into_iter().max().unwrap_or_default(),
        max_memory: numbers("maxmemory").into_iter().min().unwrap_or_default(),
        eviction_policy: first("maxmemory_policy"),
    }
}
