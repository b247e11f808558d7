//! Codes from leased numbers: unique by construction, unpredictable, and filed side by side.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::{CodeSource, CodeSourceError, MAX_CODE_LENGTH, Numbering, Wanted, is_presentable};
use crate::code::Code;
use crate::store::{LinkStore, StoreError};

/// Takes numbers from ranges leased from the store. A crash wastes what is left of a range, nothing
/// else.
pub struct Numbered {
    store: Arc<dyn LinkStore>,
    numbering: Numbering,
    lease: u64,
    state: Mutex<State>,
}

struct State {
    length: u8,
    range: Range<u64>,
}

impl Numbered {
    /// Codes of `length` characters, longer ones when these are used up; `lease` numbers at a time.
    pub fn new(store: Arc<dyn LinkStore>, length: u8, lease: u64) -> Self {
        let numbering = Numbering::new(store.identity());
        Self {
            store,
            numbering,
            lease: lease.max(1),
            state: Mutex::new(State { length, range: 0..0 }),
        }
    }
}

#[async_trait]
impl CodeSource for Numbered {
    async fn next(&self, _wanted: Wanted<'_>) -> Result<Code, CodeSourceError> {
        let mut state = self.state.lock().await;
        loop {
            while let Some(n) = state.range.next() {
                let code = self.numbering.code(state.length, n);
                if is_presentable(code.as_str()) {
                    return Ok(code);
                }
            }
            let capacity = self.numbering.capacity(state.length);
            match self.store.lease(state.length, self.lease, capacity).await {
                Ok(range) => state.range = range,
                Err(StoreError::Exhausted) if state.length < MAX_CODE_LENGTH => state.length += 1,
                Err(StoreError::Exhausted) => return Err(CodeSourceError::Exhausted),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
