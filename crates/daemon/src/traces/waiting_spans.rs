//! Spans that wait for the collector. Spans that do not reach it are counted here, since the SDK counts them only for
//! its own log.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use prometheus::{IntCounter, IntCounterVec};

use crate::log_limit::LogLimit;
use crate::metrics::counters;

/// The least time between two log lines about spans that are lost.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(60);

static DROPPED: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_spans_dropped_total",
        "Number of spans that did not reach the collector, by reason: queue_full, not_sent.",
        &["reason"],
    )
});

/// Counts spans that wait, and spans that are dropped.
#[derive(Debug)]
pub(super) struct WaitingSpans {
    /// Spans that wait or are being sent.
    count: AtomicUsize,
    most: usize,
    queue_full: IntCounter,
    not_sent: IntCounter,
    reports: LogLimit,
}

impl WaitingSpans {
    /// No span waits, and at most `most` will.
    pub(super) fn new(most: usize) -> Self {
        let dropped = |reason| DROPPED.with_label_values(&[reason]);
        Self {
            count: AtomicUsize::new(0),
            most,
            queue_full: dropped("queue_full"),
            not_sent: dropped("not_sent"),
            reports: LogLimit::every(REPORT_INTERVAL),
        }
    }

    /// Counts another span. Returns false if it is to be dropped, since too many wait.
    pub(super) fn admit(&self) -> bool {
        let more = |count: usize| (count < self.most).then_some(count + 1);
        // With `ended`: the queue of the SDK has room whenever this says so, or it would drop the span without a count.
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        if self.count.fetch_update(set, fetch, more).is_ok() {
            return true;
        }
        self.queue_full.inc();
        if self.reports.is_due() {
            tracing::warn!(
                waiting = self.most,
                "spans are dropped, since more are made than the collector at traces.endpoint takes"
            );
        }
        false
    }

    /// Spans that wait or are being sent.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn ended(&self, spans: usize, is_sent: bool) {
        self.count.fetch_sub(spans, Ordering::Release);
        if !is_sent {
            self.not_sent.inc_by(spans as u64);
        }
    }
}

/// An exporter whose spans no longer wait when it has sent them or failed to.
#[derive(Debug)]
pub(super) struct CountedExporter<E> {
    exporter: E,
    waiting: Arc<WaitingSpans>,
}

impl<E> CountedExporter<E> {
    pub(super) const fn new(exporter: E, waiting: Arc<WaitingSpans>) -> Self {
        Self { exporter, waiting }
    }
}

impl<E: SpanExporter> SpanExporter for CountedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let sent = self.exporter.export(batch).await;
        self.waiting.ended(spans, sent.is_ok());
        sent
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.exporter.shutdown()
    }
}
