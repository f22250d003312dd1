//! Which jobs of a queue a list has, or an action changes.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use sha2::{Digest, Sha256};
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
    /// Their last error, exactly.
    pub error_digest: Option<ErrorDigest>,
}

/// Identifies a last error: its text, or that no error is known. Half of a SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorDigest(u128);

impl ErrorDigest {
    /// The digest of the last error of a job.
    #[must_use]
    pub fn of(error: Option<&str>) -> Self {
        let digest = Sha256::new()
            .chain_update([u8::from(error.is_some())])
            .chain_update(error.unwrap_or_default())
            .finalize();
        let first = digest[..size_of::<u128>()].iter();
        Self(first.fold(0, |digest, byte| digest << 8 | u128::from(*byte)))
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for ErrorDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

impl FromStr for ErrorDigest {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        u128::from_str_radix(text, 16).map(Self)
    }
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
            with_failures: self.error_contains.is_some() || self.error_digest.is_some(),
        }
    }

    /// Whether a job that the store has selected is one of these.
    pub(super) fn matches(&self, listed: &ListedJob) -> bool {
        let key = self.key_prefix.as_ref();
        let error = self.error_contains.as_ref();
        let last = listed.last_failure.as_ref();
        let last = last.map(|failure| &*failure.error);
        key.is_none_or(|prefix| {
            listed
                .job
                .attribute(KEY_ATTRIBUTE)
                .is_some_and(|key| key.starts_with(prefix))
        }) && self
            .attribute
            .as_ref()
            .is_none_or(|(name, value)| listed.job.attribute(name) == Some(value))
            && error.is_none_or(|text| last.is_some_and(|last| last.contains(text)))
            && self
                .error_digest
                .is_none_or(|digest| digest == ErrorDigest::of(last))
    }
}
