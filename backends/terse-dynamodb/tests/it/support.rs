//! Tables for tests.

use std::time::Duration;

use terse_dynamodb::{DynamoAddress, DynamoLinks, DynamoOptions};
use terse_testkit::DynamoServer;

/// A new table of the shared server.
pub(crate) async fn fresh() -> DynamoOptions {
    let server = DynamoServer::shared();
    let options = options(&server.fresh_name(), &server.endpoint());
    terse_dynamodb::create(&options).await.unwrap();
    options
}

/// Options for a table behind an address.
pub(crate) fn options(table: &str, endpoint: &str) -> DynamoOptions {
    let url = format!("dynamodb://{table}?region=eu-central-1&endpoint={endpoint}");
    let address = DynamoAddress::parse(&url).unwrap();
    DynamoOptions {
        credentials: Some(("test".to_owned(), "test".to_owned())),
        // A busy machine may stop the server for seconds.
        attempt_timeout: Duration::from_secs(20),
        budget: Duration::from_secs(40),
        ..DynamoOptions::new(address)
    }
}

pub(crate) async fn open(options: &DynamoOptions) -> DynamoLinks {
    DynamoLinks::open(options.clone()).await.unwrap()
}

/// A client of the SDK itself.
pub(crate) fn raw(options: &DynamoOptions) -> aws_sdk_dynamodb::Client {
    let http = aws_smithy_http_client::Builder::new().build_http();
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
        .region(aws_sdk_dynamodb::config::Region::new("eu-central-1"))
        .endpoint_url(options.address.endpoint.clone().unwrap())
        .credentials_provider(aws_sdk_dynamodb::config::Credentials::new(
            "test", "test", None, None, "test",
        ))
        .http_client(http);
    aws_sdk_dynamodb::Client::from_conf(config.build())
}

/// Copies every item of one table over those of the other, as the replication of a global table
/// does: the last writer wins.
pub(crate) async fn copy(from: &DynamoOptions, to: &DynamoOptions) {
    let (source, target) = (raw(from), raw(to));
    let items = source.scan().table_name(&from.address.table).send().await.unwrap();
    for item in items.items.unwrap() {
        let put = target.put_item().table_name(&to.address.table);
        put.set_item(Some(item)).send().await.unwrap();
    }
}
