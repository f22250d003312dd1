//! Consuming jobs without a worker.

use std::time::Duration;

use hyper::Method;
use tidegate_core::v1::consume::{
    AckAnswer, AckBody, AckItem, AckItemOutcome, FailAnswer, FailBody, FailItem, FailItemOutcome,
    ReleaseAnswer, ReleaseBody, ReleaseItemOutcome, ReserveAnswer, ReserveBody, TouchAnswer,
    TouchBody, TouchItemOutcome,
};
use tidegate_core::v1::values::{DurationMs, LeaseText};

use super::Client;
use crate::error::{Error, RepeatSafety};
use crate::transport::HttpCall;

impl Client {
    /// Reserves ready jobs. A [`Worker`](crate::Worker) does this for you.
    ///
    /// Is not repeated after errors: jobs that were reserved by a request whose answer was lost are ready again when
    /// their leases expire.
    ///
    /// # Errors
    /// Those of requests.
    pub async fn reserve(&self, body: &ReserveBody) -> Result<ReserveAnswer, Error> {
        let call = HttpCall::reserve(body)?;
        self.transport
            .send(&call, RepeatSafety::Repeatable)
            .await?
            .json()
    }

    /// Acknowledges jobs, up to 1,000. One outcome per job, in order.
    ///
    /// # Errors
    /// Those of requests.
    pub async fn ack(&self, leases: Vec<AckItem>) -> Result<Vec<AckItemOutcome>, Error> {
        let answer: AckAnswer = self.settle("/ack", &AckBody { leases }).await?;
        Ok(answer.results)
    }

    /// Reports attempts that failed, up to 1,000. One outcome per job, in order.
    ///
    /// # Errors
    /// Those of requests.
    pub async fn fail(&self, leases: Vec<FailItem>) -> Result<Vec<FailItemOutcome>, Error> {
        let answer: FailAnswer = self.settle("/fail", &FailBody { leases }).await?;
        Ok(answer.results)
    }

    /// Extends leases, up to 1,000, by this time from now on; by default as the jobs or their policies say. One outcome
    /// per job, in order.
    ///
    /// # Errors
    /// Those of requests.
    pub async fn touch(
        &self,
        leases: Vec<LeaseText>,
        lease: Option<Duration>,
    ) -> Result<Vec<TouchItemOutcome>, Error> {
        let lease = lease.map(DurationMs::try_from).transpose()?;
        let answer: TouchAnswer = self.settle("/touch", &TouchBody { leases, lease }).await?;
        Ok(answer.results)
    }

    /// Gives jobs back, up to 1,000, which are due again after the delay. This counts as no failure. One outcome per
    /// job, in order.
    ///
    /// # Errors
    /// Those of requests.
    pub async fn release(
        &self,
        leases: Vec<LeaseText>,
        delay: Duration,
    ) -> Result<Vec<ReleaseItemOutcome>, Error> {
        let delay = Some(DurationMs::try_from(delay)?).filter(|delay| *delay != DurationMs::ZERO);
        let answer: ReleaseAnswer = self
            .settle("/release", &ReleaseBody { leases, delay })
            .await?;
        Ok(answer.results)
    }

    /// A lease names one attempt, so a repetition changes nothing more.
    async fn settle<A: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<A, Error> {
        let call = HttpCall::json(Method::POST, path, body)?;
        let reply = self
            .transport
            .send_repeated(&call, RepeatSafety::Repeatable)
            .await?;
        reply.json()
    }
}
