//! Reports the ends of jobs, many in one request.

use std::time::{Duration, Instant};

use tidegate_core::v1::consume::FailItem;
use tidegate_core::v1::values::{DurationMs, LeaseText};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::fail::{Fail, FailAction};
use super::leases::HeldLease;
use super::reply::JobReply;
use super::settle_call::{Expiring, SettleCalls};
use crate::client::Client;

/// A request is sent when it has so many jobs, or after so long.
const BATCH_JOBS: usize = 64;
const BATCH_DELAY: Duration = Duration::from_millis(2);
/// The most requests in flight at a time.
const CALLS_MAX: usize = 8;

/// The most ends of jobs that wait to be reported. Handlers that end then keep their slots.
pub(super) const WAITING_MAX: usize = BATCH_JOBS * CALLS_MAX;

/// How a run ended.
#[derive(Debug)]
pub(super) enum HandlerEnd {
    Done(JobReply),
    Failed(Fail),
    /// The worker stops.
    Released,
}

/// The end of a run, to be reported.
#[derive(Debug)]
pub(super) struct EndedRun {
    pub(super) lease: LeaseText,
    pub(super) end: HandlerEnd,
    /// After that the report is useless.
    pub(super) expires: Instant,
}

impl EndedRun {
    pub(super) fn new(lease: &HeldLease, end: HandlerEnd) -> Self {
        Self {
            lease: lease.job.lease().clone(),
            end,
            expires: lease.expires,
        }
    }
}

/// Reports the ends of jobs until `finish` is cancelled, and then the ends that are left.
pub(super) async fn settle_jobs(
    client: Client,
    mut ends: Receiver<EndedRun>,
    finish: CancellationToken,
) {
    let mut calls = JoinSet::new();
    let mut batch = Vec::with_capacity(BATCH_JOBS);
    loop {
        let received = tokio::select! {
            biased;
            received = ends.recv_many(&mut batch, BATCH_JOBS) => received,
            () = finish.cancelled(), if !ends.is_closed() => {
                ends.close();
                continue;
            }
        };
        if received == 0 {
            break;
        }
        fill(&mut batch, &mut ends).await;
        calls.spawn(report(
            client.clone(),
            std::mem::replace(&mut batch, Vec::with_capacity(BATCH_JOBS)),
        ));
        while calls.try_join_next().is_some() {}
        if calls.len() >= CALLS_MAX {
            calls.join_next().await;
        }
    }
    while calls.join_next().await.is_some() {}
}

/// Waits a moment for more ends of jobs.
async fn fill(batch: &mut Vec<EndedRun>, ends: &mut Receiver<EndedRun>) {
    let until = tokio::time::Instant::now() + BATCH_DELAY;
    while batch.len() < BATCH_JOBS {
        let room = BATCH_JOBS - batch.len();
        match tokio::time::timeout_at(until, ends.recv_many(batch, room)).await {
            Ok(received) if received > 0 => {}
            _ => return,
        }
    }
}

/// Reports a batch: acks, failures and releases at the same time.
async fn report(client: Client, batch: Vec<EndedRun>) {
    let mut sorted = SortedEnds::default();
    for settlement in batch {
        sorted.add(settlement);
    }
    let calls = SettleCalls::new(&client);
    let releasing = sorted
        .released
        .into_iter()
        .map(|(delay, leases)| calls.release(delay, leases));
    tokio::join!(
        calls.ack(sorted.done),
        calls.fail(sorted.failed),
        futures_util::future::join_all(releasing),
    );
}

#[derive(Debug, Default)]
struct SortedEnds {
    done: Vec<Expiring<(LeaseText, JobReply)>>,
    failed: Vec<Expiring<FailItem>>,
    /// By delay, of which there are few.
    released: Vec<(DurationMs, Vec<Expiring<LeaseText>>)>,
}

impl SortedEnds {
    fn add(&mut self, settlement: EndedRun) {
        let EndedRun {
            lease,
            end,
            expires,
        } = settlement;
        let fail = match end {
            HandlerEnd::Done(reply) => return self.done.push(((lease, reply), expires)),
            HandlerEnd::Released => return self.release(DurationMs::ZERO, lease, expires),
            HandlerEnd::Failed(fail) => fail,
        };
        let retry_in = match fail.action {
            FailAction::Snooze(delay) => return self.release(milliseconds(delay), lease, expires),
            FailAction::RetryIn(delay) => Some(milliseconds(delay)),
            FailAction::Retry | FailAction::Dead => None,
        };
        let item = FailItem {
            lease,
            error: fail.error.into(),
            retry_in,
            dead: fail.action == FailAction::Dead,
        };
        self.failed.push((item, expires));
    }

    fn release(&mut self, delay: DurationMs, lease: LeaseText, expires: Instant) {
        match self.released.iter_mut().find(|(other, _)| *other == delay) {
            Some((_, leases)) => leases.push((lease, expires)),
            None => self.released.push((delay, vec![(lease, expires)])),
        }
    }
}

/// Longer delays than the server accepts are as long as it accepts.
fn milliseconds(delay: Duration) -> DurationMs {
    DurationMs::try_from(delay).unwrap_or(DurationMs::MAX)
}
