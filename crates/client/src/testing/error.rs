//! Errors of a server for tests.

/// Why there is no server for the test: the failure, and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TestingError(String);

impl TestingError {
    pub(super) const fn new(text: String) -> Self {
        Self(text)
    }
}
