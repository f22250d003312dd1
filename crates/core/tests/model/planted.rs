//! Defects of scripts or pods. The checker must find each of them, or its success proves nothing.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PlantedDefect {
    /// move_due moves the job of a timer without checking its record.
    MoveTrustsHint,
    /// move_due drops the timer of a job that is not due yet.
    MoveDropsEarlyHint,
    /// reserve delivers the job of a hint without checking its record.
    ReserveTrustsHint,
    /// reserve delivers expired jobs.
    ReserveIgnoresExpiry,
    /// load_slot sets timers back: it overwrites an earlier one with a later one.
    LoadSetsBackTimers,
    /// Deleting a job deletes its hints and its count, but not its record.
    DeleteLeavesRecord,
    /// sweep forgets a chunk in which a job expires later.
    SweepForgetsChunk,
    /// publish writes the record of a delayed job without setting a timer.
    PublishSetsNoTimer,
    /// ack by attempt accepts any attempt.
    AckIgnoresAttempt,
    /// A list is deleted when its count falls to 0, even if the count is wrong.
    CountDeletesList,
    /// A pod repeats a release whose reply was lost.
    PodRepeatsRelease,
}
