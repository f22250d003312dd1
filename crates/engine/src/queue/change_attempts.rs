//! Changes of an entry of a table that other clients change at the same time: the entry is read and changed again.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tidegate_core::v1::Precondition;
use tidegate_store::{Row, TableRevision};
use tokio::time::sleep;

/// The second attempt waits for so long, and at random up to twice as long: the same clients would otherwise meet again
/// and again.
const FIRST_DELAY: Duration = Duration::from_millis(5);
/// The delays double up to this: about 100 clients that change one entry all the time get their turns.
const LONGEST_DELAY: Duration = Duration::from_millis(320);
/// With the first one there are 20 attempts, over some 6 s.
const FURTHER_ATTEMPTS: usize = 19;

/// The entry has another revision than the expected one, or other clients change it all the time. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the entry has been changed")]
pub struct VersionMismatch;

#[derive(Debug)]
pub struct ChangeAttempts {
    condition: Precondition<TableRevision>,
    delays: ExponentialBackoff,
    has_begun: bool,
}

impl ChangeAttempts {
    /// The attempts of a change under this condition.
    pub fn new(condition: Precondition<TableRevision>) -> Self {
        let delays = ExponentialBuilder::new()
            .with_min_delay(FIRST_DELAY)
            .with_max_delay(LONGEST_DELAY)
            .with_jitter()
            .with_max_times(FURTHER_ATTEMPTS);
        Self {
            condition,
            delays: delays.build(),
            has_begun: false,
        }
    }

    /// Waits for the next attempt, at once for the first one.
    ///
    /// # Errors
    /// There is none: other clients change the entry all the time.
    pub async fn next(&mut self) -> Result<(), VersionMismatch> {
        if std::mem::replace(&mut self.has_begun, true) {
            sleep(self.delays.next().ok_or(VersionMismatch)?).await;
        }
        Ok(())
    }

    /// The revision that the stored entry must still have when it is changed; `None` = any, since it cannot be read.
    ///
    /// # Errors
    /// The condition does not hold.
    pub fn expected<T>(
        &self,
        stored: Option<&Row<T>>,
    ) -> Result<Option<TableRevision>, VersionMismatch> {
        let stored = stored.map(|row| row.revision);
        match self
            .condition
            .holds(stored.map(Option::unwrap_or_default).as_ref())
        {
            true => Ok(stored.unwrap_or(Some(TableRevision::default()))),
            false => Err(VersionMismatch),
        }
    }
}
