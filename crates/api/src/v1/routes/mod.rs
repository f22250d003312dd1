//! The routes of the native API: one row for each method of a path, with its scope, its handler, and its text.
//! Dispatch, the header `Allow`, the check of scopes and the OpenAPI document come from these rows.

pub(super) mod handler;
pub(super) mod headers;
mod jobs;
mod keys;
mod limits;
mod namespaces;
mod operation;
pub(super) mod parameters;
mod queues;
mod relays;
mod schedules;
mod workers;

use std::sync::{Arc, LazyLock};

use axum::http::Method;
use matchit::Router;
use tidegate_core::v1::problem::ProblemCode;

use super::error::NativeError;
use super::native_request::PathParts;
use crate::app::App;
use crate::http::exchange::Answering;
use crate::http::metrics::Endpoint;
use crate::http::request::ApiRequest;
use handler::Incoming;
pub(super) use operation::{AnswerShape, BodyShape, OperationRow};

/// The operations by the tag under which they are shown, with its description.
pub(super) const TAGS: [(&str, &str, &[OperationRow]); 8] = [
    (
        "jobs",
        "Publishing, showing, changing and cancelling jobs.",
        &jobs::OPERATIONS,
    ),
    (
        "workers",
        "Reserving jobs, and ending or extending their leases.",
        &workers::OPERATIONS,
    ),
    (
        "queues",
        "Numbers of jobs, policies and lanes of queues.",
        &queues::OPERATIONS,
    ),
    (
        "namespaces",
        "Limits of namespaces, and how much of them is used.",
        &namespaces::OPERATIONS,
    ),
    (
        "limits",
        "How many jobs several queues deliver in a time, together.",
        &limits::OPERATIONS,
    ),
    (
        "relays",
        "Relays, which `tidegate-relayd` runs: they pass jobs on to webhooks, brokers and other queues.",
        &relays::OPERATIONS,
    ),
    (
        "schedules",
        "Jobs that are published again and again, at the times of a cron pattern or at a fixed distance.",
        &schedules::OPERATIONS,
    ),
    ("keys", "API keys.", &keys::OPERATIONS),
];

/// The first number of an endpoint of this front door. Endpoints of the lmstfy wire have smaller numbers.
const FIRST_ENDPOINT: u8 = 8;

/// The order of methods in the header `Allow`.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

struct PathOperations {
    endpoint: Endpoint,
    operations: Vec<&'static OperationRow>,
    /// The methods, as in the header `Allow`.
    allow: String,
}

static ROUTER: LazyLock<Router<PathOperations>> = LazyLock::new(|| {
    let mut paths: Vec<PathOperations> = Vec::new();
    for operation in TAGS.iter().flat_map(|(_, _, operations)| *operations) {
        match paths
            .iter_mut()
            .find(|row| row.endpoint.name == operation.path)
        {
            Some(row) => row.add(operation),
            None => {
                let number = FIRST_ENDPOINT + u8::try_from(paths.len()).unwrap_or(u8::MAX);
                let endpoint = Endpoint {
                    number,
                    name: operation.path,
                };
                paths.push(PathOperations::new(endpoint, operation));
            }
        }
    }
    let mut router = Router::new();
    for row in paths {
        router
            .insert(row.endpoint.name, row)
            .expect("no two rows match the same paths");
    }
    router
});

impl PathOperations {
    fn new(endpoint: Endpoint, operation: &'static OperationRow) -> Self {
        Self {
            endpoint,
            allow: operation.method_name().to_owned(),
            operations: vec![operation],
        }
    }

    fn add(&mut self, operation: &'static OperationRow) {
        self.operations.push(operation);
        let methods = self.operations.iter().map(|row| row.method_name());
        let mut methods: Vec<&str> = methods.collect();
        methods.sort_by_key(|method| METHODS.iter().position(|it| it == method));
        self.allow = methods.join(", ");
    }

    fn operation(&self, method: &Method) -> Option<&'static OperationRow> {
        let mut operations = self.operations.iter();
        operations
            .find(|operation| operation.method_name() == method.as_str())
            .copied()
    }
}

/// Whether a path belongs to this front door.
pub(crate) fn is_native(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
}

/// Handles a request. The endpoint is [`Endpoint::UNMATCHED`] if there is no handler for it.
pub(crate) fn handle(app: &Arc<App>, api_request: ApiRequest) -> (Endpoint, Answering) {
    let request_id = api_request.context.id;
    let method = &api_request.head.method;
    let changes = method != Method::GET && method != Method::HEAD;
    let refused = |error: NativeError| -> Answering {
        Box::pin(std::future::ready(error.answer(request_id, changes)))
    };
    let Ok(found) = ROUTER.at(api_request.head.uri.path()) else {
        let error = NativeError::of(ProblemCode::RouteNotFound);
        return (Endpoint::UNMATCHED, refused(error));
    };
    let row = found.value;
    let Some(operation) = row.operation(&api_request.head.method) else {
        let error = NativeError::method_not_allowed(&row.allow);
        return (row.endpoint, refused(error));
    };
    let part = |name| found.params.get(name).map(ToOwned::to_owned);
    let parts = PathParts {
        namespace: part("namespace").unwrap_or_default(),
        queue: part("queue"),
        job: part("job"),
        key: part("key"),
        limit: part("limit"),
        relay: part("relay"),
        schedule: part("schedule"),
    };
    let incoming = Incoming {
        app: Arc::clone(app),
        api_request,
        parts,
        needs: operation.needs,
    };
    (row.endpoint, (operation.handler)(incoming))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_paths_are_not_taken_for_names() {
        for (path, route) in [
            (
                "shop/queues/q/jobs/batch",
                "{namespace}/queues/{queue}/jobs/batch",
            ),
            (
                "shop/queues/q/jobs/act",
                "{namespace}/queues/{queue}/jobs/act",
            ),
            (
                "shop/queues/q/jobs/key:batch",
                "{namespace}/queues/{queue}/jobs/{job}",
            ),
            ("shop/queues/q", "{namespace}/queues/{queue}"),
            ("queues/reserve", "{namespace}/reserve"),
        ] {
            let found = ROUTER.at(&format!("/v1/{path}")).unwrap().value;
            assert_eq!(found.endpoint.name, format!("/v1/{route}"));
        }
    }

    #[test]
    fn the_methods_of_a_path_are_listed() {
        for (path, allow) in [
            ("jobs", "GET, POST"),
            ("jobs/key:a", "GET, PATCH, DELETE"),
            ("policy", "GET, PUT, PATCH"),
        ] {
            let path = format!("/v1/shop/queues/q/{path}");
            assert_eq!(ROUTER.at(&path).unwrap().value.allow, allow);
        }
    }
}
