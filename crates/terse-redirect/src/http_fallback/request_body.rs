//! The body of a request, also one that is answered before it has arrived.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::runtime::Handle;

/// The longest rest of a body that terse receives although the answer does not need it.
const MAX_UNREAD: usize = 64 * 1024;
/// How long the client may take to send that rest.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A request body. Over HTTP/2, terse receives its rest if the answer comes before it is read.
///
/// A server that drops a body resets the stream. A client that is still sending (curl 7.88, for
/// example) then reports an error instead of the answer: a 401 looks like a broken connection. A
/// body that is longer than 64 KiB is dropped, and one that waits for `100 Continue`.
#[derive(Debug)]
pub struct RequestBody {
    body: Option<Incoming>,
    receives_rest: bool,
}

impl RequestBody {
    /// The request with its body.
    pub(super) fn of(request: Request<Incoming>) -> Request<Self> {
        let receives_rest =
            request.version() == Version::HTTP_2 && !request.headers().contains_key(header::EXPECT);
        request.map(|body| Self { body: Some(body), receives_rest })
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let is_due = |body: &Incoming| self.receives_rest && !body.is_end_stream();
        let Some(body) = self.body.take().filter(is_due) else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        if body.size_hint().lower() <= MAX_UNREAD as u64 {
            let rest = Limited::new(body, MAX_UNREAD).collect();
            runtime.spawn(async { drop(tokio::time::timeout(TIMEOUT, rest).await) });
        }
    }
}
