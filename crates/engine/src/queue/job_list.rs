//! Lists of the jobs of a queue: one lane after the other, the lanes of a pool that moves before the lanes of its
//! target.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use tidegate_core::limits::LANES_MAX;
use tidegate_core::v1::job::JobFilter;
use tidegate_core::{JobState, Lane, QueueKey};
use tidegate_store::{InvalidPosition, JobSelection, LIST_HINTS_MAX, ListPosition, ListedJob};

use super::job_filter::{matches, selection};
use crate::error::EngineError;
use crate::pool::Pool;

/// A page ends before it has more than this many bytes, as JSON.
const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Hints that a call reads if the jobs of one call with the usual number fill a page.
const HINTS_OF_LARGE_JOBS: usize = 25;
/// The size of a job in a list besides its texts, as JSON, about.
const LISTED_BYTES: usize = 512;

/// Calls to Redis for one page. A page of a filter that few jobs match may be empty, and not be the last one.
const CALLS_PER_PAGE: usize = 100;
/// Calls to Redis for one page that is read again and again.
const CALLS_PER_RECHECK: usize = 10;
/// Calls that a lane without jobs needs: one for each part of the list.
const CALLS_PER_LANE: usize = 5;

/// Where a list of jobs continues.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobCursor {
    /// 0 = the deployment of the pool, 1 = the deployment of its target.
    deployment: usize,
    lane: u16,
    /// `None` = at the begin of the lane.
    position: Option<ListPosition>,
}

impl JobCursor {
    /// The same cursor after the caller has changed the jobs before it.
    pub(super) fn behind_changed_jobs(self) -> Self {
        let position = self.position.map(ListPosition::behind_changed_jobs);
        Self { position, ..self }
    }
}

