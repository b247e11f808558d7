//! A link in the body of a webhook event.

use terse_core::{Hosts, Link, Timestamp};

use crate::api::shapes::LinkBody;

/// A link as the API shows it, without `click_count`, which needs the click store.
pub fn link_json(link: &Link, hosts: &Hosts, now: Timestamp) -> serde_json::Value {
    let mut value = serde_json::to_value(LinkBody::new(link, None, hosts, now)).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("click_count");
    }
    value
}
