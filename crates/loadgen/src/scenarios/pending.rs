//! Delayed jobs that are there while something else is measured.

use crate::Error;
use crate::crew::{Filling, fill};
use crate::http::Connection;
use crate::run::Run;

/// Not due before any run ends.
pub(super) const DELAY_MIN: u32 = 3600;
/// A day.
pub(super) const DELAY_MAX: u32 = 86_400;

/// Jobs that stay where they are.
pub(super) struct Pending {
    queues: Vec<String>,
    /// How many there were after how many seconds.
    pub(super) samples: Vec<(f64, f64)>,
}

impl Pending {
    /// Publishes so many jobs, with delays spread evenly over a day but for its first hour.
    pub(super) async fn fill(run: &Run<'_>, jobs: u64, queues: usize) -> Result<Self, Error> {
        let mut pending = Self {
            queues: run.queues("pending", queues),
            samples: Vec::new(),
        };
        pending.add(run, jobs).await?;
        Ok(pending)
    }

    /// Publishes further ones.
    pub(super) async fn add(&mut self, run: &Run<'_>, jobs: u64) -> Result<(), Error> {
        let filling = Filling {
            is_pending: true,
            ..Filling::of(&self.queues, jobs)
        };
        self.samples = fill(run, filling, || rand::random_range(DELAY_MIN..=DELAY_MAX)).await?;
        Ok(())
    }

    /// None of them can be consumed.
    pub(super) async fn check(&self, run: &Run<'_>) -> Result<(), Error> {
        let mut connection = Connection::open(run.server.address, 0).await?;
        for queue in &self.queues {
            let ready = run.size(&mut connection, queue).await?;
            if ready > 0 {
                let defect = format!("{ready} jobs of {queue} are ready an hour or more early");
                run.ledger.borrow_mut().defect(defect);
            }
        }
        Ok(())
    }
}