/// Reads a number of a cursor: up to `most`, digits only.
pub(super) fn read_number(text: Option<&str>, most: u64) -> Result<u64, InvalidPosition> {
    let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse().ok());
    number
        .filter(|number| *number <= most)
        .ok_or(InvalidPosition)
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
        let deployment = read_number(parts.next(), 1)? as usize;
        let lane = read_number(parts.next(), u64::from(LANES_MAX) - 1)? as u16;
        Ok(Self {
            deployment,
            lane,
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

/// The jobs that one call to Redis has found.
pub(super) struct ListStep<'a> {
    /// The deployment that has the jobs.
    pub(super) pool: &'a Pool,
    /// The selected jobs.
    pub(super) jobs: Vec<ListedJob>,
    pub(super) next: Option<JobCursor>,
    /// The time on the clock of that deployment, in ms since 1970.
    pub(super) now_ms: u64,
    /// Whether these are the first jobs of a lane.
    pub(super) begins_lane: bool,
}

impl Pool {
    /// A page with up to `limit` jobs of a queue that match the filter, and up to 1 MiB. A job whose state and due time
    /// stay as they are during the whole list is in it, perhaps twice. Jobs come by lane, then by state; ready and dead
    /// jobs in the order of their lists.
    ///
    /// # Errors
    /// Redis gave no answer: a list without a lane would be mistaken for the whole.
    pub async fn list_jobs(
        &self,
        queue: &QueueKey,
        filter: &JobFilter,
        cursor: JobCursor,
        limit: usize,
    ) -> Result<JobPage, EngineError> {
        let selection = JobSelection {
            with_attributes: true,
            with_failures: true,
            ..selection(filter, &JobState::ALL)
        };
        let reader = (filter, &selection);
        self.read_page(queue, reader, cursor, limit, CALLS_PER_PAGE)
            .await
    }

    /// The same page at little cost, to see whether it has changed: without payloads and failures that the filter does
    /// not need, and after fewer calls. With a filter that few jobs match it is a part of that page.
    ///
    /// # Errors
    /// The errors of [`Self::list_jobs`].
    pub async fn recheck_jobs(
        &self,
        queue: &QueueKey,
        filter: &JobFilter,
        cursor: JobCursor,
        limit: usize,
    ) -> Result<JobPage, EngineError> {
        let selection = selection(filter, &JobState::ALL);
        let reader = (filter, &selection);
        let calls = CALLS_PER_LANE * usize::from(self.lanes.used(queue));
        let calls = calls.max(CALLS_PER_RECHECK);
        self.read_page(queue, reader, cursor, limit, calls).await
    }

    async fn read_page(
        &self,
        queue: &QueueKey,
        (filter, selection): (&JobFilter, &JobSelection),
        cursor: JobCursor,
        limit: usize,
        calls: usize,
    ) -> Result<JobPage, EngineError> {
        let (mut jobs, mut next) = (Vec::new(), Some(cursor));
        let (mut bytes, mut hints_max) = (0, LIST_HINTS_MAX);
        // A job may have two hints, such as a job that has died again.
        let mut seen = BTreeSet::new();
        for _ in 0..calls {
            let Some(cursor) = next.take_if(|_| jobs.len() < limit) else {
                break;
            };
            let hints = hints_max.min(limit - jobs.len());
            let from = cursor.clone();
            let Some(step) = self.list_step(queue, selection, cursor, hints).await? else {
                break;
            };
            let of_list = step.jobs.into_iter().filter(|job| matches(filter, job));
            let mut found: Vec<ListedJob> = of_list.collect();
            found.retain(|job| !seen.contains(&job.job.id));
            bytes += found.iter().map(listed_bytes).sum::<usize>();
            if bytes > PAGE_BYTES_MAX && !jobs.is_empty() {
                next = Some(from);
                break;
            }
            if bytes > PAGE_BYTES_MAX && hints > HINTS_OF_LARGE_JOBS {
                (bytes, hints_max, next) = (0, HINTS_OF_LARGE_JOBS, Some(from));
                continue;
            }
            found.retain(|job| seen.insert(job.job.id));
            jobs.extend(found);
            next = step.next;
        }
        Ok(JobPage { jobs, next })
    }

    /// Reads up to `hints` hints, and returns the selected jobs; `None` if no lane is left: those at the cursor and
    /// behind it were closed, and closed ones are empty.
    pub(super) async fn list_step(
        &self,
        queue: &QueueKey,
        selection: &JobSelection,
        cursor: JobCursor,
        hints: usize,
    ) -> Result<Option<ListStep<'_>>, EngineError> {
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
        let mut lanes = lanes.skip_while(|(_, place)| *place < begin);
        let Some((pool, place)) = lanes.next() else {
            return Ok(None);
        };
        let position = position.filter(|_| place == begin);
        let lane: Lane<'_> = queue.lane(place.1);
        let (store, hints) = (&pool.store, hints.min(LIST_HINTS_MAX));
        let listing = store.list_jobs(lane, selection, position.as_ref(), hints);
        let listed = listing.await?;
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
        Ok(Some(ListStep {
            pool,
            jobs: listed.jobs,
            next,
            now_ms: listed.now_ms,
            begins_lane: position.is_none(),
        }))
    }
}

/// The bytes of a job in a list, as JSON.
fn listed_bytes(listed: &ListedJob) -> usize {
    let attributes = listed.job.attributes.iter();
    let texts = attributes.flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    let error = listed.last_failure.as_ref().map(|it| it.error.as_str());
    LISTED_BYTES + texts.chain(error).map(json_bytes).sum::<usize>()
}

/// The bytes of a text in JSON, at most: control characters are escaped in six.
fn json_bytes(text: &str) -> usize {
    let bytes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    });
    bytes.sum::<usize>() + 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_counted_as_its_json() {
        for text in ["", "plain", "\"quoted\" \\ é", "\u{1}\n"] {
            let json = format!("{},", serde_json::to_string(text).unwrap());
            assert!(json_bytes(text) >= json.len(), "{text:?}");
        }
    }

    #[test]
    fn cursors_are_read_as_they_are_written() {
        assert_eq!(JobCursor::default().to_string(), "0.0");
        for text in ["0.0", "1.63", "0.7.far:", "1.0.near:1764:1000001"] {
            let cursor: JobCursor = text.parse().unwrap();
            assert_eq!(cursor.to_string(), text);
        }
        for text in [
            "",
            "0",
            "0.x",
            "-1.0",
            "0.64",
            "2.0",
            "+0.0",
            "0.+0",
            "0.0.",
            "0.0.ready",
            "0.0.ready:1.2",
        ] {
            assert_eq!(text.parse::<JobCursor>(), Err(InvalidPosition), "{text}");
        }
    }
}
