//! Errors of obtaining and running a broker.

use std::io;
use std::path::PathBuf;

use tidegate_local_program::ObtainError;

use crate::kind::BrokerKind;

/// A broker could not be obtained or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalBrokerError {
    /// No source has the broker.
    #[error("{kind} is not available: {source}\n{}", kind.remedy())]
    NotObtained {
        kind: BrokerKind,
        /// Why each source failed.
        source: ObtainError,
    },
    /// The broker was not ready in time, or ended during its start.
    #[error("{kind} did not start on port {port}: {reason}\nlast lines of {}:\n{log}", log_path.display())]
    NotStarted {
        kind: BrokerKind,
        /// The port that it should listen on.
        port: u16,
        /// The reason, in one line.
        reason: String,
        /// Its log file.
        log_path: PathBuf,
        /// The last lines of that file.
        log: String,
    },
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// The operation, such as `opening FILE`.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl LocalBrokerError {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}
