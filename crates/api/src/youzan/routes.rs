//! The paths of the listener.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use tidegate_daemon::Peer;
use tokio::time::{Instant, timeout};

use super::answer::{AnswerForm, CommandResult};
use super::error::YouzanError;
use super::fields::Fields;
use super::request::{AddRequest, CommandName, NamedJob, PopRequest};
use super::service::YouzanService;
use super::{ack, cancel, metrics, peek, publish, reserve};
use crate::app::App;
use crate::http::body::LentBody;
use crate::http::context::Port;
use crate::http::exchange::{Answering, begin};
use crate::http::metrics::Endpoint;
use crate::http::off_runtime::off_runtime;
use crate::http::request::ApiRequest;

/// A path, and the command that it stands for; `None` = the request names it.
struct PathRow {
    path: &'static str,
    command: Option<CommandName>,
}

const fn row(path: &'static str, command: Option<CommandName>) -> PathRow {
    PathRow { path, command }
}

const PATHS: [PathRow; 6] = [
    row("/", None),
    row("/push", Some(CommandName::Add)),
    row("/pop", Some(CommandName::Pop)),
    row("/get", Some(CommandName::Get)),
    row("/finish", Some(CommandName::Finish)),
    row("/delete", Some(CommandName::Delete)),
];

/// The first number of an endpoint of this front door; the numbers of the others are below it.
const FIRST_ENDPOINT: u8 = 32;

/// The bytes that a character of a body takes in JSON at most: `\u0000`.
const BYTES_PER_CHARACTER: usize = 6;
/// The bytes of a request besides its body.
const OTHER_BYTES_MAX: usize = 64 * 1024;

impl PathRow {
    fn form(&self) -> AnswerForm {
        match self.command {
            None => AnswerForm::Command,
            Some(_) => AnswerForm::Path,
        }
    }
}

/// Answers one request of `peer`.
pub(super) fn answer(
    service: &Arc<YouzanService>,
    request: Request<Incoming>,
    peer: Peer,
) -> impl Future<Output = Response<Body>> + Send + use<> {
    let (api_request, unanswered) = begin(request, peer, Port::Public);
    let (endpoint, answering) = handle(service, api_request);
    let exchange = Arc::clone(&service.app.exchange);
    unanswered.answer(exchange, endpoint, answering, |_| over_budget())
}

fn handle(service: &Arc<YouzanService>, api_request: ApiRequest) -> (Endpoint, Answering) {
    let path = api_request.path();
    let found = (FIRST_ENDPOINT..)
        .zip(&PATHS)
        .find(|(_, row)| row.path == path);
    let Some((number, row)) = found else {
        let answering = other(Arc::clone(&service.app), api_request);
        return (Endpoint::UNMATCHED, Box::pin(answering));
    };
    let endpoint = Endpoint {
        number,
        name: row.path,
    };
    let service = Arc::clone(service);
    (endpoint, Box::pin(run(service, row, api_request)))
}

/// The 503 if the budget of unread bytes has no room for the answer that was made.
fn over_budget() -> Response<Body> {
    let text = YouzanError::answers_unread().to_string();
    AnswerForm::Command.failure(StatusCode::OK, &text)
}

/// The health checks of load balancers, and paths that do not exist.
async fn other(app: Arc<App>, api_request: ApiRequest) -> Response<Body> {
    let readiness = &app.exchange.readiness;
    match (api_request.path(), &api_request.head.method) {
        ("/healthz", &Method::GET | &Method::HEAD) => readiness.alive().into_response(),
        ("/readyz", &Method::GET | &Method::HEAD) => readiness.answer().await.into_response(),
        _ => AnswerForm::Command.failure(
            StatusCode::NOT_FOUND,
            "no such path: send commands to /, or use /push, /pop, /get, /finish, /delete",
        ),
    }
}

async fn run(
    service: Arc<YouzanService>,
    row: &'static PathRow,
    api_request: ApiRequest,
) -> Response<Body> {
    let form = row.form();
    if api_request.head.method != Method::POST {
        let text = "this path has the method POST only";
        let mut response = form.failure(StatusCode::METHOD_NOT_ALLOWED, text);
        let allow = HeaderValue::from_static("POST");
        response.headers_mut().insert(header::ALLOW, allow);
        return response;
    }
    let mut command = row.command;
    let result = execute(&service, &mut command, api_request).await;
    metrics::count(command, &result);
    let written = match result {
        Ok(result) => form.write(&service, result).await,
        Err(error) => Err(error),
    };
    written.unwrap_or_else(|error| form.failure(StatusCode::OK, &error.to_string()))
}

/// Reads a command and executes it. `command` is set if the request names it.
async fn execute(
    service: &YouzanService,
    command: &mut Option<CommandName>,
    api_request: ApiRequest,
) -> Result<CommandResult, YouzanError> {
    let app = &service.app;
    let limit = app.request_limits.timeout;
    let ApiRequest {
        head,
        body,
        context,
    } = api_request;
    let _ = context.pool.set(Arc::clone(&service.pool));
    service.authenticate(&head.headers)?;
    drop(head);
    let _ = context.namespace.set(service.namespace.clone());
    let mut fields = read_fields(app, body).await?;
    let name = match *command {
        Some(name) => name,
        None => *command.insert(CommandName::read(&mut fields)?),
    };
    /// Runs a handler within the time limit. Boxed, so that a waiting pop has no room for the other handlers.
    macro_rules! within_limit {
        ($handler:path, $request:expr) => {{
            let handling = Box::pin($handler(service, $request));
            let handled = timeout(limit, handling).await;
            handled.map_err(|_| YouzanError::StorageFailed)?
        }};
    }
    match name {
        CommandName::Add => {
            let body_bytes_max = app.request_limits.job_bytes_max;
            within_limit!(publish::publish, AddRequest::read(fields, body_bytes_max)?)
        }
        CommandName::Finish => within_limit!(ack::ack, NamedJob::read(fields)?),
        CommandName::Delete => within_limit!(cancel::cancel, NamedJob::read(fields)?),
        CommandName::Get => within_limit!(peek::peek, NamedJob::read(fields)?),
        // Enforces the time limit itself.
        CommandName::Pop => {
            let pop = PopRequest::read(fields, app.request_limits.consume_queues_max)?;
            reserve::reserve(service, pop, Instant::now() + limit).await
        }
    }
}

/// The fields of a request. Its bytes are dropped: a waiting pop does not need them.
async fn read_fields(app: &App, body: LentBody) -> Result<Fields, YouzanError> {
    let job_bytes_max = app.request_limits.job_bytes_max;
    let bytes_max = job_bytes_max * BYTES_PER_CHARACTER + OTHER_BYTES_MAX;
    let bytes_max = bytes_max.min(app.bulk_body.bytes_max);
    let received = app.bulk_body.up_to(bytes_max).read(body).await?;
    let bytes = received.bytes.len();
    off_runtime(&app.large_bodies, bytes, move || {
        Fields::parse(&received.bytes)
    })
    .await?
}
