//! A client that makes requests, notes them, and goes to another API where one fails.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::JobId;
use tidegate_testkit::{Answer, Delivery, Queue};

use super::{Shared, queue_name};
use crate::history::{Delivered, Outcome, Request, Terms};

/// The longest that a client waits for an answer, a long poll's own time not included.
const PATIENCE: Duration = Duration::from_secs(8);
/// After a failure, so that a server that fails at once is not asked without end.
const PAUSE: Duration = Duration::from_millis(40);
const MS: u64 = 1000;
const S: u64 = 1_000_000;

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    doors: Vec<Queue>,
    door: usize,
    pub(super) shared: Arc<Shared>,
}

impl Client {
    /// `number` says which door it prefers.
    pub(crate) fn new(doors: &[Queue], number: usize, shared: Arc<Shared>) -> Self {
        Self {
            doors: doors.iter().map(Queue::apart).collect(),
            door: number % doors.len(),
            shared,
        }
    }

    /// Publishes jobs of the same delay, time to live and tries.
    pub(crate) async fn publish(&mut self, queue: u16, jobs: Vec<Terms>) -> Outcome {
        let at = self.at(queue);
        let request = Request::Publish {
            queue,
            jobs: jobs.clone(),
        };
        let first = jobs[0];
        let (delay_s, ttl_s) = (first.delay / S, first.ttl / S);
        let bodies: Vec<String> = jobs.iter().map(body).collect();
        let doing = async {
            match bodies.as_slice() {
                [one] => {
                    let publish = at.publish(one.as_bytes()).delay_s(delay_s).ttl_s(ttl_s);
                    publish.tries(first.tries).send().await
                }
                many => {
                    let publish = at.publish_bulk(many).delay_s(delay_s).ttl_s(ttl_s);
                    publish.tries(first.tries).send().await
                }
            }
        };
        self.ask(request, PATIENCE, doing, published).await
    }

