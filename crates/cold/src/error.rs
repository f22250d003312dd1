//! Why the object store has not done what it was asked for.

use object_store::path::Path;

/// An error of the object store. Its text has no credentials.
#[derive(Debug, thiserror::Error)]
pub enum ColdError {
    /// The setting cannot be used.
    #[error("cold_url: {0}")]
    BadUrl(String),
    /// The object store did not answer in time.
    #[error("the object store has not answered within {0:?}")]
    TimedOut(std::time::Duration),
    /// The object store failed.
    #[error("the object store failed: {0}")]
    Unavailable(String),
    /// The folder of the deployment has no marker, although payloads have been frozen.
    #[error(
        "there is no object {0}: this is not the folder that was used before, or it is not mounted; correct cold_url"
    )]
    NoMarker(Path),
    /// There is no such object.
    #[error("there is no object {0}")]
    Missing(Path),
    /// An object is not as it was written.
    #[error("object {object} is damaged: {how}")]
    Damaged {
        /// Its path.
        object: String,
        /// The difference.
        how: &'static str,
    },
}

impl ColdError {
    /// Whether the object, not the way to it, is the cause: a repetition finds the same.
    pub const fn is_lasting(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::Damaged { .. })
    }

    pub(crate) fn of_object(path: &Path, error: object_store::Error) -> Self {
        match error {
            object_store::Error::NotFound { .. } => Self::Missing(path.clone()),
            error => Self::Unavailable(error.to_string()),
        }
    }
}
