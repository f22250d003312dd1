use std::fmt;
use std::str::FromStr;

use tidegate_core::{Job, JobState, Lane, QueueKey};

use crate::bodies::{JobReadError, StoredRecord, carried_bytes};
use crate::error::StoreError;
use crate::history::LoggedFailure;
use crate::script::{LazyScript, script};
use crate::store::Store;

static LIST_JOBS: LazyScript = script!("list_jobs");

/// Maximum number of hints that one call of [`Store::list_jobs`] reads: it blocks Redis for less than 1 ms.
pub const LIST_HINTS_MAX: usize = 100;

/// Which jobs a list has, as far as scripts can decide it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSelection {
    /// Their states.
    pub states: Vec<JobState>,
    /// Not before this time is a delayed or ready job due, does the lease of a leased job end, or did a dead one die; in
    /// ms since 1970.
    pub from_ms: u64,
    /// The same before this time.
    pub before_ms: u64,
    /// Whether attributes, bodies and failures are read, too. Without them a list costs less.
    pub with_payload: bool,
}

/// A part of a lane that is read from its begin to its end. They are in the order in which jobs pass through them, so that
/// none is missed which moves on during a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ListPart {
    /// Delayed and leased jobs whose timers are in far slots, among those of all queues of the bucket.
    Far,
    /// The other delayed and leased jobs.
    Near,
    Ready,
    Dead,
    /// Jobs that are done, among all jobs of the bucket with an expiry.
    Done,
}

impl ListPart {
    const ALL: [Self; 5] = [Self::Far, Self::Near, Self::Ready, Self::Dead, Self::Done];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Far => "far",
            Self::Near => "near",
            Self::Ready => "ready",
            Self::Dead => "dead",
            Self::Done => "done",
        }
    }

    fn has_any(self, states: &[JobState]) -> bool {
        let of_part: &[JobState] = match self {
            Self::Far | Self::Near => &[JobState::Delayed, JobState::Leased],
            Self::Ready => &[JobState::Ready],
            Self::Dead => &[JobState::Dead],
            Self::Done => &[JobState::Done],
        };
        states.iter().any(|state| of_part.contains(state))
    }
}

/// Where in a lane a list of jobs continues. Its text is digits, colons and the name of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPosition {
    part: ListPart,
    /// Where in the part; empty = at its begin.
    at: String,
}

impl ListPosition {
    /// The begin of a list of these jobs; `None` if no state is selected.
    fn first(selection: &JobSelection) -> Option<Self> {
        Self::behind(None, selection)
    }

    /// The begin of the next part that may have jobs of the selection.
    fn behind(part: Option<ListPart>, selection: &JobSelection) -> Option<Self> {
        let mut parts = ListPart::ALL.into_iter();
        let next = parts
            .find(|next| part.is_none_or(|part| *next > part) && next.has_any(&selection.states));
        next.map(|part| Self {
            part,
            at: String::new(),
        })
    }
}

impl fmt::Display for ListPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.part.as_str(), self.at)
    }
}

impl FromStr for ListPosition {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        const BYTES_MAX: usize = 100;
        let (part, at) = text.split_once(':').ok_or(InvalidPosition)?;
        let part = ListPart::ALL.into_iter().find(|it| it.as_str() == part);
        let is_number =
            |number: &str| number.len() <= 20 && number.bytes().all(|byte| byte.is_ascii_digit());
        if at.len() > BYTES_MAX || !at.split(':').all(is_number) {
            return Err(InvalidPosition);
        }
        Ok(Self {
            part: part.ok_or(InvalidPosition)?,
            at: at.to_owned(),
        })
    }
}

/// A text is not the position of a list of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the position of a list of jobs")]
pub struct InvalidPosition;

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedJob {
    /// The job. Its attributes and body are empty if they were not requested, or are damaged, and if it is done.
    pub job: Job,
    /// Whether its payload is damaged.
    pub is_damaged: bool,
    /// Its last failure, if it is known and was requested.
    pub last_failure: Option<LoggedFailure>,
    /// Where its hint is in the list of ready or dead jobs, counted from the head; `None` in other states.
    pub index: Option<u64>,
}

/// What one call of [`Store::list_jobs`] has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedJobs {
    /// The jobs, perhaps none. Ready and dead ones are in the order of their lists, others in no order.
    pub jobs: Vec<ListedJob>,
    /// Where the list continues; `None` at its end.
    pub next: Option<ListPosition>,
    /// The time on the clock of Redis, in ms since 1970.
    pub now_ms: u64,
}

