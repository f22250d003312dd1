//! What can be amiss.

use std::fmt;

use tidegate_core::State;

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The bucket; none if it is outside of all.
    pub bucket: Option<u16>,
    /// What is amiss.
    pub defect: Defect,
    /// Whether it has been mended.
    pub mended: bool,
}

/// A way of not being as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Defect {
    /// Nothing of Tidegate's has this name.
    UnknownKey {
        /// The whole key.
        key: String,
    },
    /// A key holds something of another type than it should.
    WrongType {
        /// The whole key.
        key: String,
        /// What it holds, by Redis's word.
        found: String,
    },
    /// A key would live for too short a time, or for too long.
    TimeToLive {
        /// The whole key.
        key: String,
    },
    /// A chunk has a field that is no job's.
    UnknownField {
        /// The whole key.
        key: String,
        /// The field, as far as it is text.
        field: String,
    },
    /// What is stored of a job cannot be read.
    Corrupt {
        /// The job's number.
        job: u64,
        /// What is wrong with it.
        how: String,
    },
    /// A job belongs to a queue that does not exist.
    NoQueue {
        /// The job's number.
        job: u64,
        /// The queue's number.
        queue: u32,
    },
    /// No timer of a delayed or leased job will come up in time.
    NoTimer {
        /// The job's number.
        job: u64,
        /// Its state.
        state: State,
    },
    /// A ready or dead job is not in its list.
    NotListed {
        /// The job's number.
        job: u64,
        /// Its state.
        state: State,
    },
    /// The sweep does not know in time that a job expires.
    NotSwept {
        /// The job's number.
        job: u64,
    },
    /// A job's body is missing.
    NoBody {
        /// The job's number.
        job: u64,
    },
    /// A body belongs to no job.
    BodyAlone {
        /// The number of the job that it would belong to.
        job: u64,
    },
    /// The near timers of a queue are not looked at in time.
    QueueNotDue {
        /// The queue's number.
        queue: u32,
    },
    /// A far slot is not loaded in time, or the slots name one that is not there.
    BadSlot {
        /// The slot.
        slot: u64,
    },
    /// A queue does not know its name.
    NameLost {
        /// The queue's name.
        name: String,
        /// The queue's number.
        queue: u32,
    },
    /// No name leads to a queue.
    QueueAlone {
        /// The queue's number.
        queue: u32,
    },
    /// The number of a queue is above the last number given.
    QueueAhead {
        /// The queue's number.
        queue: u32,
    },
    /// The number of a job is above the last number given.
    JobAhead {
        /// The job's number.
        job: u64,
    },
    /// A queue counts other jobs than there are.
    WrongCounts {
        /// The queue's number.
        queue: u32,
        /// What is missing in its counts: delayed, ready, leased, dead.
        missing: [i64; 4],
    },
    /// Consumers do not look into a lane that holds jobs.
    LaneNotServed {
        /// The queue's name.
        name: String,
        /// The lane.
        lane: u16,
    },
    /// The bucket is locked by a pump that is not on the roster.
    LockOfNobody {
        /// The token of that pump.
        holder: String,
    },
}

impl Defect {
    /// One word for it, for machines.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::UnknownKey { .. } => "unknown_key",
            Self::WrongType { .. } => "wrong_type",
            Self::TimeToLive { .. } => "time_to_live",
            Self::UnknownField { .. } => "unknown_field",
            Self::Corrupt { .. } => "corrupt",
            Self::NoQueue { .. } => "no_queue",
            Self::NoTimer { .. } => "no_timer",
            Self::NotListed { .. } => "not_listed",
            Self::NotSwept { .. } => "not_swept",
            Self::NoBody { .. } => "no_body",
            Self::BodyAlone { .. } => "body_alone",
            Self::QueueNotDue { .. } => "queue_not_due",
            Self::BadSlot { .. } => "bad_slot",
            Self::NameLost { .. } => "name_lost",
            Self::QueueAlone { .. } => "queue_alone",
            Self::QueueAhead { .. } => "queue_ahead",
            Self::JobAhead { .. } => "job_ahead",
            Self::WrongCounts { .. } => "wrong_counts",
            Self::LaneNotServed { .. } => "lane_not_served",
            Self::LockOfNobody { .. } => "lock_of_nobody",
        }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { key } => write!(out, "{key}: nothing here has such a name"),
            Self::WrongType { key, found } => write!(out, "{key}: is a {found}"),
            Self::TimeToLive { key } => write!(out, "{key}: has a wrong time to live"),
            Self::UnknownField { key, field } => {
                write!(out, "{key}: its field {field:?} is no job")
            }
            Self::Corrupt { job, how } => write!(out, "job {job} cannot be read: {how}"),
            Self::NoQueue { job, queue } => {
                write!(
                    out,
                    "job {job} belongs to queue {queue}, which does not exist"
                )
            }
            Self::NoTimer { job, state } => {
                write!(
                    out,
                    "job {job} is {} and has no timer in time",
                    state.word()
                )
            }
            Self::NotListed { job, state } => {
                write!(out, "job {job} is {} and in no list", state.word())
            }
            Self::NotSwept { job } => write!(out, "job {job} expires before the sweep looks"),
            Self::NoBody { job } => write!(out, "job {job} has lost its body"),
            Self::BodyAlone { job } => write!(out, "body {job} belongs to no job"),
            Self::QueueNotDue { queue } => {
                write!(
                    out,
                    "queue {queue} has timers that are not looked at in time"
                )
            }
            Self::BadSlot { slot } => {
                write!(out, "slot {slot} is not loaded in time, or not there")
            }
            Self::NameLost { name, queue } => {
                write!(out, "queue {queue} does not know its name, {name:?}")
            }
            Self::QueueAlone { queue } => write!(out, "no name leads to queue {queue}"),
            Self::QueueAhead { queue } => {
                write!(out, "queue {queue} is above the last queue number")
            }
            Self::JobAhead { job } => write!(out, "job {job} is above the last job number"),
            Self::WrongCounts { queue, missing } => {
                write!(out, "queue {queue} counts wrongly:")?;
                let wrong = State::ALL.into_iter().zip(missing);
                for (state, jobs) in wrong.filter(|(_, jobs)| **jobs != 0) {
                    write!(out, " {} by {}", state.word(), -jobs)?;
                }
                Ok(())
            }
            Self::LaneNotServed { name, lane } => {
                write!(out, "lane {lane} of {name:?} holds jobs and is not in use")
            }
            Self::LockOfNobody { holder } => {
                write!(
                    out,
                    "the lock is that of {holder:?}, which is not on the roster"
                )
            }
        }
    }
}
