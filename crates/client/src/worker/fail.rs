//! The failure that a handler returns instead of a reply.

use std::fmt;
use std::time::Duration;

use crate::error::BoxError;

/// Why a job is not done, and its fate. Any error becomes [`Fail::retry`] with the operator `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fail {
    pub(super) error: String,
    pub(super) action: FailAction,
}

/// The fate of a job that is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailAction {
    Retry,
    RetryIn(Duration),
    Dead,
    Snooze(Duration),
}

impl Fail {
    fn new(error: impl fmt::Display, action: FailAction) -> Self {
        Self {
            // Errors of some libraries show their causes in this form only.
            error: format!("{error:#}"),
            action,
        }
    }

    /// The attempt failed. The next attempt is after the delay of the retry policy; after the last attempt the job is
    /// dead.
    #[must_use]
    pub fn retry(error: impl fmt::Display) -> Self {
        Self::new(error, FailAction::Retry)
    }

    /// The attempt failed. The next attempt is after this delay, unless this was the last one.
    #[must_use]
    pub fn retry_in(error: impl fmt::Display, delay: Duration) -> Self {
        Self::new(error, FailAction::RetryIn(delay))
    }

    /// No attempt can succeed: the job goes to the dead letter.
    #[must_use]
    pub fn dead(error: impl fmt::Display) -> Self {
        Self::new(error, FailAction::Dead)
    }

    /// Not now: the job is due again after this delay. This counts as no failure.
    #[must_use]
    pub fn snooze(delay: Duration) -> Self {
        Self::new("", FailAction::Snooze(delay))
    }

    /// The error.
    #[must_use]
    pub fn error(&self) -> &str {
        &self.error
    }

    /// The failure that went through the layers of the worker as an error.
    pub(super) fn of(error: BoxError) -> Self {
        match error.downcast::<FailError>() {
            Ok(fail) => fail.0,
            Err(error) => Self::retry(error),
        }
    }
}

impl<E: Into<BoxError>> From<E> for Fail {
    fn from(error: E) -> Self {
        Self::retry(error.into())
    }
}

/// A failure as an error, which [`Fail`] is not, so that other errors become failures with `?`.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.error)]
pub(super) struct FailError(pub(super) Fail);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_become_failures_that_are_retried() {
        fn fails() -> Result<u8, Fail> {
            Ok("x".parse::<u8>()?)
        }
        let fail = fails().unwrap_err();
        assert_eq!(fail, Fail::retry("invalid digit found in string"));
        assert_eq!(Fail::from("text"), Fail::retry("text"));
        let dead = Fail::dead("gone");
        assert_eq!(Fail::of(Box::new(FailError(dead.clone()))), dead);
        assert_eq!(Fail::of("elapsed".into()), Fail::retry("elapsed"));
    }
}
