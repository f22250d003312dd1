//! A client that waits for jobs of one queue, and ends them.

use std::sync::Arc;
use std::time::Duration;

use super::endpoints::{ExchangeEnd, SoakEndpoints};
use super::job_judge::{JobCourse, JudgedDelivery, micros};
use super::load::{RETRY, SoakQueue};
use super::state::SoakState;
use super::wire::{SoakDelivery, SoakWire, outcome};
use crate::history::{UnixMicros, now};

/// The most jobs of one request.
const COUNT: usize = 8;
const PAUSE: Duration = Duration::from_millis(50);

/// Consumes until the run is over. Each request waits up to `wait`.
pub(super) async fn consume(
    state: Arc<SoakState>,
    queue: SoakQueue,
    number: usize,
    wait: Duration,
) {
    let credentials = &state.credentials;
    let lease = state.times.lease;
    let request = credentials.reserve(queue.to, &queue.name, COUNT, wait, lease);
    let mut consumer = SoakConsumer {
        endpoints: SoakEndpoints::new(&state.addresses, number, &state.tally),
        state: &state,
        queue: &queue,
    };
    while !state.is_over() {
        let reserved = now();
        let ExchangeEnd::Answered(answer) = consumer.endpoints.exchange(&request, wait).await
        else {
            continue;
        };
        let received = now();
        match credentials.deliveries(queue.to, &answer) {
            Some(jobs) => consumer.end_all(jobs, reserved, received).await,
            None => {
                if answer.status < 500 {
                    let what = format!("reserve: status {}", answer.status);
                    state.tally.unexpected(&what);
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

struct SoakConsumer<'a> {
    endpoints: SoakEndpoints<'a>,
    state: &'a SoakState,
    queue: &'a SoakQueue,
}

impl SoakConsumer<'_> {
    async fn end_all(
        &mut self,
        jobs: Vec<SoakDelivery>,
        reserved: UnixMicros,
        received: UnixMicros,
    ) {
        // All are judged first: they arrived together.
        let judged: Vec<_> = jobs
            .into_iter()
            .map(|job| (self.judge(&job, reserved, received), job))
            .collect();
        for (judged, job) in judged {
            let Some(number) = job.number else {
                continue;
            };
            match judged {
                Some(JudgedDelivery {
                    course: JobCourse::Retried,
                    has_failed: false,
                    ..
                }) => self.fail(number, &job).await,
                judged => {
                    self.ack(number, &job, judged.map(|judged| judged.course))
                        .await
                }
            }
        }
    }

    fn judge(
        &self,
        job: &SoakDelivery,
        reserved: UnixMicros,
        received: UnixMicros,
    ) -> Option<JudgedDelivery> {
        let lease = self.state.times.lease;
        let Some(number) = job.number else {
            let what = format!("job {} is of another program", job.id);
            self.state.judge().foreign(&what);
            return None;
        };
        let judged = self
            .state
            .judge()
            .delivered(number, reserved, received, lease)?;
        if let Some(delay) = judged.delay {
            let late = received.saturating_sub(job.created + micros(delay));
            self.state.lateness().record(received, late);
        }
        Some(judged)
    }

    /// Reports a failed attempt. Repeats the request until it is answered.
    async fn fail(&mut self, number: u64, job: &SoakDelivery) {
        let request = self.state.credentials.fail(&job.handle, RETRY);
        self.state.judge().failed(number, now() + micros(RETRY));
        let mut is_repeated = false;
        while let Some(answered) = self.send(&request, &mut is_repeated).await {
            if let Some(said) = answered {
                if said != "retry" && !is_repeated {
                    self.state.tally.unexpected(&format!("fail: {said}"));
                }
                return;
            }
        }
    }

    /// Acknowledges a job. Repeats the request until it is answered.
    async fn ack(&mut self, number: u64, job: &SoakDelivery, course: Option<JobCourse>) {
        let credentials = &self.state.credentials;
        let has_result = course == Some(JobCourse::WithResult);
        let request = match self.queue.to {
            SoakWire::Lmstfy => credentials.delete(SoakWire::Lmstfy, &self.queue.name, &job.id),
            SoakWire::Native => credentials.ack(&job.handle, has_result.then_some(number)),
        };
        let mut is_repeated = false;
        while let Some(answered) = self.send(&request, &mut is_repeated).await {
            match answered.as_deref() {
                None => self.state.judge().unsure(number),
                Some("done") => {
                    self.state.judge().ended(number);
                    if has_result {
                        self.check_result(number, job).await;
                    }
                    return;
                }
                Some("gone") if is_repeated => {
                    self.state.judge().ended(number);
                    return;
                }
                // The judge waits for the next delivery.
                Some(said) => {
                    self.state.tally.unexpected(&format!("ack: {said}"));
                    return;
                }
            }
        }
    }

    /// Sends a request about one job. Returns its outcome, or `Some(None)` if it may have been executed and has no
    /// answer. `None` at the end of the run.
    async fn send(&mut self, request: &[u8], is_repeated: &mut bool) -> Option<Option<String>> {
        while !self.state.is_over() {
            match self.endpoints.exchange(request, Duration::ZERO).await {
                ExchangeEnd::NotSent => {}
                ExchangeEnd::Answered(answer) if answer.status < 500 => {
                    let said = match (self.queue.to, answer.status) {
                        (SoakWire::Lmstfy, 204) => Some("done".to_owned()),
                        (SoakWire::Lmstfy, _) => None,
                        (SoakWire::Native, _) => outcome(&answer),
                    };
                    return Some(Some(
                        said.unwrap_or_else(|| format!("status {}", answer.status)),
                    ));
                }
                ExchangeEnd::Answered(_) | ExchangeEnd::Unanswered => {
                    *is_repeated = true;
                    tokio::time::sleep(PAUSE).await;
                    return Some(None);
                }
            }
        }
        None
    }

    async fn check_result(&mut self, number: u64, job: &SoakDelivery) {
        let request = self.state.credentials.result(&self.queue.name, &job.id);
        let ExchangeEnd::Answered(answer) = self.endpoints.exchange(&request, Duration::ZERO).await
        else {
            return;
        };
        let result: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        match answer.status {
            200 if result["job"] == number => {}
            200 => {
                let what = format!("job {number} has the result of another job");
                self.state.judge().foreign(&what);
            }
            status if status < 500 => {
                let what = format!("result: status {status}");
                self.state.tally.unexpected(&what);
            }
            _ => {}
        }
    }
}
