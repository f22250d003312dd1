//! The serve loop of batch queues and wait queues: the calls of one queue, one after the other while there is work.
//!
//! A queue with one lane has one loop and one call in flight. In a queue with several lanes, a call that takes longer
//! than [`PROMPT`] probably goes to a server with a problem: another loop takes the lead, and the work continues in the
//! other lanes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::timeout;

/// The time after which a queue with several lanes no longer waits for a call.
const PROMPT: Duration = Duration::from_millis(25);

/// The number of times that a serve loop lets the runtime look for further requests before a call.
const LOOKS_MAX: usize = 8;

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

    /// The number of requests that wait, if further ones fit into the next call; `None` = the call need not wait for
    /// them.
    fn gathered(&self) -> Option<usize>;

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
        self.gather().await;
        let mut call = self.0.first(role);
        while let Some(LaneCall { role, lane, work }) = call {
            let role = self.make_call(role, lane, work).await;
            self.gather().await;
            call = self.0.next(role, lane);
        }
    }

    /// Lets the runtime read requests that have arrived, so that they share the next call. It looks again for as long
    /// as each look brings further ones, and they fit into the call.
    async fn gather(&self) {
        let mut before = self.0.gathered();
        for _ in 0..LOOKS_MAX {
            if before.is_none() {
                return;
            }
            yield_now().await;
            let gathered = self.0.gathered();
            if gathered <= before {
                return;
            }
            before = gathered;
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use tokio::sync::mpsc;

    use super::*;

    /// The number of requests that fit into a call.
    const CALL: usize = 6;

    /// A queue with one lane, which counts requests and reports the number in each call.
    struct CountedQueue {
        waiting: AtomicUsize,
        calls: mpsc::Sender<usize>,
    }

    impl ServedQueue for CountedQueue {
        type Work = usize;

        fn lanes(&self) -> u16 {
            1
        }

        fn gathered(&self) -> Option<usize> {
            let waiting = self.waiting.load(SeqCst);
            (waiting < CALL).then_some(waiting)
        }

        fn first(&self, role: Role) -> Option<LaneCall<usize>> {
            let work = self.waiting.swap(0, SeqCst);
            (work > 0).then_some(LaneCall {
                role,
                lane: 0,
                work,
            })
        }

        fn next(&self, role: Role, _lane: u16) -> Option<LaneCall<usize>> {
            self.first(role)
        }

        async fn call(&self, _lane: u16, work: usize) {
            // The test reads the first one.
            let _ = self.calls.try_send(work);
        }

        fn release_lead(&self) -> Option<Role> {
            None
        }

        fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
            tokio::spawn(task);
        }

        fn abort(&self) {}
    }

    /// The number of requests in the first call, if these arrive one after the other, each while the loop looks.
    async fn first_call_of(requests: usize) -> usize {
        let (calls, mut made) = mpsc::channel(1);
        let queue = Arc::new(CountedQueue {
            waiting: AtomicUsize::new(1),
            calls,
        });
        spawn_serve_loop(Arc::clone(&queue), Role::Leading);
        for _ in 1..requests {
            queue.waiting.fetch_add(1, SeqCst);
            yield_now().await;
        }
        made.recv().await.unwrap()
    }

    #[tokio::test]
    async fn requests_that_arrive_one_after_the_other_share_a_call_until_it_is_full() {
        assert_eq!(first_call_of(1).await, 1);
        assert_eq!(first_call_of(CALL - 2).await, CALL - 2);
        let full = first_call_of(1000).await;
        assert!((CALL..=CALL + 1).contains(&full), "{full}");
    }
}
