//! A client that makes requests, notes them, and goes to another API where one fails.

use std::sync::Arc;
use std::time::Duration;

use tidegate_testkit::queue::{NoAnswer, Publish};
use tidegate_testkit::{Answer, Queue};

use super::answers::{dead_letter, deleted, delivered, peeked, published, respawned};
use super::payload::{attributes, body};
use super::{Shared, queue_name};
use crate::history::{HUNG_UP, Outcome, Request, Terms};
use crate::recorder::Sender;

/// The longest that a client waits for an answer, a long poll's own time not included.
const PATIENCE: Duration = Duration::from_secs(8);
/// After a failure, so that a server that fails at once is not asked without end.
const PAUSE: Duration = Duration::from_millis(40);
const S: u64 = 1_000_000;

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    doors: Vec<Queue>,
    door: usize,
    sender: Sender,
    patience: Duration,
    pub(super) shared: Arc<Shared>,
}

impl Client {
    /// `number` says which door it prefers.
    pub(crate) fn new(doors: &[Queue], number: usize, shared: Arc<Shared>) -> Self {
        Self {
            doors: doors.iter().map(Queue::apart).collect(),
            door: number % doors.len(),
            sender: Sender::default(),
            patience: PATIENCE,
            shared,
        }
    }

    /// Another client at the same doors.
    pub(super) fn another(&self) -> Self {
        Self::new(&self.doors, self.door, Arc::clone(&self.shared))
    }

    /// The same client, which waits this long for an answer.
    pub(super) fn patient_for(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The same client, whose doors have no proxy.
    pub(super) fn direct(mut self) -> Self {
        self.sender.is_direct = true;
        self
    }

    /// The same client with this token from now on, which histories call by this number.
    pub(super) fn use_token(&mut self, number: u16, token: &str) {
        if self.sender.token != number {
            let with_token = |door: &Queue| door.with_token(token);
            self.doors = self.doors.iter().map(with_token).collect();
            self.sender.token = number;
        }
    }

    /// Publishes jobs of the same delay, time to live and tries.
    pub(crate) async fn publish(&mut self, queue: u16, jobs: Vec<Terms>) -> Outcome {
        let at = self.at(queue);
        let request = Request::Publish {
            queue,
            jobs: jobs.clone(),
        };
        let doing = async {
            match jobs.as_slice() {
                [one] => on_terms(at.publish(body(one)), one).send().await,
                many => {
                    let texts = many.iter().map(|job| String::from_utf8(body(job)));
                    let texts: Result<Vec<String>, _> = texts.collect();
                    let bodies = texts.expect("the bodies of a bulk publish are text");
                    let bulk = at.publish_bulk(&bodies).delay_s(many[0].delay / S);
                    let bulk = bulk.ttl_s(many[0].ttl / S).tries(many[0].tries);
                    bulk.send().await
                }
            }
        };
        self.ask(request, self.patience, doing, published).await
    }

    /// Publishes a job in the place of another, which has this id.
    pub(super) async fn republish(
        &mut self,
        queue: u16,
        id: &str,
        replaced: u64,
        job: Terms,
    ) -> Outcome {
        let doing = on_terms(self.at(queue).republish(id, body(&job)), &job);
        let request = Request::Republish {
            queue,
            replaced,
            job,
        };
        self.ask(request, self.patience, doing.send(), published)
            .await
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
        self.ask(request, self.patience, at.try_ack(id), deleted)
            .await
    }

    /// Looks at a job, in whatever state.
    pub(super) async fn peek(&mut self, queue: u16, id: &str, job: u64) -> Outcome {
        let request = Request::Peek {
            queue,
            job: Some(job),
        };
        self.raw("GET", queue, &format!("/job/{id}"), request, peeked)
            .await
    }

    /// Looks at the job that is consumed next.
    pub(super) async fn peek_head(&mut self, queue: u16) -> Outcome {
        let request = Request::Peek { queue, job: None };
        self.raw("GET", queue, "/peek", request, peeked).await
    }

    /// Looks at the dead letter of a queue.
    pub(super) async fn peek_dead(&mut self, queue: u16) -> Outcome {
        let request = Request::PeekDead { queue };
        self.raw("GET", queue, "/deadletter", request, dead_letter)
            .await
    }

    /// Deletes the ready jobs of a queue.
    pub(super) async fn purge_ready(&mut self, queue: u16) -> Outcome {
        let request = Request::PurgeReady { queue };
        self.raw("DELETE", queue, "", request, deleted).await
    }

    /// Deletes the oldest dead jobs of a queue.
    pub(super) async fn purge_dead(&mut self, queue: u16, limit: u64) -> Outcome {
        let request = Request::PurgeDead { queue, limit };
        let rest = format!("/deadletter?limit={limit}");
        self.raw("DELETE", queue, &rest, request, deleted).await
    }

    /// Gives the oldest dead jobs of a queue another try.
    pub(crate) async fn respawn(&mut self, queue: u16, limit: u64) -> Outcome {
        let request = Request::Respawn { queue, limit };
        let rest = format!("/deadletter?limit={limit}&ttl=0");
        self.raw("PUT", queue, &rest, request, respawned).await
    }

    /// A request without a body; `rest` follows the name of the queue in its path.
    async fn raw(
        &mut self,
        method: &str,
        queue: u16,
        rest: &str,
        request: Request,
        read: fn(&Answer) -> Outcome,
    ) -> Outcome {
        let at = self.at(queue);
        let path = format!("{}{rest}", at.path());
        self.ask(request, self.patience, at.try_raw(method, &path), read)
            .await
    }

    fn at(&self, queue: u16) -> Queue {
        self.doors[self.door].sibling(&queue_name(queue))
    }

    async fn ask(
        &mut self,
        request: Request,
        limit: Duration,
        doing: impl Future<Output = Result<Answer, NoAnswer>>,
        read: impl Fn(&Answer) -> Outcome,
    ) -> Outcome {
        let shared = Arc::clone(&self.shared);
        let doing = async {
            match tokio::time::timeout(limit, doing).await {
                Err(_) => Outcome::Unknown(HUNG_UP.to_owned()),
                Ok(Err(error)) if error.is_connect() => Outcome::NotSent,
                Ok(Err(error)) => Outcome::Unknown(innermost(&error)),
                Ok(Ok(answer)) => match answer.status {
                    200..=299 | 404 => read(&answer),
                    status @ (400..=499 | 503) => Outcome::Refused(status),
                    status => Outcome::Failed(status),
                },
            }
        };
        let outcome = shared.recorder.note(self.sender, request, doing).await;
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

/// A request that publishes one job on these terms.
fn on_terms(publish: Publish, job: &Terms) -> Publish {
    let publish = publish.delay_s(job.delay / S).ttl_s(job.ttl / S);
    let publish = publish.tries(job.tries);
    if job.attributes == 0 {
        return publish;
    }
    let publish = publish.header("Enable-Job-Version", "yes");
    attributes(job)
        .iter()
        .fold(publish, |publish, (name, value)| {
            publish.header(&format!("Job-Attr-{name}"), value)
        })
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
