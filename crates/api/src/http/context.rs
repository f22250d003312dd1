//! The pool and the namespace of a request, for its metrics and its access log line.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use tidegate_core::Namespace;

use tidegate_daemon::logs::LogContext;
use tidegate_daemon::traces::TraceParent;
use tidegate_engine::Pool;
use ulid::Ulid;

/// The port at which a request arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// A port for clients, who send an API key or a token.
    Public,
    /// The admin port, where accounts are checked: the client is an operator.
    Admin,
}

/// Set while names and token are checked, read after the request is answered. Only the first value of each is kept.
/// Shared through an `Arc`, as a long poll keeps it for minutes.
#[derive(Debug)]
pub(crate) struct RequestContext {
    /// The id of the request: in its answer, in problem documents and in the access log.
    pub(crate) id: Ulid,
    pub(crate) port: Port,
    /// The pool; unset if the request names none that is configured, or was rejected before.
    pub(crate) pool: OnceLock<Arc<Pool>>,
    /// The namespace; unset unless a valid token for it was presented.
    pub(crate) namespace: OnceLock<Namespace>,
    /// The first span of the request. In a box, since few requests have one.
    trace: OnceLock<Box<TraceParent>>,
}

impl RequestContext {
    /// The context of a request that has just arrived.
    pub(crate) fn new(port: Port) -> Self {
        Self {
            id: Ulid::generate(),
            port,
            pool: OnceLock::new(),
            namespace: OnceLock::new(),
            trace: OnceLock::new(),
        }
    }

    /// Records a span of the request, whose trace its log lines name. Only the first span is kept.
    pub(crate) fn set_trace(&self, span: TraceParent) {
        let _ = self.trace.set(Box::new(span));
    }
}

impl LogContext for RequestContext {
    fn fields(&self, add: &mut dyn FnMut(&str, &dyn Display)) {
        let mut text = [0; ulid::ULID_LEN];
        add("request_id", &&*self.id.array_to_str(&mut text));
        if let Some(span) = self.trace.get() {
            add("trace_id", &span.trace_id());
        }
    }
}
