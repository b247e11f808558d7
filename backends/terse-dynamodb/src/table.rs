//! The table: how it is created, and what it must be like.

use std::time::Duration;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata as _, SdkError};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, GlobalSecondaryIndexDescription,
    KeySchemaElement, KeyType, PointInTimeRecoverySpecification, Projection, ProjectionType,
    ScalarAttributeType, TableStatus, TimeToLiveSpecification, TimeToLiveStatus,
};
use terse_core::{Alphabet, CodeHash, StoreIdentity};

use crate::client::{Db, TableRegion};
use crate::failure::Failure;
use crate::item::{Attributes as _, Item, bytes, number, text};
use crate::keys::{self, BY_CREATED, BY_EXPIRY, BY_OWNER, BY_PURGE, Index};
use crate::leases;
use crate::options::{DynamoOpenError, DynamoOptions};
use crate::requests::Condition;

/// The format of the items. A newer one is refused.
const FORMAT: u64 = 1;
/// The attribute that the table's own expiry reads, in seconds.
const TIME_TO_LIVE: &str = "forget_at";
/// How long a new table may take to become active.
const CREATION: Duration = Duration::from_secs(120);
/// How long everything may take that completes a table.
const CREATION_LIMIT: Duration = Duration::from_secs(180);

/// What [`create`] has done.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TableCreated {
    /// Whether the table is new.
    pub is_new: bool,
    /// What the service refused; the table works without it.
    pub refused: Vec<String>,
}

/// Creates the table of a URL, if it does not exist: capacity on demand, its indexes, expiry of
/// request ids and change rows, recovery to any point of the last 35 days.
pub async fn create(options: &DynamoOptions) -> Result<TableCreated, DynamoOpenError> {
    within(CREATION_LIMIT, complete(options)).await
}

/// Bounds requests that are not sent by `Db::send`.
pub(crate) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, DynamoOpenError>>,
) -> Result<T, DynamoOpenError> {
    let late = || format!("it has not answered within {} s", limit.as_secs());
    let done = tokio::time::timeout(limit, work).await;
    done.unwrap_or_else(|_| Err(DynamoOpenError::Service(late())))
}

async fn complete(options: &DynamoOptions) -> Result<TableCreated, DynamoOpenError> {
    let db = Db::connect(options, TableRegion::Home).await?;
    let mut created = TableCreated::default();
    let element = |name: &str, kind: KeyType| {
        KeySchemaElement::builder().attribute_name(name).key_type(kind).build().map_err(invalid)
    };
    let schema = |Index(_, partition, sort): Index| {
        Ok::<_, DynamoOpenError>(vec![
            element(partition, KeyType::Hash)?,
            element(sort, KeyType::Range)?,
        ])
    };
    let index = |index: Index| {
        let projection = Projection::builder();
        let projection = match index.0 {
            // Tags are counted without reading the links.
            "by_owner" => {
                projection.projection_type(ProjectionType::Include).non_key_attributes("tags")
            }
            _ => projection.projection_type(ProjectionType::KeysOnly),
        };
        GlobalSecondaryIndex::builder()
            .index_name(index.0)
            .set_key_schema(Some(schema(index)?))
            .projection(projection.build())
            .build()
            .map_err(invalid)
    };
    let mut request = db
        .client
        .create_table()
        .table_name(&db.table)
        .billing_mode(BillingMode::PayPerRequest)
        .set_key_schema(Some(schema(Index("", keys::PK, keys::SK))?));
    for one in [BY_OWNER, BY_CREATED, BY_EXPIRY, BY_PURGE] {
        request = request.global_secondary_indexes(index(one)?);
    }
    for (name, kind) in ATTRIBUTES {
        let definition = AttributeDefinition::builder().attribute_name(name).attribute_type(kind);
        request = request.attribute_definitions(definition.build().map_err(invalid)?);
    }
    match request.send().await {
        Ok(_) => created.is_new = true,
        Err(error) => match error.as_service_error().and_then(|error| error.code()) {
            Some("ResourceInUseException") => {}
            _ => return Err(service(Failure::of(error))),
        },
    }
    wait_until_active(&db).await?;
    check(&db, options).await?;
    set_time_to_live(&db).await.unwrap_or_else(|why| created.refused.push(why));
    set_recovery(&db).await.unwrap_or_else(|why| created.refused.push(why));
    Ok(created)
}

