//! The body of a request, also one that is answered before it has arrived.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::runtime::Handle;

/// The longest rest of a body that terse receives although the answer does not need it.
const MAX_UNREAD: usize = 64 * 1024;
/// How long the client may take to send that rest.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A request body whose rest terse receives if the answer comes before it is read.
///
/// Over HTTP/2 a server that drops a body resets the stream. A client that is still sending
/// (curl 7.88, for example) then reports an error instead of the answer: a 401 looks like a broken
/// connection. A body that is longer than 64 KiB is dropped.
#[derive(Debug)]
pub struct RequestBody(Option<Incoming>);

impl RequestBody {
    pub(super) fn new(body: Incoming) -> Self {
        Self(Some(body))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.0 {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(body) = self.0.take().filter(|body| !body.is_end_stream()) else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        if body.size_hint().lower() <= MAX_UNREAD as u64 {
            let rest = Limited::new(body, MAX_UNREAD).collect();
            runtime.spawn(async { drop(tokio::time::timeout(TIMEOUT, rest).await) });
        }
    }
}
