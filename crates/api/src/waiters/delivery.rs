//! Jobs between the line and the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tidegate_core::{Job, JobId, QueueKey};

use super::seat::Haul;
use super::{Inner, Source};

/// Reserved jobs, at least one. Unless they reach the client they are given back, without costing a try.
#[derive(Debug)]
pub(crate) struct Delivery {
    parts: Vec<Part>,
}

/// A reserved job.
#[derive(Debug)]
pub(crate) struct ReservedJob<'a> {
    pub(crate) queue: &'a QueueKey,
    pub(crate) job: &'a Job,
    /// When its lease began, by the clock of Redis, in ms.
    pub(crate) leased_at_ms: u64,
}

/// The jobs that one queue has in a delivery.
#[derive(Debug)]
struct Part {
    jobs: Vec<Job>,
    /// The length of their leases, in ms.
    ttr_ms: u64,
    parcel: Parcel,
}

impl Part {
    /// Jobs of one part may come from several calls, one after the other; `now_ms` is that of the last one. Leases
    /// count from the end of the millisecond in which they begin.
    const fn leased_at_ms(&self, job: &Job) -> u64 {
        job.due_at_ms.saturating_sub(self.ttr_ms + 1)
    }
}

impl Delivery {
    pub(super) fn new(inner: Arc<Inner>, haul: Haul) -> Self {
        let parcel = Parcel {
            inner,
            now_ms: haul.now_ms,
            slips: haul.slips(),
            source: haul.source,
        };
        Self {
            parts: vec![Part {
                jobs: haul.jobs,
                ttr_ms: haul.ttr_ms,
                parcel,
            }],
        }
    }

    /// Adds the jobs of another queue.
    pub(super) fn append(&mut self, more: Self) {
        self.parts.extend(more.parts);
    }

    /// Where the first jobs are from.
    pub(super) fn source(&self) -> &Source {
        &self.parts[0].parcel.source
    }

    /// How many jobs there are.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.jobs.len()).sum()
    }

    /// The length of their bodies together.
    pub(crate) fn body_bytes(&self) -> usize {
        self.jobs().map(|reserved| reserved.job.body.len()).sum()
    }

    /// Gives the jobs behind the first `count` back.
    pub(crate) fn truncate(&mut self, count: usize) {
        let mut left = count;
        for Part { jobs, parcel, .. } in &mut self.parts {
            let kept = left.min(jobs.len());
            jobs.truncate(kept);
            parcel.give_back_behind(kept);
            left -= kept;
        }
    }

    /// The jobs, in the order in which they were reserved.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = ReservedJob<'_>> {
        self.parts.iter().flat_map(|part| {
            let reserved = |job| ReservedJob {
                queue: &part.parcel.source.queue,
                job,
                leased_at_ms: part.leased_at_ms(job),
            };
            part.jobs.iter().map(reserved)
        })
    }

    /// The body of an answer that shows the jobs. They count as delivered once it is taken for writing.
    pub(crate) fn into_body(self, shown: Bytes) -> Body {
        Body::new(DeliveryBody {
            shown: Some(shown),
            parcels: self.parts.into_iter().map(|part| part.parcel).collect(),
        })
    }
}

/// What has to be given back if it does not arrive.
#[derive(Debug)]
struct Parcel {
    inner: Arc<Inner>,
    source: Source,
    slips: Vec<(JobId, u32)>,
    /// The clock of Redis when the last of them was reserved, in ms.
    now_ms: u64,
}

impl Parcel {
    fn arrived(&mut self) {
        let delivered = std::mem::take(&mut self.slips);
        let ages = delivered.iter().map(|(id, _)| {
            let age_ms = self.now_ms.saturating_sub(id.created_at_ms());
            Duration::from_millis(age_ms)
        });
        if let Some(pool) = self.inner.pools.get(&self.source.pool) {
            pool.deployment.figures.delivered(&self.source.queue, ages);
        }
    }

    fn give_back_behind(&mut self, kept: usize) {
        let slips = self.slips.split_off(kept);
        self.inner.give_back(self.source.clone(), None, slips);
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.give_back_behind(0);
    }
}

/// Shows jobs, in one piece. hyper asks for it when the connection is ready for the answer, right after
/// it has looked for a hang-up, and not at all if the connection has ended.
struct DeliveryBody {
    shown: Option<Bytes>,
    parcels: Vec<Parcel>,
}

impl HttpBody for DeliveryBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let shown = self.shown.take();
        if shown.is_some() {
            self.parcels.iter_mut().for_each(Parcel::arrived);
        }
        Poll::Ready(shown.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.shown.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.shown.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
