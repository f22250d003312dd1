//! The batch queue of one key: the items that wait, and the calls in flight. Pure: it does no I/O.

use std::collections::BTreeMap;

use tidegate_store::{PUBLISH_JOBS_MAX, SMALL_TRANSFER_BYTES_MAX};

use crate::publish::size::PublishSize;
use crate::queue::lanes::LaneSet;
use crate::queue::serve_loop::{LaneCall, Role};

/// The most bytes that the encoding adds to a payload: the lengths of a body and of 16 attributes, and the seal.
const ENCODING_BYTES_MAX: usize = 176;
/// The most payload bytes in a call, so that it is sent over the connection for small calls.
const CALL_BYTES_MAX: usize = SMALL_TRANSFER_BYTES_MAX - PUBLISH_JOBS_MAX * ENCODING_BYTES_MAX;
/// The most that fits into one call.
const CALL: PublishSize = PublishSize {
    jobs: PUBLISH_JOBS_MAX,
    bytes: CALL_BYTES_MAX,
};

/// The items that wait for a call, and the state of the serve loops.
#[derive(Debug)]
pub(super) struct BatchQueue<T> {
    /// By ticket: the oldest item is served first, and any item can be removed.
    waiting: BTreeMap<u64, QueuedItem<T>>,
    /// The total size of the waiting items.
    size: PublishSize,
    /// The lanes with a call in flight.
    busy: LaneSet,
    /// The number of serve loops that were started and have not taken a batch yet.
    starting: usize,
    /// Whether there is a leading serve loop.
    has_leader: bool,
    /// The lane where the round-robin search for a free lane begins.
    next_lane: u16,
}

#[derive(Debug)]
struct QueuedItem<T> {
    size: PublishSize,
    item: T,
}

/// Starts with a random lane: an empty batch queue is dropped, and its round-robin position with it.
impl<T> Default for BatchQueue<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            size: PublishSize::default(),
            busy: LaneSet::default(),
            starting: 0,
            has_leader: false,
            next_lane: rand::random(),
        }
    }
}

impl<T> BatchQueue<T> {
    /// Adds an item behind all items with a lower ticket. Each ticket is used once.
    pub(super) fn push(&mut self, ticket: u64, item: T, size: PublishSize) {
        self.waiting.insert(ticket, QueuedItem { size, item });
        self.size += size;
    }

    /// Removes an item, unless a batch has taken it.
    pub(super) fn remove(&mut self, ticket: u64) -> Option<T> {
        let left = self.waiting.remove(&ticket)?;
        self.size -= left.size;
        Some(left.item)
    }

    /// The number of items that wait, if further ones fit into the next call.
    pub(super) fn gathered(&self) -> Option<usize> {
        (!self.size.reaches(CALL, 1)).then_some(self.waiting.len())
    }

    /// The role of the serve loop that the caller must start, if any.
    pub(super) fn start(&mut self, lanes: u16) -> Option<Role> {
        let role = self.role(lanes)?;
        self.busy.first_without(0, lanes)?;
        self.starting += 1;
        self.has_leader = true;
        Some(role)
    }

    /// The first batch of a serve loop; `None` ends the loop.
    pub(super) fn first_batch(&mut self, role: Role, lanes: u16) -> Option<LaneCall<Vec<T>>> {
        self.starting = self.starting.saturating_sub(1);
        // The leading loop may have taken the full batch meanwhile, and will take what came since.
        if role == Role::Extra && self.role(lanes).is_none() {
            return None;
        }
        self.take(role, lanes)
    }

    /// The next batch of a serve loop whose call in `lane` has ended; `None` ends the loop.
    pub(super) fn next_batch(
        &mut self,
        role: Role,
        lane: u16,
        lanes: u16,
    ) -> Option<LaneCall<Vec<T>>> {
        self.busy.remove(lane);
        self.has_leader &= role != Role::Leading;
        let role = self.role(lanes)?;
        self.take(role, lanes)
    }

    /// Takes the lead from a loop whose call takes long, so that another loop can have it.
    pub(super) fn release_lead(&mut self) {
        self.has_leader = false;
    }

