//! The states of a job and their numbers in a record.

/// The state of a job. See [`crate::lifecycle`] for the transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum JobState {
    /// Not due yet.
    Delayed = 1,
    /// Can be consumed now.
    Ready = 2,
    /// Held by a consumer until it acknowledges the job or the lease expires.
    Leased = 3,
    /// In the dead-letter queue: no tries left. It stays until it is respawned, cancelled or purged.
    Dead = 4,
    /// Finished, and kept for a while with its key: a job of the native API that is to be retained.
    Done = 5,
}

impl JobState {
    /// Every state, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Delayed,
        Self::Ready,
        Self::Leased,
        Self::Dead,
        Self::Done,
    ];

    /// The state with this number in a record, if there is one.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as u8 == number)
    }

    /// The name of this state in counts, metrics and replies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Dead => "dead",
            Self::Done => "done",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_states_are_one_to_one() {
        for number in 0..=u8::MAX {
            if let Some(state) = JobState::from_number(number) {
                assert_eq!(state as u8, number);
            }
        }
        assert!(
            JobState::ALL
                .iter()
                .all(|s| JobState::from_number(*s as u8) == Some(*s))
        );
    }
}
