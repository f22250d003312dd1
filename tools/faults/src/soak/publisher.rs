//! A client that publishes, and does with a job what its producer does: publishes it again, cancels it.

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::connection::SoakAnswer;
use super::endpoints::{ExchangeEnd, SoakEndpoints};
use super::job_judge::JobCourse;
use super::load::{self, DrawnJob};
use super::pace::SoakPace;
use super::state::SoakState;
use super::wire::{PublishTerms, SoakWire, published};
use crate::history::now;

/// How long a job with a key or a result is kept.
const RETAIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// Publishes until the end of the pace.
pub(super) async fn publish(
    state: Arc<SoakState>,
    pace: Arc<SoakPace>,
    number: usize,
    random: u64,
) {
    let mut publisher = SoakPublisher {
        endpoints: SoakEndpoints::new(&state.addresses, number, &state.tally),
        state: &state,
    };
    let mut random = StdRng::seed_from_u64(random);
    while pace.next(|| state.judge().pending()).await {
        let job = load::draw(&mut random, &state.times, pace.is_closed());
        publisher.publish(&job).await;
    }
}

struct SoakPublisher<'a> {
    endpoints: SoakEndpoints<'a>,
    state: &'a SoakState,
}

impl SoakPublisher<'_> {
    async fn publish(&mut self, job: &DrawnJob) {
        let number = self.state.judge().begin(job.course, job.delay, now());
        let terms = PublishTerms {
            delay: job.delay,
            key: (job.course == JobCourse::Keyed).then(|| format!("document-{number}")),
            retain: match job.course {
                JobCourse::Keyed | JobCourse::WithResult => RETAIN,
                _ => Duration::ZERO,
            },
        };
        let queue = &job.queue;
        let credentials = &self.state.credentials;
        let request = credentials.publish(queue.from, &queue.name, number, &terms);
        let id = match self.endpoints.exchange(&request, Duration::ZERO).await {
            ExchangeEnd::NotSent => {
                self.state.judge().refused(number);
                return;
            }
            ExchangeEnd::Unanswered => return,
            ExchangeEnd::Answered(answer) => match published(&answer) {
                Some((id, _)) => id,
                None => {
                    self.refused(number, &answer);
                    return;
                }
            },
        };
        self.state.judge().published(number);
        match job.course {
            JobCourse::Keyed => self.publish_again(&request).await,
            JobCourse::Cancelled => self.cancel(number, job, &id).await,
            JobCourse::Plain | JobCourse::Retried | JobCourse::WithResult => {}
        }
    }

    fn refused(&self, number: u64, answer: &SoakAnswer) {
        // Other failures of the server may have stored the job.
        if answer.status < 500 || answer.status == 503 {
            self.state.judge().refused(number);
        }
        if answer.status < 500 {
            let what = format!("publish: status {}", answer.status);
            self.state.tally.unexpected(&what);
        }
    }

    /// Publishes with the key of a job that waits, or is done and retained: nothing is stored.
    async fn publish_again(&mut self, request: &[u8]) {
        let ExchangeEnd::Answered(answer) = self.endpoints.exchange(request, Duration::ZERO).await
        else {
            return;
        };
        let outcome = published(&answer).and_then(|(_, outcome)| outcome);
        if answer.status < 500 && outcome.as_deref() != Some("exists") {
            let what = format!("publish with a key in use: {} {outcome:?}", answer.status);
            self.state.tally.unexpected(&what);
        }
    }

    /// Cancels a job. Repeats the request until it is answered.
    async fn cancel(&mut self, number: u64, job: &DrawnJob, id: &str) {
        let (wire, queue) = (job.queue.from, &job.queue.name);
        let request = self.state.credentials.delete(wire, queue, id);
        let mut is_repeated = false;
        while !self.state.is_over() {
            match self.endpoints.exchange(&request, Duration::ZERO).await {
                ExchangeEnd::NotSent => {}
                ExchangeEnd::Answered(answer) if answer.status < 500 => {
                    let is_gone = is_repeated && answer.status == 404;
                    if is_gone || is_cancelled(wire, &answer) {
                        self.state.judge().ended(number);
                    } else {
                        let what = format!("cancel: status {}", answer.status);
                        self.state.tally.unexpected(&what);
                    }
                    return;
                }
                ExchangeEnd::Answered(_) | ExchangeEnd::Unanswered => {
                    is_repeated = true;
                    self.state.judge().unsure(number);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn is_cancelled(wire: SoakWire, answer: &SoakAnswer) -> bool {
    match wire {
        SoakWire::Lmstfy => answer.status == 204,
        SoakWire::Native => answer.status == 200,
    }
}
