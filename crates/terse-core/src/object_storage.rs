//! A place for objects outside of this machine: S3, or a folder that is mounted from elsewhere.

use std::path::Path;

use async_trait::async_trait;

use crate::store::BoxError;

/// Holds objects by name. Names have parts, with `/` in between.
#[async_trait]
pub trait ObjectStorage: Send + Sync + 'static {
    /// Where it is, for messages; without secrets.
    fn place(&self) -> String;

    /// The names of all objects whose first parts are these, in order.
    async fn names(&self, parts: &str) -> Result<Vec<String>, BoxError>;

    /// A small object.
    async fn read(&self, name: &str) -> Result<Vec<u8>, BoxError>;

    /// Writes a file as an object. Readers see all of it or nothing.
    async fn upload(&self, file: &Path, name: &str) -> Result<(), BoxError>;

    /// Writes an object into a file that does not exist yet, and syncs it.
    async fn download(&self, name: &str, file: &Path) -> Result<(), BoxError>;

    /// Deletes an object. Deleting one that does not exist succeeds.
    async fn delete(&self, name: &str) -> Result<(), BoxError>;
}