    /// Whether no item waits and no serve loop runs.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.busy.is_empty() && self.starting == 0
    }

    /// The role that one more serve loop would have; `None` if there is no batch for it.
    fn role(&self, lanes: u16) -> Option<Role> {
        if !self.has_leader && !self.waiting.is_empty() {
            return Some(Role::Leading);
        }
        // Each loop that is starting will take a batch.
        let is_full = self.size.reaches(CALL, self.starting + 1);
        (lanes > 1 && is_full).then_some(Role::Extra)
    }

    fn take(&mut self, role: Role, lanes: u16) -> Option<LaneCall<Vec<T>>> {
        let lane = self.busy.first_without(self.next_lane, lanes);
        let Some(lane) = lane.filter(|_| !self.waiting.is_empty()) else {
            self.has_leader &= role != Role::Leading;
            return None;
        };
        self.next_lane = lane + 1;
        self.busy.insert(lane);
        self.has_leader |= role == Role::Leading;
        Some(LaneCall {
            role,
            lane,
            work: self.take_items(),
        })
    }

    /// Takes the oldest items that fit into a call, at least one.
    fn take_items(&mut self) -> Vec<T> {
        let mut items = Vec::new();
        let mut taken = PublishSize::default();
        while let Some(oldest) = self.waiting.first_entry() {
            taken += oldest.get().size;
            if !items.is_empty() && taken.exceeds(CALL) {
                break;
            }
            let QueuedItem { size, item } = oldest.remove();
            self.size -= size;
            items.push(item);
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Adds an item and returns its ticket.
    fn push_sized(queue: &mut BatchQueue<usize>, item: usize, size: PublishSize) -> u64 {
        static NEXT_TICKET: AtomicU64 = AtomicU64::new(0);
        let ticket = NEXT_TICKET.fetch_add(1, Ordering::Relaxed);
        queue.push(ticket, item, size);
        ticket
    }

    fn push(queue: &mut BatchQueue<usize>, item: usize) -> u64 {
        push_sized(queue, item, PublishSize { jobs: 1, bytes: 1 })
    }

    fn queue(jobs: usize) -> BatchQueue<usize> {
        let mut queue = BatchQueue::default();
        (0..jobs).for_each(|job| {
            push(&mut queue, job);
        });
        queue
    }

    #[test]
    fn one_call_at_a_time_takes_the_items_that_arrived_during_the_last() {
        let mut queue = queue(1);
        assert_eq!(queue.start(1), Some(Role::Leading));
        push(&mut queue, 1);
        assert_eq!(queue.start(1), None);
        let batch = queue.first_batch(Role::Leading, 1).unwrap();
        assert_eq!((batch.lane, batch.work), (0, vec![0, 1]));
        (2..200).for_each(|job| {
            push(&mut queue, job);
        });
        assert_eq!(queue.start(1), None, "the only lane is busy");
        let batch = queue.next_batch(Role::Leading, 0, 1).unwrap();
        assert_eq!(batch.work, (2..66).collect::<Vec<_>>());
        assert!(!queue.is_idle());
        while queue.next_batch(Role::Leading, 0, 1).is_some() {}
        assert!(queue.is_idle());
    }

    #[test]
    fn an_item_is_never_split() {
        let mut queue = BatchQueue::default();
        for jobs in [40, 30, 64, 1] {
            push_sized(&mut queue, jobs, PublishSize { jobs, bytes: 0 });
        }
        assert_eq!(queue.start(1), Some(Role::Leading));
        assert_eq!(queue.first_batch(Role::Leading, 1).unwrap().work, [40]);
        assert_eq!(queue.next_batch(Role::Leading, 0, 1).unwrap().work, [30]);
        assert_eq!(queue.next_batch(Role::Leading, 0, 1).unwrap().work, [64]);
        assert_eq!(queue.next_batch(Role::Leading, 0, 1).unwrap().work, [1]);
    }

    #[test]
    fn batches_go_to_the_lanes_round_robin() {
        let mut queue = queue(1);
        assert!(queue.start(4).is_some());
        let mut lane = queue.first_batch(Role::Leading, 4).unwrap().lane;
        for job in 0..8 {
            push(&mut queue, job);
            let next = queue.next_batch(Role::Leading, lane, 4).unwrap().lane;
            assert_eq!(next, (lane + 1) % 4);
            lane = next;
        }
    }

    #[test]
    fn a_full_batch_goes_to_another_lane_at_once_and_a_smaller_one_waits() {
        let mut queue = queue(10);
        assert_eq!(queue.start(2), Some(Role::Leading));
        let first = queue.first_batch(Role::Leading, 2).unwrap();
        (0..63).for_each(|job| {
            push(&mut queue, job);
        });
        assert_eq!(queue.start(2), None);
        push(&mut queue, 63);
        assert_eq!(queue.start(2), Some(Role::Extra));
        assert_eq!(queue.start(2), None, "it is for that loop already");
        let second = queue.first_batch(Role::Extra, 2).unwrap();
        assert_ne!(first.lane, second.lane);
        assert_eq!(second.work.len(), 64);
        (0..64).for_each(|job| {
            push(&mut queue, job);
        });
        assert_eq!(queue.start(2), None, "no lane is free");
        let third = queue.next_batch(Role::Leading, first.lane, 2).unwrap();
        assert_eq!((third.lane, third.role), (first.lane, Role::Leading));
        push(&mut queue, 0);
        assert_eq!(queue.next_batch(Role::Extra, second.lane, 2), None);
        assert_eq!(
            queue.next_batch(Role::Leading, third.lane, 2).unwrap().work,
            [0]
        );
    }

    #[test]
    fn an_extra_loop_takes_no_part_of_a_batch_that_the_leading_loop_gathers() {
        let mut queue = queue(1);
        assert_eq!(queue.start(2), Some(Role::Leading));
        let first = queue.first_batch(Role::Leading, 2).unwrap();
        (0..64).for_each(|job| {
            assert!(queue.gathered().is_some());
            push(&mut queue, job);
        });
        assert_eq!(queue.gathered(), None, "a call is full");
        assert_eq!(queue.start(2), Some(Role::Extra));
        let next = queue.next_batch(Role::Leading, first.lane, 2).unwrap();
        assert_eq!(next.work.len(), 64);
        push(&mut queue, 64);
        assert_eq!(queue.first_batch(Role::Extra, 2), None);
        let last = queue.next_batch(Role::Leading, next.lane, 2).unwrap();
        assert_eq!(last.work, [64]);
    }

    #[test]
    fn other_lanes_are_used_while_a_call_takes_long() {
        let mut queue = queue(1);
        assert!(queue.start(2).is_some());
        let slow = queue.first_batch(Role::Leading, 2).unwrap();
        push(&mut queue, 1);
        queue.release_lead();
        assert_eq!(queue.start(2), Some(Role::Leading));
        let other = queue.first_batch(Role::Leading, 2).unwrap();
        assert_ne!(other.lane, slow.lane);
        queue.release_lead();
        push(&mut queue, 2);
        assert_eq!(queue.start(2), None, "no lane is free");
        // The first loop whose call ends continues.
        let next = queue.next_batch(Role::Extra, slow.lane, 2).unwrap();
        assert_eq!((next.lane, next.role), (slow.lane, Role::Leading));
        assert_eq!(queue.next_batch(Role::Extra, other.lane, 2), None);
        assert_eq!(queue.next_batch(Role::Leading, slow.lane, 2), None);
        assert!(queue.is_idle());
    }

    #[test]
    fn a_batch_is_bounded_in_bytes_and_a_larger_item_has_its_own_call() {
        let mut queue = BatchQueue::default();
        let half = CALL_BYTES_MAX / 2;
        for (item, bytes) in [
            (0, half),
            (1, half),
            (2, 1),
            (3, 2 * CALL_BYTES_MAX),
            (4, 0),
        ] {
            push_sized(&mut queue, item, PublishSize { jobs: 1, bytes });
        }
        assert_eq!(queue.start(1), Some(Role::Leading));
        assert_eq!(queue.first_batch(Role::Leading, 1).unwrap().work, [0, 1]);
        assert_eq!(queue.next_batch(Role::Leading, 0, 1).unwrap().work, [2]);
        assert_eq!(queue.next_batch(Role::Leading, 0, 1).unwrap().work, [3]);
        assert_eq!(queue.next_batch(Role::Leading, 0, 1).unwrap().work, [4]);
    }

    #[test]
    fn bytes_for_a_full_batch_start_a_call_in_another_lane() {
        let mut queue = queue(1);
        assert!(queue.start(2).is_some());
        let _first = queue.first_batch(Role::Leading, 2).unwrap();
        let bytes = CALL_BYTES_MAX - 1;
        push_sized(&mut queue, 1, PublishSize { jobs: 1, bytes });
        assert_eq!(queue.start(2), None);
        push(&mut queue, 2);
        assert_eq!(queue.start(2), Some(Role::Extra));
        assert_eq!(queue.first_batch(Role::Extra, 2).unwrap().work, [1, 2]);
    }

    #[test]
    fn a_removed_item_is_in_no_batch_and_not_in_the_size() {
        let mut queue = BatchQueue::default();
        let tickets = [0, 1, 2].map(|item| push(&mut queue, item));
        assert!(queue.start(1).is_some());
        assert_eq!(queue.remove(tickets[1]), Some(1));
        assert_eq!(queue.remove(tickets[1]), None);
        assert_eq!(queue.size, PublishSize { jobs: 2, bytes: 2 });
        assert_eq!(queue.first_batch(Role::Leading, 1).unwrap().work, [0, 2]);
        assert_eq!(queue.remove(tickets[2]), None, "a batch has taken it");
        assert_eq!(queue.size, PublishSize::default());
        assert_eq!(queue.next_batch(Role::Leading, 0, 1), None);
        assert!(queue.is_idle());
    }

    #[test]
    fn a_queue_without_items_is_over_once_its_serve_loop_has_checked() {
        let mut queue = BatchQueue::default();
        let ticket = push(&mut queue, 0);
        assert_eq!(queue.start(1), Some(Role::Leading));
        queue.remove(ticket);
        assert!(!queue.is_idle(), "a serve loop is starting");
        assert_eq!(queue.first_batch(Role::Leading, 1), None);
        assert!(queue.is_idle());
        push(&mut queue, 1);
        assert_eq!(queue.start(1), Some(Role::Leading));
    }
}
