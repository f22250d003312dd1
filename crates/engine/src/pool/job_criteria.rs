//! Which jobs of a queue a list has, or an action changes.

use tidegate_core::{JobState, KEY_ATTRIBUTE};
use tidegate_store::{JobSelection, ListedJob};

/// What all jobs of a list have in common. Scripts check states and times, this process the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobCriteria {
    /// Their states.
    pub states: Vec<JobState>,
    /// Not before this time, in ms since 1970, is a delayed or ready job due, does a lease end, or did a job die.
    pub from_ms: u64,
    /// The same before this time.
    pub before_ms: u64,
    /// How their keys begin. Jobs that are done have no attributes, so no list with a key or attribute has them.
    pub key_prefix: Option<String>,
    /// Name and value of an attribute that they have.
    pub attribute: Option<(String, String)>,
    /// A part of their last error.
    pub error_contains: Option<String>,
}

impl JobCriteria {
    /// The state that jobs must have, if it is one.
    pub(super) fn only_state(&self) -> Option<JobState> {
        match self.states[..] {
            [state] => Some(state),
            _ => None,
        }
    }

    /// What the store has to read for the filter itself.
    pub(super) fn selection(&self) -> JobSelection {
        JobSelection {
            states: self.states.clone(),
            from_ms: self.from_ms,
            before_ms: self.before_ms,
            with_attributes: self.key_prefix.is_some() || self.attribute.is_some(),
            with_failures: self.error_contains.is_some(),
        }
    }

    /// Whether a job that the store has selected is one of these.
    pub(super) fn matches(&self, listed: &ListedJob) -> bool {
        let key = self.key_prefix.as_ref();
        let error = self.error_contains.as_ref();
        key.is_none_or(|prefix| {
            listed
                .job
                .attribute(KEY_ATTRIBUTE)
                .is_some_and(|key| key.starts_with(prefix))
        }) && self
            .attribute
            .as_ref()
            .is_none_or(|(name, value)| listed.job.attribute(name) == Some(value))
            && error.is_none_or(|text| {
                let last = listed.last_failure.as_ref();
                last.is_some_and(|failure| failure.error.contains(text))
            })
    }
}
