//! Group commit: what comes for a queue while a call about it is on its way gathers, and goes together in
//! the next call.
//!
//! ```text
//!  request ──► line of queue A ──► serve loop of A ──► one call, up to 64 jobs ──► Redis
//!  request ──►       ┊                  ▲                      │
//!  request ──►       ┊                  └── the next batch ◄───┘ outcomes, in order
//! ```
//!
//! There is no timer: alone, a request is sent at once and waits for nobody. Under load a call carries
//! what came during the one before it; 64 jobs in one call cost Redis a third of what they cost in 64.
//! Queues do not wait for each other.
//!
//! **Requests that end early.** A request whose client has left, or whose time limit has passed, leaves its
//! line at once. Once its wish is in a call, that call is made to its end: what was sent to Redis cannot be
//! taken back.
//!
//! **Lanes.** A queue with several lanes still has one line: its batches, not its jobs, go to the lanes in
//! turn, since a line for each lane would make batches as much smaller as there are lanes. Several calls of
//! a line are under way, each in a lane of its own, where a full batch has gathered, or where one takes so
//! long that its server must be in trouble: the others then go on without that lane.

mod line;
mod verbs;

use std::collections::HashMap;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_store::{StoreError, Unavailable};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::pool::Deployment;
use crate::size::Size;
use line::{Batch, Line, Role};
pub(crate) use verbs::{Ack, AlonePublish, NewJobs, Publish, PublishAlone};

/// A line with several lanes does not wait for a call that takes longer.
const PROMPT: Duration = Duration::from_millis(25);

/// A verb that takes many wishes in one call.
pub(crate) trait Verb: Send + Sync + 'static {
    /// What a line is about.
    type Subject: Clone + Eq + Hash + Send + Sync + 'static;
    /// What one request asks for.
    type Wish: Send + 'static;
    /// What becomes of it.
    type Outcome: Send + 'static;

    /// What a wish adds to a call.
    fn size(wish: &Self::Wish) -> Size;

    /// How many calls may be in flight at a time, at least 1, each in a lane that is its alone.
    fn lanes(to: &Deployment, subject: &Self::Subject) -> u16;

    /// Carries wishes out, all or none, and answers their outcomes in order.
    fn call(
        to: &Deployment,
        subject: &Self::Subject,
        lane: u16,
        wishes: Vec<Self::Wish>,
    ) -> impl Future<Output = Result<Vec<Self::Outcome>, StoreError>> + Send;
}

/// The lines of one verb on one Redis deployment.
#[derive(Debug)]
pub(crate) struct Batcher<V: Verb>(Arc<Inner<V>>);

struct Inner<V: Verb> {
    to: Deployment,
    lines: Mutex<Lines<V>>,
}

struct Lines<V: Verb> {
    /// A subject is in here while a wish waits, or a call about it is in flight.
    by_subject: HashMap<V::Subject, Line<Waiting<V>>>,
    /// Not by line: a line may end and begin again while a request of before has not ended.
    next_ticket: u64,
}

/// A request that waits for its outcome. Dropping it takes the wish out of the line, unless a call has it.
struct Submitted<'a, V: Verb> {
    inner: &'a Inner<V>,
    subject: &'a V::Subject,
    /// `None` = the outcome is known.
    ticket: Option<u64>,
}

impl<V: Verb> Drop for Submitted<'_, V> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.inner.leave(self.subject, ticket);
        }
    }
}

struct Waiting<V: Verb> {
    wish: V::Wish,
    outcome: oneshot::Sender<Result<V::Outcome, StoreError>>,
}

impl<V: Verb> std::fmt::Debug for Inner<V> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Batcher").finish_non_exhaustive()
    }
}

impl<V: Verb> Batcher<V> {
    pub(crate) fn new(to: Deployment) -> Self {
        let lines = Mutex::new(Lines {
            by_subject: HashMap::new(),
            next_ticket: 0,
        });
        Self(Arc::new(Inner { to, lines }))
    }

    /// Carries a wish out, together with others. Dropping the future takes the wish back, unless it is in
    /// a call already: then it may be carried out.
    ///
    /// # Errors
    /// The call that it was part of failed.
    pub(crate) async fn submit(
        &self,
        subject: &V::Subject,
        wish: V::Wish,
    ) -> Result<V::Outcome, StoreError> {
        let (sender, outcome) = oneshot::channel();
        let size = V::size(&wish);
        let waiting = Waiting {
            wish,
            outcome: sender,
        };
        let (ticket, role) = self.0.enter(subject, waiting, size);
        let mut submitted = Submitted {
            inner: &self.0,
            subject,
            ticket: Some(ticket),
        };
        if let Some(role) = role {
            spawn_serving(&self.0, subject, role);
        }
        let outcome = outcome.await;
        submitted.ticket = None;
        outcome.unwrap_or_else(|_| Err(gone()))
    }
}

