//! The serve loop: rounds for one line, one after the other, while there is reason to.

use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use tokio::time::{Instant, timeout};

use super::line::Round;
use super::retry::RetrySignal;
use super::seat::Haul;
use super::{Inner, Source};
use crate::metrics::{ROUNDS, storage_failed};
use crate::pool::Deployment;

/// The serve loop does not wait for a call that takes longer, if there are other lanes.
const PROMPT: Duration = Duration::from_millis(25);

impl Inner {
    /// Starts the serve loop of a line. To be called by whoever was told so by the line.
    pub(super) fn spawn_serving(self: &Arc<Self>, source: Source) {
        let Some(pool) = self.pools.get(&source.pool) else {
            return;
        };
        let serving = Serving {
            inner: Arc::clone(self),
            deployment: pool.deployment.clone(),
            source,
        };
        self.tasks.spawn_on(serving.run(), &self.runtime);
    }
}

/// A serve loop at work. It is a task of its own: no consumer who leaves can end it half-way.
#[derive(Clone)]
struct Serving {
    inner: Arc<Inner>,
    deployment: Deployment,
    source: Source,
}

impl Serving {
    async fn run(self) {
        while let Some(round) = self.next_round() {
            if self.inner.lanes_of(&self.source) == 1 {
                self.carry_out(round).await;
                continue;
            }
            let apart = self.clone().carry_out_apart(round);
            let apart = self.inner.tasks.spawn_on(apart, &self.inner.runtime);
            // One that takes longer goes on by itself.
            let _ = timeout(PROMPT, apart).await;
        }
    }

    /// Carries out a round that the serve loop may not wait for.
    async fn carry_out_apart(self, round: Round) {
        self.carry_out(round).await;
        let starts = match self.inner.lock().by_source.get_mut(&self.source) {
            Some(line) => line.start(),
            None => false,
        };
        if starts {
            self.inner.spawn_serving(self.source.clone());
        }
    }

    async fn carry_out(&self, round: Round) {
        counter!(ROUNDS).increment(1);
        let lane = self.source.queue.lane(round.lane);
        match self.deployment.store.reserve(lane, &round.claims).await {
            Ok(reserved) => {
                let jobs = reserved.jobs.iter().map(Vec::len).sum();
                self.deployment.figures.reserved(jobs);
                let lane = round.lane;
                let surplus = self.hand_out(round, reserved);
                let jobs: Vec<_> = surplus.iter().flat_map(Haul::slips).collect();
                if !jobs.is_empty() {
                    let source = self.source.clone();
                    self.inner.give_back(source, Some(lane), jobs);
                }
            }
            Err(error) => {
                storage_failed(&error);
                self.fail(&round);
            }
        }
    }

    /// The next round, or the end of the loop, decided and noted in one step.
    fn next_round(&self) -> Option<Round> {
        let lanes = self.inner.lanes_of(&self.source);
        let mut lines = self.inner.lock();
        let line = lines.by_source.get_mut(&self.source)?;
        let round = line.next_round(lanes);
        if round.is_none() {
            line.poll_at = Some(Instant::now() + self.inner.poll_pause());
        }
        if line.is_over() {
            lines.by_source.remove(&self.source);
        }
        round
    }

    fn hand_out(&self, round: Round, reserved: tidegate_store::Reserved) -> Vec<Haul> {
        let mut lines = self.inner.lock();
        // A line with a round under way is never removed.
        let line = lines.by_source.entry(self.source.clone()).or_default();
        if line.has_failed(round.lane) {
            self.retry(RetrySignal::recovered);
        }
        line.hand_out(&self.source, round, reserved.jobs, reserved.now_ms)
    }

    fn fail(&self, round: &Round) {
        if let Some(line) = self.inner.lock().by_source.get_mut(&self.source) {
            line.fail(round);
        }
        self.retry(RetrySignal::failed);
    }

    fn retry(&self, report: impl FnOnce(&RetrySignal)) {
        if let Some(pool) = self.inner.pools.get(&self.source.pool) {
            report(&pool.retry);
        }
    }
}

impl Drop for Serving {
    /// A loop that ends by itself has nothing to wind up. One that panicked, or that the runtime dropped,
    /// would leave a line behind that nobody serves.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        if let Some(line) = self.inner.lock().by_source.get_mut(&self.source) {
            line.abort();
        }
    }
}
