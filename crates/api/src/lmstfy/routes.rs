//! Every route of the wire.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Response};
use axum::response::IntoResponse;
use tidegate_service::health;

use super::error::Refusal;
use super::request::Asked;
use super::time_limit::limited;
use super::{
    ack, peek, publish, publish_bulk, purge, republish, reserve, respawn, stats, unmatched,
};
use crate::app::App;

/// An answer that is being found.
pub(crate) type Handling = Pin<Box<dyn Future<Output = Result<Response<Body>, Refusal>> + Send>>;

/// The paths of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Template {
    /// None of them.
    Unmatched,
    /// A queue, or several that are consumed from.
    Queue,
    /// Many jobs for a queue.
    Bulk,
    /// The next job of a queue.
    Peek,
    /// A job of a queue.
    Job,
    /// The dead jobs of a queue.
    DeadLetter,
    /// How many jobs of a queue are ready.
    Size,
    /// How many are dead.
    DeadLetterSize,
}

impl Template {
    /// All of them, each at the place of its number.
    pub(crate) const ALL: [Self; 8] = [
        Self::Unmatched,
        Self::Queue,
        Self::Bulk,
        Self::Peek,
        Self::Job,
        Self::DeadLetter,
        Self::Size,
        Self::DeadLetterSize,
    ];

    /// What it is called in metrics.
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

    /// The template of a path, read as it was sent. No part may be empty.
    pub(super) fn of(path: &str) -> Self {
        let Some(rest) = path.strip_prefix("/api/") else {
            return Self::Unmatched;
        };
        let mut parts = rest.split('/');
        let names = [parts.next(), parts.next()];
        if names.iter().any(|name| name.is_none_or(str::is_empty)) {
            return Self::Unmatched;
        }
        match [parts.next(), parts.next(), parts.next()] {
            [None, ..] => Self::Queue,
            [Some("bulk"), None, _] => Self::Bulk,
            [Some("peek"), None, _] => Self::Peek,
            [Some("job"), Some(id), None] if !id.is_empty() => Self::Job,
            [Some("deadletter"), None, _] => Self::DeadLetter,
            [Some("size"), None, _] => Self::Size,
            [Some("deadletter"), Some("size"), None] => Self::DeadLetterSize,
            _ => Self::Unmatched,
        }
    }
}

/// Has a request handled, and tells which template it matched. A path without a handler for the method
/// matches none. Only GET, PUT and DELETE are to be sent here, and HEAD for the paths of balancers.
pub(crate) fn handle(app: &Arc<App>, asked: Asked) -> (Template, Handling) {
    let template = Template::of(asked.path());
    match handler(template, app, asked) {
        Ok(handling) => (template, handling),
        Err(asked) => (Template::Unmatched, other(app, asked)),
    }
}

/// The request comes back if there is no handler for it.
fn handler(template: Template, app: &Arc<App>, asked: Asked) -> Result<Handling, Asked> {
    /// A handler within the limit of time. Each has its own type, and with it the memory that it needs.
    macro_rules! within_limit {
        ($handler:path) => {{
            let (app, waited) = (Arc::clone(app), asked.body.waited());
            let limit = app.requests.timeout;
            Box::pin(limited($handler(app, asked), limit, waited))
        }};
    }
    let method = asked.head.method.clone();
    Ok(match (template, method) {
        (Template::Queue, Method::PUT) => within_limit!(publish::publish),
        // Keeps the limit by itself.
        (Template::Queue, Method::GET) => Box::pin(reserve::reserve(Arc::clone(app), asked)),
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
        _ => return Err(asked),
    })
}

/// Whether a path is asked for by balancers, which may use HEAD.
pub(crate) fn is_for_balancers(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// What is not of lmstfy: two paths for balancers, and everything unknown.
fn other(app: &Arc<App>, asked: Asked) -> Handling {
    let app = Arc::clone(app);
    Box::pin(async move {
        let method = &asked.head.method;
        Ok(match (asked.path(), method) {
            ("/healthz", &Method::GET | &Method::HEAD) => health::alive().await.into_response(),
            ("/readyz", &Method::GET | &Method::HEAD) => app.readiness.answer().await,
            _ => unmatched::unmatched(method, &asked.head.uri),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_template_stands_at_the_place_of_its_number() {
        for (place, template) in Template::ALL.into_iter().enumerate() {
            assert_eq!(template as usize, place);
        }
    }

    #[test]
    fn a_path_matches_the_template_that_it_is_made_from() {
        for template in &Template::ALL[1..] {
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
