//! Records the requests of clients and their outcomes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::history::{ClientRequest, Operation, RequestOutcome, Span, Wire, now};

/// The client that sends a request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestSource {
    pub(crate) wire: Wire,
    /// The number of its token.
    pub(crate) token: u16,
    /// Whether it is connected to the API without a proxy.
    pub(crate) is_direct: bool,
}

/// All operations of a run, ordered by end.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<Vec<Operation>>);

impl Recorder {
    /// Runs a request, and records its begin, end and outcome.
    pub(crate) async fn record(
        &self,
        source: RequestSource,
        request: &ClientRequest,
        doing: impl Future<Output = RequestOutcome>,
    ) -> RequestOutcome {
        let from = now();
        let outcome = doing.await;
        let span = Span { from, to: now() };
        self.operations().push(Operation {
            wire: source.wire,
            token: source.token,
            is_without_proxy: source.is_direct,
            span,
            request: request.clone(),
            outcome: outcome.clone(),
        });
        outcome
    }

    /// Returns the operations recorded so far.
    pub(crate) fn operations(&self) -> MutexGuard<'_, Vec<Operation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
