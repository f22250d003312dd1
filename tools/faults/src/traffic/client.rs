//! A client that sends requests, records them, and switches to another API after a failure.

use std::sync::Arc;
use std::time::Duration;

use tidegate_testkit::queue::{PublishBuilder, RequestError};
use tidegate_testkit::{Answer, QueueClient};

use super::answers::{dead_letter, deleted, delivered, peeked, published, respawned};
use super::payload::{attributes, body};
use super::shared::{ClientState, queue_name};
use crate::history::{ClientRequest, HUNG_UP, JobParameters, RequestOutcome};
use crate::recorder::RequestSource;

/// Longest wait for an answer, in addition to the timeout of a long poll.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);
/// Pause after a failure, so that a server that fails immediately is not flooded with requests.
const PAUSE: Duration = Duration::from_millis(40);
const S: u64 = 1_000_000;

/// One client.
#[derive(Debug)]
pub(crate) struct FaultClient {
    endpoints: Vec<QueueClient>,
    endpoint: usize,
    sender: RequestSource,
    timeout: Duration,
    pub(super) shared: Arc<ClientState>,
}

impl FaultClient {
    /// Creates a client. `number` selects the API that it uses first.
    pub(crate) fn new(doors: &[QueueClient], number: usize, shared: Arc<ClientState>) -> Self {
        Self {
            endpoints: doors
                .iter()
                .map(QueueClient::with_separate_connections)
                .collect(),
            endpoint: number % doors.len(),
            sender: RequestSource::default(),
            timeout: PATIENCE,
            shared,
        }
    }

    /// Creates another client of the same APIs.
    pub(super) fn new_sibling(&self) -> Self {
        Self::new(&self.endpoints, self.endpoint, Arc::clone(&self.shared))
    }

    /// Sets how long this client waits for an answer.
    pub(super) fn with_timeout(self, patience: Duration) -> Self {
        Self {
            timeout: patience,
            ..self
        }
    }

    /// Marks this client as connected without a proxy.
    pub(super) fn without_proxy(mut self) -> Self {
        self.sender.is_direct = true;
        self
    }

    /// Uses this token from now on. `number` identifies it in the history.
    pub(super) fn use_token(&mut self, number: u16, token: &str) {
        if self.sender.token != number {
            let with_token = |door: &QueueClient| door.with_token(token);
            self.endpoints = self.endpoints.iter().map(with_token).collect();
            self.sender.token = number;
        }
    }

    /// Uses this API key.
    pub(super) fn with_api_key(mut self, api_key: &str) -> Self {
        let with_key = |door: &QueueClient| door.with_token(api_key);
        self.endpoints = self.endpoints.iter().map(with_key).collect();
        self
    }

