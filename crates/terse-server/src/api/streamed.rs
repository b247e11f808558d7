//! Responses that are sent while they are produced.
//!
//! A task on the runtime of the web plane produces them portion by portion, only as fast as the
//! client reads. The thread that sends them also serves redirects and must not do this work.

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use terse_core::BoxError;
use tokio::sync::mpsc::{self, Receiver};

/// The number of portions that are produced but not sent yet.
const READY: usize = 1;

enum Portion {
    Bytes(Bytes),
    End,
}

/// Takes the portions of a response. If it is dropped without `end`, the response fails, so that no
/// client mistakes a part for the whole.
pub(super) struct Sender(mpsc::Sender<Portion>);

impl Sender {
    /// Waits for capacity; `false` if the client has disconnected.
    pub(super) async fn send(&self, bytes: Bytes) -> bool {
        self.0.send(Portion::Bytes(bytes)).await.is_ok()
    }

    /// Ends the response properly.
    pub(super) async fn end(self) {
        let _ = self.0.send(Portion::End).await;
    }

    /// Returns when the client has disconnected.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }
}

/// A body and its sender.
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
