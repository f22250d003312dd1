//! A native client that records its requests, and switches to another API after a failure.

use std::time::Duration;

use super::answers::answer_to;
use super::request::{HttpForm, WaitTime};
use crate::history::{
    ClientRequest, HeldJob, JobVersion, NativeAnswer, NativeCall, PublishMode, RequestOutcome,
    SettleResult, SettleVerb,
};
use crate::traffic::client::{FaultClient, PATIENCE};

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

    /// Publishes versions.
    pub(super) async fn publish(
        &mut self,
        queue: u16,
        mode: PublishMode,
        versions: Vec<JobVersion>,
    ) -> RequestOutcome {
        let call = NativeCall::Publish {
            queue,
            mode,
            versions,
        };
        self.call(call).await
    }

    /// Reserves jobs, and waits for them.
    pub(super) async fn reserve(
        &mut self,
        queues: &[u16],
        lease: Option<u64>,
        max_jobs: u64,
        wait: WaitTime,
        hang_up: Option<Duration>,
    ) -> RequestOutcome {
        let call = NativeCall::Reserve {
            queues: queues.to_vec(),
            lease,
            max_jobs,
        };
        let limit = hang_up.unwrap_or(PATIENCE + Duration::from_millis(wait.ms));
        self.send(call, wait, limit).await
    }

    /// Settles deliveries. Without a clear answer it repeats the request, up to `repeats` times. Returns the results
    /// of the last request.
    pub(super) async fn settle(
        &mut self,
        verb: SettleVerb,
        jobs: Vec<HeldJob>,
        repeats: usize,
    ) -> Vec<SettleResult> {
        if jobs.is_empty() {
            return Vec::new();
        }
        for _ in 0..=repeats {
            let jobs = jobs.clone();
            let outcome = self.call(NativeCall::Settle { verb, jobs }).await;
            if let RequestOutcome::Native(NativeAnswer::Settled(results)) = outcome {
                return results;
            }
        }
        Vec::new()
    }

    /// Sends a request that does not wait.
    pub(super) async fn call(&mut self, call: NativeCall) -> RequestOutcome {
        self.send(call, WaitTime::default(), PATIENCE).await
    }

    async fn send(&mut self, call: NativeCall, wait: WaitTime, limit: Duration) -> RequestOutcome {
        let form = HttpForm::of(&call, wait);
        let door = self.http.at(0);
        let doing = async {
            let HttpForm {
                method,
                path,
                headers,
                body,
            } = form;
            door.try_native(method, &path, &headers, body).await
        };
        let request = ClientRequest::Native(call.clone());
        let read = |answer: &_| answer_to(&call, answer);
        self.http.exchange(request, limit, doing, read).await
    }
}
