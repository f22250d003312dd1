//! A native client that records its requests, and switches to another API after a failure.

use std::time::Duration;

use super::answers::answer_to;
use super::http_request::HttpRequest;
use super::request::http_request;
use crate::history::{
    ClientRequest, HeldJob, NativeAnswer, NativeCall, PublishMode, RequestOutcome, SettleAction,
    VersionSpec,
};
use crate::traffic::client::{FaultClient, PATIENCE};
use tidegate_core::v1::consume::Outcome;

/// One native client.
#[derive(Debug)]
pub(in crate::traffic) struct NativeFaultClient {
    pub(super) http: FaultClient,
}

impl NativeFaultClient {
    /// Creates a client; the credential of `http` is an API key.
    pub(in crate::traffic) const fn new(http: FaultClient) -> Self {
        Self { http }
    }

    /// Publishes versions. If one has a time to wait, waits so long for the end of its job.
    pub(super) async fn publish(
        &mut self,
        queue: u16,
        mode: PublishMode,
        versions: Vec<VersionSpec>,
    ) -> RequestOutcome {
        let waits = versions.iter().map(|version| version.wait);
        let limit = PATIENCE + Duration::from_micros(waits.max().unwrap_or_default());
        let call = NativeCall::Publish {
            queue,
            mode,
            versions,
        };
        self.send(call, Duration::ZERO, limit).await
    }

    /// Reserves jobs, and waits up to `wait` for them. Gives up after `hang_up`, if given.
    pub(super) async fn reserve(
        &mut self,
        queues: &[u16],
        lease: Option<u64>,
        max_jobs: u64,
        wait: Duration,
        hang_up: Option<Duration>,
    ) -> RequestOutcome {
        let call = NativeCall::Reserve {
            queues: queues.to_vec(),
            lease,
            max_jobs,
        };
        let limit = hang_up.unwrap_or(PATIENCE + wait);
        self.send(call, wait, limit).await
    }

    /// Settles deliveries. Repeats a request without a clear answer, up to `repeats` times. Returns the results of the
    /// last request.
    pub(super) async fn settle(
        &mut self,
        action: SettleAction,
        jobs: Vec<HeldJob>,
        repeats: usize,
    ) -> Vec<Outcome> {
        if jobs.is_empty() {
            return Vec::new();
        }
        for _ in 0..=repeats {
            let jobs = jobs.clone();
            let outcome = self.call(NativeCall::Settle { action, jobs }).await;
            if let RequestOutcome::Native(NativeAnswer::Settled(results)) = outcome {
                return results;
            }
        }
        Vec::new()
    }

    /// Sends a request that does not wait.
    pub(super) async fn call(&mut self, call: NativeCall) -> RequestOutcome {
        self.send(call, Duration::ZERO, PATIENCE).await
    }

    async fn send(&mut self, call: NativeCall, wait: Duration, limit: Duration) -> RequestOutcome {
        // A path of the native API names its queue itself.
        let endpoint = self.http.at(0);
        let HttpRequest {
            method,
            path,
            headers,
            body,
        } = http_request(&call, wait);
        let doing = endpoint.try_native(method, &path, &headers, body);
        let request = ClientRequest::Native(call.clone());
        let read = |answer: &_| answer_to(&call, answer);
        self.http.exchange(request, limit, doing, read).await
    }
}
