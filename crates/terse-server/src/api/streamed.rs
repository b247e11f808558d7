//! Answers that are sent while they are made.
//!
//! They are made by a task of the back office, a portion at a time, and only as fast as the client
//! takes them: the thread that sends them also sends visitors on, and has better things to do.

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use terse_core::BoxError;
use tokio::sync::mpsc::{self, Receiver};

/// Portions that are made but not sent yet.
const READY: usize = 1;

enum Portion {
    Bytes(Bytes),
    End,
}

/// Takes the portions of an answer. Dropped without `end`, it breaks the answer off: no client
/// takes a part for the whole.
pub(super) struct Sender(mpsc::Sender<Portion>);

impl Sender {
    /// Waits until there is room; `false` if nobody is reading any more.
    pub(super) async fn send(&self, bytes: Bytes) -> bool {
        self.0.send(Portion::Bytes(bytes)).await.is_ok()
    }

    /// That was all.
    pub(super) async fn end(self) {
        let _ = self.0.send(Portion::End).await;
    }

    /// Returns when nobody is reading any more.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }
}

/// A body and the one who fills it.
pub(super) fn body() -> (Sender, Body) {
    let (sender, receiver) = mpsc::channel(READY);
    let portions = stream::unfold(Some(receiver), |receiver: Option<Receiver<Portion>>| async {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Portion::Bytes(bytes)) => Some((Ok(bytes), Some(receiver))),
            Some(Portion::End) => None,
            None => Some((Err(BoxError::from("the answer was broken off")), None)),
        }
    });
    (Sender(sender), Body::from_stream(portions))
}