    /// Consumes from these queues; gives up after `hang_up`, if that is given.
    pub(crate) async fn consume(
        &mut self,
        queues: &[u16],
        ttr_s: u64,
        count: u64,
        timeout_s: u64,
        hang_up: Option<Duration>,
    ) -> Outcome {
        let names: Vec<String> = queues.iter().map(|queue| queue_name(*queue)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let consume = self.at(queues[0]).consume_of(&names).ttr_s(ttr_s);
        let consume = consume.count(count).timeout_s(timeout_s);
        let request = Request::Consume {
            queues: queues.to_vec(),
            ttr: ttr_s * S,
            count,
        };
        let limit = hang_up.unwrap_or(PATIENCE + Duration::from_secs(timeout_s));
        self.ask(request, limit, consume.send(), delivered).await
    }

    /// Acks a job; tries again where nobody knows whether that worked.
    pub(crate) async fn ack(&mut self, queue: u16, id: &str, job: u64) -> Outcome {
        const TRIES: usize = 6;
        let mut outcome = Outcome::NotSent;
        for _ in 0..TRIES {
            outcome = self.delete(queue, id, Request::Ack { job }).await;
            if outcome == Outcome::Deleted {
                break;
            }
        }
        outcome
    }

    /// Cancels a job.
    pub(crate) async fn cancel(&mut self, queue: u16, id: &str, job: u64) -> Outcome {
        self.delete(queue, id, Request::Cancel { job }).await
    }

    async fn delete(&mut self, queue: u16, id: &str, request: Request) -> Outcome {
        let at = self.at(queue);
        let read = |_: &Answer| Outcome::Deleted;
        self.ask(request, PATIENCE, at.try_ack(id), read).await
    }

    /// Gives dead jobs of a queue another try.
    pub(crate) async fn respawn(&mut self, queue: u16) -> Outcome {
        const LIMIT: u64 = 1000;
        let at = self.at(queue);
        let path = format!("{}/deadletter?limit={LIMIT}&ttl=0", at.path());
        let request = Request::Respawn {
            queue,
            limit: LIMIT,
        };
        self.ask(request, PATIENCE, at.try_raw("PUT", &path), respawned)
            .await
    }

    fn at(&self, queue: u16) -> Queue {
        self.doors[self.door].sibling(&queue_name(queue))
    }

    async fn ask<Failure: std::error::Error + Refused>(
        &mut self,
        request: Request,
        limit: Duration,
        doing: impl Future<Output = Result<Answer, Failure>>,
        read: impl Fn(&Answer) -> Outcome,
    ) -> Outcome {
        let shared = Arc::clone(&self.shared);
        let doing = async {
            match tokio::time::timeout(limit, doing).await {
                Err(_) => Outcome::Unknown("hung up".to_owned()),
                Ok(Err(error)) if error.was_not_sent() => Outcome::NotSent,
                Ok(Err(error)) => Outcome::Unknown(innermost(&error)),
                Ok(Ok(answer)) => match answer.status {
                    200..=299 | 404 => read(&answer),
                    status @ (400..=499 | 503) => Outcome::Refused(status),
                    status => Outcome::Failed(status),
                },
            }
        };
        let outcome = shared.recorder.note(request, doing).await;
        if outcome.is_open() || matches!(outcome, Outcome::NotSent | Outcome::Refused(_)) {
            self.go_elsewhere().await;
        }
        outcome
    }

    async fn go_elsewhere(&mut self) {
        self.door = (self.door + 1) % self.doors.len();
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether an error means that nobody heard the request.
trait Refused {
    fn was_not_sent(&self) -> bool;
}

impl Refused for tidegate_testkit::queue::NoAnswer {
    fn was_not_sent(&self) -> bool {
        self.is_connect()
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// The body of a job: its number, and letters up to its length.
pub(super) fn body(terms: &Terms) -> String {
    let head = format!(
        "{{\"job\":{},\"bytes\":{},\"pad\":\"",
        terms.number, terms.bytes
    );
    let letter = char::from(b'a' + (terms.number % 26) as u8);
    let pad = terms.bytes.saturating_sub(head.len() + 2);
    let pad: String = std::iter::repeat_n(letter, pad).collect();
    format!("{head}{pad}\"}}")
}

/// The number of the job with this body, if it is whole.
fn number_of(bytes: &[u8]) -> Option<u64> {
    let value: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    let terms = Terms {
        number: value["job"].as_u64()?,
        bytes: usize::try_from(value["bytes"].as_u64()?).ok()?,
        ..Terms::default()
    };
    (body(&terms).as_bytes() == bytes).then_some(terms.number)
}

fn published(answer: &Answer) -> Outcome {
    let json = answer.json();
    let text = |id: &serde_json::Value| id.as_str().unwrap_or_default().to_owned();
    let ids = match json["job_ids"].as_array() {
        Some(ids) => ids.iter().map(text).collect(),
        None => vec![text(&json["job_id"])],
    };
    Outcome::Published(ids)
}

fn respawned(answer: &Answer) -> Outcome {
    Outcome::Respawned(answer.json()["count"].as_u64().unwrap_or_default())
}

fn delivered(answer: &Answer) -> Outcome {
    let jobs = Delivery::all(answer).into_iter().map(|job| {
        let id: Option<JobId> = job.id.parse().ok();
        Delivered {
            number: number_of(&job.body),
            queue: job
                .queue
                .trim_start_matches('q')
                .parse()
                .unwrap_or(u16::MAX),
            tries_left: job.remain_tries,
            created: id.map_or(0, JobId::created_at_ms) * MS,
            elapsed: job.elapsed_ms * MS,
            id: job.id,
        }
    });
    Outcome::Delivered(jobs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_tells_its_job_only_when_it_is_whole() {
        for bytes in [0, 60, 70_000] {
            let terms = Terms {
                number: 42,
                bytes,
                ..Terms::default()
            };
            let mut body = body(&terms).into_bytes();
            assert_eq!(number_of(&body), Some(42));
            assert!(body.len() >= bytes);
            let at = body.len() - 3;
            body[at] ^= 1;
            assert_eq!(number_of(&body), None);
        }
    }
}
