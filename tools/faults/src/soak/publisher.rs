//! A client that publishes, and does with a job what its producer does: publishes it again, cancels it.

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tidegate_core::IfRunning;
use tidegate_core::v1::publish::PublishResult;

use super::endpoints::{SoakEndpoints, is_open};
use super::load::{self, DrawnJob, JobCourse};
use super::pace::SoakPace;
use super::state::SoakState;
use crate::history::{ClientRequest, JobAddress, RequestOutcome, VersionResult, now};

/// Publishes until the end of the pace.
pub(super) async fn publish(
    state: Arc<SoakState>,
    pace: Arc<SoakPace>,
    number: usize,
    random: u64,
) {
    let mut publisher = SoakPublisher {
        endpoints: SoakEndpoints::new(&state, number),
    };
    let mut random = StdRng::seed_from_u64(random);
    while pace.next(|| state.jobs().pending()).await {
        let job = load::draw(&mut random, &state.times, pace.is_closed());
        let number = state.jobs().begin(job, now());
        publisher.publish(number, &job).await;
        state.jobs().release(number);
    }
}

struct SoakPublisher<'a> {
    endpoints: SoakEndpoints<'a>,
}

impl SoakPublisher<'_> {
    async fn publish(&mut self, number: u64, job: &DrawnJob) {
        let request = ClientRequest::publish(job.queue.number, job.version(number));
        let outcome = self.send(number, job, &request).await;
        let Some(id) = created(&outcome) else {
            return;
        };
        match job.course {
            JobCourse::Keyed => self.publish_again(number, job, &request).await,
            JobCourse::Cancelled => self.cancel(number, job, id).await,
            JobCourse::Plain | JobCourse::Retried | JobCourse::WithResult => {}
        }
    }

    async fn send(
        &mut self,
        number: u64,
        job: &DrawnJob,
        request: &ClientRequest,
    ) -> RequestOutcome {
        let sending = self.endpoints.send(job.queue.from, request, Duration::ZERO);
        let operation = sending.await;
        let outcome = operation.outcome.clone();
        self.endpoints.state.jobs().record(number, operation);
        outcome
    }

    /// Publishes with the key of a job that waits, or is done and retained: nothing is stored.
    async fn publish_again(&mut self, number: u64, job: &DrawnJob, request: &ClientRequest) {
        if let RequestOutcome::Published(results) = self.send(number, job, request).await
            && !matches!(
                results[..],
                [VersionResult::Job {
                    outcome: PublishResult::Exists,
                    ..
                }]
            )
        {
            let what = format!("publish with a key in use: {results:?}");
            self.endpoints.state.tally.unexpected(&what);
        }
    }

    /// Cancels a job. Repeats the request until it is answered.
    async fn cancel(&mut self, number: u64, job: &DrawnJob, id: &str) {
        let request = ClientRequest::Cancel {
            queue: job.queue.number,
            job: JobAddress::Id(id.to_owned()),
            running: IfRunning::Refuse,
        };
        while !self.endpoints.state.is_over() {
            match self.send(number, job, &request).await {
                RequestOutcome::Conflict => {
                    return self.endpoints.state.tally.unexpected("cancel: conflict");
                }
                outcome if is_open(&outcome) => {}
                _ => return,
            }
        }
    }
}

/// Returns the id of the job that a publish has created.
fn created(outcome: &RequestOutcome) -> Option<&str> {
    match outcome {
        RequestOutcome::Published(results) => results.first()?.id(),
        _ => None,
    }
}
