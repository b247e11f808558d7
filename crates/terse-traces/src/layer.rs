//! Chooses the spans that are sent, and names their trace in the log.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terse_core::TRACE_TARGET;
use tokio::sync::{Notify, mpsc};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::ids::TraceId;
use crate::span::{FinishedSpan, OpenSpan, SpanFields};

/// Spans that wait to be sent. Further ones are dropped and counted.
const QUEUE: usize = 4096;
/// The export job sends this many spans at once, without waiting for its interval.
pub(crate) const BATCH: usize = 512;

thread_local! {
    /// The traces of the spans that this thread is in, innermost last.
    static ENTERED: RefCell<Vec<Option<TraceId>>> = const { RefCell::new(Vec::new()) };
}

/// The trace that the current thread works for, if the trace is sampled.
pub fn current_trace_id() -> Option<TraceId> {
    ENTERED.with_borrow(|entered| entered.last().copied().flatten())
}

/// Collects the sampled spans. A span without a parent begins a trace. The header `traceparent` of
/// the request says whether that trace is sampled; without the header, the layer samples the
/// configured part of all traces.
pub struct TraceLayer {
    /// A trace is sampled if a random 32-bit number is below this.
    threshold: u64,
    queue: mpsc::Sender<FinishedSpan>,
    counts: Arc<SpanCounts>,
}

/// The other end of the layer's queue.
pub struct SpanQueue {
    pub(crate) spans: mpsc::Receiver<FinishedSpan>,
    pub(crate) counts: Arc<SpanCounts>,
}

/// How many spans were sent and dropped, and how many wait.
#[derive(Debug, Default)]
pub(crate) struct SpanCounts {
    pub(crate) sent: AtomicU64,
    /// The queue was full, or the collector refused them.
    pub(crate) dropped: AtomicU64,
    /// In the queue.
    waiting: AtomicU64,
    /// Notified when there are enough for a batch.
    pub(crate) enough: Notify,
}

impl SpanCounts {
    pub(crate) fn taken(&self, count: usize) {
        self.waiting.fetch_sub(count as u64, Ordering::Relaxed);
    }
}

impl TraceLayer {
    /// A layer that samples this part of all traces, in millionths.
    pub fn new(millionths: u32) -> (Self, SpanQueue) {
        let (queue, spans) = mpsc::channel(QUEUE);
        let counts = Arc::<SpanCounts>::default();
        let threshold = (u64::from(millionths.min(1_000_000)) << 32) / 1_000_000;
        (Self { threshold, queue, counts: Arc::clone(&counts) }, SpanQueue { spans, counts })
    }

    /// The spans that concern the layer.
    pub fn filter() -> Targets {
        Targets::new().with_target(TRACE_TARGET, Level::INFO)
    }

    fn samples(&self) -> bool {
        let mut bytes = [0; 4];
        let _ = getrandom::fill(&mut bytes);
        u64::from(u32::from_le_bytes(bytes)) < self.threshold
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = SpanFields::default();
        attributes.record(&mut fields);
        let (trace, parent) = match (span.parent(), fields.parent) {
            // A child belongs to the trace of its parent, or to none.
            (Some(parent), _) => match parent.extensions().get::<OpenSpan>() {
                Some(open) => (open.trace, Some(open.id)),
                None => return,
            },
            (None, Some(remote)) if remote.sampled => (remote.trace, Some(remote.span)),
            (None, None) if self.samples() => (TraceId::random(), None),
            (None, _) => return,
        };
        let name = attributes.metadata().name();
        span.extensions_mut().insert(OpenSpan::begin(trace, parent, name, fields));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut open.fields);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let trace = context
            .span(id)
            .and_then(|span| span.extensions().get::<OpenSpan>().map(|open| open.trace));
        ENTERED.with_borrow_mut(|entered| entered.push(trace));
    }

    fn on_exit(&self, _id: &Id, _context: Context<'_, S>) {
        ENTERED.with_borrow_mut(|entered| {
            let _ = entered.pop();
        });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<OpenSpan>() else { return };
        if self.queue.try_send(open.end()).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if self.counts.waiting.fetch_add(1, Ordering::Relaxed) + 1 >= BATCH as u64 {
            self.counts.enough.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::{info_span, subscriber::with_default};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// The spans of some work, with this part of the traces sampled.
    fn spans(millionths: u32, work: impl FnOnce()) -> Vec<FinishedSpan> {
        let (layer, mut queue) = TraceLayer::new(millionths);
        let layer = layer.with_filter(TraceLayer::filter());
        with_default(tracing_subscriber::registry().with(layer), work);
        std::iter::from_fn(|| queue.spans.try_recv().ok()).collect()
    }

    fn request(parent: Option<&str>) {
        let span = info_span!(
            target: TRACE_TARGET,
            "request",
            span.kind = "server",
            span.parent = parent,
            status = tracing::field::Empty,
        );
        span.in_scope(|| {
            info_span!(target: TRACE_TARGET, "store", call = "get").in_scope(|| ());
            // Of another target.
            info_span!("other").in_scope(|| ());
        });
        span.record("status", 200);
    }

    #[test]
    fn the_spans_of_a_sampled_trace_are_children_of_its_first() {
        let spans = spans(1_000_000, || request(None));
        let [store, request] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!((request.name, request.parent), ("request", None));
        assert_eq!(
            (store.name, store.parent, store.trace),
            ("store", Some(request.id), request.trace)
        );
        assert_eq!(request.fields.attributes.len(), 1, "the status");
        assert!(store.took <= request.took);
    }

    #[test]
    fn a_part_of_the_traces_is_sampled_and_no_child_without_its_parent() {
        assert!(spans(0, || request(None)).is_empty());
        let half = spans(500_000, || (0..1000).for_each(|_| request(None)));
        assert!(
            half.len().is_multiple_of(2) && (600..1400).contains(&half.len()),
            "{}",
            half.len()
        );
    }

    #[test]
    fn another_server_decides_for_its_own_requests() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let sampled = spans(0, || request(Some(&format!("00-{trace}-{span}-01"))));
        assert_eq!(sampled.len(), 2);
        assert!(sampled.iter().all(|span| span.trace.to_string() == trace));
        assert_eq!(sampled[1].parent.unwrap().to_string(), span);
        let left_out = spans(1_000_000, || request(Some(&format!("00-{trace}-{span}-00"))));
        assert!(left_out.is_empty());
        assert_eq!(spans(1_000_000, || request(Some("nonsense"))).len(), 2);
    }

    #[test]
    fn a_thread_knows_the_sampled_trace_that_it_works_for() {
        let mut seen = Vec::new();
        let spans = spans(1_000_000, || {
            seen.push(current_trace_id());
            info_span!(target: TRACE_TARGET, "request").in_scope(|| seen.push(current_trace_id()));
            seen.push(current_trace_id());
        });
        assert_eq!(seen, [None, Some(spans[0].trace), None]);
    }

    #[test]
    fn spans_beyond_the_queue_are_dropped_and_counted() {
        let (layer, queue) = TraceLayer::new(1_000_000);
        let counts = Arc::clone(&queue.counts);
        with_default(tracing_subscriber::registry().with(layer), || {
            (0..QUEUE + 7).for_each(|_| drop(info_span!(target: TRACE_TARGET, "request")));
        });
        assert_eq!(counts.dropped.load(Ordering::Relaxed), 7);
        drop(queue);
    }
}
