//! The queues of a run, and the state that all its clients share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rand::RngExt;
use rand::rngs::StdRng;

use crate::history::TokenLimit;
use crate::recorder::Recorder;

/// Number of queues that are used during the whole run.
pub(crate) const QUEUES: u16 = 16;
/// The queues whose consumers hang up.
pub(super) const ROUGH: std::ops::Range<u16> = 8..12;
/// The queues whose ready and dead jobs are purged.
pub(super) const PURGED: [u16; 2] = [12, 13];
/// The queues whose number of lanes changes. The others are always FIFO.
pub(crate) const LANED: [u16; 8] = [1, 3, 5, 7, 9, 13, 19, 21];
/// The queue for the token with a rate limit. The next one is for tokens that are revoked.
pub(crate) const LIMITED_QUEUE: u16 = 14;
pub(super) const GUEST_QUEUE: u16 = 15;
/// The queue with many jobs.
pub(super) const LARGE_QUEUE: u16 = 6;
/// The queue of the single client whose order is judged.
pub(super) const ORDERED_QUEUE: u16 = QUEUES;
/// The queue of the clients without a proxy.
pub(super) const DIRECT_QUEUE: u16 = ORDERED_QUEUE + 1;
/// The queues of native clients.
pub(crate) const NATIVE_QUEUES: std::ops::RangeInclusive<u16> = DIRECT_QUEUE + 1..=LAST_NATIVE;
/// The native queues that clients of the lmstfy wire use, too.
pub(super) const MIXED_QUEUES: std::ops::RangeInclusive<u16> = LAST_NATIVE - 1..=LAST_NATIVE;
const LAST_NATIVE: u16 = DIRECT_QUEUE + 5;
/// The queue with a limit of leased jobs of each group.
pub(super) const GROUPED_QUEUE: u16 = LAST_NATIVE + 1;
/// The queue with a rate.
pub(super) const RATED_QUEUE: u16 = GROUPED_QUEUE + 1;
/// The queue of the single client whose turns of groups and priorities are judged.
pub(super) const TURNS_QUEUE: u16 = RATED_QUEUE + 1;
/// The last queue that is used during the whole run.
const LAST_QUEUE: u16 = TURNS_QUEUE;
/// The number of the first short-lived queue.
pub(super) const FIRST_SHORT_LIVED: u16 = 1000;
pub(super) const SHORT_LIVED_MAX: u16 = 24;

/// The token with a rate limit.
pub(crate) const LIMIT: TokenLimit = TokenLimit {
    token: 1,
    publishes: 5,
    consumes: 4,
    window: 1_000_000,
};
/// The number of the first token that is revoked.
const FIRST_GUEST: u16 = 2;

/// Returns the queues that are used during the whole run, except the queues of single clients.
pub(crate) fn steady_queues() -> impl Iterator<Item = u16> + Clone {
    (0..QUEUES)
        .chain(NATIVE_QUEUES)
        .chain([GROUPED_QUEUE, RATED_QUEUE])
}

/// Returns all queues that a run may use.
pub(crate) fn all_queues() -> impl Iterator<Item = u16> + Clone {
    (0..=LAST_QUEUE).chain(FIRST_SHORT_LIVED..FIRST_SHORT_LIVED + SHORT_LIVED_MAX)
}

/// A recently published job.
#[derive(Debug, Clone)]
pub(super) struct RecentJob {
    pub(super) queue: u16,
    pub(super) id: String,
    /// The number of its key.
    pub(super) key: Option<u32>,
}

/// State that all clients of a run share.
#[derive(Debug)]
pub(crate) struct ClientState {
    pub(crate) recorder: Recorder,
    /// The number and text of the guests' current token.
    pub(super) guest: Mutex<(u16, String)>,
    /// Recent jobs of the lmstfy wire, and of native queues.
    recent: [Mutex<VecDeque<RecentJob>>; 2],
    pub(super) numbers: AtomicU64,
    pub(super) short_lived: AtomicU16,
    pub(super) publishing_ended: AtomicBool,
    pub(super) ended: AtomicBool,
    /// Whether consumers always ack and never hang up, so that the queues drain.
    pub(super) is_careful: AtomicBool,
}

impl ClientState {
    pub(super) fn new(guest: &str) -> Self {
        Self {
            recorder: Recorder::default(),
            guest: Mutex::new((FIRST_GUEST, guest.to_owned())),
            recent: Default::default(),
            numbers: AtomicU64::new(0),
            short_lived: AtomicU16::new(0),
            publishing_ended: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            is_careful: AtomicBool::new(false),
        }
    }

    /// Returns the number and text of the guests' current token.
    pub(crate) fn guest(&self) -> (u16, String) {
        locked(&self.guest).clone()
    }

    pub(crate) fn set_guest(&self, number: u16, token: String) {
        *locked(&self.guest) = (number, token);
    }

    /// Returns all queues used so far, including short-lived ones.
    pub(crate) fn queues(&self) -> impl Iterator<Item = u16> + Clone + use<> {
        let short_lived = self.short_lived.load(Ordering::Relaxed);
        (0..=LAST_QUEUE).chain(FIRST_SHORT_LIVED..FIRST_SHORT_LIVED + short_lived)
    }

    /// Returns an unused short-lived queue; `None` after 24 of them.
    pub(super) fn next_queue(&self) -> Option<u16> {
        let taken = self.short_lived.fetch_add(1, Ordering::Relaxed);
        if taken >= SHORT_LIVED_MAX {
            self.short_lived.store(SHORT_LIVED_MAX, Ordering::Relaxed);
            return None;
        }
        Some(FIRST_SHORT_LIVED + taken)
    }

    pub(super) fn add_recent(&self, recent: RecentJob) {
        const REMEMBERED: usize = 64;
        let is_native = NATIVE_QUEUES.contains(&recent.queue);
        let mut all = locked(&self.recent[usize::from(is_native)]);
        if all.len() == REMEMBERED {
            all.pop_front();
        }
        all.push_back(recent);
    }

    /// Draws a recent job of the lmstfy wire.
    pub(super) fn recent(&self, random: &mut StdRng) -> Option<RecentJob> {
        drawn_from(&locked(&self.recent[0]), random)
    }

    /// Draws a recent job of a native queue.
    pub(super) fn recent_native(&self, random: &mut StdRng) -> Option<RecentJob> {
        drawn_from(&locked(&self.recent[1]), random)
    }

    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn is_publishing_over(&self) -> bool {
        self.publishing_ended.load(Ordering::Relaxed)
    }

    pub(super) fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn is_careful(&self) -> bool {
        self.is_careful.load(Ordering::Relaxed)
    }
}

fn drawn_from(recent: &VecDeque<RecentJob>, random: &mut StdRng) -> Option<RecentJob> {
    (!recent.is_empty()).then(|| recent[random.random_range(0..recent.len())].clone())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
