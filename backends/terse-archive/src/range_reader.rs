//! Reads an object in parts, for the reader of Parquet files, which wants to read a file.

use std::io::Read;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use tokio::runtime::Handle;

use crate::storage::{Storage, StorageError, StoredObject};

/// The end of a file has its index and, in most files, all Bloom filters.
const TAIL: u64 = 256 << 10;
/// How much is read at a time where the reader does not say how much it needs.
const BATCH: u64 = 64 << 10;

/// An object of which parts are read. Its methods wait: only for threads that may.
#[derive(Clone, Debug)]
pub(crate) struct RangeReader(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    storage: Storage,
    object: StoredObject,
    tail: Bytes,
    handle: Handle,
}

impl RangeReader {
    /// Reads the end of an object.
    pub(crate) async fn open(
        storage: &Storage,
        object: &StoredObject,
    ) -> std::result::Result<Self, StorageError> {
        let from = object.size.saturating_sub(TAIL);
        let tail = match from {
            0 => storage.get(&object.name).await?,
            from => storage.get_range(&object.name, from..object.size).await?,
        };
        let (storage, object, handle) = (storage.clone(), object.clone(), Handle::current());
        Ok(Self(Arc::new(Inner { storage, object, tail, handle })))
    }

    fn range(&self, from: u64, length: u64) -> Result<Bytes> {
        let Inner { storage, object, tail, handle } = &*self.0;
        let end = from.checked_add(length).filter(|end| *end <= object.size);
        let end = end.ok_or_else(|| ParquetError::EOF("a part behind the end".into()))?;
        let tail_from = object.size - tail.len() as u64;
        if from >= tail_from {
            let at = (from - tail_from) as usize;
            return Ok(tail.slice(at..at + length as usize));
        }
        let read = handle.block_on(storage.get_range(&object.name, from..end));
        let read = read.map_err(|error| ParquetError::External(Box::new(error)))?;
        if read.len() as u64 != length {
            return Err(ParquetError::EOF("the object has become shorter".into()));
        }
        Ok(read)
    }
}

impl Length for RangeReader {
    fn len(&self) -> u64 {
        self.0.object.size
    }
}

impl ChunkReader for RangeReader {
    type T = RangeRead;

    fn get_read(&self, start: u64) -> Result<RangeRead> {
        Ok(RangeRead { from: self.clone(), at: start, part: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.range(start, length as u64)
    }
}

/// Reads on from a position.
pub(crate) struct RangeRead {
    from: RangeReader,
    at: u64,
    part: Bytes,
}

impl Read for RangeRead {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.part.is_empty() {
            let left = self.from.len().saturating_sub(self.at).min(BATCH);
            self.part = self.from.range(self.at, left).map_err(std::io::Error::other)?;
            self.at += left;
        }
        let count = buffer.len().min(self.part.len());
        self.part.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
