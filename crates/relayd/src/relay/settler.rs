//! Reports to the source what became of its jobs, many in one call: while a call is in flight, the next ones gather.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::held_jobs::HeldJobs;
use super::state::RelayState;
use crate::job::SourceReceipt;
use crate::sources::{FailedDelivery, RelaySource, SourceError};

/// The most jobs of one call.
const CALL_MAX: usize = 1000;

/// A report to the source.
#[derive(Debug)]
pub(super) enum SettlementKind {
    Ack(SourceReceipt),
    Fail(FailedDelivery),
    Release(SourceReceipt),
}

/// A job whose delivery has ended. It holds room in the relay until the source knows.
#[derive(Debug)]
pub(super) struct SettledDelivery {
    pub(super) action: SettlementKind,
    pub(super) held: HeldJobs,
}

/// Settles jobs until all senders are gone. A job that cannot be settled is delivered again when its lease expires.
pub(super) async fn settle_all(
    source: Arc<dyn RelaySource>,
    state: Arc<RelayState>,
    mut receiver: mpsc::Receiver<SettledDelivery>,
) {
    let delay = state.breaker.first_pause();
    let mut gathered = Vec::new();
    while receiver.recv_many(&mut gathered, CALL_MAX).await > 0 {
        let settlements = gathered
            .drain(..)
            .map(|settlement| (settlement.action, settlement.held));
        let (actions, held): (Vec<SettlementKind>, Vec<_>) = settlements.unzip();
        settle(&*source, &state, actions, delay).await;
        drop(held);
    }
}

async fn settle(
    source: &dyn RelaySource,
    state: &RelayState,
    actions: Vec<SettlementKind>,
    delay: Duration,
) {
    let (mut acks, mut fails, mut releases) = (Vec::new(), Vec::new(), Vec::new());
    for action in actions {
        match action {
            SettlementKind::Ack(receipt) => acks.push(receipt),
            SettlementKind::Fail(failed) => fails.push(failed),
            SettlementKind::Release(receipt) => releases.push(receipt),
        }
    }
    let acked = async {
        if acks.is_empty() {
            Ok(())
        } else {
            source.ack(acks).await
        }
    };
    let failed = async {
        if fails.is_empty() {
            Ok(())
        } else {
            source.fail(fails).await
        }
    };
    let released = async {
        if releases.is_empty() {
            Ok(())
        } else {
            source.release(releases, delay).await
        }
    };
    let (acked, failed, released) = tokio::join!(acked, failed, released);
    for (call, result) in [("ack", acked), ("fail", failed), ("release", released)] {
        report(state, call, result);
    }
}

fn report(state: &RelayState, call: &str, result: Result<(), SourceError>) {
    if let Err(error) = result {
        state.metrics.settle_errors.inc();
        state.set_error(&format!("source: {call}: {error}"));
        tracing::warn!(relay = state.name, %error, "failed to {call} jobs; they are delivered again when their leases expire");
    }
}
