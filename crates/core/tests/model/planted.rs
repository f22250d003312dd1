//! Mistakes that a script or a pod could have. A checker that does not find them proves nothing.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Planted {
    /// move_due moves what a timer names, whatever its record says.
    MoveTrustsHint,
    /// move_due drops the timer of a job that is not due yet.
    MoveDropsEarlyHint,
    /// reserve hands out what the list names, record or no record.
    ReserveTrustsHint,
    /// reserve hands out jobs whose time to live is over.
    ReserveIgnoresExpiry,
    /// load_slot sets timers without LT.
    LoadSetsBackTimers,
    /// Deleting a job takes its hints and its count, and leaves its record.
    DeleteLeavesRecord,
    /// The sweep forgets a chunk in which a job expires later.
    SweepForgetsChunk,
    /// publish writes the record of a delayed job and sets no timer.
    PublishSetsNoTimer,
    /// ack by attempt takes any attempt for the current one.
    AckIgnoresAttempt,
    /// A list is deleted when its count falls to 0, right or wrong.
    CountDeletesList,
    /// A pod repeats a release that it heard no answer to.
    PodRepeatsRelease,
}
