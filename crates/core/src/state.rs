//! The states of a job, their names and their numbers in a record.

use serde::{Deserialize, Serialize};

// [`crate::lifecycle`] has the transitions.
/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum JobState {
    /// Not due yet.
    Delayed = 1,
    /// Due, and waiting for a worker.
    Ready = 2,
    /// Held by a worker.
    Leased = 3,
    /// In the dead letter.
    Dead = 4,
    /// Finished, and retained with its key.
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
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as u8 == number)
    }

    /// The name of this state, as in JSON.
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
