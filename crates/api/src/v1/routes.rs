//! The routes of the native API: one table of paths and methods.

use std::pin::pin;
use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::http::{Method, Response};
use matchit::Router;
use tidegate_core::v1::problem::ProblemCode;

use super::error::NativeError;
use super::native_request::{NativeRequest, PathParts};
use super::{
    batch, explain, job, job_list, keys, policy, publish, queues, relays, reserve, result,
    schedules, settle, workers,
};
use crate::app::App;
use crate::http::exchange::Answering;
use crate::http::metrics::Endpoint;
use crate::http::request::ApiRequest;
use crate::http::time_limit::with_time_limit;

/// The paths of the native API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Jobs,
    Act,
    Batch,
    Job,
    Explain,
    Payload,
    Result,
    Promote,
    Queues,
    Queue,
    Policy,
    Purge,
    Respawn,
    Workers,
    Reserve,
    Ack,
    Fail,
    Touch,
    Release,
    Keys,
    Key,
    Relays,
    Relay,
    Schedules,
    Schedule,
    NextRuns,
}

/// A row of the table.
struct RouteRow {
    route: Route,
    path: &'static str,
    /// The methods, as in the header `Allow`.
    methods: &'static str,
}

const fn row(route: Route, path: &'static str, methods: &'static str) -> RouteRow {
    RouteRow {
        route,
        path,
        methods,
    }
}

/// The table, in the order of [`Route`].
const TABLE: [RouteRow; 26] = [
    row(
        Route::Jobs,
        "/v1/{namespace}/queues/{queue}/jobs",
        "GET, POST",
    ),
    row(
        Route::Act,
        "/v1/{namespace}/queues/{queue}/jobs/act",
        "POST",
    ),
    row(
        Route::Batch,
        "/v1/{namespace}/queues/{queue}/jobs/batch",
        "POST",
    ),
    row(
        Route::Job,
        "/v1/{namespace}/queues/{queue}/jobs/{job}",
        "GET, PATCH, DELETE",
    ),
    row(
        Route::Explain,
        "/v1/{namespace}/queues/{queue}/jobs/{job}/explain",
        "GET",
    ),
    row(
        Route::Payload,
        "/v1/{namespace}/queues/{queue}/jobs/{job}/payload",
        "GET",
    ),
    row(
        Route::Result,
        "/v1/{namespace}/queues/{queue}/jobs/{job}/result",
        "GET",
    ),
    row(
        Route::Promote,
        "/v1/{namespace}/queues/{queue}/jobs/{job}/promote",
        "POST",
    ),
    row(Route::Queues, "/v1/{namespace}/queues", "GET"),
    row(
        Route::Queue,
        "/v1/{namespace}/queues/{queue}",
        "GET, DELETE",
    ),
    row(
        Route::Policy,
        "/v1/{namespace}/queues/{queue}/policy",
        "GET, PUT, PATCH",
    ),
    row(Route::Purge, "/v1/{namespace}/queues/{queue}/purge", "POST"),
    row(
        Route::Respawn,
        "/v1/{namespace}/queues/{queue}/respawn",
        "POST",
    ),
    row(Route::Workers, "/v1/{namespace}/workers", "GET"),
    row(Route::Reserve, "/v1/{namespace}/reserve", "POST"),
    row(Route::Ack, "/v1/{namespace}/ack", "POST"),
    row(Route::Fail, "/v1/{namespace}/fail", "POST"),
    row(Route::Touch, "/v1/{namespace}/touch", "POST"),
    row(Route::Release, "/v1/{namespace}/release", "POST"),
    row(Route::Keys, "/v1/{namespace}/keys", "GET, POST"),
    row(Route::Key, "/v1/{namespace}/keys/{key}", "DELETE"),
    row(Route::Relays, "/v1/{namespace}/relays", "GET"),
    row(
        Route::Relay,
        "/v1/{namespace}/relays/{relay}",
        "GET, PUT, DELETE",
    ),
    row(Route::Schedules, "/v1/{namespace}/schedules", "GET"),
    row(
        Route::Schedule,
        "/v1/{namespace}/schedules/{schedule}",
        "GET, PUT, DELETE",
    ),
    row(
        Route::NextRuns,
        "/v1/{namespace}/schedules/{schedule}/next",
        "GET",
    ),
];

