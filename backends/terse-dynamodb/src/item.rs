//! Items of the table, and expressions over their attributes.

use std::collections::HashMap;
use std::str::FromStr;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use terse_core::StoreError;

/// An item, or the key of one.
pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) fn corrupt(why: impl Into<String>) -> StoreError {
    StoreError::Corrupt(why.into().into())
}

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(crate) fn bytes(value: impl Into<Vec<u8>>) -> AttributeValue {
    AttributeValue::B(Blob::new(value))
}

/// Reads attributes.
pub(crate) trait Attributes {
    fn text(&self, name: &str) -> Result<&str, StoreError>;
    fn bytes(&self, name: &str) -> Result<&[u8], StoreError>;
    fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, StoreError>;
    fn flag(&self, name: &str) -> bool;
    fn texts(&self, name: &str) -> &[String];
}

impl Attributes for Item {
    fn text(&self, name: &str) -> Result<&str, StoreError> {
        match self.get(name) {
            Some(AttributeValue::S(text)) => Ok(text),
            _ => Err(corrupt(format!("an item has no text {name}"))),
        }
    }

    fn bytes(&self, name: &str) -> Result<&[u8], StoreError> {
        match self.get(name) {
            Some(AttributeValue::B(bytes)) => Ok(bytes.as_ref()),
            _ => Err(corrupt(format!("an item has no bytes {name}"))),
        }
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, StoreError> {
        match self.get(name) {
            None => Ok(None),
            Some(AttributeValue::N(digits)) => digits.parse().map(Some).map_err(|_| {
                corrupt(format!("the number {name} of an item is out of range: {digits}"))
            }),
            Some(_) => Err(corrupt(format!("{name} of an item is no number"))),
        }
    }

    fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(AttributeValue::Bool(true)))
    }

    fn texts(&self, name: &str) -> &[String] {
        match self.get(name) {
            Some(AttributeValue::Ss(texts)) => texts,
            _ => &[],
        }
    }
}

/// Names and values of an expression. Every name gets a placeholder: many words are reserved.
#[derive(Debug, Default)]
pub(crate) struct Placeholders {
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: HashMap<String, AttributeValue>,
}

impl Placeholders {
    /// The placeholder of an attribute.
    pub(crate) fn name(&mut self, attribute: &str) -> String {
        let placeholder = format!("#{attribute}");
        self.names.insert(placeholder.clone(), attribute.to_owned());
        placeholder
    }

    /// The placeholder of a value.
    pub(crate) fn value(&mut self, value: AttributeValue) -> String {
        let placeholder = format!(":v{}", self.values.len());
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    /// `name = value`.
    pub(crate) fn equal(&mut self, attribute: &str, value: AttributeValue) -> String {
        format!("{} = {}", self.name(attribute), self.value(value))
    }

    /// `attribute_not_exists(name)`.
    pub(crate) fn absent(&mut self, attribute: &str) -> String {
        format!("attribute_not_exists({})", self.name(attribute))
    }

    /// `attribute_exists(name)`.
    pub(crate) fn present(&mut self, attribute: &str) -> String {
        format!("attribute_exists({})", self.name(attribute))
    }

    /// The names, or `None`: the server refuses an empty list.
    pub(crate) fn names(&self) -> Option<HashMap<String, String>> {
        (!self.names.is_empty()).then(|| self.names.clone())
    }

    /// The values, or `None`.
    pub(crate) fn values(&self) -> Option<HashMap<String, AttributeValue>> {
        (!self.values.is_empty()).then(|| self.values.clone())
    }
}
