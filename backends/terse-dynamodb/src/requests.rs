//! The requests that the store makes.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConsumedCapacity, Delete, DeleteRequest, KeysAndAttributes, Put,
    ReturnConsumedCapacity, ReturnValue, ReturnValuesOnConditionCheckFailure as OnFailure, Select,
    TransactWriteItem, Update, WriteRequest,
};

use crate::client::Db;
use crate::failure::Failure;
use crate::item::{Item, Placeholders};
use crate::keys::{Index, Key};
use crate::retry::{Deadline, RetryPolicy, jitter};

/// The most keys of one `BatchGetItem`, and the most deletions of one `BatchWriteItem`.
pub(crate) const MAX_KEYS: usize = 100;
const MAX_DELETIONS: usize = 25;

/// A part of an index or of a partition.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    /// None for the table itself, which is read with strong consistency.
    pub(crate) index: Option<Index>,
    pub(crate) partition: String,
    /// The bounds of the sort key: an operator and a value each. At most two.
    pub(crate) bounds: Vec<(&'static str, AttributeValue)>,
    pub(crate) backward: bool,
    pub(crate) limit: usize,
    pub(crate) after: Option<Item>,
    pub(crate) only: Option<&'static str>,
}

impl Range {
    pub(crate) fn of(index: Option<Index>, partition: impl Into<String>, limit: usize) -> Self {
        let partition = partition.into();
        let (bounds, backward, after, only) = (Vec::new(), false, None, None);
        Self { index, partition, bounds, backward, limit, after, only }
    }

    fn condition(&self) -> (String, Placeholders) {
        let (partition, sort) = match self.index {
            Some(Index(_, partition, sort)) => (partition, sort),
            None => (crate::keys::PK, crate::keys::SK),
        };
        let mut placeholders = Placeholders::default();
        let mut text = placeholders.equal(partition, AttributeValue::S(self.partition.clone()));
        for (operator, bound) in &self.bounds {
            let (name, value) = (placeholders.name(sort), placeholders.value(bound.clone()));
            text += &match *operator {
                // A key has one condition: two bounds are a BETWEEN.
                "between" => format!(" AND {name} BETWEEN {value}"),
                "and" => format!(" AND {value}"),
                operator => format!(" AND {name} {operator} {value}"),
            };
        }
        (text, placeholders)
    }
}

/// A single conditional write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    pub(crate) text: Option<String>,
    pub(crate) names: Option<HashMap<String, String>>,
    pub(crate) values: Option<HashMap<String, AttributeValue>>,
}

impl Condition {
    pub(crate) fn new(text: String, placeholders: &Placeholders) -> Self {
        Self { text: Some(text), names: placeholders.names(), values: placeholders.values() }
    }

    /// The item must not exist.
    pub(crate) fn absent() -> Self {
        let mut placeholders = Placeholders::default();
        let text = placeholders.absent(crate::keys::PK);
        Self::new(text, &placeholders)
    }

    /// The item must not exist, or have this version.
    pub(crate) fn version(attribute: &str, seen: Option<u64>) -> Self {
        let Some(seen) = seen else { return Self::absent() };
        let mut placeholders = Placeholders::default();
        let text = placeholders.equal(attribute, crate::item::number(seen));
        Self::new(text, &placeholders)
    }
}

impl Db {
    fn counted(&self, capacity: Option<&ConsumedCapacity>, is_write: bool) {
        let units = capacity.and_then(ConsumedCapacity::capacity_units).unwrap_or_default();
        let hundredths = (units * 100.0) as u64;
        let counter = if is_write { &self.units().written } else { &self.units().read };
        counter.fetch_add(hundredths, Ordering::Relaxed);
    }

    /// Reads an item, with strong consistency or from any copy.
    pub(crate) async fn get(
        &self,
        deadline: Deadline,
        key: &Key,
        is_consistent: bool,
    ) -> Result<Option<Item>, Failure> {
        self.send(deadline, RetryPolicy::Always, || async {
            let request = self.client.get_item().table_name(&self.table);
            let request = request.set_key(Some(key.item())).consistent_read(is_consistent);
            let request = request.return_consumed_capacity(ReturnConsumedCapacity::Total);
            let answer = request.send().await.map_err(Failure::of)?;
            self.counted(answer.consumed_capacity(), false);
            Ok(answer.item)
        })
        .await
    }

