//! Consumers that wait for jobs, and how jobs reach them.
//!
//! ```text
//!  consumer ──takes──► seat ──enters──► wait queue of A ──► serve loop of A ──► store.reserve
//!    ▲                  │               (seats in order)    a lane at a time   (claims in order)
//!    │                  └──enters─────► wait queue of B ──► serve loop of B          │
//!    │                                        ▲                                      │
//!    │                                        │ ring: doorbell, poll, arrival        │
//!    └── delivery ◄── first jobs win ◄────────┴──────── jobs, in order ◄─────────────┘
//!          │
//!          └── not written to the client? ──► store.release, without using up an attempt
//! ```
//!
//! | term | meaning |
//! |---|---|
//! | source | a queue in one Redis deployment |
//! | seat | receives the jobs of one waiting consumer, and holds its claim: how many jobs, for how long |
//! | wait queue | the seats that wait for jobs of one source |
//! | round | one `reserve` call for a lane, on behalf of the seats of a wait queue |
//! | serve loop | the task that runs the rounds of a wait queue |
//!
//! **Enter first, then check.** A consumer enters the wait queue of a source before the source is checked for it. A job
//! that is published in between rings a wait queue that the consumer is in, so no wake-up is lost.
//!
//! **One serve loop for each source.** A round takes the claims of the seats in order of arrival and makes one call for
//! all of them; seats that arrive during the call are served by the next one. So a thousand consumers of one queue cost
//! a few calls, not a thousand, and are served in order of arrival. The loop continues while a seat has not had a round
//! that began after its arrival, or the wait queue was rung during the call, or all claims were filled, which means
//! that there may be more jobs.
//!
//! **Lanes.** The rounds of a wait queue check the lanes of its queue round-robin, one call at a time. While consumers
//! wait, a lane that fills all claims has a turn of a few ms (`wait_queue/lane_turn.rs`). A wait queue for each lane
//! would make calls with few claims. A seat has had its first round when all lanes were checked for it. A doorbell says
//! in which lane it rang. If a call takes long, its server probably has a problem: the rounds continue without that
//! lane.
//!
//! **Several sources.** A seat enters the wait queues of its sources one after the other, and waits each time until a
//! round has found no job there: this keeps the strict order of queues. Then it waits in all of them at once. If two
//! sources deliver at the same moment, the jobs of the second go to another seat of that wait queue, or are released. A
//! seat does not wait for a source whose last call failed, or whose servers have been slow for long: it stays in that
//! wait queue and continues with the next source ([`slow`]). It does so for a few sources at a time; the others of the
//! kind are put off until these were checked.
//!
//! **Many sources.** A check costs as much as a request. Beyond the first checks of each consumer, the consumers of a
//! namespace have a bounded number of checks in flight ([`check_share`]), and a consumer enters and leaves a bounded
//! number of wait queues in one step.
//!
//! **Undelivered jobs are released.** Every reserved job is owned by a value that releases it when dropped: the seat,
//! then the [`Delivery`], then [`Delivered`] in the body of the response, until hyper has taken the bytes. When a
//! client hangs up, the future of its request is dropped, and all of these with it.
//!
//! **A failed call ends no wait.** Seats stay in the wait queues while Redis is unavailable. [`retry`] repeats failed
//! calls, for a few wait queues of a pool at a time, and for all of them once a call succeeds.
//!
//! **Paused queues.** A round for a queue whose policy pauses it finds nothing, without a call to Redis. Its consumers
//! stay in the wait queue, which is rung when the pause ends.
//!
//! **Running jobs.** A round has the limit of its queue, or the share of its lane. Jobs that the limit holds back count
//! as jobs of an empty lane: the process is registered, and the end of a lease sends a doorbell
//! (`docs/decisions/0046-policies.md`).
//!
//! **Rates.** A round of a queue whose policy has a rate, or names a limit, takes units for its jobs before it reserves
//! them, and gives back those that it does not use. If there are fewer than it wants, the wait queue is on hold until
//! the next one is due, by one timer: no round begins, whatever rings it, and consumers that do not wait get no job
//! (`docs/decisions/0085-rates.md`).
//!
//! **A doorbell rings one process.** A round that leaves no job registers the process for the lane, and the next job
//! rings one of the registered processes. A consumer that arrives meanwhile needs no round for the last of its sources.
//! A process without consumers passes its doorbell on (`docs/decisions/0057-addressed-doorbells.md`).
//!
//! **Messages are hints.** [`wake`] rings wait queues when a doorbell arrives. In case the message was lost, [`poll`]
//! asks each bucket once in `waiters.poll_interval` which of the queues that are waited for there have jobs, and rings
//! those; [`new_subscription`] does so at once when a connection for messages was lost.

mod check_share;
mod delivery;
mod hold_timer;
mod new_subscription;
mod parked_waiter;
mod poll;
mod retry;
mod retry_signal;
mod round;
mod seat;
mod shared;
mod slow;
pub(crate) mod source;
mod wait;
mod wait_limits;
mod wait_queue;
mod wake;

pub(crate) use delivery::ReservedJob;
pub use delivery::{Delivered, Delivery};
pub use source::Source;
pub use wait::Waiters;
pub use wait_limits::{WaitLimits, WaitPermit};
