//! Objects on S3 or in a folder: written whole, read whole or in parts, listed and deleted.

use std::fs::DirBuilder;
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, RetryConfig,
    UpdateVersion,
};
use terse_core::{BoxError, ObjectStorage, Secret, Timestamp};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::http_client::Connector;
use crate::storage_url::StorageUrl;

/// Files are sent and fetched in parts of this size.
const PART: usize = 8 << 20;
const MAX_RETRIES: usize = 5;
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// How to reach S3.
#[derive(Clone, Debug, Default)]
pub struct S3Options {
    /// The address of a server other than Amazon's, such as `https://minio.example:9000`.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The id of the access key. Without it the usual sources of AWS are used: variables, a role of
    /// the container or of the machine.
    pub access_key_id: Option<String>,
    /// The secret of the access key.
    pub secret_access_key: Option<Secret>,
    /// Whether the bucket is a part of the host's name instead of the path.
    pub virtual_hosts: bool,
    /// Whether the server knows `If-Match` and `If-None-Match` for writes.
    pub conditional_writes: bool,
    /// Certificates in PEM to trust instead of the public ones.
    pub roots: Option<Vec<u8>>,
}

/// Why a storage did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The settings are wrong.
    #[error("{place}: {why}")]
    Settings {
        /// The URL.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// Another process has changed the object since it was read. Read it again.
    #[error("another process has changed {0} meanwhile")]
    Conflict(String),
    /// The object does not exist.
    #[error("{0} does not exist")]
    Missing(String),
    /// The storage refused or could not be reached.
    #[error("{place}: {source}")]
    Failed {
        /// The URL.
        place: String,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file on this machine cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// An object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredObject {
    /// Its name, without the prefix of the storage.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was written.
    pub written_at: Timestamp,
    /// The version that the storage gave it.
    pub(crate) e_tag: Option<String>,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Written {
    /// There was no such object.
    Created,
    /// Another content was there.
    Replaced,
    /// The same content was there. Nothing was written.
    Same,
}

/// A bucket with a prefix, or a folder.
#[derive(Clone, Debug)]
pub struct Storage {
    store: Arc<dyn ObjectStore>,
    url: StorageUrl,
    prefix: Path,
    /// Whether the storage refuses a write whose condition does not hold.
    conditional_writes: bool,
}

impl Storage {
    /// Opens a place. Creates a folder that does not exist; talks to no server.
    pub fn open(url: &StorageUrl, s3: &S3Options) -> Result<Self, StorageError> {
        let wrong = |why: String| StorageError::Settings { place: url.to_string(), why };
        let (store, prefix, conditional_writes): (Arc<dyn ObjectStore>, _, _) = match url {
            StorageUrl::Folder(folder) => {
                // Clicks and backups are for the account that runs terse.
                let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
                created.map_err(|error| wrong(error.to_string()))?;
                let store = LocalFileSystem::new_with_prefix(folder);
                let store = store.map_err(|error| wrong(error.to_string()))?.with_fsync(true);
                (Arc::new(store), Path::default(), false)
            }
            StorageUrl::S3 { bucket, prefix } => {
                let connector = Connector::new(s3.roots.as_deref());
                let connector = connector.map_err(|error| wrong(error.to_string()))?;
                let condition = match s3.conditional_writes {
                    true => S3ConditionalPut::ETagMatch,
                    false => S3ConditionalPut::Disabled,
                };
                let mut builder = AmazonS3Builder::from_env()
                    .with_bucket_name(bucket)
                    .with_virtual_hosted_style_request(s3.virtual_hosts)
                    .with_conditional_put(condition)
                    .with_http_connector(connector)
                    .with_retry(RetryConfig {
                        max_retries: MAX_RETRIES,
                        retry_timeout: RETRY_TIMEOUT,
                        ..RetryConfig::default()
                    });
                if let Some(endpoint) = &s3.endpoint {
                    let allow_http = endpoint.starts_with("http://");
                    builder = builder.with_endpoint(endpoint).with_allow_http(allow_http);
                }
                if let Some(region) = &s3.region {
                    builder = builder.with_region(region);
                }
                if let (Some(id), Some(secret)) = (&s3.access_key_id, &s3.secret_access_key) {
                    builder = builder
                        .with_access_key_id(id)
                        .with_secret_access_key(secret.reveal().to_owned());
                }
                let store = builder.build().map_err(|error| wrong(error.to_string()))?;
                let prefix = Path::parse(prefix).map_err(|error| wrong(error.to_string()))?;
                (Arc::new(store), prefix, s3.conditional_writes)
            }
        };
        Ok(Self { store, url: url.clone(), prefix, conditional_writes })
    }

    /// An empty storage that knows conditional writes.
    #[cfg(test)]
    pub(crate) fn in_memory() -> Self {
        let store = Arc::new(object_store::memory::InMemory::new());
        let url = StorageUrl::S3 { bucket: "memory".into(), prefix: String::new() };
        Self { store, url, prefix: Path::default(), conditional_writes: true }
    }

    /// Whether the storage refuses a write whose condition does not hold.
    pub(crate) fn has_conditional_writes(&self) -> bool {
        self.conditional_writes
    }

    /// Where it is.
    pub fn url(&self) -> &StorageUrl {
        &self.url
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').filter(|part| !part.is_empty()).fold(self.prefix.clone(), Path::join)
    }

    fn name(&self, path: &Path) -> String {
        let path = path.as_ref();
        path.strip_prefix(self.prefix.as_ref()).unwrap_or(path).trim_start_matches('/').to_owned()
    }

    fn failed(&self, error: object_store::Error) -> StorageError {
        match error {
            object_store::Error::NotFound { path, .. } => StorageError::Missing(path),
            object_store::Error::Precondition { path, .. }
            | object_store::Error::AlreadyExists { path, .. } => StorageError::Conflict(path),
            error => StorageError::Failed { place: self.url.to_string(), source: Box::new(error) },
        }
    }

    /// The same for a write: what does not exist then is the bucket.
    fn write_failed(&self, error: object_store::Error) -> StorageError {
        match error {
            error @ object_store::Error::NotFound { .. } => {
                StorageError::Failed { place: self.url.to_string(), source: Box::new(error) }
            }
            error => self.failed(error),
        }
    }

    fn object(&self, meta: ObjectMeta) -> StoredObject {
        StoredObject {
            name: self.name(&meta.location),
            size: meta.size,
            written_at: Timestamp::from_ms(meta.last_modified.timestamp_millis()),
            e_tag: meta.e_tag,
        }
    }

    /// An object's size and version.
    pub async fn head(&self, name: &str) -> Result<Option<StoredObject>, StorageError> {
        match self.store.head(&self.path(name)).await {
            Ok(meta) => Ok(Some(self.object(meta))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// A whole object.
    pub async fn get(&self, name: &str) -> Result<Bytes, StorageError> {
        let answer = self.store.get(&self.path(name)).await;
        let answer = answer.map_err(|error| self.failed(error))?;
        answer.bytes().await.map_err(|error| self.failed(error))
    }

    /// A part of an object.
    pub async fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, StorageError> {
        match self.store.get_range(&self.path(name), range.clone()).await {
            Ok(part) => Ok(part),
            // A server may answer with the whole object; rclone's does.
            Err(object_store::Error::Generic { source, .. })
                if source.to_string().contains("non-partial response") =>
            {
                let whole = self.get(name).await?;
                let end = whole.len().min(usize::try_from(range.end).unwrap_or(usize::MAX));
                let from = end.min(usize::try_from(range.start).unwrap_or(usize::MAX));
                Ok(whole.slice(from..end))
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Writes an object, unless it has this content already. Readers see the old content or the
    /// new one. `Conflict` if another process changes it meanwhile, where the storage can tell.
    pub async fn put(&self, name: &str, content: Bytes) -> Result<Written, StorageError> {
        match self.put_if(name, &content, PutMode::Create).await {
            Ok(()) => return Ok(Written::Created),
            Err(object_store::Error::AlreadyExists { .. }) => {}
            // The server knows no conditions.
            Err(object_store::Error::NotImplemented { .. }) => {}
            Err(error) => return Err(self.write_failed(error)),
        }
        let Some(existing) = self.head(name).await? else {
            let created = self.put_if(name, &content, PutMode::Overwrite).await;
            return created.map(|()| Written::Created).map_err(|error| self.write_failed(error));
        };
        if existing.size == content.len() as u64 && self.get(name).await? == content {
            return Ok(Written::Same);
        }
        self.replace(&existing, content).await?;
        Ok(Written::Replaced)
    }

    /// Writes an object over the version that was seen before, or over none, unless it has this
    /// content already. `Conflict` if there is another version now, where the storage can tell.
    pub(crate) async fn put_over(
        &self,
        seen: Option<&StoredObject>,
        name: &str,
        content: Bytes,
    ) -> Result<Written, StorageError> {
        let Some(seen) = seen else {
            return match self.put_if(name, &content, PutMode::Create).await {
                Ok(()) => Ok(Written::Created),
                // The server knows no conditions.
                Err(object_store::Error::NotImplemented { .. }) => self.put(name, content).await,
                Err(error) => Err(self.write_failed(error)),
            };
        };
        if seen.size == content.len() as u64 && self.get(name).await? == content {
            return Ok(Written::Same);
        }
        self.replace(seen, content).await?;
        Ok(Written::Replaced)
    }

    /// Replaces the content of an object that was read before. `Conflict` if it has another
    /// version now, where the storage can tell.
    pub(crate) async fn replace(
        &self,
        existing: &StoredObject,
        content: Bytes,
    ) -> Result<(), StorageError> {
        let mode = match &existing.e_tag {
            Some(tag) if self.conditional_writes => {
                PutMode::Update(UpdateVersion { e_tag: Some(tag.clone()), version: None })
            }
            _ => PutMode::Overwrite,
        };
        let replaced = self.put_if(&existing.name, &content, mode).await;
        replaced.map_err(|error| self.write_failed(error))
    }

    async fn put_if(&self, name: &str, content: &Bytes, mode: PutMode) -> object_store::Result<()> {
        let payload = PutPayload::from_bytes(content.clone());
        let options = PutOptions::from(mode);
        self.store.put_opts(&self.path(name), payload, options).await.map(drop)
    }

    /// Deletes an object. Deleting one that does not exist succeeds.
    pub async fn delete(&self, name: &str) -> Result<(), StorageError> {
        match self.store.delete(&self.path(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// All objects whose names begin with these parts, in the order of their names.
    pub async fn list(&self, parts: &str) -> Result<Vec<StoredObject>, StorageError> {
        let found: Vec<ObjectMeta> = self
            .store
            .list(Some(&self.path(parts)))
            .try_collect()
            .await
            .map_err(|error| self.failed(error))?;
        let mut found: Vec<_> = found.into_iter().map(|meta| self.object(meta)).collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// The names of the folders directly below, in order.
    pub async fn folders(&self, parts: &str) -> Result<Vec<String>, StorageError> {
        let found = self.store.list_with_delimiter(Some(&self.path(parts))).await;
        let found = found.map_err(|error| self.failed(error))?;
        let last = |path: &Path| path.filename().map(str::to_owned);
        let mut names: Vec<_> = found.common_prefixes.iter().filter_map(last).collect();
        names.sort();
        Ok(names)
    }

    /// Writes a file of this machine as an object, in parts.
    pub async fn upload(&self, file: &FilePath, name: &str) -> Result<(), StorageError> {
        let wrong = |source| StorageError::File { path: file.display().to_string(), source };
        let mut from = tokio::fs::File::open(file).await.map_err(wrong)?;
        let upload = self.store.put_multipart(&self.path(name)).await;
        let mut upload = upload.map_err(|error| self.write_failed(error))?;
        loop {
            let mut part = Vec::with_capacity(PART);
            let read = (&mut from).take(PART as u64).read_to_end(&mut part).await;
            let sent = match read.map_err(wrong) {
                Ok(0) => break,
                Ok(_) => upload.put_part(part.into()).await.map_err(|error| self.failed(error)),
                Err(error) => Err(error),
            };
            if let Err(error) = sent {
                let _given_up = upload.abort().await;
                return Err(error);
            }
        }
        upload.complete().await.map(drop).map_err(|error| self.failed(error))
    }

    /// Writes an object into a new file of this machine, in parts, and syncs it.
    pub async fn download(&self, name: &str, file: &FilePath) -> Result<(), StorageError> {
        let wrong = |source| StorageError::File { path: file.display().to_string(), source };
        let object = self.head(name).await?;
        let size = object.ok_or_else(|| StorageError::Missing(name.to_owned()))?.size;
        let mut options = tokio::fs::File::options();
        options.write(true).create_new(true).mode(0o600);
        let mut to = options.open(file).await.map_err(wrong)?;
        let mut at = 0;
        while at < size {
            let end = (at + PART as u64).min(size);
            let part = self.get_range(name, at..end).await?;
            to.write_all(&part).await.map_err(wrong)?;
            at = end;
        }
        to.sync_all().await.map_err(wrong)
    }

    /// Writes, reads and deletes a small object.
    pub async fn check(&self) -> Result<(), StorageError> {
        let name = "terse-check.txt";
        let content = Bytes::from_static(b"terse checks whether it can write here.\n");
        // Without a condition: the answer to a refused write says why, that to a question does not.
        let written = self.put_if(name, &content, PutMode::Overwrite).await;
        written.map_err(|error| self.write_failed(error))?;
        let read = self.get(name).await?;
        self.delete(name).await?;
        if read != content {
            let source = "an object was read that is not the one that was written".into();
            return Err(StorageError::Failed { place: self.url.to_string(), source });
        }
        Ok(())
    }
}

#[async_trait]
impl ObjectStorage for Storage {
    fn place(&self) -> String {
        self.url.to_string()
    }

    async fn names(&self, parts: &str) -> Result<Vec<String>, BoxError> {
        Ok(self.list(parts).await?.into_iter().map(|object| object.name).collect())
    }

    async fn read(&self, name: &str) -> Result<Vec<u8>, BoxError> {
        Ok(self.get(name).await?.to_vec())
    }

    async fn upload(&self, file: &FilePath, name: &str) -> Result<(), BoxError> {
        Ok(self.upload(file, name).await?)
    }

    async fn download(&self, name: &str, file: &FilePath) -> Result<(), BoxError> {
        Ok(self.download(name, file).await?)
    }

    async fn delete(&self, name: &str) -> Result<(), BoxError> {
        Ok(self.delete(name).await?)
    }
}
