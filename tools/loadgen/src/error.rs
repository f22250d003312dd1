//! Errors that end a run without figures.

use std::io;

/// An error that ends a run.
#[derive(Debug, thiserror::Error)]
pub enum LoadgenError {
    /// A flag has a value that cannot be used.
    #[error("{0}")]
    Usage(String),
    /// A connection or a file failed.
    #[error("{doing}: {source}")]
    Io {
        /// The operation.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A request failed, or its wire has no such answer, so the run cannot continue.
    #[error("{doing}: unexpected answer {status}: {body}")]
    Unexpected {
        /// The request.
        doing: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// A call of the store or of Redis, without HTTP, failed.
    #[error("{0}")]
    Store(String),
    /// The server was too slow for the scenario.
    #[error("{0}")]
    TooSlow(String),
}

impl LoadgenError {
    /// For `map_err`: an error of this operation.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    pub(crate) fn unexpected(doing: &str, status: u16, body: &[u8]) -> Self {
        const SHOWN: usize = 300;
        Self::Unexpected {
            doing: doing.to_owned(),
            status,
            body: String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).into_owned(),
        }
    }
}
