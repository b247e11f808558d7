//! Codes from leased numbers: unique by construction, unpredictable, and stored side by side.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::{CodeRequest, CodeSource, CodeSourceError, MAX_CODE_LENGTH, Numbering, is_presentable};
use crate::code::Code;
use crate::store::{CodeLease, LinkStore, StoreError};

/// How long a refill waits for the store.
const REFILL_TIMEOUT: Duration = Duration::from_secs(15);

/// Takes numbers from ranges leased from the store.
///
/// A task leases the next range when half of the current one is used, so that a caller waits for
/// the store only if the range runs empty first. At most one refill is under way. A crash wastes
/// only the rest of the two ranges.
pub struct NumberedCodes {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn LinkStore>,
    numbering: Numbering,
    /// How many numbers to lease at a time.
    lease: u64,
    state: Mutex<State>,
}

struct State {
    length: u8,
    range: Range<u64>,
    /// How many numbers `range` had at first.
    granted: u64,
    /// The next range.
    spare: Option<(u8, Range<u64>)>,
    /// By length, the end of the highest range that the store leased to this node. The store
    /// continues after it even if it was restored from an older copy.
    marks: [u64; MAX_CODE_LENGTH as usize + 1],
    /// The store's incarnation at the last lease. After a start, and when it has risen, the next
    /// range of each length begins a random distance ahead.
    incarnation: Option<u64>,
    is_ahead: [bool; MAX_CODE_LENGTH as usize + 1],
    refilling: bool,
    /// Callers that found no number.
    waiting: Vec<oneshot::Sender<Result<(), CodeSourceError>>>,
}

impl NumberedCodes {
    /// Codes of `length` characters, longer ones when these are used up; `lease` numbers at a time.
    pub fn new(store: Arc<dyn LinkStore>, length: u8, lease: u64) -> Self {
        let numbering = Numbering::new(store.identity());
        let state = State {
            length,
            range: 0..0,
            granted: 0,
            spare: None,
            marks: Default::default(),
            incarnation: None,
            is_ahead: Default::default(),
            refilling: false,
            waiting: Vec::new(),
        };
        let shared = Shared { store, numbering, lease: lease.max(1), state: Mutex::new(state) };
        Self { shared: Arc::new(shared) }
    }
}

#[async_trait]
impl CodeSource for NumberedCodes {
    async fn next(&self, _wanted: CodeRequest<'_>) -> Result<Code, CodeSourceError> {
        loop {
            match self.shared.take() {
                Ok((length, n)) => {
                    let code = self.shared.numbering.code(length, n);
                    if is_presentable(code.as_str()) {
                        return Ok(code);
                    }
                }
                Err(refilled) => match refilled.await {
                    Ok(outcome) => outcome?,
                    Err(dropped) => return Err(StoreError::Unavailable(dropped.into()).into()),
                },
            }
        }
    }
}

impl Shared {
    /// The next number, or where to wait for a refill.
    fn take(self: &Arc<Self>) -> Result<(u8, u64), oneshot::Receiver<Result<(), CodeSourceError>>> {
        let mut state = self.state();
        if state.range.is_empty()
            && let Some((length, range)) = state.spare.take()
        {
            state.length = length;
            state.granted = range.end - range.start;
            state.range = range;
        }
        match state.range.next() {
            Some(n) => {
                let left = state.range.end - state.range.start;
                if left <= state.granted / 2 && state.spare.is_none() {
                    self.refill(&mut state);
                }
                Ok((state.length, n))
            }
            None => {
                let (sender, receiver) = oneshot::channel();
                state.waiting.push(sender);
                self.refill(&mut state);
                Err(receiver)
            }
        }
    }

    /// Starts a refill unless one is under way.
    fn refill(self: &Arc<Self>, state: &mut State) {
        if !std::mem::replace(&mut state.refilling, true) {
            let refill = Refill { shared: Arc::clone(self), finished: false };
            tokio::spawn(async move {
                let lease = refill.shared.lease();
                let leased = match tokio::time::timeout(REFILL_TIMEOUT, lease).await {
                    Ok(leased) => leased,
                    Err(elapsed) => Err(StoreError::Unavailable(elapsed.into()).into()),
                };
                refill.finish(leased);
            });
        }
    }

    async fn lease(&self) -> Result<(u8, Range<u64>), CodeSourceError> {
        let incarnation = self.store.incarnation().await?;
        let (mut length, marks) = {
            let mut state = self.state();
            if state.incarnation != Some(incarnation) {
                state.incarnation = Some(incarnation);
                state.is_ahead = Default::default();
            }
            (state.length, state.marks)
        };
        loop {
            let (capacity, at_least) =
                (self.numbering.capacity(length), marks[usize::from(length)]);
            let skip = match self.state().is_ahead[usize::from(length)] {
                true => 0,
                false => CodeLease::start_distance(capacity),
            };
            let lease = CodeLease { length, count: self.lease, capacity, at_least, skip };
            let leased = self.store.lease_ahead(lease).await;
            if leased.is_ok() {
                self.state().is_ahead[usize::from(length)] = true;
            }
            match leased {
                Ok(range) => return Ok((length, range)),
                Err(StoreError::Exhausted) if length < MAX_CODE_LENGTH => length += 1,
                Err(StoreError::Exhausted) => return Err(CodeSourceError::Exhausted),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A refill under way. Dropping it unfinished, as when its runtime ends, lets the next caller start
/// another.
struct Refill {
    shared: Arc<Shared>,
    finished: bool,
}

impl Refill {
    fn finish(mut self, leased: Result<(u8, Range<u64>), CodeSourceError>) {
        self.finished = true;
        let mut state = self.shared.state();
        state.refilling = false;
        let waiting = std::mem::take(&mut state.waiting);
        let failure = match leased {
            Ok((length, range)) => {
                let mark = &mut state.marks[usize::from(length)];
                *mark = (*mark).max(range.end);
                state.spare = Some((length, range));
                None
            }
            Err(error) => Some(error),
        };
        drop(state);
        for caller in waiting {
            let _gone = caller.send(failure.as_ref().map_or(Ok(()), |error| Err(repeated(error))));
        }
    }
}

impl Drop for Refill {
    fn drop(&mut self) {
        if !self.finished {
            let mut state = self.shared.state();
            state.refilling = false;
            // Dropping the senders wakes the waiting callers.
            state.waiting.clear();
        }
    }
}

/// The same failure for one more caller.
fn repeated(error: &CodeSourceError) -> CodeSourceError {
    match error {
        CodeSourceError::Store(StoreError::Busy) => StoreError::Busy.into(),
        CodeSourceError::Store(error) => StoreError::Unavailable(error.to_string().into()).into(),
        CodeSourceError::Exhausted => CodeSourceError::Exhausted,
        CodeSourceError::Random(error) => CodeSourceError::Random(*error),
    }
}
