//! All routes of the lmstfy API.

use std::pin::pin;
use std::sync::{Arc, LazyLock};

use axum::http::Method;
use axum::response::IntoResponse;
use matchit::Router;

use super::{
    ack, peek, publish, publish_bulk, purge, republish, reserve, respawn, stats, unmatched,
};
use crate::app::App;
use crate::http::exchange::Answering;
use crate::http::metrics::Endpoint;
use crate::http::request::ApiRequest;
use crate::http::time_limit::with_time_limit;

/// The path templates of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Template {
    /// No template matches.
    Unmatched,
    /// A queue, or the list of queues of a consume.
    Queue,
    /// The bulk publish of a queue.
    Bulk,
    /// The next ready job of a queue.
    Peek,
    /// A job of a queue.
    Job,
    /// The dead jobs of a queue.
    DeadLetter,
    /// The number of ready jobs of a queue.
    Size,
    /// The number of dead jobs of a queue.
    DeadLetterSize,
}

/// The templates of all routes.
static ROUTER: LazyLock<Router<Template>> = LazyLock::new(|| {
    let mut router = Router::new();
    for template in Template::MATCHED {
        let parts = template.name().split('/');
        let parts = parts.map(|part| match part.strip_prefix(':') {
            Some(parameter) => format!("{{{parameter}}}"),
            None => part.to_owned(),
        });
        let path = parts.collect::<Vec<_>>().join("/");
        router
            .insert(path, template)
            .expect("no two templates match the same paths");
    }
    router
});

impl Template {
    const MATCHED: [Self; 7] = [
        Self::Queue,
        Self::Bulk,
        Self::Peek,
        Self::Job,
        Self::DeadLetter,
        Self::Size,
        Self::DeadLetterSize,
    ];

    /// The value of the label `api` in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unmatched => "",
            Self::Queue => "/api/:namespace/:queue",
            Self::Bulk => "/api/:namespace/:queue/bulk",
            Self::Peek => "/api/:namespace/:queue/peek",
            Self::Job => "/api/:namespace/:queue/job/:job_id",
            Self::DeadLetter => "/api/:namespace/:queue/deadletter",
            Self::Size => "/api/:namespace/:queue/size",
            Self::DeadLetterSize => "/api/:namespace/:queue/deadletter/size",
        }
    }

    const fn endpoint(self) -> Endpoint {
        Endpoint {
            number: self as u8,
            name: self.name(),
        }
    }

    /// The template that matches a path. The path is not decoded, and no part of it may be empty.
    pub(super) fn of(path: &str) -> Self {
        // A parameter of the router may be empty if a slash follows it.
        let matched = ROUTER.at(path).ok().filter(|_| !path.contains("//"));
        matched.map_or(Self::Unmatched, |route| *route.value)
    }
}

/// The value of the label `api` for a path: for the benchmark `routing`.
pub fn api_label(path: &str) -> &'static str {
    Template::of(path).name()
}

/// Handles a request, and returns its endpoint: [`Endpoint::UNMATCHED`] if there is no handler for the method. Callers
/// must pass only GET, PUT and DELETE, and HEAD for the paths of load balancers.
pub(crate) fn handle(app: &Arc<App>, api_request: ApiRequest) -> (Endpoint, Answering) {
    let template = Template::of(api_request.path());
    match handler_future(template, app, api_request) {
        Ok(answering) => (template.endpoint(), answering),
        Err(api_request) => (Endpoint::UNMATCHED, other(app, api_request)),
    }
}

/// The handler of a request.
///
/// # Errors
/// Returns the request if there is no handler for it.
fn handler_future(
    template: Template,
    app: &Arc<App>,
    api_request: ApiRequest,
) -> Result<Answering, ApiRequest> {
    /// Boxes a handler. A macro, so that each box has the size of its own handler.
    macro_rules! answered {
        ($handling:expr) => {
            Box::pin(async move {
                let answer = $handling.await;
                answer.into_response()
            })
        };
    }
    /// Boxes a handler with its time limit.
    macro_rules! within_limit {
        ($handler:path) => {{
            let (app, wait_time) = (Arc::clone(app), api_request.body.wait_time());
            let limit = app.request_limits.timeout;
            answered!(with_time_limit(
                pin!($handler(app, api_request)),
                limit,
                wait_time
            ))
        }};
    }
    let method = api_request.head.method.clone();
    Ok(match (template, method) {
        (Template::Queue, Method::PUT) => within_limit!(publish::publish),
        // Enforces the time limit itself.
        (Template::Queue, Method::GET) => {
            let app = Arc::clone(app);
            answered!(reserve::reserve(app, api_request))
        }
        (Template::Queue, Method::DELETE) => within_limit!(purge::purge_ready),
        (Template::Bulk, Method::PUT) => within_limit!(publish_bulk::publish_bulk),
        (Template::Peek, Method::GET) => within_limit!(peek::peek_queue),
        (Template::Job, Method::PUT) => within_limit!(republish::republish),
        (Template::Job, Method::GET) => within_limit!(peek::peek_job),
        (Template::Job, Method::DELETE) => within_limit!(ack::ack),
        (Template::DeadLetter, Method::PUT) => within_limit!(respawn::respawn),
        (Template::DeadLetter, Method::GET) => within_limit!(peek::peek_dead),
        (Template::DeadLetter, Method::DELETE) => within_limit!(purge::purge_dead),
        (Template::Size, Method::GET) => within_limit!(stats::ready),
        (Template::DeadLetterSize, Method::GET) => within_limit!(stats::dead),
        _ => return Err(api_request),
    })
}

/// Whether a path is a health check of load balancers, which may use HEAD.
pub(super) fn is_health_check(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// Handles the two health checks of load balancers, and requests that match no route.
fn other(app: &Arc<App>, api_request: ApiRequest) -> Answering {
    let app = Arc::clone(app);
    Box::pin(async move {
        let method = &api_request.head.method;
        match (api_request.path(), method) {
            ("/healthz", &Method::GET | &Method::HEAD) => {
                app.exchange.readiness.alive().into_response()
            }
            ("/readyz", &Method::GET | &Method::HEAD) => app.exchange.readiness.answer().await,
            _ => unmatched::unmatched(method, &api_request.head.uri),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_matches_the_template_it_is_made_from() {
        for template in &Template::MATCHED {
            let path = template.name().replace(':', "a%20");
            assert_eq!(Template::of(&path), *template, "{path}");
            for other in [
                format!("{path}/"),
                format!("{path}/x/y/z"),
                path[1..].to_owned(),
            ] {
                assert_eq!(Template::of(&other), Template::Unmatched, "{other}");
            }
        }
    }

    #[test]
    fn parts_are_neither_empty_nor_decoded() {
        for path in [
            "",
            "/",
            "*",
            "/api",
            "/api/",
            "/api/ns",
            "/api/ns/",
            "/api//q",
            "/api/ns//bulk",
            "//api/ns/q",
            "/api/ns/q/job",
            "/api/ns/q/job/",
            "/api/ns/q/job//",
            "/api/ns/q/%62ulk",
            "/API/ns/q",
            "/api/ns/q/Bulk",
            "/api/ns/q/deadletter/",
            "/api/ns/q/size/x",
        ] {
            assert_eq!(Template::of(path), Template::Unmatched, "{path}");
        }
    }
}