impl<V: Verb> Inner<V> {
    fn lock(&self) -> MutexGuard<'_, Lines<V>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lanes(&self, subject: &V::Subject) -> u16 {
        V::lanes(&self.to, subject)
    }

    /// Puts a wish at the end of its line. Its ticket, and the role of the serve loop that has to be
    /// started, if one has to.
    fn enter(&self, subject: &V::Subject, waiting: Waiting<V>, size: Size) -> (u64, Option<Role>) {
        let lanes = self.lanes(subject);
        let mut lines = self.lock();
        let ticket = lines.next_ticket;
        lines.next_ticket += 1;
        // Under load the line is there, and the name need not be cloned.
        if let Some(line) = lines.by_subject.get_mut(subject) {
            line.push(ticket, waiting, size);
            return (ticket, line.start(lanes));
        }
        let line = lines.by_subject.entry(subject.clone()).or_default();
        line.push(ticket, waiting, size);
        (ticket, line.start(lanes))
    }

    /// Takes a wish out of its line. The line stays: a serve loop is starting, or has a call in flight.
    fn leave(&self, subject: &V::Subject, ticket: u64) {
        let mut lines = self.lock();
        let line = lines.by_subject.get_mut(subject);
        let left = line.and_then(|line| line.leave(ticket));
        drop(lines);
        drop(left);
    }

    /// What goes together next, by the line's own rules; nothing ends the loop.
    fn next_batch(
        &self,
        subject: &V::Subject,
        next: impl FnOnce(&mut Line<Waiting<V>>, u16) -> Option<Batch<Waiting<V>>>,
    ) -> Option<Batch<Waiting<V>>> {
        let lanes = self.lanes(subject);
        let mut lines = self.lock();
        let line = lines.by_subject.get_mut(subject)?;
        let batch = next(line, lanes);
        if batch.is_none() && line.is_over() {
            lines.by_subject.remove(subject);
        }
        batch
    }

    /// Has the others of a line go on without the call of its leading loop.
    fn give_up_lead(self: &Arc<Self>, subject: &V::Subject) {
        let lanes = self.lanes(subject);
        let role = self.lock().by_subject.get_mut(subject).and_then(|line| {
            line.give_up_lead();
            line.start(lanes)
        });
        if let Some(role) = role {
            spawn_serving(self, subject, role);
        }
    }
}

/// A task of its own: no caller who leaves can end it half-way.
fn spawn_serving<V: Verb>(inner: &Arc<Inner<V>>, subject: &V::Subject, role: Role) {
    let serving = Serving {
        inner: Arc::clone(inner),
        subject: subject.clone(),
    };
    tokio::spawn(serving.run(role));
}

/// A serve loop at work.
struct Serving<V: Verb> {
    inner: Arc<Inner<V>>,
    subject: V::Subject,
}

impl<V: Verb> Serving<V> {
    /// Serves the line while there is something for a loop of this role.
    async fn run(self, role: Role) {
        let subject = &self.subject;
        let first = |line: &mut Line<_>, lanes| line.first(role, lanes);
        let mut batch = self.inner.next_batch(subject, first);
        while let Some(Batch { role, lane, wishes }) = batch {
            let role = self.carry_out(role, lane, wishes).await;
            let next = |line: &mut Line<_>, lanes| line.next(role, lane, lanes);
            batch = self.inner.next_batch(subject, next);
        }
    }

    /// Makes one call, and tells everybody how it went. The role of the loop after it.
    async fn carry_out(&self, role: Role, lane: u16, batch: Vec<Waiting<V>>) -> Role {
        let Self { inner, subject } = self;
        let (wishes, callers): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|waiting| (waiting.wish, waiting.outcome))
            .unzip();
        let mut call = pin!(V::call(&inner.to, subject, lane, wishes));
        let may_give_up = role == Role::Leading && inner.lanes(subject) > 1;
        let (outcomes, role) = match may_give_up {
            false => (call.await, role),
            true => match timeout(PROMPT, &mut call).await {
                Ok(outcomes) => (outcomes, role),
                Err(_) => {
                    inner.give_up_lead(subject);
                    (call.await, Role::Extra)
                }
            },
        };
        match outcomes {
            Ok(outcomes) => {
                for (caller, outcome) in callers.into_iter().zip(outcomes) {
                    // The client may have left during the call.
                    let _ = caller.send(Ok(outcome));
                }
            }
            Err(error) => {
                for caller in callers {
                    let _ = caller.send(Err(error.clone()));
                }
            }
        }
        role
    }
}

/// A loop that ends by itself has left nobody behind. One that panicked would leave a line that nobody
/// serves: whoever is in it is told that the call failed.
impl<V: Verb> Drop for Serving<V> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.inner.lock().by_subject.remove(&self.subject);
        }
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable {
        reason: Unavailable::Away,
        detail: "the call was given up".to_owned(),
    }
}
