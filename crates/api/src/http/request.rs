//! The request that handlers get.

use std::sync::Arc;

use super::body::LentBody;
use super::context::RequestContext;
use super::query::Query;
use axum::http::request::Parts;

/// A request. Its head refers to the read buffer of the connection: a handler must drop it before a long wait, so that
/// the connection can reuse the buffer.
pub(crate) struct ApiRequest {
    /// Method, path and headers.
    pub(crate) head: Box<Parts>,
    pub(crate) body: LentBody,
    /// Records pool and namespace for metrics and access log.
    pub(crate) context: Arc<RequestContext>,
}

impl ApiRequest {
    /// The path as it was sent.
    pub(crate) fn path(&self) -> &str {
        self.head.uri.path()
    }

    /// The parameters.
    pub(crate) fn query(&self) -> Query<'_> {
        Query::new(self.head.uri.query().unwrap_or_default())
    }
}
