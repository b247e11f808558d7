//! What `terse doctor` looks at.

use std::time::Duration;

use aws_sdk_dynamodb::types::{BillingMode, PointInTimeRecoveryStatus};

use crate::client::{Db, TableRegion};
use crate::leases;
use crate::options::{DynamoOpenError, DynamoOptions};
use crate::table;

/// How long all requests together may take.
const LIMIT: Duration = Duration::from_secs(30);

/// What a table is like.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DynamoInspection {
    /// The name of the table.
    pub table: String,
    /// About how many items it has; the service counts every six hours.
    pub items: u64,
    /// About how many bytes.
    pub octets: u64,
    /// Whether its capacity is on demand. Otherwise it is provisioned, and may be too small.
    pub is_on_demand: bool,
    /// Whether it can be restored to any point of the last days; `None` if the service does not
    /// tell.
    pub has_recovery: Option<bool>,
    /// Whether it removes old request ids and change rows by itself; `None` if the service does not
    /// tell.
    pub has_time_to_live: Option<bool>,
    /// Whether it cannot be deleted by mistake.
    pub is_protected: bool,
    /// How far the service's clock is ahead of this machine's.
    pub clock_ahead_ms: i64,
    /// Whether this node's region is a replica of another one.
    pub is_replica: bool,
}

/// Looks at the table of a URL.
pub async fn inspect(options: &DynamoOptions) -> Result<DynamoInspection, DynamoOpenError> {
    table::within(LIMIT, read_state(options)).await
}

async fn read_state(options: &DynamoOptions) -> Result<DynamoInspection, DynamoOpenError> {
    let db = Db::connect(options, TableRegion::Home).await?;
    table::check(&db, options).await?;
    if options.address.home.is_some() {
        table::check(&Db::connect(options, TableRegion::Near).await?, options).await?;
    }
    let unreadable =
        |error: terse_core::StoreError| DynamoOpenError::Service(crate::lookups::describe(&error));
    // An item that every store has: shows that data can be read, and not only the description.
    table::identity(&db, options.alphabet).await?;
    leases::incarnation(&db).await.map_err(unreadable)?;
    let mut seen = DynamoInspection {
        table: db.table.clone(),
        is_replica: options.address.home.is_some(),
        has_time_to_live: table::has_time_to_live(&db).await,
        ..DynamoInspection::default()
    };
    if let Ok(answer) = db.client.describe_table().table_name(&db.table).send().await
        && let Some(table) = answer.table()
    {
        let unsigned = |number: Option<i64>| number.unwrap_or_default().max(0).cast_unsigned();
        seen.items = unsigned(table.item_count());
        seen.octets = unsigned(table.table_size_bytes());
        seen.is_protected = table.deletion_protection_enabled().unwrap_or_default();
        let billing = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
        seen.is_on_demand = billing == Some(&BillingMode::PayPerRequest);
    }
    let backups = db.client.describe_continuous_backups().table_name(&db.table).send().await;
    seen.has_recovery = backups.ok().and_then(|answer| {
        let recovery = answer.continuous_backups_description?.point_in_time_recovery_description?;
        Some(recovery.point_in_time_recovery_status? == PointInTimeRecoveryStatus::Enabled)
    });
    seen.clock_ahead_ms = db.clock_ahead_ms();
    Ok(seen)
}
