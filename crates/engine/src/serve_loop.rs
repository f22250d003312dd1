//! The serve loop of batch queues and wait queues: the calls of one queue, one after the other while there is work.
//!
//! A queue with one lane has one loop and one call in flight. In a queue with several lanes, a call that takes longer
//! than [`PROMPT`] probably goes to a server with a problem: another loop takes the lead, and the work continues in the
//! other lanes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

/// The time after which a queue with several lanes no longer waits for a call.
const PROMPT: Duration = Duration::from_millis(25);

/// Which work a serve loop takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Any work. A queue has at most one such loop at a time; while its call is in flight, work waits.
    Leading,
    /// Only what the queue does beside the leading loop.
    Extra,
}

/// The work of one call, its lane, and the role of the loop that makes the call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LaneCall<W> {
    pub(crate) role: Role,
    pub(crate) lane: u16,
    pub(crate) work: W,
}

/// A queue with serve loops. Each method that returns work or a role records it in one step, so that no two loops take
/// the same work.
pub(crate) trait ServedQueue: Send + Sync + 'static {
    type Work: Send;

    /// The number of lanes, at least 1.
    fn lanes(&self) -> u16;

    /// The first call of a loop that was started in this role; `None` ends the loop.
    fn first(&self, role: Role) -> Option<LaneCall<Self::Work>>;

    /// The next call of a loop whose call in `lane` has ended; `None` ends the loop.
    fn next(&self, role: Role, lane: u16) -> Option<LaneCall<Self::Work>>;

    /// Makes one call, and delivers its result.
    fn call(&self, lane: u16, work: Self::Work) -> impl Future<Output = ()> + Send;

    /// Takes the lead from the loop that has it, as its call takes long. Returns the role of the loop that the caller
    /// must start, if any.
    fn release_lead(&self) -> Option<Role>;

    /// Starts a task: a request that is cancelled must not cancel a call.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// A loop has panicked: the requests that wait for it must fail.
    fn abort(&self);
}

/// Starts a serve loop. Must be called whenever a queue returns the role of a loop to start.
pub(crate) fn spawn_serve_loop<Q: ServedQueue>(queue: Arc<Q>, role: Role) {
    let serve_loop = ServeLoop(Arc::clone(&queue));
    queue.spawn(serve_loop.run(role));
}

struct ServeLoop<Q: ServedQueue>(Arc<Q>);

impl<Q: ServedQueue> ServeLoop<Q> {
    async fn run(self, role: Role) {
        let mut call = self.0.first(role);
        while let Some(LaneCall { role, lane, work }) = call {
            let role = self.make_call(role, lane, work).await;
            call = self.0.next(role, lane);
        }
    }

    /// Makes one call. Returns the role of the loop after it.
    async fn make_call(&self, role: Role, lane: u16, work: Q::Work) -> Role {
        let mut call = pin!(self.0.call(lane, work));
        if role == Role::Extra || self.0.lanes() == 1 {
            call.await;
            return role;
        }
        if timeout(PROMPT, &mut call).await.is_ok() {
            return role;
        }
        if let Some(role) = self.0.release_lead() {
            spawn_serve_loop(Arc::clone(&self.0), role);
        }
        call.await;
        Role::Extra
    }
}

impl<Q: ServedQueue> Drop for ServeLoop<Q> {
    /// A loop that panicked would leave its queue without a loop.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort();
        }
    }
}