/// The first number of an endpoint of this front door; those of the lmstfy wire are below it.
const FIRST_ENDPOINT: u8 = 8;

static ROUTER: LazyLock<Router<&'static RouteRow>> = LazyLock::new(|| {
    let mut router = Router::new();
    for row in &TABLE {
        router
            .insert(row.path, row)
            .expect("no two rows match the same paths");
    }
    router
});

impl RouteRow {
    const fn endpoint(&self) -> Endpoint {
        Endpoint {
            number: FIRST_ENDPOINT + self.route as u8,
            name: self.path,
        }
    }
}

/// All paths with their methods, as in the header `Allow`.
#[cfg(test)]
pub(super) fn methods_by_path() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.iter().map(|row| (row.path, row.methods))
}

/// Whether a path belongs to this front door.
pub(crate) fn is_native(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
}

/// Handles a request. The endpoint is [`Endpoint::UNMATCHED`] if there is no handler for it.
pub(crate) fn handle(app: &Arc<App>, api_request: ApiRequest) -> (Endpoint, Answering) {
    let request_id = api_request.context.id;
    let refused = |error: NativeError| -> Answering {
        Box::pin(std::future::ready(error.answer(request_id, false)))
    };
    let Ok(found) = ROUTER.at(api_request.head.uri.path()) else {
        let error = NativeError::of(ProblemCode::RouteNotFound);
        return (Endpoint::UNMATCHED, refused(error));
    };
    let row = *found.value;
    let part = |name| found.params.get(name).map(ToOwned::to_owned);
    let parts = PathParts {
        namespace: part("namespace").unwrap_or_default(),
        queue: part("queue"),
        job: part("job"),
        key: part("key"),
        relay: part("relay"),
        schedule: part("schedule"),
    };
    let method = api_request.head.method.clone();
    let incoming = Incoming {
        app: Arc::clone(app),
        api_request,
        parts,
    };
    match handler(row.route, &method, incoming) {
        Some(answering) => (row.endpoint(), answering),
        None => (
            row.endpoint(),
            refused(NativeError::method_not_allowed(row.methods)),
        ),
    }
}

/// A request with what answers it.
struct Incoming {
    app: Arc<App>,
    api_request: ApiRequest,
    parts: PathParts,
}

impl Incoming {
    /// The request as a handler takes it.
    async fn open(self) -> Result<NativeRequest, NativeError> {
        NativeRequest::open(self.app, self.api_request, self.parts).await
    }
}

/// Boxes a handler. A macro, so that each box has the size of its own handler.
macro_rules! answered {
    ($incoming:ident, $handling:expr) => {{
        let request_id = $incoming.api_request.context.id;
        let changes = $incoming.api_request.head.method != Method::GET;
        Box::pin(async move {
            let answer: Result<Response<Body>, NativeError> = $handling.await;
            answer.unwrap_or_else(|error| error.answer(request_id, changes))
        })
    }};
}

/// Boxes a handler with its time limit.
macro_rules! within_limit {
    ($incoming:ident, $handler:path) => {{
        let limit = $incoming.app.request_limits.timeout;
        let wait_time = $incoming.api_request.body.wait_time();
        answered!(
            $incoming,
            with_time_limit(
                pin!(async move { $handler($incoming.open().await?).await }),
                limit,
                wait_time
            )
        )
    }};
}

