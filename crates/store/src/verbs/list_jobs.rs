use tidegate_core::codec::decode_header_only;
use tidegate_core::{Job, JobState, Lane, QueueKey};

use super::list_position::{ListPart, ListPosition};
use crate::bodies::{JobReadError, StoredRecord, carried_bytes};
use crate::error::StoreError;
use crate::history::LoggedFailure;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;

static LIST_JOBS: LazyScript = script!("list_jobs");

/// How many bytes of a payload outside of its record are returned with it: together they stay a small transfer.
/// Attributes of most jobs have fewer.
fn listed_bytes() -> usize {
    carried_bytes(LIST_HINTS_MAX)
}

/// Maximum number of hints that one call of [`Store::list_jobs`] reads: it blocks Redis for less than 1 ms.
pub const LIST_HINTS_MAX: usize = 100;

/// Which jobs a list has, as far as scripts can decide it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSelection {
    pub states: Vec<JobState>,
    /// Not before this time is a delayed or ready job due, does the lease of a leased job end, or did a dead one die;
    /// in ms since 1970.
    pub from_ms: u64,
    /// The same before this time.
    pub before_ms: u64,
    /// Whether attributes and the lengths of bodies are read, too. Without them a list costs less.
    pub with_attributes: bool,
    /// Whether the last failure of each job is read, too.
    pub with_failures: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedJob {
    /// The job without its body. It has no attributes if they were not requested, or are damaged, and if it is done.
    pub job: Job,
    /// The number of bytes of its body; 0 where it has no attributes for these reasons.
    pub body_bytes: u64,
    /// Whether its payload or its extension is damaged. Then it has neither. Of a large payload only the beginning is
    /// read: damage behind it is not noticed.
    pub is_damaged: bool,
    /// Its last failure, if it is known and was requested.
    pub last_failure: Option<LoggedFailure>,
    /// Where its hint is in the list of ready or dead jobs, counted from the head; `None` in other states.
    pub index: Option<u64>,
}

/// The jobs that one call of [`Store::list_jobs`] has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedJobs {
    /// The jobs, perhaps none. Ready and dead ones are in the order of their lists, others in no order.
    pub jobs: Vec<ListedJob>,
    /// Where the list continues; `None` at its end.
    pub next: Option<ListPosition>,
    /// The time on the clock of Redis, in ms since 1970.
    pub now_ms: u64,
}

/// Reads the jobs of a reply, with their records. A job whose extension is damaged is marked, and has no record to read
/// further; without a readable header nothing is known of a job, and it is left out.
fn read_jobs(
    bucket: u16,
    reply: &mut Reply,
) -> Result<Vec<(Option<StoredRecord>, ListedJob)>, StoreError> {
    let mut found = Vec::new();
    while reply.has_more() {
        let (number, record) = (reply.count()?, reply.bytes()?);
        let last_failure = LoggedFailure::decode(&reply.bytes()?);
        let index = reply.optional()?;
        let Ok(header_only) = decode_header_only(bucket, number, &record) else {
            continue;
        };
        let record = StoredRecord::read(bucket, number, record).ok();
        let whole = record.as_ref().and_then(StoredRecord::without_payload);
        let listed = ListedJob {
            is_damaged: whole.is_none(),
            job: whole.unwrap_or(header_only),
            body_bytes: 0,
            last_failure,
            index,
        };
        found.push((record.filter(|_| !listed.is_damaged), listed));
    }
    Ok(found)
}

impl Store {
    /// Reads up to `hints` hints of a lane, at most [`LIST_HINTS_MAX`], from a position on (`None` = from the begin),
    /// and returns the selected jobs of them. A job whose state and due time stay as they are during the whole list is
    /// in it, perhaps twice.
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
        let position = position
            .cloned()
            .or_else(|| ListPosition::first(&selection.states));
        let Some(position) = position else {
            return Err(StoreError::corrupt("a list without a state"));
        };
        let bucket = self.bucket_of(lane);
        let hints = hints.clamp(1, LIST_HINTS_MAX);
        let call = match position.part {
            ListPart::Done => self.list_done(lane, selection, &position.place(), hints),
            _ => self.list_part(lane, selection, &position, hints),
        };
        let mut reply = call.send().await?.ok()?;
        let place = reply.bytes()?;
        let now_ms = reply.count()?;
        let found = read_jobs(bucket, &mut reply)?;
        let next = match place.is_empty() {
            true => ListPosition::behind(Some(position.part), &selection.states),
            false => {
                let place = String::from_utf8_lossy(&place);
                let next = ListPosition::in_part(position.part, &place);
                Some(next.map_err(|error| StoreError::corrupt(error.to_string()))?)
            }
        };
        let jobs = match selection.with_attributes {
            true => self.with_attributes(lane.queue, found, selection).await?,
            false => found.into_iter().map(|(_, listed)| listed).collect(),
        };
        Ok(ListedJobs { jobs, next, now_ms })
    }

    fn list_part(
        &self,
        lane: Lane<'_>,
        selection: &JobSelection,
        position: &ListPosition,
        hints: usize,
    ) -> Call<'_> {
        let states = selection.states.iter().map(|state| *state as u8);
        let states: String = states.map(|number| number.to_string()).collect();
        let carry = listed_bytes().to_string();
        self.call_on_queue(&LIST_JOBS, lane.queue, self.bucket_of(lane))
            .arg(position.part.to_string())
            .arg(position.place())
            .arg(hints)
            .arg(states)
            .arg(selection.from_ms)
            .arg(selection.before_ms)
            .arg(if selection.with_attributes {
                &carry
            } else {
                ""
            })
            .arg(u8::from(selection.with_failures))
    }

    /// Adds attributes and the lengths of bodies.
    async fn with_attributes(
        &self,
        queue: &QueueKey,
        found: Vec<(Option<StoredRecord>, ListedJob)>,
        selection: &JobSelection,
    ) -> Result<Vec<ListedJob>, StoreError> {
        let mut records = Vec::new();
        let listed: Vec<(bool, ListedJob)> = found
            .into_iter()
            .map(|(record, listed)| {
                // The result of a job that is done is not part of a list.
                let record = record.filter(|_| listed.job.state != JobState::Done);
                let is_read = record.is_some();
                records.extend(record);
                (is_read, listed)
            })
            .collect();
        let decoded = self.beginnings(queue, records, listed_bytes()).await?;
        // A job without its attributes might not match a filter.
        let mut errors = decoded.iter().filter_map(|read| read.as_ref().err());
        let unavailable = errors.find_map(|error| match error {
            JobReadError::Unavailable(why) => Some(why.clone()),
            _ => None,
        });
        if let Some(why) = unavailable {
            return Err(StoreError::ColdUnavailable(why));
        }
        let mut decoded = decoded.into_iter();
        let listed = listed.into_iter().filter_map(|(is_read, mut listed)| {
            match is_read.then(|| decoded.next()).flatten() {
                None => {}
                Some(Ok((job, body_bytes))) => {
                    listed.job = job;
                    listed.body_bytes = body_bytes;
                }
                Some(Err(JobReadError::Corrupt(_))) => listed.is_damaged = true,
                Some(Err(JobReadError::Gone | JobReadError::Unavailable(_))) => return None,
            }
            // Another version of the job may have been read with its body.
            selection
                .states
                .contains(&listed.job.state)
                .then_some(listed)
        });
        Ok(listed.collect())
    }
}
