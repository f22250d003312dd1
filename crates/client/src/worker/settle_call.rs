//! The requests that report the ends of jobs.

use std::time::{Duration, Instant};

use serde::Serialize;
use tidegate_core::v1::consume::{
    AckBody, FailBody, FailItem, Outcome, ReleaseBody, SettleAnswer, SettleCall,
};
use tidegate_core::v1::values::{DurationMs, LeaseText};

use super::reply::JobReply;
use crate::client::Client;
use crate::error::{Error, RepeatSafety};
use crate::repeat::RepeatLimits;
use crate::transport::HttpCall;

const DELAYS: RepeatLimits =
    RepeatLimits::endless(Duration::from_millis(50), Duration::from_secs(1));

/// A part of a request, and until when it is useful.
pub(super) type Expiring<T> = (T, Instant);

/// Sends the requests of one batch. Each is repeated until the leases of its jobs have expired.
#[derive(Debug)]
pub(super) struct SettleCalls<'a> {
    client: &'a Client,
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
        let Some(error) = self.settle(SettleCall::Ack, &done, until, body).await else {
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
            .settle(SettleCall::Fail, &failed, until, body)
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
        self.settle(SettleCall::Release, &leases, until, body).await;
    }

    /// Sends the items, and returns why the server rejected them. Other errors are logged.
    async fn settle<T, B: Serialize>(
        &self,
        call: SettleCall,
        items: &[T],
        until: Instant,
        body: impl FnOnce(&[T]) -> B,
    ) -> Option<Error> {
        if items.is_empty() {
            return None;
        }
        match self.send(call, &body(items), until).await {
            Ok(outcomes) => {
                let lost = outcomes.iter().filter(|it| **it == Outcome::Lost).count();
                if lost > 0 {
                    tracing::warn!(
                        "leases expired before /{}: jobs={lost}; these jobs run again",
                        call.name()
                    );
                }
                None
            }
            Err(error) => {
                tracing::error!(
                    "failed to report jobs: path=/{} jobs={} error={error}",
                    call.name(),
                    items.len()
                );
                matches!(error.status(), Some(400 | 413 | 415 | 422)).then_some(error)
            }
        }
    }

    async fn send(
        &self,
        call: SettleCall,
        body: &impl Serialize,
        until: Instant,
    ) -> Result<Vec<Outcome>, Error> {
        let call = HttpCall::settle(call, body)?;
        let mut delays = DELAYS.delays();
        loop {
            let error = match self
                .client
                .transport
                .send(&call, RepeatSafety::Repeatable)
                .await
            {
                Ok(reply) => return Ok(reply.json::<SettleAnswer>()?.results),
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

fn release_body(delay: DurationMs, leases: Vec<LeaseText>) -> ReleaseBody {
    let delay = Some(delay).filter(|delay| *delay != DurationMs::ZERO);
    ReleaseBody { leases, delay }
}

/// The items, and until when the request with them is useful.
fn split<T>(items: Vec<Expiring<T>>) -> (Vec<T>, Instant) {
    let until = items.iter().map(|(_, expires)| *expires).max();
    let items = items.into_iter().map(|(item, _)| item).collect();
    (items, until.unwrap_or_else(Instant::now))
}
