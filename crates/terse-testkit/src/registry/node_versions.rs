//! Which nodes run, and what they can read.

use terse_core::registry::NodeId;

use super::RegistryHandle;

pub async fn the_lowest_version_of_the_nodes_that_run_is_known(
    one: RegistryHandle,
    other: RegistryHandle,
) {
    let [old, new] = ["old", "new"].map(|name| NodeId::parse(name).unwrap());
    assert_eq!(one.lowest_version().await.unwrap(), None);
    assert_eq!(one.report_node(&new, 3).await.unwrap(), 3);
    assert_eq!(other.report_node(&old, 2).await.unwrap(), 2);
    assert_eq!(one.report_node(&new, 3).await.unwrap(), 2);
    assert_eq!(one.lowest_version().await.unwrap(), Some(2));
    // A node that was upgraded keeps its name.
    assert_eq!(other.report_node(&old, 3).await.unwrap(), 3);
    assert_eq!(other.report_node(&old, 2).await.unwrap(), 2);
    other.forget_node(&old).await.unwrap();
    assert_eq!(one.report_node(&new, 3).await.unwrap(), 3);
    one.forget_node(&old).await.unwrap();
}
