//! The states of a job and their numbers in a record.

/// Where a job is in its life. See [`crate::lifecycle`] for the moves between states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// Waits for its due time.
    Delayed = 1,
    /// Consumable now.
    Ready = 2,
    /// In the hands of a consumer until its lease ends.
    Leased = 3,
    /// Its tries are used up; it stays until respawned or purged.
    Dead = 4,
}

impl State {
    /// Every state, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Delayed, Self::Ready, Self::Leased, Self::Dead];

    /// The state with this number in a record, if there is one.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Delayed),
            2 => Some(Self::Ready),
            3 => Some(Self::Leased),
            4 => Some(Self::Dead),
            _ => None,
        }
    }

    /// The word for this state in counts, metrics and answers.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Dead => "dead",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_states_are_one_to_one() {
        for number in 0..=u8::MAX {
            if let Some(state) = State::from_number(number) {
                assert_eq!(state as u8, number);
            }
        }
        assert!(
            State::ALL
                .iter()
                .all(|s| State::from_number(*s as u8) == Some(*s))
        );
    }
}
