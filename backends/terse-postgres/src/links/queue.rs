//! A queue in front of a task, which takes all that waits at once.

use std::sync::{Mutex, PoisonError};

use terse_core::StoreError;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::failure::unavailable;

pub(crate) struct TaskQueue<T> {
    sender: Mutex<Option<mpsc::Sender<T>>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl<T> TaskQueue<T> {
    /// Starts the task. It must return once the queue is closed and empty.
    pub(crate) fn start<F>(bound: usize, task: impl FnOnce(mpsc::Receiver<T>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, waiting) = mpsc::channel(bound);
        let task = tokio::spawn(task(waiting));
        Self { sender: Mutex::new(Some(sender)), task: Mutex::new(Some(task)) }
    }

    fn sender(&self) -> Option<mpsc::Sender<T>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `Busy` if the queue is full.
    pub(crate) fn send(&self, item: T) -> Result<(), StoreError> {
        let sender = self.sender().ok_or_else(|| unavailable("the store is closed"))?;
        sender.try_send(item).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => unavailable("the store has stopped"),
        })
    }

    /// How many wait.
    pub(crate) fn depth(&self) -> usize {
        self.sender().map_or(0, |sender| sender.max_capacity() - sender.capacity())
    }

    /// Lets the task finish what waits.
    pub(crate) async fn close(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A task that panicked has nothing left to finish.
            let _ended = task.await;
        }
    }
}
