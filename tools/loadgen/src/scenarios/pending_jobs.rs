//! Delayed jobs that are stored while something else is measured.

use std::ops::RangeInclusive;

use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::load_clients::{FillOptions, fill};
use crate::run::ScenarioRun;
use crate::wire::publish_request::JobOption;

/// Shortest delay, in seconds: longer than any run.
pub(super) const DELAY_MIN: u32 = 3600;
/// Longest delay, in seconds: a day.
const DELAY_MAX: u32 = 86_400;

/// Jobs that stay delayed until the run ends.
pub(super) struct PendingJobs {
    queues: Vec<String>,
    pub(super) kind: PendingKind,
    /// Samples of the last fill: number of jobs, and seconds since its start.
    pub(super) samples: Vec<(f64, f64)>,
}

pub(super) struct PendingKind {
    /// Their delays in seconds, at random.
    pub(super) delays: RangeInclusive<u32>,
    pub(super) body_bytes: usize,
    pub(super) option: JobOption,
}

impl Default for PendingKind {
    /// Jobs of 100 bytes with delays of 1 to 24 hours.
    fn default() -> Self {
        Self {
            delays: DELAY_MIN..=DELAY_MAX,
            body_bytes: 100,
            option: JobOption::None,
        }
    }
}

impl PendingKind {
    /// Returns a function that chooses the delay of each job, in seconds.
    pub(super) fn random_delay(&self) -> impl Fn() -> u32 {
        let delays = self.delays.clone();
        move || rand::random_range(delays.clone())
    }
}

impl PendingJobs {
    /// No jobs yet, of this kind, spread over `queues` queues.
    pub(super) fn new(run: &ScenarioRun<'_>, kind: PendingKind, queues: usize) -> Self {
        Self {
            queues: run.queues("pending", queues),
            kind,
            samples: Vec::new(),
        }
    }

    /// Publishes `jobs` jobs of the default kind, spread over `queues` queues.
    pub(super) async fn fill(
        run: &ScenarioRun<'_>,
        jobs: u64,
        queues: usize,
    ) -> Result<Self, LoadgenError> {
        let mut pending = Self::new(run, PendingKind::default(), queues);
        pending.add(run, jobs).await?;
        Ok(pending)
    }

    /// Publishes more such jobs.
    pub(super) async fn add(
        &mut self,
        run: &ScenarioRun<'_>,
        jobs: u64,
    ) -> Result<(), LoadgenError> {
        let filling = FillOptions {
            is_pending: true,
            body_bytes: self.kind.body_bytes,
            option: self.kind.option,
            ..FillOptions::new(&self.queues, jobs)
        };
        self.samples = fill(run, filling, self.kind.random_delay()).await?;
        Ok(())
    }

    /// Checks that none of them is ready.
    pub(super) async fn check(&self, run: &ScenarioRun<'_>) -> Result<(), LoadgenError> {
        let mut connection = HttpConnection::open(run.server.address, 0).await?;
        for queue in &self.queues {
            let ready = run.size(&mut connection, queue).await?;
            if ready > 0 {
                let defect = format!("{ready} jobs of {queue} are ready an hour or more early");
                run.jobs.borrow_mut().record_defect(defect);
            }
        }
        Ok(())
    }
}