impl Store {
    /// Reads up to `hints` hints of a lane, at most [`LIST_HINTS_MAX`], from a position on (`None` = from the begin), and
    /// returns those of their jobs that are selected. A job whose state and due time stay as they are during the whole list
    /// is in it, perhaps twice.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn list_jobs(
        &self,
        lane: impl Into<Lane<'_>>,
        selection: &JobSelection,
        position: Option<&ListPosition>,
        hints: usize,
    ) -> Result<ListedJobs, StoreError> {
        let lane = lane.into();
        let Some(position) = position.cloned().or_else(|| ListPosition::first(selection)) else {
            return Err(StoreError::corrupt("a list without a state"));
        };
        let bucket = self.bucket_of(lane);
        let states = selection.states.iter().map(|state| *state as u8);
        let states: String = states.map(|number| number.to_string()).collect();
        let carry = carried_bytes(LIST_HINTS_MAX).to_string();
        let call = self
            .call_on_queue(&LIST_JOBS, lane.queue, bucket)
            .arg(position.part.as_str())
            .arg(&position.at)
            .arg(hints.clamp(1, LIST_HINTS_MAX))
            .arg(states)
            .arg(selection.from_ms)
            .arg(selection.before_ms)
            .arg(if selection.with_payload { &carry } else { "" });
        let mut reply = call.send().await?.ok()?;
        let at = String::from_utf8_lossy(&reply.bytes()?).into_owned();
        let now_ms = reply.count()?;
        let mut found = Vec::new();
        while reply.has_more() {
            let (number, record) = (reply.count()?, reply.bytes()?);
            let last_failure = LoggedFailure::decode(&reply.bytes()?);
            let index = reply.optional()?;
            let record = StoredRecord::read(bucket, number, record)?;
            // Without a readable extension nothing is known of the job.
            if let Some(job) = record.without_payload() {
                let listed = ListedJob {
                    job,
                    is_damaged: false,
                    last_failure,
                    index,
                };
                found.push((record, listed));
            }
        }
        let next = match at.is_empty() {
            true => ListPosition::behind(Some(position.part), selection),
            false => Some(ListPosition { at, ..position }),
        };
        let jobs = match selection.with_payload {
            true => self.with_payloads(lane.queue, found, selection).await?,
            false => found.into_iter().map(|(_, listed)| listed).collect(),
        };
        Ok(ListedJobs { jobs, next, now_ms })
    }

    /// Adds attributes and bodies. Those that are stored outside of their records are fetched.
    async fn with_payloads(
        &self,
        queue: &QueueKey,
        found: Vec<(StoredRecord, ListedJob)>,
        selection: &JobSelection,
    ) -> Result<Vec<ListedJob>, StoreError> {
        // The result of a job that is done is not part of a list.
        let (done, others): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|(_, listed)| listed.job.state == JobState::Done);
        let (records, others): (Vec<_>, Vec<_>) = others.into_iter().unzip();
        let decoded = self.fetch_bodies(queue, records).await?;
        let others = others.into_iter().zip(decoded);
        let others = others.filter_map(|(mut listed, decoded)| {
            match decoded {
                Ok(whole) => listed.job = whole,
                Err(JobReadError::Corrupt(_)) => listed.is_damaged = true,
                Err(JobReadError::Gone) => return None,
            }
            // Another version of the job may have been read with its body.
            selection
                .states
                .contains(&listed.job.state)
                .then_some(listed)
        });
        Ok(others
            .chain(done.into_iter().map(|(_, listed)| listed))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_are_written() {
        for text in [
            "far:",
            "far:1099511627776:17:1000001:1764",
            "near:1764:1000002",
            "done:0:0:99",
        ] {
            let position: ListPosition = text.parse().unwrap();
            assert_eq!(position.to_string(), text);
        }
        let long = format!("dead:{}", "1:".repeat(60));
        for text in [
            "",
            "far",
            "all:",
            "ready:1;2",
            "ready:a",
            "ready:-1",
            "ready:1e5",
            "dead:111111111111111111111",
            &long,
        ] {
            assert_eq!(text.parse::<ListPosition>(), Err(InvalidPosition), "{text}");
        }
    }

    #[test]
    fn a_list_reads_only_parts_with_the_selected_states() {
        let parts = |states: &[JobState]| {
            let selection = JobSelection {
                states: states.to_vec(),
                from_ms: 0,
                before_ms: u64::MAX,
                with_payload: false,
            };
            let mut parts = Vec::new();
            let mut position = ListPosition::first(&selection);
            while let Some(at) = position {
                parts.push(at.part.as_str());
                position = ListPosition::behind(Some(at.part), &selection);
            }
            parts
        };
        assert_eq!(
            parts(&JobState::ALL),
            ["far", "near", "ready", "dead", "done"]
        );
        assert_eq!(parts(&[JobState::Leased]), ["far", "near"]);
        assert_eq!(parts(&[JobState::Dead]), ["dead"]);
        assert!(parts(&[]).is_empty());
    }
}