    /// Reads items, which come in any order. Keys must differ. Missing items are left out.
    pub(crate) async fn get_all(
        &self,
        deadline: Deadline,
        keys: &[Key],
        is_consistent: bool,
    ) -> Result<Vec<Item>, Failure> {
        let mut found = Vec::new();
        for keys in keys.chunks(MAX_KEYS) {
            if let [key] = keys {
                found.extend(self.get(deadline, key, is_consistent).await?);
                continue;
            }
            let mut left: Vec<Item> = keys.iter().map(Key::item).collect();
            while !left.is_empty() {
                let wanted = KeysAndAttributes::builder()
                    .set_keys(Some(left.clone()))
                    .consistent_read(is_consistent)
                    .build()
                    .map_err(|error| Failure::Refused(error.to_string()))?;
                let answer = self
                    .send(deadline, RetryPolicy::Always, || async {
                        let request = self.client.batch_get_item();
                        request
                            .request_items(&self.table, wanted.clone())
                            .return_consumed_capacity(ReturnConsumedCapacity::Total)
                            .send()
                            .await
                            .map_err(Failure::of)
                    })
                    .await?;
                self.counted(answer.consumed_capacity().first(), false);
                let tables = answer.responses.unwrap_or_default();
                found.extend(tables.into_values().flatten());
                let unprocessed = answer.unprocessed_keys.unwrap_or_default();
                left = unprocessed.into_values().flat_map(|keys| keys.keys).collect();
                if !left.is_empty() {
                    self.pause(deadline).await?;
                }
            }
        }
        Ok(found)
    }

    /// Waits before what was left undone is repeated.
    async fn pause(&self, deadline: Deadline) -> Result<(), Failure> {
        if deadline.has_passed() {
            return Err(Failure::Throttled("the table is throttled".into()));
        }
        tokio::time::sleep(jitter(std::time::Duration::from_millis(50))).await;
        Ok(())
    }

    /// Writes an item if the condition holds.
    pub(crate) async fn put(
        &self,
        deadline: Deadline,
        item: &Item,
        condition: &Condition,
    ) -> Result<(), Failure> {
        self.send(deadline, RetryPolicy::Always, || async {
            let request = self.client.put_item().table_name(&self.table);
            let answer = request
                .set_item(Some(item.clone()))
                .set_condition_expression(condition.text.clone())
                .set_expression_attribute_names(condition.names.clone())
                .set_expression_attribute_values(condition.values.clone())
                .return_values_on_condition_check_failure(OnFailure::AllOld)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await
                .map_err(|error| {
                    let item = match error.as_service_error() {
                        Some(PutItemError::ConditionalCheckFailedException(e)) => e.item().cloned(),
                        _ => None,
                    };
                    Failure::condition(error, item)
                })?;
            self.counted(answer.consumed_capacity(), true);
            Ok(())
        })
        .await
    }

    /// Changes an item if the condition holds. Returns the item as it was or as it is.
    pub(crate) async fn update(
        &self,
        deadline: Deadline,
        policy: RetryPolicy,
        key: &Key,
        expression: &str,
        condition: &Condition,
        returned: ReturnValue,
    ) -> Result<Item, Failure> {
        self.send(deadline, policy, || async {
            let request = self.client.update_item().table_name(&self.table);
            let answer = request
                .set_key(Some(key.item()))
                .update_expression(expression)
                .set_condition_expression(condition.text.clone())
                .set_expression_attribute_names(condition.names.clone())
                .set_expression_attribute_values(condition.values.clone())
                .return_values(returned.clone())
                .return_values_on_condition_check_failure(OnFailure::AllOld)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await
                .map_err(|error| {
                    let item = match error.as_service_error() {
                        Some(UpdateItemError::ConditionalCheckFailedException(e)) => {
                            e.item().cloned()
                        }
                        _ => None,
                    };
                    Failure::condition(error, item)
                })?;
            self.counted(answer.consumed_capacity(), true);
            Ok(answer.attributes.unwrap_or_default())
        })
        .await
    }

    /// Deletes items, whether they exist or not.
    pub(crate) async fn delete_all(&self, deadline: Deadline, keys: &[Key]) -> Result<(), Failure> {
        for keys in keys.chunks(MAX_DELETIONS) {
            let deletion = |key: &Key| {
                let request = DeleteRequest::builder().set_key(Some(key.item())).build();
                let request = request.map_err(|error| Failure::Refused(error.to_string()))?;
                Ok(WriteRequest::builder().delete_request(request).build())
            };
            let mut left = keys.iter().map(deletion).collect::<Result<Vec<_>, Failure>>()?;
            while !left.is_empty() {
                let answer = self
                    .send(deadline, RetryPolicy::Always, || async {
                        let request = self.client.batch_write_item();
                        request
                            .request_items(&self.table, left.clone())
                            .return_consumed_capacity(ReturnConsumedCapacity::Total)
                            .send()
                            .await
                            .map_err(Failure::of)
                    })
                    .await?;
                self.counted(answer.consumed_capacity().first(), true);
                let unprocessed = answer.unprocessed_items.unwrap_or_default();
                left = unprocessed.into_values().flatten().collect();
                if !left.is_empty() {
                    self.pause(deadline).await?;
                }
            }
        }
        Ok(())
    }

