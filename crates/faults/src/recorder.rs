//! Where clients note what they see.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::history::{Operation, Outcome, Request, Span, now};

/// The client that sends a request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sender {
    /// The number of its token.
    pub(crate) token: u16,
    /// Whether there is no proxy between it and the API.
    pub(crate) is_direct: bool,
}

/// All operations of a run, in the order in which they end.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<Vec<Operation>>);

impl Recorder {
    /// Carries out a request that has the token of this number, and notes when it was made, when it was over, and what
    /// came of it.
    pub(crate) async fn note(
        &self,
        sender: Sender,
        request: Request,
        doing: impl Future<Output = Outcome>,
    ) -> Outcome {
        let from = now();
        let outcome = doing.await;
        let span = Span { from, to: now() };
        self.operations().push(Operation {
            token: sender.token,
            is_direct: sender.is_direct,
            span,
            request,
            outcome: outcome.clone(),
        });
        outcome
    }

    /// What was noted so far.
    pub(crate) fn operations(&self) -> MutexGuard<'_, Vec<Operation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
