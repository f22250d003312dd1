//! A client that sends requests, records them, and switches to another API after a failure.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::v1::consume::Outcome;
use tidegate_testkit::QueueClient;

use super::shared::ClientState;
use crate::history::{
    ClientRequest, Delivery, HUNG_UP, HeldJob, JobAddress, PublishMode, RequestOutcome,
    SettleAction, VersionSpec, Wire,
};
use crate::recorder::RequestSource;
use crate::wire::{http_request, outcome};

/// Longest wait for an answer, in addition to the wait that a request asks for.
const PATIENCE: Duration = Duration::from_secs(8);
/// Pause after a failure, so that a server that fails immediately is not flooded with requests.
const PAUSE: Duration = Duration::from_millis(40);

#[derive(Debug)]
pub(crate) struct FaultClient {
    endpoints: Vec<QueueClient>,
    endpoint: usize,
    source: RequestSource,
    timeout: Duration,
    pub(super) shared: Arc<ClientState>,
}

impl FaultClient {
    /// Creates a client of the lmstfy wire. `number` selects the API that it uses first.
    pub(crate) fn new(doors: &[QueueClient], number: usize, shared: Arc<ClientState>) -> Self {
        Self {
            endpoints: doors
                .iter()
                .map(QueueClient::with_separate_connections)
                .collect(),
            endpoint: number % doors.len(),
            source: RequestSource::default(),
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
    pub(super) const fn without_proxy(mut self) -> Self {
        self.source.is_direct = true;
        self
    }

    /// Uses this token from now on. `number` identifies it in the history.
    pub(super) fn use_token(&mut self, number: u16, token: &str) {
        if self.source.token != number {
            self.use_credential(token);
            self.source.token = number;
        }
    }

    /// Uses the native API with this key.
    pub(super) fn with_api_key(mut self, api_key: &str) -> Self {
        self.use_credential(api_key);
        self.source.wire = Wire::Native;
        self
    }

    fn use_credential(&mut self, credential: &str) {
        let with_token = |door: &QueueClient| door.with_token(credential);
        self.endpoints = self.endpoints.iter().map(with_token).collect();
    }

    /// Publishes versions. On the lmstfy wire they have the same delay, time to live and tries.
    pub(super) async fn publish(
        &mut self,
        queue: u16,
        versions: Vec<VersionSpec>,
    ) -> RequestOutcome {
        let mode = match versions.len() {
            1 => PublishMode::Single,
            _ => PublishMode::Batch,
        };
        let replaced = None;
        self.send(ClientRequest::Publish {
            queue,
            mode,
            versions,
            replaced,
        })
        .await
    }

    /// Reserves jobs. Waits for them for `wait`; hangs up after `hang_up`, if given.
    pub(super) async fn reserve(
        &mut self,
        queues: &[u16],
        lease: Option<u64>,
        max_jobs: u64,
        wait: Duration,
        hang_up: Option<Duration>,
    ) -> Vec<Delivery> {
        let queues = queues.to_vec();
        let request = ClientRequest::Reserve {
            queues,
            lease,
            max_jobs,
        };
        let limit = hang_up.unwrap_or(PATIENCE + wait);
        match self.exchange(request, wait, limit).await {
            RequestOutcome::Delivered(jobs) => jobs,
            _ => Vec::new(),
        }
    }

    /// Settles deliveries. Repeats a request without a clear answer, up to `repeats` times.
    pub(super) async fn settle(
        &mut self,
        action: SettleAction,
        jobs: Vec<HeldJob>,
        repeats: usize,
    ) -> Vec<Outcome> {
        for _ in 0..=repeats {
            let jobs = jobs.clone();
            if jobs.is_empty() {
                break;
            }
            let request = ClientRequest::Settle { action, jobs };
            if let RequestOutcome::Settled(results) = self.send(request).await {
                return results;
            }
        }
        Vec::new()
    }

    /// Acks a job. Sends up to 6 requests until one succeeds.
    pub(super) async fn ack(&mut self, job: Delivery) {
        const REPEATS: usize = 5;
        if let Some(held) = job.held() {
            self.settle(SettleAction::Ack, vec![held], REPEATS).await;
        }
    }

    /// Sends a request that does not wait.
    pub(crate) async fn send(&mut self, request: ClientRequest) -> RequestOutcome {
        self.exchange(request, Duration::ZERO, self.timeout).await
    }

    /// Sends a request and records it. A publisher waits for as long as its versions say.
    async fn exchange(
        &mut self,
        request: ClientRequest,
        wait: Duration,
        limit: Duration,
    ) -> RequestOutcome {
        let wire = self.source.wire;
        let endpoint = &self.endpoints[self.endpoint];
        let http = http_request(wire, &request, wait);
        let http = http.sent_to(wire, endpoint.namespace(), endpoint.token());
        let limit = limit + awaited(&request);
        let doing = async {
            let sending = endpoint.try_send(http.method, &http.path, &http.headers, http.body);
            match tokio::time::timeout(limit, sending).await {
                Err(_) => RequestOutcome::Unknown(HUNG_UP.to_owned()),
                Ok(Err(error)) if error.is_connect() => RequestOutcome::NotSent,
                Ok(Err(error)) => RequestOutcome::Unknown(root_cause(&error)),
                Ok(Ok(answer)) => outcome(wire, &request, &answer),
            }
        };
        let recorder = &self.shared.recorder;
        let outcome = recorder.record(self.source, &request, doing).await;
        if outcome.is_unknown() || outcome.is_refused() {
            self.use_next_endpoint().await;
        }
        outcome
    }

    async fn use_next_endpoint(&mut self) {
        self.endpoint = (self.endpoint + 1) % self.endpoints.len();
        tokio::time::sleep(PAUSE).await;
    }
}

pub(super) fn by_id(id: &str) -> JobAddress {
    JobAddress::Id(id.to_owned())
}

/// Returns how long a publisher waits for the end of its job.
fn awaited(request: &ClientRequest) -> Duration {
    let wait = match request {
        ClientRequest::Publish { versions, .. } => versions.iter().map(|it| it.wait).max(),
        _ => None,
    };
    Duration::from_micros(wait.unwrap_or_default())
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
