//! Queues whose jobs wait although consumers ask for them, and their policies.

use serde_json::json;

use super::shared::{GROUPED_QUEUE, RATED_QUEUE, TURNS_QUEUE};
use crate::history::{DeliveryRate, HeldQueue};

/// More than are published: about 9 jobs in a second, and their retries. Few at once, so that each burst is held back.
const RATE: DeliveryRate = DeliveryRate {
    jobs: 3,
    per: 200_000,
};

/// Returns the queues of a run whose jobs wait. In half of the runs a group may have one leased job, in the others two.
pub(crate) const fn held_queues(seed: u64) -> [HeldQueue; 3] {
    [
        HeldQueue {
            queue: GROUPED_QUEUE,
            group_max_running: Some(1 + seed % 2),
            rate: None,
        },
        HeldQueue {
            queue: RATED_QUEUE,
            group_max_running: None,
            rate: Some(RATE),
        },
        HeldQueue {
            queue: TURNS_QUEUE,
            group_max_running: None,
            rate: None,
        },
    ]
}

/// Returns the policy of a queue in JSON; `None` if it has the default policy.
pub(crate) fn policy_of(held: &HeldQueue) -> Option<String> {
    let rate = held
        .rate
        .map(|rate| json!({"jobs": rate.jobs, "per": format!("{}ms", rate.per / 1000)}));
    let is_default = rate.is_none() && held.group_max_running.is_none();
    let policy = json!({"groups": {"max_running": held.group_max_running}, "rate": rate});
    (!is_default).then(|| policy.to_string())
}