    /// Applies all actions or none. Attempts that were not answered are repeated with the same
    /// token, so that the server applies them once.
    pub(crate) async fn transact(
        &self,
        deadline: Deadline,
        actions: Vec<TransactWriteItem>,
    ) -> Result<(), Failure> {
        let token = crate::keys::random_token();
        self.send(deadline, RetryPolicy::Always, || async {
            let answer = self
                .client
                .transact_write_items()
                .set_transact_items(Some(actions.clone()))
                .client_request_token(&token)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await
                .map_err(|error| match error.as_service_error() {
                    Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                        let reasons = cancelled.cancellation_reasons();
                        Failure::cancelled(reasons.iter().map(|r| (r.code(), r.item())))
                    }
                    _ => Failure::of(error),
                })?;
            self.counted(answer.consumed_capacity().first(), true);
            Ok(())
        })
        .await
    }

    /// One page of a range: the items, and where the next page begins.
    pub(crate) async fn query(
        &self,
        deadline: Deadline,
        range: &Range,
    ) -> Result<(Vec<Item>, Option<Item>), Failure> {
        let (condition, mut placeholders) = range.condition();
        let only = range.only.map(|attribute| placeholders.name(attribute));
        self.send(deadline, RetryPolicy::Always, || async {
            let answer = self
                .client
                .query()
                .table_name(&self.table)
                .set_index_name(range.index.map(|Index(name, ..)| name.to_owned()))
                .consistent_read(range.index.is_none())
                .key_condition_expression(&condition)
                .set_expression_attribute_names(placeholders.names())
                .set_expression_attribute_values(placeholders.values())
                .set_projection_expression(only.clone())
                .scan_index_forward(!range.backward)
                .limit(i32::try_from(range.limit.clamp(1, 10_000)).unwrap_or(i32::MAX))
                .set_exclusive_start_key(range.after.clone())
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await
                .map_err(Failure::of)?;
            self.counted(answer.consumed_capacity(), false);
            Ok((answer.items.unwrap_or_default(), answer.last_evaluated_key))
        })
        .await
    }

    /// How many items a range has, over all its pages.
    pub(crate) async fn count(&self, range: &Range) -> Result<u64, Failure> {
        let (condition, placeholders) = range.condition();
        let (mut count, mut after) = (0, None);
        loop {
            let answer = self
                .send(self.deadline(), RetryPolicy::Always, || async {
                    self.client
                        .query()
                        .table_name(&self.table)
                        .set_index_name(range.index.map(|Index(name, ..)| name.to_owned()))
                        .key_condition_expression(&condition)
                        .set_expression_attribute_names(placeholders.names())
                        .set_expression_attribute_values(placeholders.values())
                        .select(Select::Count)
                        .set_exclusive_start_key(after.clone())
                        .return_consumed_capacity(ReturnConsumedCapacity::Total)
                        .send()
                        .await
                        .map_err(Failure::of)
                })
                .await?;
            self.counted(answer.consumed_capacity(), false);
            count += u64::try_from(answer.count).unwrap_or_default();
            after = answer.last_evaluated_key;
            if after.is_none() {
                return Ok(count);
            }
        }
    }

    /// The action of a transaction that writes an item if the condition holds.
    pub(crate) fn put_action(
        &self,
        item: Item,
        condition: Condition,
    ) -> Result<TransactWriteItem, Failure> {
        let put = Put::builder()
            .table_name(&self.table)
            .set_item(Some(item))
            .set_condition_expression(condition.text)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values)
            .return_values_on_condition_check_failure(OnFailure::AllOld)
            .build()
            .map_err(|error| Failure::Refused(error.to_string()))?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// The action that changes an item if the condition holds.
    pub(crate) fn update_action(
        &self,
        key: &Key,
        expression: String,
        condition: Condition,
    ) -> Result<TransactWriteItem, Failure> {
        let update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(key.item()))
            .update_expression(expression)
            .set_condition_expression(condition.text)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values)
            .return_values_on_condition_check_failure(OnFailure::AllOld)
            .build()
            .map_err(|error| Failure::Refused(error.to_string()))?;
        Ok(TransactWriteItem::builder().update(update).build())
    }

    /// The action that deletes an item if the condition holds.
    pub(crate) fn delete_action(
        &self,
        key: &Key,
        condition: Condition,
    ) -> Result<TransactWriteItem, Failure> {
        let delete = Delete::builder()
            .table_name(&self.table)
            .set_key(Some(key.item()))
            .set_condition_expression(condition.text)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values)
            .return_values_on_condition_check_failure(OnFailure::AllOld)
            .build()
            .map_err(|error| Failure::Refused(error.to_string()))?;
        Ok(TransactWriteItem::builder().delete(delete).build())
    }
}
