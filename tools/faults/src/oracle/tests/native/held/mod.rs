//! Queues whose jobs wait: for a lease of their group to end, for a unit of a rate, or for their turn.

mod limits;
mod priorities;
mod rounds;
mod turns;

use super::*;
use crate::history::{DeliveryRate, HeldQueue};

/// A line.
#[derive(Debug, Clone, Copy)]
struct Of {
    priority: u8,
    group: Option<u8>,
}

const fn of(priority: u8, group: u8) -> Of {
    Of {
        priority,
        group: Some(group),
    }
}

/// A history of a queue with these limits.
fn held(group_max_running: Option<u64>, rate: Option<DeliveryRate>) -> NativeHistoryBuilder {
    let mut history = NativeHistoryBuilder::new();
    history.builder.0.held.push(HeldQueue {
        queue: QUEUE,
        group_max_running,
        rate,
    });
    history
}

impl NativeHistoryBuilder {
    /// Publishes job `number` of a line.
    fn publish_of(self, at: u64, number: u64, line: Of) -> Self {
        let version = VersionSpec {
            priority: line.priority,
            group: line.group,
            ..plain(number)
        };
        self.job(id_of(number))
            .publish(at, version, PublishResult::Created)
    }

    /// A worker gets a job in its first attempt, and acks it 2 ms later.
    fn work(self, at: u64, number: u64) -> Self {
        self.take(at, number).ack(at + 2 * MS, number, 1)
    }

    /// A worker gets a job in its first attempt.
    fn take(self, at: u64, number: u64) -> Self {
        self.job(id_of(number)).deliver(at, number, 1)
    }
}

/// Returns the id of a job.
fn id_of(number: u64) -> &'static str {
    Box::leak(number.to_string().into_boxed_str())
}
