use tidegate_core::JobState;

/// The outcome of a verb for jobs that wait to be delivered: `change` and `promote`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum WaitingOutcome<T> {
    /// The job waits, and this is how it is now.
    Done(T),
    /// There is no such job in this queue.
    AlreadyGone,
    /// The job does not wait, or not in the state that was asked for: it is in this state, and unchanged.
    NotWaiting(JobState),
}
