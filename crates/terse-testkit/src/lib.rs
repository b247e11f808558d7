//! Contract suites and fakes. Depends only on the core.
//!
//! A backend tests its promises with one line: [`link_store!`], [`click_store!`], [`limiter!`] or
//! [`registry!`]. Other tests use a [`MemoryStore`], a [`MemoryClickStore`] or a
//! [`MemoryRegistry`]. A [`PostgresServer`], a [`RedisServer`], a
//! [`ClickHouseServer`], a [`DynamoServer`], a [`KafkaServer`], an [`S3Server`] or a
//! [`PebbleServer`] is started for tests that need a real one, with a [`TcpProxy`] in front of it
//! where connections must break, or an [`AnsweringProxy`] where DynamoDB must refuse requests.
//! [`fleet`] checks what the clients of several nodes have seen. This crate contains nothing about
//! HTTP and nothing about any single backend.

mod answering_proxy;
#[doc(hidden)]
pub mod click_store;
mod clickhouse_server;
mod counting_allocator;
mod download;
mod dynamodb_server;
mod fixed_limiter;
pub mod fleet;
mod kafka_server;
#[doc(hidden)]
pub mod limiter;
#[doc(hidden)]
pub mod link_store;
mod log_lines;
mod memory;
mod memory_clicks;
mod memory_registry;
mod paused_lease;
mod pebble_server;
mod pem;
mod postgres_server;
mod redis_server;
#[doc(hidden)]
pub mod registry;
mod s3_server;
mod sample;
mod server_process;
#[doc(hidden)]
pub mod suite;
mod tcp_proxy;
mod varnish_server;
mod wait_until;

pub use answering_proxy::AnsweringProxy;
pub use click_store::add_clicks;
pub use clickhouse_server::ClickHouseServer;
pub use counting_allocator::CountingAllocator;
pub use download::{cached, run};
pub use dynamodb_server::DynamoServer;
pub use fixed_limiter::FixedLimiter;
pub use kafka_server::{KafkaCluster, KafkaServer, SecureKafkaServer};
pub use log_lines::LogLines;
pub use memory::MemoryStore;
pub use memory_clicks::MemoryClickStore;
pub use memory_registry::MemoryRegistry;
pub use paused_lease::{PausedLease, run_paused};
pub use pebble_server::PebbleServer;
pub use pem::pem;
pub use postgres_server::{PgBouncer, PostgresServer};
pub use redis_server::RedisServer;
pub use s3_server::{S3Server, duckdb_python, litestream};
pub use sample::{alias, generated, key, preview, rules, timestamp};
pub use tcp_proxy::TcpProxy;
pub use varnish_server::VarnishServer;
pub use wait_until::wait_until;
