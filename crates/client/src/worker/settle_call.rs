//! The requests that report the ends of jobs.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use hyper::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidegate_core::v1::consume::{
    AckBody, AckItemOutcome, FailBody, FailItem, FailItemOutcome, ReleaseItemOutcome,
};
use tidegate_core::v1::values::{DurationMs, LeaseText};

use super::reply::JobReply;
use super::settle::{Expiring, release_body};
use crate::client::Client;
use crate::error::{Error, RepeatSafety};
use crate::repeat::RepeatLimits;
use crate::transport::HttpCall;

const DELAYS: RepeatLimits =
    RepeatLimits::endless(Duration::from_millis(50), Duration::from_secs(1));

/// Sends the requests of one batch. Each is repeated until the leases of its jobs have expired.
#[derive(Debug)]
pub(super) struct SettleCalls<'a> {
    client: &'a Client,
}

/// The answer to any of them.
#[derive(Debug, Deserialize)]
struct OutcomeList<O> {
    results: Vec<O>,
}

impl<'a> SettleCalls<'a> {
    pub(super) const fn new(client: &'a Client) -> Self {
        Self { client }
    }

    pub(super) async fn ack(&self, done: Vec<Expiring<(LeaseText, JobReply)>>) {
        let (done, until) = split(done);
        let body = |done: &[(LeaseText, JobReply)]| AckBody {
            leases: done
                .iter()
                .cloned()
                .map(|(lease, reply)| reply.into_item(lease))
                .collect(),
        };
        let Some(error) = self.settle("/ack", &done, until, body, ack_outcome).await else {
            return;
        };
        if done.len() > 1 {
            // One result that is not accepted must not keep the others from being reported.
            for item in done {
                Box::pin(self.ack(vec![(item, until)])).await;
            }
        } else if let Some((lease, _)) = done.into_iter().next() {
            let text = format!("the work is done, but the result was not accepted: {error}");
            let error = text.into();
            let item = FailItem {
                lease,
                error,
                retry_in: None,
                dead: true,
            };
            self.fail(vec![(item, until)]).await;
        }
    }

    pub(super) async fn fail(&self, failed: Vec<Expiring<FailItem>>) {
        let (failed, until) = split(failed);
        let body = |failed: &[FailItem]| FailBody {
            leases: failed.to_vec(),
        };
        if self
            .settle("/fail", &failed, until, body, fail_outcome)
            .await
            .is_none()
        {
            return;
        }
        if failed.len() > 1 {
            for item in failed {
                Box::pin(self.fail(vec![(item, until)])).await;
            }
        }
    }

    pub(super) async fn release(&self, delay: DurationMs, released: Vec<Expiring<LeaseText>>) {
        let (leases, until) = split(released);
        let body = |leases: &[LeaseText]| release_body(delay, leases.to_vec());
        self.settle("/release", &leases, until, body, release_outcome)
            .await;
    }

    /// Sends the items, and returns why the server rejected them. Other errors are logged.
    async fn settle<T, B: Serialize, O: DeserializeOwned + Debug>(
        &self,
        path: &'static str,
        items: &[T],
        until: Instant,
        body: impl FnOnce(&[T]) -> B,
        is_lost: fn(&O) -> bool,
    ) -> Option<Error> {
        if items.is_empty() {
            return None;
        }
        match self.send::<O>(path, &body(items), until).await {
            Ok(outcomes) => {
                let lost = outcomes.iter().filter(|outcome| is_lost(outcome)).count();
                if lost > 0 {
                    tracing::warn!(
                        "leases expired before {path}: jobs={lost}; these jobs run again"
                    );
                }
                None
            }
            Err(error) => {
                tracing::error!(
                    "failed to report jobs: path={path} jobs={} error={error}",
                    items.len()
                );
                matches!(error.status(), Some(400 | 413 | 415 | 422)).then_some(error)
            }
        }
    }

    async fn send<O: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        until: Instant,
    ) -> Result<Vec<O>, Error> {
        let call = HttpCall::json(Method::POST, path, body)?;
        let mut delays = DELAYS.delays();
        loop {
            let error = match self
                .client
                .transport
                .send(&call, RepeatSafety::Repeatable)
                .await
            {
                Ok(reply) => return Ok(reply.json::<OutcomeList<O>>()?.results),
                Err(error) => error,
            };
            let left = until.saturating_duration_since(Instant::now());
            if !error.is_temporary() || left.is_zero() {
                return Err(error);
            }
            let delay = delays
                .next_after(&error)
                .unwrap_or(RepeatLimits::RETRY_AFTER_MAX);
            tokio::time::sleep(delay.min(left)).await;
        }
    }
}

/// The items, and until when the request with them is useful.
fn split<T>(items: Vec<Expiring<T>>) -> (Vec<T>, Instant) {
    let until = items.iter().map(|(_, expires)| *expires).max();
    let items = items.into_iter().map(|(item, _)| item).collect();
    (items, until.unwrap_or_else(Instant::now))
}

const fn ack_outcome(outcome: &AckItemOutcome) -> bool {
    matches!(outcome, AckItemOutcome::Lost)
}

const fn fail_outcome(outcome: &FailItemOutcome) -> bool {
    matches!(outcome, FailItemOutcome::Lost)
}

const fn release_outcome(outcome: &ReleaseItemOutcome) -> bool {
    matches!(outcome, ReleaseItemOutcome::Lost)
}