    /// Publishes jobs with the same delay, time to live and tries.
    pub(crate) async fn publish(&mut self, queue: u16, jobs: Vec<JobParameters>) -> RequestOutcome {
        let at = self.at(queue);
        let request = ClientRequest::Publish {
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
        self.send(request, self.timeout, doing, published).await
    }

    /// Replaces the job with this id by another one.
    pub(super) async fn republish(
        &mut self,
        queue: u16,
        id: &str,
        replaced: u64,
        job: JobParameters,
    ) -> RequestOutcome {
        let doing = on_terms(self.at(queue).republish(id, body(&job)), &job);
        let request = ClientRequest::Republish {
            queue,
            replaced,
            job,
        };
        self.send(request, self.timeout, doing.send(), published)
            .await
    }

    /// Consumes from these queues. Hangs up after `hang_up`, if given.
    pub(crate) async fn consume(
        &mut self,
        queues: &[u16],
        ttr_s: u64,
        count: u64,
        timeout_s: u64,
        hang_up: Option<Duration>,
    ) -> RequestOutcome {
        let names: Vec<String> = queues.iter().map(|queue| queue_name(*queue)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let consume = self.at(queues[0]).consume_from(&names).ttr_s(ttr_s);
        let consume = consume.count(count).timeout_s(timeout_s);
        let request = ClientRequest::Consume {
            queues: queues.to_vec(),
            ttr: ttr_s * S,
            count,
        };
        let limit = hang_up.unwrap_or(PATIENCE + Duration::from_secs(timeout_s));
        self.send(request, limit, consume.send(), delivered).await
    }

    /// Acks a job. Sends up to 6 requests until one succeeds.
    pub(crate) async fn ack(&mut self, queue: u16, id: &str, job: u64) -> RequestOutcome {
        const TRIES: usize = 6;
        let mut outcome = RequestOutcome::NotSent;
        for _ in 0..TRIES {
            outcome = self.delete(queue, id, ClientRequest::Ack { job }).await;
            if outcome == RequestOutcome::Deleted {
                break;
            }
        }
        outcome
    }

    /// Cancels a job.
    pub(crate) async fn cancel(&mut self, queue: u16, id: &str, job: u64) -> RequestOutcome {
        self.delete(queue, id, ClientRequest::Cancel { job }).await
    }

    async fn delete(&mut self, queue: u16, id: &str, request: ClientRequest) -> RequestOutcome {
        let at = self.at(queue);
        self.send(request, self.timeout, at.try_ack(id), deleted)
            .await
    }

    /// Peeks at a job by its id.
    pub(super) async fn peek(&mut self, queue: u16, id: &str, job: u64) -> RequestOutcome {
        let request = ClientRequest::Peek {
            queue,
            job: Some(job),
        };
        self.raw("GET", queue, &format!("/job/{id}"), request, peeked)
            .await
    }

    /// Peeks at the next job of a queue.
    pub(super) async fn peek_head(&mut self, queue: u16) -> RequestOutcome {
        let request = ClientRequest::Peek { queue, job: None };
        self.raw("GET", queue, "/peek", request, peeked).await
    }

    /// Reads the dead letter of a queue.
    pub(super) async fn peek_dead(&mut self, queue: u16) -> RequestOutcome {
        let request = ClientRequest::PeekDead { queue };
        self.raw("GET", queue, "/deadletter", request, dead_letter)
            .await
    }

    /// Deletes the ready jobs of a queue.
    pub(super) async fn purge_ready(&mut self, queue: u16) -> RequestOutcome {
        let request = ClientRequest::PurgeReady { queue };
        self.raw("DELETE", queue, "", request, deleted).await
    }

    /// Deletes up to `limit` of the oldest dead jobs of a queue.
    pub(super) async fn purge_dead(&mut self, queue: u16, limit: u64) -> RequestOutcome {
        let request = ClientRequest::PurgeDead { queue, limit };
        let rest = format!("/deadletter?limit={limit}");
        self.raw("DELETE", queue, &rest, request, deleted).await
    }

    /// Respawns up to `limit` of the oldest dead jobs of a queue.
    pub(crate) async fn respawn(&mut self, queue: u16, limit: u64) -> RequestOutcome {
        let request = ClientRequest::Respawn { queue, limit };
        let rest = format!("/deadletter?limit={limit}&ttl=0");
        self.raw("PUT", queue, &rest, request, respawned).await
    }

    /// Sends a request without a body. `rest` follows the name of the queue in its path.
    async fn raw(
        &mut self,
        method: &str,
        queue: u16,
        rest: &str,
        request: ClientRequest,
        read: fn(&Answer) -> RequestOutcome,
    ) -> RequestOutcome {
        let at = self.at(queue);
        let path = format!("{}{rest}", at.path());
        self.send(request, self.timeout, at.try_raw(method, &path), read)
            .await
    }

    /// Returns the client of a queue at the API that is used now.
    pub(super) fn at(&self, queue: u16) -> QueueClient {
        self.endpoints[self.endpoint].sibling(&queue_name(queue))
    }

    async fn send(
        &mut self,
        request: ClientRequest,
        limit: Duration,
        doing: impl Future<Output = Result<Answer, RequestError>>,
        read: impl Fn(&Answer) -> RequestOutcome,
    ) -> RequestOutcome {
        let read = |answer: &Answer| match answer.status {
            200..=299 | 404 => read(answer),
            status @ (400..=499 | 503) => RequestOutcome::Refused(status),
            status => RequestOutcome::Failed(status),
        };
        self.exchange(request, limit, doing, read).await
    }

    /// Sends a request and records it. `read` reads answers with any status.
    pub(super) async fn exchange(
        &mut self,
        request: ClientRequest,
        limit: Duration,
        doing: impl Future<Output = Result<Answer, RequestError>>,
        read: impl Fn(&Answer) -> RequestOutcome,
    ) -> RequestOutcome {
        let shared = Arc::clone(&self.shared);
        let doing = async {
            match tokio::time::timeout(limit, doing).await {
                Err(_) => RequestOutcome::Unknown(HUNG_UP.to_owned()),
                Ok(Err(error)) if error.is_connect() => RequestOutcome::NotSent,
                Ok(Err(error)) => RequestOutcome::Unknown(root_cause(&error)),
                Ok(Ok(answer)) => read(&answer),
            }
        };
        let outcome = shared.recorder.record(self.sender, request, doing).await;
        if outcome.is_unknown()
            || matches!(
                outcome,
                RequestOutcome::NotSent | RequestOutcome::Refused(_)
            )
        {
            self.use_next_endpoint().await;
        }
        outcome
    }

    async fn use_next_endpoint(&mut self) {
        self.endpoint = (self.endpoint + 1) % self.endpoints.len();
        tokio::time::sleep(PAUSE).await;
    }
}

/// Adds the parameters of a job to a publish request.
fn on_terms(publish: PublishBuilder, job: &JobParameters) -> PublishBuilder {
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

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
