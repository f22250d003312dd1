//! The client: a server, an API key, and a namespace.

mod builder;
mod consume;
mod keys;
mod lists;

use std::fmt;
use std::sync::Arc;

use crate::transport::HttpTransport;

pub use builder::ClientBuilder;

/// Returns the trace parent of the running span, as in the header `traceparent`, if it is sampled.
pub(crate) type TraceParentHook = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// A client of one namespace. Clones share its connections.
///
/// Every method may be called from several tasks at the same time.
#[derive(Clone)]
pub struct Client {
    pub(crate) transport: Arc<HttpTransport>,
    pub(crate) trace_parent: Option<TraceParentHook>,
}

impl fmt::Debug for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Starts to describe a client of the server with this URL, such as `https://tidegate.example.com`.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(url.into())
    }
}
