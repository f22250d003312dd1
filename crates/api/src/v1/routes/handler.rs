//! Handlers, as the rows of the routes have them.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use tidegate_core::Scope;

use crate::app::App;
use crate::http::exchange::Answering;
use crate::http::request::ApiRequest;
use crate::v1::error::NativeError;
use crate::v1::native_request::{NativeRequest, PathParts};

/// Answers a request.
pub(in crate::v1) type Handler = fn(Incoming) -> Answering;

/// The answer of a handler, or the problem that it answers with.
pub(in crate::v1) type Answered = Result<Response<Body>, NativeError>;

/// A request to an operation.
pub(in crate::v1) struct Incoming {
    pub(in crate::v1) app: Arc<App>,
    pub(in crate::v1) api_request: ApiRequest,
    pub(super) parts: PathParts,
    pub(super) needs: NeededScope,
}

/// The scope that an operation needs.
#[derive(Debug, Clone, Copy)]
pub(in crate::v1) struct NeededScope {
    pub(in crate::v1) scope: Scope,
    /// A scope that is enough for a client that names the job by its key.
    pub(super) by_key: Option<Scope>,
}

impl NeededScope {
    fn check(self, request: &NativeRequest) -> Result<(), NativeError> {
        match (request.need(self.scope), self.by_key) {
            (Err(_), Some(by_key)) => request.need(by_key),
            (checked, _) => checked,
        }
    }
}

impl Incoming {
    /// The request as a handler takes it. Its client has the scope that the operation needs.
    pub(in crate::v1) async fn open(self) -> Result<NativeRequest, NativeError> {
        let request = NativeRequest::open(self.app, self.api_request, self.parts).await?;
        self.needs.check(&request)?;
        Ok(request)
    }

    /// The same for the operation that has options of a job in headers.
    pub(in crate::v1) async fn open_with_options(self) -> Result<NativeRequest, NativeError> {
        let opening = NativeRequest::open_with_options(self.app, self.api_request, self.parts);
        let request = opening.await?;
        self.needs.check(&request)?;
        Ok(request)
    }
}

/// A handler that is boxed. A macro, so that each box has the size of its own handler.
macro_rules! answered {
    (|$incoming:ident| $handling:expr) => {
        |$incoming: $crate::v1::routes::handler::Incoming| -> $crate::http::exchange::Answering {
            let request_id = $incoming.api_request.context.id;
            let changes = $incoming.api_request.head.method != axum::http::Method::GET;
            Box::pin(async move {
                let answered: $crate::v1::routes::handler::Answered =
                    async move { $handling }.await;
                answered.unwrap_or_else(|error| error.answer(request_id, changes))
            })
        }
    };
}

/// A handler that is boxed with the time limit of requests: the path of a function, or a block that handles the
/// request.
macro_rules! within_limit {
    (|$request:ident| $handling:expr) => {
        $crate::v1::routes::handler::answered!(|incoming| {
            let limit = incoming.app.request_limits.timeout;
            let wait_time = incoming.api_request.body.wait_time();
            let handling = std::pin::pin!(async move {
                let $request = incoming.open().await?;
                $handling
            });
            $crate::http::time_limit::with_time_limit(handling, limit, wait_time).await
        })
    };
    ($handler:path) => {
        $crate::v1::routes::handler::within_limit!(|request| $handler(request).await)
    };
}

/// The same for an operation that reads a list: a namespace has a few of them in flight, the others wait.
macro_rules! within_share {
    ($handler:path) => {
        $crate::v1::routes::handler::within_limit!(|request| {
            let app = std::sync::Arc::clone(&request.app);
            let share = app
                .lists
                .share(&request.pool().name, request.namespaces.clone());
            let _permit = share.acquire(1).await;
            $handler(request).await
        })
    };
}

pub(super) use {answered, within_limit, within_share};
