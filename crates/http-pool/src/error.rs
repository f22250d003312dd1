//! Why there are no connections, or a request has no answer.

use std::time::Duration;

use hyper_util::client::legacy;

/// Why connections to a server cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("{detail}; {remedy}")]
pub struct ConnectorError {
    /// The cause.
    pub detail: String,
    /// What to do.
    pub remedy: &'static str,
}

impl From<ConnectorError> for String {
    fn from(error: ConnectorError) -> Self {
        error.to_string()
    }
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// There is no connection: nothing was sent.
    #[error("failed to connect: {0}")]
    NotConnected(String),
    /// The connection broke. The request may have arrived.
    #[error("no answer: {0}")]
    ConnectionBroken(String),
    /// There was no answer in time. The request may have arrived.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The body of the answer is longer than its reader allows.
    #[error("the answer is longer than {bytes_max} bytes")]
    TooLarge {
        /// The status of the answer.
        status: u16,
        /// The most bytes that are read.
        bytes_max: usize,
    },
}

impl From<legacy::Error> for RequestError {
    fn from(error: legacy::Error) -> Self {
        let text = causes(&error);
        match error.is_connect() {
            true => Self::NotConnected(text),
            false => Self::ConnectionBroken(text),
        }
    }
}

/// The causes of an error of hyper, which names them only as sources.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    match causes.is_empty() {
        true => error.to_string(),
        false => causes.join(": "),
    }
}
