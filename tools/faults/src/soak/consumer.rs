//! A client that waits for jobs of one queue, and ends them.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::v1::consume::Outcome;

use super::endpoints::{SoakEndpoints, is_open};
use super::job_stream::StreamDelivery;
use super::load::{JobCourse, RETRY, SoakQueue};
use super::state::SoakState;
use crate::history::{
    ClientRequest, HeldJob, JobAddress, RequestOutcome, SettleAction, UnixMicros, in_micros,
};

/// The most jobs of one request.
const COUNT: u64 = 8;

/// Consumes until the run is over. Each request waits up to `wait`.
pub(super) async fn consume(
    state: Arc<SoakState>,
    queue: SoakQueue,
    number: usize,
    wait: Duration,
) {
    let request = ClientRequest::Reserve {
        queues: vec![queue.number],
        lease: Some(in_micros(state.times.lease)),
        max_jobs: COUNT,
    };
    let mut consumer = SoakConsumer {
        endpoints: SoakEndpoints::new(&state, number),
        queue,
    };
    while !state.is_over() {
        let operation = consumer.endpoints.send(queue.to, &request, wait).await;
        let received = operation.span.to;
        let jobs = state.jobs().deliver(operation);
        for job in &jobs {
            consumer.record_lateness(job, received);
        }
        for job in jobs {
            let number = job.number;
            consumer.end(job).await;
            state.jobs().release(number);
        }
    }
}

struct SoakConsumer<'a> {
    endpoints: SoakEndpoints<'a>,
    queue: SoakQueue,
}

impl SoakConsumer<'_> {
    /// Of jobs with a delay, at their first delivery.
    fn record_lateness(&self, job: &StreamDelivery, received: UnixMicros) {
        let Some(drawn) = job.drawn.filter(|it| job.is_first && !it.delay.is_zero()) else {
            return;
        };
        let created = job.got.created;
        let due = created.map(|created| created + in_micros(drawn.delay));
        if let Some(due) = due.or(job.got.run_at) {
            let late = received.saturating_sub(due);
            self.endpoints.state.lateness().record(received, late);
        }
    }

    async fn end(&mut self, job: StreamDelivery) {
        let StreamDelivery {
            number,
            got,
            drawn,
            is_first,
        } = job;
        let course = drawn.map(|drawn| drawn.course);
        let Some(held) = got.held() else {
            return;
        };
        if course == Some(JobCourse::Retried) && is_first {
            let fail = SettleAction::FailRetryIn(in_micros(RETRY));
            return self.settle(number, fail, held).await;
        }
        let id = held.id.clone();
        self.settle(number, SettleAction::Ack, held).await;
        if course == Some(JobCourse::WithResult) {
            let request = ClientRequest::Result {
                queue: self.queue.number,
                job: JobAddress::Id(id),
                version: number,
            };
            self.send(number, &request).await;
        }
    }

    /// Sends a request about a job. Repeats it until it is answered.
    async fn settle(&mut self, number: u64, action: SettleAction, held: HeldJob) {
        let request = ClientRequest::settle(action, held);
        let mut is_repeated = false;
        while !self.endpoints.state.is_over() {
            let outcome = self.send(number, &request).await;
            if !is_open(&outcome) {
                if let RequestOutcome::Settled(results) = outcome
                    && matches!(results[..], [Outcome::Lost | Outcome::Gone])
                    && !is_repeated
                {
                    let what = format!("{}: {results:?}", request.verb());
                    self.endpoints.state.tally.unexpected(&what);
                }
                return;
            }
            is_repeated = true;
        }
    }

    async fn send(&mut self, number: u64, request: &ClientRequest) -> RequestOutcome {
        let sending = self.endpoints.send(self.queue.to, request, Duration::ZERO);
        let operation = sending.await;
        let outcome = operation.outcome.clone();
        self.endpoints.state.jobs().record(number, operation);
        outcome
    }
}
