//! Lists of the jobs of a queue: the lanes one after the other, those of a pool that moves before those of its target.

use std::fmt;
use std::str::FromStr;

use tidegate_core::{Lane, QueueKey};
use tidegate_store::{InvalidPosition, LIST_HINTS_MAX, ListPosition, ListedJob};

use super::Pool;
use super::job_criteria::JobCriteria;
use crate::error::EngineError;

/// Calls to Redis for one page. A page of a filter that few jobs match may be empty, and not be the last one.
const CALLS_PER_PAGE: usize = 100;

/// Where a list of jobs continues.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobCursor {
    /// 0 = the deployment of the pool, 1 = that of its target.
    deployment: usize,
    lane: u16,
    /// `None` = at the begin of the lane.
    position: Option<ListPosition>,
}

impl fmt::Display for JobCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.deployment, self.lane)?;
        match &self.position {
            None => Ok(()),
            Some(position) => write!(f, ".{position}"),
        }
    }
}

impl FromStr for JobCursor {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let mut parts = text.splitn(3, '.');
        let deployment = parts.next().and_then(|part| part.parse().ok());
        let lane = parts.next().and_then(|part| part.parse().ok());
        Ok(Self {
            deployment: deployment.ok_or(InvalidPosition)?,
            lane: lane.ok_or(InvalidPosition)?,
            position: parts.next().map(str::parse).transpose()?,
        })
    }
}

/// A page of a list of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPage {
    /// The jobs, perhaps none.
    pub jobs: Vec<ListedJob>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<JobCursor>,
}

/// What one call to Redis has found.
pub(super) struct ListStep<'a> {
    /// The deployment that has the jobs.
    pub(super) pool: &'a Pool,
    /// Those that match the filter.
    pub(super) jobs: Vec<ListedJob>,
    pub(super) next: Option<JobCursor>,
    /// The time on the clock of that deployment, in ms since 1970.
    pub(super) now_ms: u64,
}

impl Pool {
    /// A page with up to `limit` jobs of a queue that match the filter. A job whose state and due time stay as they are
    /// during the whole list is in it, perhaps twice. Jobs come by lane, then by state; ready and dead ones in the order of
    /// their lists.
    ///
    /// # Errors
    /// Redis gave no answer: a list without a lane would be mistaken for the whole.
    pub async fn list_jobs(
        &self,
        queue: &QueueKey,
        criteria: &JobCriteria,
        cursor: JobCursor,
        limit: usize,
    ) -> Result<JobPage, EngineError> {
        let (mut jobs, mut next) = (Vec::new(), Some(cursor));
        for _ in 0..CALLS_PER_PAGE {
            let Some(cursor) = next.take_if(|_| jobs.len() < limit) else {
                break;
            };
            let hints = limit - jobs.len();
            let step = self.list_step(queue, criteria, cursor, hints, true).await?;
            jobs.extend(step.jobs);
            next = step.next;
        }
        Ok(JobPage { jobs, next })
    }

    /// Reads up to `hints` hints.
    pub(super) async fn list_step(
        &self,
        queue: &QueueKey,
        criteria: &JobCriteria,
        cursor: JobCursor,
        hints: usize,
        with_payload: bool,
    ) -> Result<ListStep<'_>, EngineError> {
        let JobCursor {
            deployment,
            lane,
            position,
        } = cursor;
        let begin = (deployment, lane);
        let lanes = self
            .with_target()
            .enumerate()
            .flat_map(|(deployment, pool)| {
                let used = pool.lanes.used(queue);
                (0..used).map(move |lane| (pool, (deployment, lane)))
            });
        // The lane of the cursor may have been closed since: then it was empty.
        let mut lanes = lanes.skip_while(|(_, place)| *place < begin);
        let Some((pool, place)) = lanes.next() else {
            return Ok(ListStep {
                pool: self,
                jobs: Vec::new(),
                next: None,
                now_ms: 0,
            });
        };
        let position = position.filter(|_| place == begin);
        let lane: Lane<'_> = queue.lane(place.1);
        let selection = criteria.selection(with_payload);
        let listing = pool.store.list_jobs(
            lane,
            &selection,
            position.as_ref(),
            hints.min(LIST_HINTS_MAX),
        );
        let mut listed = listing.await?;
        listed.jobs.retain(|job| criteria.matches(job));
        let behind = |position| {
            move |(deployment, lane)| JobCursor {
                deployment,
                lane,
                position,
            }
        };
        let next = match listed.next {
            Some(position) => Some(behind(Some(position))(place)),
            None => lanes.next().map(|(_, place)| behind(None)(place)),
        };
        Ok(ListStep {
            pool,
            jobs: listed.jobs,
            next,
            now_ms: listed.now_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_are_written() {
        assert_eq!(JobCursor::default().to_string(), "0.0");
        for text in ["0.0", "1.63", "0.7.far:", "1.0.ready:17:1000001:1764"] {
            let cursor: JobCursor = text.parse().unwrap();
            assert_eq!(cursor.to_string(), text);
        }
        for text in [
            "",
            "0",
            "0.x",
            "-1.0",
            "0.65536",
            "0.0.",
            "0.0.ready",
            "0.0.ready:1.2",
        ] {
            assert_eq!(text.parse::<JobCursor>(), Err(InvalidPosition), "{text}");
        }
    }
}
