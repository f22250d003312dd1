//! Extends the leases of running jobs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::limits::{LEASE_MS_MAX, SETTLE_LEASES_MAX};
use tidegate_core::v1::consume::{Outcome, SettleAnswer, SettleCall, TouchBody};
use tidegate_core::v1::values::DurationMs;

use super::job::CancelReason;
use super::leases::{HeldLease, LeaseTable};
use crate::client::Client;
use crate::error::{Error, RepeatSafety};
use crate::transport::HttpCall;

/// The shortest time that a touch may take.
const ANSWER_LIMIT_MIN: Duration = Duration::from_millis(100);

/// Extends the leases of running jobs when a third of each has passed, until it is dropped. A lease that is not
/// extended, since the server cannot be reached, is tried again until it has expired.
pub(super) async fn extend_leases(client: Client, leases: Arc<LeaseTable>) {
    loop {
        leases.tick().await;
        let mut due = leases.due(Instant::now());
        // A request extends all its leases by one length. There are few.
        due.sort_by_key(|(_, lease)| lease.length);
        let chunks = due
            .chunk_by(|(_, one), (_, other)| one.length == other.length)
            .flat_map(|same| same.chunks(SETTLE_LEASES_MAX));
        let calls = chunks.map(|chunk| extend(&client, &leases, chunk));
        futures_util::future::join_all(calls).await;
    }
}

/// Extends leases of the same length.
async fn extend(client: &Client, leases: &LeaseTable, due: &[(u64, HeldLease)]) {
    let sent = Instant::now();
    match touch(client, due).await {
        Ok(outcomes) => {
            for ((number, lease), outcome) in due.iter().zip(outcomes) {
                apply(leases, *number, lease, outcome, sent);
            }
        }
        Err(error) => {
            tracing::warn!(
                "failed to extend leases: jobs={} error={error}; repeating it",
                due.len()
            );
        }
    }
}

fn apply(leases: &LeaseTable, number: u64, lease: &HeldLease, outcome: Outcome, sent: Instant) {
    match outcome {
        Outcome::Extended {
            cancel_requested, ..
        } => {
            leases.extended(number, sent);
            if cancel_requested {
                lease.job.cancel(CancelReason::Requested);
            }
        }
        // A job that ended while the request was in flight is not in the table any more.
        _ => leases.lost(number),
    }
}

async fn touch(client: &Client, due: &[(u64, HeldLease)]) -> Result<Vec<Outcome>, Error> {
    let length = due
        .first()
        .map_or(Duration::ZERO, |(_, lease)| lease.length);
    // The length that was granted: the policy of the queue may have another one by now.
    let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let lease = Some(DurationMs::saturating(ms.min(LEASE_MS_MAX)));
    let leases = due
        .iter()
        .map(|(_, lease)| lease.job.lease().clone())
        .collect();
    let call = HttpCall::settle(SettleCall::Touch, &TouchBody { leases, lease })?;
    // An answer that is late must leave time for another request.
    let limit = (length / 3)
        .max(ANSWER_LIMIT_MIN)
        .min(client.transport.time_limit);
    let answering = tokio::time::timeout(
        limit,
        client.transport.send(&call, RepeatSafety::Repeatable),
    )
    .await;
    let answer: SettleAnswer = answering.map_err(|_| Error::NoAnswer(limit))??.json()?;
    Ok(answer.results)
}
