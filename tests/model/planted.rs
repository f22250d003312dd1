//! Defects of scripts or pods. The checker must find each of them, or its success proves nothing.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PlantedDefect {
    /// load_slot and move_due take the time of a hint for the time of the job. One of them alone would be corrected by
    /// the other.
    HintsAreTrusted,
    /// reserve delivers the job of a hint without checking its record.
    ReserveTrustsHint,
    /// reserve delivers expired jobs.
    ReserveIgnoresExpiry,
    /// load_slot sets a timer to the due time for which its hint was added, later than the due time in the record.
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
    /// release gives back the number of the attempt too, so that a repeated call takes the next delivery back.
    ReleaseReusesAttempt,
}
