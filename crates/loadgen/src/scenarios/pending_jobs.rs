//! Delayed jobs that are stored while something else is measured.

use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::load_clients::{FillOptions, fill};
use crate::run::ScenarioRun;

/// Shortest delay, in seconds: longer than any run.
pub(super) const DELAY_MIN: u32 = 3600;
/// Longest delay, in seconds: a day.
pub(super) const DELAY_MAX: u32 = 86_400;

/// Jobs that stay delayed until the run ends.
pub(super) struct PendingJobs {
    queues: Vec<String>,
    /// Samples of the last fill: number of jobs, and seconds since its start.
    pub(super) samples: Vec<(f64, f64)>,
}

impl PendingJobs {
    /// Publishes `jobs` jobs with random delays of 1 to 24 hours, spread over `queues` queues.
    pub(super) async fn fill(
        run: &ScenarioRun<'_>,
        jobs: u64,
        queues: usize,
    ) -> Result<Self, LoadgenError> {
        let mut pending = Self {
            queues: run.queues("pending", queues),
            samples: Vec::new(),
        };
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
            ..FillOptions::new(&self.queues, jobs)
        };
        self.samples = fill(run, filling, || rand::random_range(DELAY_MIN..=DELAY_MAX)).await?;
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
