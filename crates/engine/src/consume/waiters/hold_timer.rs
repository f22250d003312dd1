//! The ends of holds: a wait queue that a rate holds back is served again when there may be units.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::shared::Shared;
use super::source::Source;
use super::wait_queue::WaitQueue;

impl Shared {
    /// Starts the timer of a hold. Must be called whenever a wait queue returns that the caller must start it.
    pub(super) fn spawn_hold_timer(self: &Arc<Self>, source: Source, timer: u64) {
        let shared = Arc::clone(self);
        let timing = async move {
            while let Some(until) = shared.held_until(&source, timer) {
                if until <= Instant::now() {
                    return shared.end_hold(&source);
                }
                tokio::select! {
                    () = shared.closed.cancelled() => return,
                    () = sleep_until(until) => {}
                }
            }
        };
        self.tasks.spawn_on(timing, &self.runtime);
    }

    fn held_until(&self, source: &Source, timer: u64) -> Option<Instant> {
        let wait_queues = self.wait_queues.lock();
        wait_queues.by_source.get(source)?.held_until(timer)
    }

    /// Ends the hold of a wait queue, if it has one: its rate may be another one.
    pub(super) fn end_hold(self: &Arc<Self>, source: &Source) {
        let starts = {
            let mut wait_queues = self.wait_queues.lock();
            wait_queues
                .by_source
                .get_mut(source)
                .is_some_and(WaitQueue::end_hold)
        };
        if starts {
            self.spawn_serve_loop(source.clone());
        }
    }
}
