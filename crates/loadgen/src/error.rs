//! Why a run ends without figures.

use std::io;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A flag has a value that cannot be used.
    #[error("{0}")]
    Usage(String),
    /// A connection or a file failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// How it failed.
        source: io::Error,
    },
    /// The server answered something that a run cannot go on after: a request that failed, or an answer
    /// that is none of the wire.
    #[error("{doing}: unexpected answer {status}: {body}")]
    Unexpected {
        /// Which request.
        doing: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// The store, used without HTTP, failed.
    #[error("{0}")]
    Store(String),
    /// The server did not do in time what a scenario waits for.
    #[error("{0}")]
    TooSlow(String),
}

impl Error {
    /// For `map_err`: a failure of this step.
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
