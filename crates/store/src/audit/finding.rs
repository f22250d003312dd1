//! The kinds of findings.

use tidegate_core::keys::ReadyLine;
use tidegate_core::{FarSlot, JobId, JobState, SegmentName};

/// An inconsistency of the stored data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFinding {
    /// The bucket; `None` for a key outside of all buckets.
    pub bucket: Option<u16>,
    /// The kind of the inconsistency.
    pub defect: Inconsistency,
    pub repaired: bool,
}

/// A kind of inconsistency, with its details.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Inconsistency {
    /// The key is not one of Tidegate's.
    #[error("{key}: not a key of Tidegate")]
    UnknownKey {
        /// The whole key.
        key: String,
    },
    /// A key has the wrong type.
    #[error("{key}: has the wrong type {found}")]
    WrongType {
        /// The whole key.
        key: String,
        /// Its type, as `TYPE` returns it.
        found: String,
    },
    /// A key has a time to live and must not, or has none or too long a one.
    #[error("{key}: has a wrong time to live")]
    TimeToLive {
        /// The whole key.
        key: String,
    },
    /// A field or member is not what the key has: a job number, the hash of a key, or the name of a schedule.
    #[error("{key}: its field {field:?} is not one of Tidegate")]
    UnknownField {
        /// The whole key.
        key: String,
        /// The field; bytes that are not UTF-8 are replaced.
        field: String,
    },
    /// The record or the body of a job cannot be decoded.
    #[error("job number {job} cannot be read: {how}")]
    Corrupt {
        /// The job's number.
        job: u64,
        /// The damage.
        how: String,
    },
    /// A job belongs to a queue that does not exist.
    #[error("job {id} belongs to queue {queue}, which does not exist")]
    NoQueue {
        id: JobId,
        /// The queue's number.
        queue: u32,
    },
    /// A delayed or leased job has no timer at or before its due time.
    #[error("job {id} is {} and has no timer at or before its due time", .state.as_str())]
    NoTimer { id: JobId, state: JobState },
    /// A ready or dead job is not in its list.
    #[error("job {id} is {} and not in its list", .state.as_str())]
    NotListed { id: JobId, state: JobState },
    /// The sweep would not delete an expired job in time.
    #[error("job {id} expires without being swept in time")]
    NotSwept { id: JobId },
    /// A job's body is missing.
    #[error("job {id} has lost its body")]
    NoBody { id: JobId },
    /// Jobs refer to a segment of the cold tier that does not exist, or is too short.
    #[error("segment {segment} of the cold tier is missing, or was cut: {jobs} jobs refer to it")]
    NoSegment {
        segment: SegmentName,
        /// How many jobs.
        jobs: u64,
    },
    /// No record refers to a body.
    #[error("body {job} belongs to no job")]
    OrphanedBody {
        /// The job number in its key.
        job: u64,
    },
    /// No record refers to the waiting version or the history of a job.
    #[error("{key}: belongs to no job")]
    OrphanedJobKey {
        /// The whole key.
        key: String,
    },
    /// A job is not found by its key.
    #[error("job {id} is not in the index of keys")]
    NotIndexed { id: JobId },
    /// The index of keys names a job that does not have the key.
    #[error("the index of keys has an entry without a job: {hash}")]
    StaleKey {
        /// The hash of the key, hexadecimal.
        hash: String,
    },
    /// The near timers of a queue would be served too late, or never.
    #[error("queue {queue} has timers that are not served in time")]
    QueueNotDue {
        /// The queue's number.
        queue: u32,
    },
    /// A far slot would be loaded too late or never, or the index names a slot that does not exist.
    #[error("slot {slot} is not loaded in time, or does not exist")]
    BadSlot { slot: FarSlot },
    /// The jobs of a priority of a queue are not taken in turn, or have a turn although there are none.
    #[error("line {line} has no turn, or does not exist")]
    BadTurn { line: ReadyLine },
    /// The hash of a queue has no name, or another one than the entry in `queues`.
    #[error("queue {queue} has lost its name {name:?}")]
    MissingQueueName {
        /// The queue's name.
        name: String,
        /// The queue's number.
        queue: u32,
    },
    /// A queue has no entry in `queues`.
    #[error("queue {queue} has no entry in queues")]
    OrphanedQueue {
        /// The queue's number.
        queue: u32,
    },
    /// The number of a queue is above the last assigned number.
    #[error("queue {queue} is above the last assigned queue number")]
    QueueAhead {
        /// The queue's number.
        queue: u32,
    },
    /// The number of a job is above the last assigned number.
    #[error("job number {job} is above the last assigned job number")]
    JobAhead {
        /// The job's number.
        job: u64,
    },
    /// The counts of a queue differ from its records.
    #[error("queue {queue} has wrong counts:{}", wrong(.missing))]
    WrongCounts {
        /// The queue's number.
        queue: u32,
        /// The numbers to add to its counts: delayed, ready, leased, dead, done.
        missing: [i64; 5],
    },
    /// The numbers of leased jobs of groups of a queue differ from its records.
    #[error("queue {queue} has wrong counts of leased jobs for {groups} of its groups")]
    WrongGroupCounts {
        /// The queue's number.
        queue: u32,
        /// How many groups have a wrong count.
        groups: usize,
    },
    /// The number of names that a hash counts for the limit of a namespace differs from the names that it has.
    #[error("{key}: has {names} names of namespace {namespace:?}, and counts {counted:?}")]
    WrongNamespaceCount {
        /// The whole key of the hash.
        key: String,
        namespace: String,
        /// The count as it is stored; empty if there is none.
        counted: String,
        /// How many names the namespace has.
        names: usize,
    },
    /// A lane holds jobs, but is closed or not in use, so that consumers do not read it.
    #[error("lane {lane} of {name:?} holds jobs and is not in use")]
    LaneNotServed {
        /// The queue's name.
        name: String,
        lane: u16,
    },
    /// No number of lanes of the queue gives the lane of a job to its key, so that another job may get the key.
    #[error("job {id} has a key that does not belong to lane {lane}")]
    KeyInWrongLane { id: JobId, lane: u16 },
    /// No pump would look at a schedule in time: its next jobs would be published too late, or never.
    #[error("schedule {schedule} has ticks that are not served in time")]
    ScheduleNotDue {
        /// Its namespace and name.
        schedule: String,
    },
    /// A bucket knows a schedule that has no definition, and no pump will find that out soon.
    #[error("schedule {schedule} has no definition")]
    OrphanedSchedule {
        /// Its namespace and name.
        schedule: String,
    },
    /// The lock of the bucket is held by a pump that is not on the roster.
    #[error("the lock is held by {holder:?}, which is not on the roster")]
    OrphanedLock {
        /// The token of that pump.
        holder: String,
    },
}

impl Inconsistency {
    /// The name of the finding in JSON, in text, and in `docs/audit.md`.
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

/// The counts that are wrong, and by how many jobs.
fn wrong(missing: &[i64; 5]) -> String {
    let wrong = JobState::ALL.into_iter().zip(missing);
    let wrong = wrong.filter(|(_, jobs)| **jobs != 0);
    wrong
        .map(|(state, jobs)| format!(" {} by {}", state.as_str(), -jobs))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_states_and_wrong_counts() {
        let (id, state) = (JobId::new(1, 2, 3, 4), JobState::Ready);
        let text = Inconsistency::NotListed { id, state }.to_string();
        assert_eq!(text, format!("job {id} is ready and not in its list"));
        let (queue, missing) = (7, [0, -2, 3, 0, 0]);
        let text = Inconsistency::WrongCounts { queue, missing }.to_string();
        assert_eq!(text, "queue 7 has wrong counts: ready by 2 leased by -3");
    }
}
