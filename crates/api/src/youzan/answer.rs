//! Answers in the two forms of the protocol. The status is 200 whatever became of a command: clients look at the body.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde::Serialize;
use tidegate_engine::Delivery;

use super::error::YouzanError;
use super::service::YouzanService;
use crate::http::delivery_body::delivery_body;
use crate::http::off_runtime::off_runtime;
use crate::http::{json, unread};

/// The `message` of a success.
const SUCCESS: &str = "ok";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerForm {
    /// The form of Youzan's commands.
    Command,
    /// The form of the paths of `ouqiang/delay-queue`.
    Path,
}

/// The outcome of a command.
#[derive(Debug)]
pub(super) enum CommandResult {
    /// The job with this id is added, or is gone.
    Done(String),
    /// A job was reserved.
    Reserved {
        id: String,
        value: String,
        delivery: Box<Delivery>,
    },
    /// There is no job.
    Nothing,
    Shown(Box<ShownJob>),
}

/// A job as `get` shows it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ShownJob {
    pub(super) topic: String,
    pub(super) id: String,
    /// When it is due, or when its TTR ends, in seconds since 1970.
    pub(super) delay: u64,
    /// In seconds.
    pub(super) ttr: u64,
    pub(super) body: String,
}

#[derive(Debug, Default, Serialize)]
struct CommandAnswer<'a> {
    success: bool,
    error: &'a str,
    id: &'a str,
    value: &'a str,
}

#[derive(Debug, Serialize)]
struct PathAnswer<'a, D> {
    code: u8,
    message: &'a str,
    data: Option<D>,
}

#[derive(Debug, Serialize)]
struct PoppedJob<'a> {
    id: &'a str,
    body: &'a str,
}

impl AnswerForm {
    fn success(self, id: &str, value: &str) -> Vec<u8> {
        match self {
            Self::Command => json::compact(&CommandAnswer {
                success: true,
                id,
                value,
                ..CommandAnswer::default()
            }),
            Self::Path => of_path(None::<()>),
        }
    }

    fn popped(self, id: &str, body: &str) -> Vec<u8> {
        match self {
            Self::Command => self.success(id, body),
            Self::Path => of_path(Some(PoppedJob { id, body })),
        }
    }

    /// The answer to a command that failed.
    pub(super) fn failure(self, status: StatusCode, error: &str) -> Response<Body> {
        match self {
            Self::Command => {
                let answer = CommandAnswer {
                    error,
                    ..CommandAnswer::default()
                };
                json::answer(status, &answer)
            }
            Self::Path => {
                let answer = PathAnswer {
                    code: 1,
                    message: error,
                    data: None::<()>,
                };
                json::answer(status, &answer)
            }
        }
    }

    /// The answer to a command that succeeded.
    ///
    /// # Errors
    /// Writing a large answer failed; a reserved job is released.
    pub(super) async fn write(
        self,
        service: &YouzanService,
        result: CommandResult,
    ) -> Result<Response<Body>, YouzanError> {
        let text = match result {
            CommandResult::Done(id) => self.success(&id, ""),
            CommandResult::Nothing => self.success("", ""),
            CommandResult::Shown(job) => of_path(Some(*job)),
            CommandResult::Reserved {
                id,
                value,
                mut delivery,
            } => {
                let budget = &service.app.exchange.unread;
                let share = unread::fit_to_budget(&mut delivery, budget);
                // If the client hangs up meanwhile, the delivery is dropped, which releases the job.
                let bytes = value.len();
                let writing = move || (self.popped(&id, &value), delivery);
                let written = off_runtime(&service.app.large_bodies, bytes, writing);
                let (text, delivery) = written.await?;
                let body = delivery_body(text.into(), delivery.shown());
                let response = json::with_body(StatusCode::OK, body);
                return Ok(unread::with_share(response, share));
            }
        };
        Ok(json::with_body(StatusCode::OK, Body::from(text)))
    }
}

/// A success in the form of a path.
fn of_path(data: Option<impl Serialize>) -> Vec<u8> {
    json::compact(&PathAnswer {
        code: 0,
        message: SUCCESS,
        data,
    })
}
