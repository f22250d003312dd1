//! Why a command failed, as text and as exit code.

use tidegate::{CallError, Error};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandFailure {
    #[error("{}", request_text(.0))]
    Request(#[from] Error),
    #[error("{0}")]
    NotDone(String),
    #[error("{0}")]
    Usage(String),
    /// The reader of the standard output has seen enough.
    #[error("the standard output is closed")]
    OutputClosed,
}

impl CommandFailure {
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Request(
                Error::NotConnected(_) | Error::ConnectionBroken(_) | Error::NoAnswer(_),
            ) => 3,
            Self::Usage(_) | Self::Request(Error::Invalid(_) | Error::Setup(_)) => 2,
            Self::Request(_) | Self::NotDone(_) | Self::OutputClosed => 1,
        }
    }
}

impl From<CallError> for CommandFailure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Request(error) => Self::Request(error),
            CallError::TimedOut { job } => Self::NotDone(format!(
                "no result in time; the job {} continues. Read it later: tidegate job result {} {}",
                job.id,
                job.queue(),
                job.id
            )),
            other => Self::NotDone(other.to_string()),
        }
    }
}

fn request_text(error: &Error) -> String {
    match error {
        Error::Rejected(rejection) => {
            let problem = &rejection.problem;
            let field = problem
                .field
                .as_ref()
                .map(|field| format!(" (field {field})"));
            format!(
                "{}: {}{}",
                problem.title,
                problem.detail,
                field.unwrap_or_default()
            )
        }
        Error::NotConnected(_) => {
            format!("{error}; check --url or TIDEGATE_URL, and that the server runs")
        }
        _ => error.to_string(),
    }
}
