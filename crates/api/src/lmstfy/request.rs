//! A request as handlers get it.

use axum::http::request::Parts;
use tidegate_service::HangUp;

use super::query::Query;
use crate::body::LentBody;
use crate::context::RequestContext;

/// A request. Its head is in the buffer of its connection: a handler that is going to wait lets go of it
/// first, so that the connection may use the buffer again.
pub(crate) struct Asked {
    /// Method, path and headers.
    pub(crate) head: Box<Parts>,
    /// What comes behind them.
    pub(crate) body: LentBody,
    /// Where to note what becomes known.
    pub(crate) context: RequestContext,
    /// Its `ends_request` is called before a long wait.
    pub(crate) hang_up: HangUp,
}

impl Asked {
    /// The path as it was sent.
    pub(crate) fn path(&self) -> &str {
        self.head.uri.path()
    }

    /// The parameters.
    pub(crate) fn query(&self) -> Query<'_> {
        Query::new(self.head.uri.query().unwrap_or_default())
    }
}