const ATTRIBUTES: [(&str, ScalarAttributeType); 9] = [
    (keys::PK, ScalarAttributeType::S),
    (keys::SK, ScalarAttributeType::S),
    (BY_OWNER.1, ScalarAttributeType::S),
    (BY_CREATED.1, ScalarAttributeType::S),
    (BY_CREATED.2, ScalarAttributeType::S),
    (BY_EXPIRY.1, ScalarAttributeType::S),
    (BY_EXPIRY.2, ScalarAttributeType::N),
    (BY_PURGE.1, ScalarAttributeType::S),
    (BY_PURGE.2, ScalarAttributeType::N),
];

fn invalid(error: aws_sdk_dynamodb::error::BuildError) -> DynamoOpenError {
    DynamoOpenError::Service(error.to_string())
}

fn service(failure: Failure) -> DynamoOpenError {
    DynamoOpenError::Service(match failure {
        Failure::Throttled(why) | Failure::Unknown(why) | Failure::Refused(why) => why,
        other => format!("{other:?}"),
    })
}

async fn wait_until_active(db: &Db) -> Result<(), DynamoOpenError> {
    let begun = tokio::time::Instant::now();
    loop {
        let answer = db.client.describe_table().table_name(&db.table).send().await;
        let answer = answer.map_err(|error| service(Failure::of(error)))?;
        let status = answer.table().and_then(|table| table.table_status());
        if status == Some(&TableStatus::Active) {
            return Ok(());
        }
        if begun.elapsed() > CREATION {
            let why = format!("the table {} is not active yet ({status:?})", db.table);
            return Err(DynamoOpenError::Service(why));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn set_time_to_live(db: &Db) -> Result<(), String> {
    if has_time_to_live(db).await == Some(true) {
        return Ok(());
    }
    let expiry = TimeToLiveSpecification::builder().enabled(true).attribute_name(TIME_TO_LIVE);
    let expiry = expiry.build().map_err(|error| error.to_string())?;
    let request = db.client.update_time_to_live().table_name(&db.table);
    let answer = request.time_to_live_specification(expiry).send().await;
    answer.map(drop).map_err(|error| format!("time to live: {}", short(&error)))
}

async fn set_recovery(db: &Db) -> Result<(), String> {
    let recovery = PointInTimeRecoverySpecification::builder().point_in_time_recovery_enabled(true);
    let recovery = recovery.build().map_err(|error| error.to_string())?;
    let request = db.client.update_continuous_backups().table_name(&db.table);
    let answer = request.point_in_time_recovery_specification(recovery).send().await;
    answer.map(drop).map_err(|error| format!("point-in-time recovery: {}", short(&error)))
}

fn short<E: aws_sdk_dynamodb::error::ProvideErrorMetadata>(error: &SdkError<E>) -> String {
    match error.as_service_error() {
        Some(error) => error.code().unwrap_or("refused").to_owned(),
        None => "no answer".to_owned(),
    }
}

/// Whether the table removes what has expired; `None` if the service does not tell.
pub(crate) async fn has_time_to_live(db: &Db) -> Option<bool> {
    let answer = db.client.describe_time_to_live().table_name(&db.table).send().await.ok()?;
    let expiry = answer.time_to_live_description?;
    let is_on = matches!(
        expiry.time_to_live_status,
        Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
    );
    Some(is_on && expiry.attribute_name.as_deref() == Some(TIME_TO_LIVE))
}

/// Checks keys and indexes, and returns the id of the table: a table that was restored from a
/// backup has another one.
pub(crate) async fn check(db: &Db, options: &DynamoOptions) -> Result<String, DynamoOpenError> {
    let deadline = db.deadline();
    let answer = db
        .send(deadline, crate::retry::RetryPolicy::Always, || async {
            db.client.describe_table().table_name(&db.table).send().await.map_err(|error| {
                match error.as_service_error().and_then(|error| error.code()) {
                    Some("ResourceNotFoundException") => Failure::Condition(None),
                    _ => Failure::of(error),
                }
            })
        })
        .await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(Failure::Condition(_)) => {
            let url = options.address.to_string();
            return Err(DynamoOpenError::NoTable(db.table.clone(), url));
        }
        Err(other) => return Err(service(other)),
    };
    let table = answer.table.unwrap_or_default_table();
    let foreign = |why: String| Err(DynamoOpenError::Foreign(db.table.clone(), why));
    let keys: Vec<_> = table.key_schema().iter().map(KeySchemaElement::attribute_name).collect();
    if keys != [keys::PK, keys::SK] {
        return foreign(format!("its key is {}, not pk, sk", keys.join(", ")));
    }
    for Index(name, partition, sort) in [BY_OWNER, BY_CREATED, BY_EXPIRY, BY_PURGE] {
        let indexes = table.global_secondary_indexes();
        let index = indexes.iter().find(|index| index.index_name() == Some(name));
        let schema = index.map(GlobalSecondaryIndexDescription::key_schema).unwrap_or_default();
        let keys: Vec<_> = schema.iter().map(KeySchemaElement::attribute_name).collect();
        if keys != [partition, sort] {
            return foreign(format!("it has no index {name} on {partition}, {sort}"));
        }
    }
    // DynamoDB Local gives tables no id.
    let created = table.creation_date_time().and_then(|at| at.to_millis().ok());
    Ok(table.table_id().map_or_else(|| created.unwrap_or_default().to_string(), str::to_owned))
}

trait OrDefaultTable {
    fn unwrap_or_default_table(self) -> aws_sdk_dynamodb::types::TableDescription;
}

impl OrDefaultTable for Option<aws_sdk_dynamodb::types::TableDescription> {
    fn unwrap_or_default_table(self) -> aws_sdk_dynamodb::types::TableDescription {
        self.unwrap_or_else(|| aws_sdk_dynamodb::types::TableDescription::builder().build())
    }
}

/// Reads the identity of the store. The first node creates it.
pub(crate) async fn identity(
    db: &Db,
    alphabet: Alphabet,
) -> Result<StoreIdentity, DynamoOpenError> {
    let read = || async { db.get(db.deadline(), &keys::identity(), true).await.map_err(service) };
    let item = match read().await? {
        Some(item) => item,
        None => {
            let new = StoreIdentity::generate(alphabet)
                .map_err(|error| DynamoOpenError::Service(format!("no random numbers: {error}")))?;
            for item in [leases::first_marks(), identity_item(&new)] {
                match db.put(db.deadline(), &item, &Condition::absent()).await {
                    Ok(()) | Err(Failure::Condition(_)) => {}
                    Err(other) => return Err(service(other)),
                }
            }
            let missing = || DynamoOpenError::Service("the identity was not stored".into());
            read().await?.ok_or_else(missing)?
        }
    };
    parse_identity(&item).map_err(|why| match why {
        Ok(newer) => newer,
        Err(why) => DynamoOpenError::Foreign(db.table.clone(), why),
    })
}

fn identity_item(identity: &StoreIdentity) -> Item {
    let mut item = keys::identity().item();
    item.insert("format".into(), number(FORMAT));
    item.insert("secret".into(), bytes(*identity.secret()));
    item.insert("alphabet".into(), text(identity.alphabet.as_str()));
    item.insert("code_hash".into(), text(identity.code_hash.as_str()));
    item
}

fn parse_identity(item: &Item) -> Result<StoreIdentity, Result<DynamoOpenError, String>> {
    let unknown = |what: &str| Err(format!("it has an unknown {what}"));
    let format = item.number("format").ok().flatten().unwrap_or(0);
    if format > FORMAT {
        return Err(Ok(DynamoOpenError::Newer { found: format, known: FORMAT }));
    }
    let text = |name: &str| item.text(name).map_err(|error| Err(error.to_string()));
    let secret = item.bytes("secret").map_err(|error| Err(error.to_string()))?;
    Ok(StoreIdentity::from_stored(
        secret.try_into().map_err(|_| unknown("secret"))?,
        Alphabet::parse(text("alphabet")?).ok_or_else(|| unknown("alphabet"))?,
        CodeHash::parse(text("code_hash")?).ok_or_else(|| unknown("code hash"))?,
    ))
}
