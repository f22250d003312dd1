//! Why a command failed, as text and as exit code.

use std::time::Duration;

use tidegate::{Applied, CallError, Error};
use tidegate_core::visible_text::escape;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandFailure {
    #[error("{}", request_text(.0))]
    Request(#[from] Error),
    /// A request about a new job, and the known facts about the job.
    #[error("{}; {known}", request_text(.error))]
    NewJob { error: Error, known: String },
    #[error("{0}")]
    NotDone(String),
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}")]
    Usage(String),
    /// The reader of the standard output has seen enough.
    #[error("the standard output is closed")]
    OutputClosed,
}

impl CommandFailure {
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Request(error) | Self::NewJob { error, .. } => match error {
                Error::NotConnected(_) | Error::ConnectionBroken(_) | Error::NoAnswer(_) => 3,
                Error::Invalid(_) | Error::Setup(_) => 2,
                _ => 1,
            },
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
            Self::NotDone(_) | Self::OutputClosed => 1,
        }
    }

    /// The failure of a command that publishes a job into this queue.
    pub(crate) fn publish(error: Error, queue: &str) -> Self {
        let known = stored_text(&error, queue);
        Self::NewJob { error, known }
    }

    /// The failure of a command that publishes a job into this queue, and waits for its result.
    pub(crate) fn call(error: CallError, queue: &str) -> Self {
        match error {
            CallError::Request(error) => Self::publish(error, queue),
            other => other.into(),
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
            CallError::WaitFailed { job, error } => {
                let (id, queue) = (&job.id, job.queue());
                let known = format!(
                    "the job {id} is stored. Read its result later: tidegate job result {queue} {id}"
                );
                Self::NewJob { error, known }
            }
            other => Self::NotDone(escape(&other.to_string()).into_owned()),
        }
    }
}

/// Whether the job is stored, and how to find out.
fn stored_text(error: &Error, queue: &str) -> String {
    match error.applied() {
        Applied::No => "the job was not stored".to_owned(),
        Applied::Yes => "the job was stored".to_owned(),
        Applied::Unknown => {
            format!("the job may have been stored; look for it: tidegate job ls {queue}")
        }
    }
}

/// A detail without the header and the field of the answer, which a user of the command line does not see.
fn without_fields(detail: &str, retry_after: Option<Duration>) -> String {
    let later = match retry_after {
        Some(delay) => format!("in {} s", delay.as_secs()),
        None => "later".to_owned(),
    };
    detail
        .replace(", if `applied` allows it", "")
        .replace("after `Retry-After`", &later)
}

/// The text of an error, which a server may have written.
fn request_text(error: &Error) -> String {
    let text = match error {
        Error::Rejected(rejection) => {
            let problem = &rejection.problem;
            let field = problem
                .field
                .as_ref()
                .map(|field| format!(" (field {field})"));
            format!(
                "{}: {}{}",
                problem.title,
                without_fields(&problem.detail, rejection.retry_after),
                field.unwrap_or_default()
            )
        }
        Error::NotConnected(_) => {
            format!("{error}; check --url or TG_URL, and that the server runs")
        }
        _ => error.to_string(),
    };
    escape(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_name_no_header_and_no_field_of_an_answer() {
        let detail =
            "Redis refuses. Repeat the request after `Retry-After`, if `applied` allows it.";
        let text = without_fields(detail, Some(Duration::from_secs(3)));
        assert_eq!(text, "Redis refuses. Repeat the request in 3 s.");
        let text = without_fields("It is full. Repeat it after `Retry-After`.", None);
        assert_eq!(text, "It is full. Repeat it later.");
    }
}
