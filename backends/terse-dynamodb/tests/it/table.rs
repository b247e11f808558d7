//! The table itself.

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType,
};
use terse_core::LinkStore as _;
use terse_dynamodb::{DynamoLinks, DynamoOpenError};
use terse_testkit::DynamoServer;

use crate::support::{copy, fresh, open, options, raw};

#[tokio::test]
async fn a_table_is_created_once_and_completed_later() {
    let server = DynamoServer::shared();
    let options = options(&server.fresh_name(), &server.endpoint());
    let missing = DynamoLinks::open(options.clone()).await.unwrap_err();
    assert!(matches!(missing, DynamoOpenError::NoTable(..)), "{missing}");
    let created = terse_dynamodb::create(&options).await.unwrap();
    assert!(created.is_new, "{created:?}");
    assert!(!terse_dynamodb::create(&options).await.unwrap().is_new);
    let seen = terse_dynamodb::inspect(&options).await.unwrap();
    assert!(seen.is_on_demand && seen.has_time_to_live == Some(true), "{seen:?}");
    assert!(seen.clock_ahead_ms.abs() < 5_000, "{seen:?}");
}

#[tokio::test]
async fn a_table_of_another_program_or_of_a_later_terse_is_refused() {
    let server = DynamoServer::shared();
    let other = options(&server.fresh_name(), &server.endpoint());
    let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash);
    let attribute =
        AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S);
    let create = raw(&other).create_table().table_name(&other.address.table);
    let create = create.key_schema(key.build().unwrap());
    let create = create.attribute_definitions(attribute.build().unwrap());
    create.billing_mode(BillingMode::PayPerRequest).send().await.unwrap();
    let refused = DynamoLinks::open(other).await.unwrap_err().to_string();
    assert!(refused.contains("its key is id, not pk, sk"), "{refused}");

    let later = fresh().await;
    open(&later).await;
    let update = raw(&later).update_item().table_name(&later.address.table);
    let update = update.key("pk", AttributeValue::S("M".into()));
    let update = update.key("sk", AttributeValue::S("identity".into()));
    let update = update.update_expression("SET #f = :f").expression_attribute_names("#f", "format");
    let update = update.expression_attribute_values(":f", AttributeValue::N("2".into()));
    update.send().await.unwrap();
    let refused = DynamoLinks::open(later).await.unwrap_err();
    assert!(matches!(refused, DynamoOpenError::Newer { found: 2, known: 1 }), "{refused}");
}

/// A backup is always restored into a new table.
#[tokio::test]
async fn a_restored_table_issues_no_code_twice() {
    let (original, restored) = (fresh().await, fresh().await);
    let store = open(&original).await;
    let capacity = terse_core::Numbering::new(store.identity()).capacity(7);
    let first = store.lease(7, 10, capacity, 0).await.unwrap();
    let incarnation = store.incarnation().await.unwrap();
    copy(&original, &restored).await;
    // Leased after the backup was taken.
    let lost = store.lease(7, 1_000_000, capacity, 0).await.unwrap();
    for _ in 0..2 {
        let node = open(&restored).await;
        assert_eq!(node.incarnation().await.unwrap(), incarnation + 1, "raised once");
        let next = node.lease(7, 10, capacity, 0).await.unwrap();
        assert!(next.start > lost.end, "{first:?}, {lost:?}, then {next:?}");
    }
    assert_eq!(open(&original).await.incarnation().await.unwrap(), incarnation);
}

#[tokio::test]
async fn the_cloudformation_file_describes_the_same_table() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/dynamodb/table.yaml");
    let file = std::fs::read_to_string(file).unwrap();
    let options = fresh().await;
    let described = raw(&options).describe_table().table_name(&options.address.table).send().await;
    let table = described.unwrap().table.unwrap();
    for attribute in table.attribute_definitions() {
        let line = format!(
            "{{ AttributeName: {}, AttributeType: {} }}",
            attribute.attribute_name(),
            attribute.attribute_type().as_str()
        );
        assert!(file.contains(&line), "{line}");
    }
    let indexes = table.global_secondary_indexes();
    assert_eq!(file.matches("IndexName:").count(), indexes.len());
    for index in indexes {
        let [partition, sort] = index.key_schema() else { panic!("{index:?}") };
        let projection = index.projection().unwrap();
        let others = projection.non_key_attributes();
        let projected = if others.is_empty() {
            "{ ProjectionType: KEYS_ONLY }".to_owned()
        } else {
            format!("{{ ProjectionType: INCLUDE, NonKeyAttributes: [{}] }}", others.join(", "))
        };
        let lines = format!(
            "- IndexName: {}\n          KeySchema:\n            \
             - {{ AttributeName: {}, KeyType: HASH }}\n            \
             - {{ AttributeName: {}, KeyType: RANGE }}\n          Projection: {projected}\n",
            index.index_name().unwrap(),
            partition.attribute_name(),
            sort.attribute_name(),
        );
        assert!(file.contains(&lines), "{lines}");
    }
    let expiry = raw(&options).describe_time_to_live().table_name(&options.address.table).send();
    let expiry = expiry.await.unwrap().time_to_live_description.unwrap().attribute_name.unwrap();
    let line = format!("TimeToLiveSpecification: {{ AttributeName: {expiry}, Enabled: true }}");
    assert!(file.contains(&line), "{line}");
    assert!(file.contains("BillingMode: PAY_PER_REQUEST"));
    assert!(file.contains("PointInTimeRecoveryEnabled: true"));
}