/// The answer to a request; `None` if its route does not have the method.
fn handler(route: Route, method: &Method, incoming: Incoming) -> Option<Answering> {
    Some(match (route, method.as_str()) {
        (Route::Queues, "GET") => within_limit!(incoming, queues::list),
        (Route::Queue, "GET") => within_limit!(incoming, queues::show),
        (Route::Queue, "DELETE") => within_limit!(incoming, queues::delete),
        (Route::Policy, "GET") => within_limit!(incoming, policy::show),
        (Route::Policy, "PUT") => within_limit!(incoming, policy::set),
        (Route::Policy, "PATCH") => within_limit!(incoming, policy::patch),
        (Route::Purge, "POST") => within_limit!(incoming, queues::purge),
        (Route::Respawn, "POST") => within_limit!(incoming, queues::respawn),
        (Route::Workers, "GET") => within_limit!(incoming, workers::list),
        (Route::Ack, "POST") => within_limit!(incoming, settle::ack),
        (Route::Fail, "POST") => within_limit!(incoming, settle::fail),
        (Route::Touch, "POST") => within_limit!(incoming, settle::touch),
        (Route::Release, "POST") => within_limit!(incoming, settle::release),
        (Route::Keys, "GET") => within_limit!(incoming, keys::list),
        (Route::Keys, "POST") => within_limit!(incoming, keys::create),
        (Route::Key, "DELETE") => within_limit!(incoming, keys::revoke),
        (Route::Relays, "GET") => within_limit!(incoming, relays::list),
        (Route::Relay, "GET") => within_limit!(incoming, relays::show),
        (Route::Relay, "PUT") => within_limit!(incoming, relays::set),
        (Route::Relay, "DELETE") => within_limit!(incoming, relays::delete),
        (Route::Schedules, "GET") => within_limit!(incoming, schedules::list),
        (Route::Schedule, "GET") => within_limit!(incoming, schedules::show),
        (Route::Schedule, "PUT") => within_limit!(incoming, schedules::set),
        (Route::Schedule, "DELETE") => within_limit!(incoming, schedules::delete),
        (Route::NextRuns, "GET") => within_limit!(incoming, schedules::next),
        // Enforces the time limit itself. What reads the request has a box of its own, which is freed before the wait.
        (Route::Reserve, "POST") => answered!(incoming, {
            let opening = Box::pin(reserve::open(
                incoming.app,
                incoming.api_request,
                incoming.parts,
            ));
            async move { reserve::reserve(opening.await?).await }
        }),
        _ => return handler_of_jobs(route, method, incoming),
    })
}

/// The same for the routes of jobs.
fn handler_of_jobs(route: Route, method: &Method, incoming: Incoming) -> Option<Answering> {
    Some(match (route, method.as_str()) {
        // The limit is that of storing the job.
        (Route::Jobs, "POST") => {
            let limit = incoming.app.request_limits.timeout;
            let wait_time = incoming.api_request.body.wait_time();
            answered!(incoming, async move {
                let storing = pin!(async move {
                    let Incoming {
                        app,
                        api_request,
                        parts,
                    } = incoming;
                    let request = NativeRequest::open_with_options(app, api_request, parts);
                    publish::publish(request.await?).await
                });
                with_time_limit(storing, limit, wait_time)
                    .await?
                    .answer()
                    .await
            })
        }
        (Route::Jobs, "GET") => within_limit!(incoming, job_list::list),
        (Route::Act, "POST") => within_limit!(incoming, job_list::act),
        (Route::Batch, "POST") => within_limit!(incoming, batch::publish_batch),
        (Route::Job, "GET") => within_limit!(incoming, job::show),
        (Route::Job, "PATCH") => within_limit!(incoming, job::change),
        (Route::Job, "DELETE") => within_limit!(incoming, job::cancel),
        (Route::Explain, "GET") => within_limit!(incoming, explain::explain),
        (Route::Payload, "GET") => within_limit!(incoming, job::payload),
        (Route::Promote, "POST") => within_limit!(incoming, job::promote),
        // Each look at Redis has a time limit.
        (Route::Result, "GET") => answered!(incoming, async move {
            result::result(incoming.open().await?).await
        }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_routes() {
        for (position, row) in TABLE.iter().enumerate() {
            assert_eq!(row.route as usize, position, "{}", row.path);
        }
    }

    #[test]
    fn fixed_paths_are_not_taken_for_names() {
        let of = |path: &str| ROUTER.at(path).unwrap().value.route;
        assert_eq!(of("/v1/shop/queues/q/jobs/batch"), Route::Batch);
        assert_eq!(of("/v1/shop/queues/q/jobs/act"), Route::Act);
        assert_eq!(of("/v1/shop/queues/q/jobs/key:batch"), Route::Job);
        assert_eq!(of("/v1/shop/queues/q"), Route::Queue);
        assert_eq!(of("/v1/queues/reserve"), Route::Reserve);
    }
}
