//! Consuming jobs without a worker.

use std::time::Duration;

use tidegate_core::v1::consume::{
    AckBody, AckItem, FailBody, FailItem, Outcome, ReleaseBody, ReserveAnswer, ReserveBody,
    SettleAnswer, SettleCall, TouchBody,
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
    /// The errors of requests.
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
    /// The errors of requests.
    pub async fn ack(&self, leases: Vec<AckItem>) -> Result<Vec<Outcome>, Error> {
        self.settle(SettleCall::Ack, &AckBody { leases }).await
    }

    /// Reports attempts that failed, up to 1,000. One outcome per job, in order.
    ///
    /// # Errors
    /// The errors of requests.
    pub async fn fail(&self, leases: Vec<FailItem>) -> Result<Vec<Outcome>, Error> {
        self.settle(SettleCall::Fail, &FailBody { leases }).await
    }

    /// Extends leases, up to 1,000, by this time from now on; by default as the jobs or their policies say. One outcome
    /// per job, in order.
    ///
    /// # Errors
    /// The errors of requests.
    pub async fn touch(
        &self,
        leases: Vec<LeaseText>,
        lease: Option<Duration>,
    ) -> Result<Vec<Outcome>, Error> {
        let lease = lease.map(DurationMs::try_from).transpose()?;
        self.settle(SettleCall::Touch, &TouchBody { leases, lease })
            .await
    }

    /// Gives jobs back, up to 1,000, which are due again after the delay. This counts as no failure. One outcome per
    /// job, in order.
    ///
    /// # Errors
    /// The errors of requests.
    pub async fn release(
        &self,
        leases: Vec<LeaseText>,
        delay: Duration,
    ) -> Result<Vec<Outcome>, Error> {
        let delay = Some(DurationMs::try_from(delay)?).filter(|delay| *delay != DurationMs::ZERO);
        self.settle(SettleCall::Release, &ReleaseBody { leases, delay })
            .await
    }

    /// A lease names one attempt, so a repetition changes nothing more.
    async fn settle(
        &self,
        settle: SettleCall,
        body: &impl serde::Serialize,
    ) -> Result<Vec<Outcome>, Error> {
        let call = HttpCall::settle(settle, body)?;
        let reply = self
            .transport
            .send_repeated(&call, RepeatSafety::Repeatable)
            .await?;
        let answer: SettleAnswer = reply.json()?;
        Ok(answer.results)
    }
}
