//! The line of one subject: what waits, and which calls are in flight. Pure: it knows no storage.

use std::collections::BTreeMap;

use tidegate_store::{PUBLISH_JOBS_MAX, SMALL_TRANSFER_BYTES_MAX};

use crate::lanes::LaneSet;
use crate::size::Size;

/// What the encoding adds to a payload: the lengths of a body and of 16 attributes, and the seal.
const ENCODING_BYTES_MAX: usize = 176;
/// The most payload bytes in a call, so that it goes over the connection that all calls share.
const CALL_BYTES_MAX: usize = SMALL_TRANSFER_BYTES_MAX - PUBLISH_JOBS_MAX * ENCODING_BYTES_MAX;
/// What fits into one call.
const CALL: Size = Size {
    jobs: PUBLISH_JOBS_MAX,
    bytes: CALL_BYTES_MAX,
};

/// What waits for a call.
#[derive(Debug)]
pub(super) struct Line<T> {
    /// By ticket: the oldest is served first, and any can leave.
    waiting: BTreeMap<u64, Waiting<T>>,
    /// The size of all that waits.
    size: Size,
    /// Lanes that have a call in flight.
    busy: LaneSet,
    /// Serve loops that were started and have not taken a batch yet.
    starting: usize,
    /// Whether there is a leading serve loop.
    led: bool,
    /// The lane that is next in turn.
    turn: u16,
}

#[derive(Debug)]
struct Waiting<T> {
    size: Size,
    wish: T,
}

/// What a serve loop takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Whatever has gathered. There is one such loop at a time, and all others wait for its calls.
    Leading,
    /// Full batches.
    Extra,
}

/// What goes together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch<T> {
    pub(super) role: Role,
    pub(super) lane: u16,
    pub(super) wishes: Vec<T>,
}

/// Begins with any lane: a line that nobody is in is forgotten, and with it whose turn it was.
impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            size: Size::default(),
            busy: LaneSet::default(),
            starting: 0,
            led: false,
            turn: rand::random(),
        }
    }
}

impl<T> Line<T> {
    /// Adds a wish behind all with a lower ticket. A ticket is used once.
    pub(super) fn push(&mut self, ticket: u64, wish: T, size: Size) {
        self.waiting.insert(ticket, Waiting { size, wish });
        self.size += size;
    }

    /// Removes a wish, unless a batch has taken it.
    pub(super) fn leave(&mut self, ticket: u64) -> Option<T> {
        let left = self.waiting.remove(&ticket)?;
        self.size -= left.size;
        Some(left.wish)
    }

    /// The role of a serve loop that has to be started, if one has to.
    pub(super) fn start(&mut self, lanes: u16) -> Option<Role> {
        let role = self.role(lanes)?;
        self.busy.first_without(0, lanes)?;
        self.starting += 1;
        self.led = true;
        Some(role)
    }

    /// The first batch of a serve loop.
    pub(super) fn first(&mut self, role: Role, lanes: u16) -> Option<Batch<T>> {
        self.starting = self.starting.saturating_sub(1);
        self.take(role, lanes)
    }

    /// What a serve loop goes on with when its call in a lane has ended.
    pub(super) fn next(&mut self, role: Role, lane: u16, lanes: u16) -> Option<Batch<T>> {
        self.busy.remove(lane);
        self.led &= role != Role::Leading;
        let role = self.role(lanes)?;
        self.take(role, lanes)
    }

    /// The call of the leading loop takes long: the others go on without it.
    pub(super) fn give_up_lead(&mut self) {
        self.led = false;
    }

    /// Nothing waits, and nobody serves.
    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.busy.is_empty() && self.starting == 0
    }

    /// What another serve loop would have to do.
    fn role(&self, lanes: u16) -> Option<Role> {
        if !self.led && !self.waiting.is_empty() {
            return Some(Role::Leading);
        }
        // Each loop that is starting is going to take a batch.
        let is_full = self.size.reaches(CALL * (self.starting + 1));
        (lanes > 1 && is_full).then_some(Role::Extra)
    }

    fn take(&mut self, role: Role, lanes: u16) -> Option<Batch<T>> {
        let lane = self.busy.first_without(self.turn, lanes);
        let Some(lane) = lane.filter(|_| !self.waiting.is_empty()) else {
            self.led &= role != Role::Leading;
            return None;
        };
        self.turn = lane + 1;
        self.busy.insert(lane);
        self.led |= role == Role::Leading;
        Some(Batch {
            role,
            lane,
            wishes: self.take_wishes(),
        })
    }

    /// The oldest wishes that fit into a call; at least one.
    fn take_wishes(&mut self) -> Vec<T> {
        let mut wishes = Vec::new();
        let mut taken = Size::default();
        while let Some(oldest) = self.waiting.first_entry() {
            taken += oldest.get().size;
            if !wishes.is_empty() && taken.exceeds(CALL) {
                break;
            }
            let Waiting { size, wish } = oldest.remove();
            self.size -= size;
            wishes.push(wish);
        }
        wishes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Adds a wish about some jobs, and answers its ticket.
    fn push_sized(line: &mut Line<usize>, wish: usize, size: Size) -> u64 {
        static NEXT_TICKET: AtomicU64 = AtomicU64::new(0);
        let ticket = NEXT_TICKET.fetch_add(1, Ordering::Relaxed);
        line.push(ticket, wish, size);
        ticket
    }

    fn push(line: &mut Line<usize>, wish: usize) -> u64 {
        push_sized(line, wish, Size { jobs: 1, bytes: 1 })
    }

    fn line(jobs: usize) -> Line<usize> {
        let mut line = Line::default();
        (0..jobs).for_each(|job| {
            push(&mut line, job);
        });
        line
    }

    #[test]
    fn one_call_at_a_time_takes_what_has_gathered_during_the_one_before() {
        let mut line = line(1);
        assert_eq!(line.start(1), Some(Role::Leading));
        push(&mut line, 1);
        assert_eq!(line.start(1), None);
        let batch = line.first(Role::Leading, 1).unwrap();
        assert_eq!((batch.lane, batch.wishes), (0, vec![0, 1]));
        (2..200).for_each(|job| {
            push(&mut line, job);
        });
        assert_eq!(line.start(1), None, "the only lane is busy");
        let batch = line.next(Role::Leading, 0, 1).unwrap();
        assert_eq!(batch.wishes, (2..66).collect::<Vec<_>>());
        assert!(!line.is_over());
        while line.next(Role::Leading, 0, 1).is_some() {}
        assert!(line.is_over());
    }

    #[test]
    fn a_wish_is_never_split() {
        let mut line = Line::default();
        for jobs in [40, 30, 64, 1] {
            push_sized(&mut line, jobs, Size { jobs, bytes: 0 });
        }
        assert_eq!(line.start(1), Some(Role::Leading));
        assert_eq!(line.first(Role::Leading, 1).unwrap().wishes, [40]);
        assert_eq!(line.next(Role::Leading, 0, 1).unwrap().wishes, [30]);
        assert_eq!(line.next(Role::Leading, 0, 1).unwrap().wishes, [64]);
        assert_eq!(line.next(Role::Leading, 0, 1).unwrap().wishes, [1]);
    }

    #[test]
    fn batches_go_to_the_lanes_in_turn() {
        let mut line = line(1);
        assert!(line.start(4).is_some());
        let mut lane = line.first(Role::Leading, 4).unwrap().lane;
        for job in 0..8 {
            push(&mut line, job);
            let next = line.next(Role::Leading, lane, 4).unwrap().lane;
            assert_eq!(next, (lane + 1) % 4);
            lane = next;
        }
    }

    #[test]
    fn a_full_batch_goes_to_another_lane_at_once_and_less_waits() {
        let mut line = line(10);
        assert_eq!(line.start(2), Some(Role::Leading));
        let first = line.first(Role::Leading, 2).unwrap();
        (0..63).for_each(|job| {
            push(&mut line, job);
        });
        assert_eq!(line.start(2), None);
        push(&mut line, 63);
        assert_eq!(line.start(2), Some(Role::Extra));
        assert_eq!(line.start(2), None, "it is for that loop already");
        let second = line.first(Role::Extra, 2).unwrap();
        assert_ne!(first.lane, second.lane);
        assert_eq!(second.wishes.len(), 64);
        (0..64).for_each(|job| {
            push(&mut line, job);
        });
        assert_eq!(line.start(2), None, "no lane is free");
        let third = line.next(Role::Leading, first.lane, 2).unwrap();
        assert_eq!((third.lane, third.role), (first.lane, Role::Leading));
        push(&mut line, 0);
        assert_eq!(line.next(Role::Extra, second.lane, 2), None);
        assert_eq!(line.next(Role::Leading, third.lane, 2).unwrap().wishes, [0]);
    }

    #[test]
    fn the_others_go_on_without_a_lane_whose_call_takes_long() {
        let mut line = line(1);
        assert!(line.start(2).is_some());
        let slow = line.first(Role::Leading, 2).unwrap();
        push(&mut line, 1);
        line.give_up_lead();
        assert_eq!(line.start(2), Some(Role::Leading));
        let other = line.first(Role::Leading, 2).unwrap();
        assert_ne!(other.lane, slow.lane);
        line.give_up_lead();
        push(&mut line, 2);
        assert_eq!(line.start(2), None, "no lane is free");
        // Whichever ends first goes on.
        let next = line.next(Role::Extra, slow.lane, 2).unwrap();
        assert_eq!((next.lane, next.role), (slow.lane, Role::Leading));
        assert_eq!(line.next(Role::Extra, other.lane, 2), None);
        assert_eq!(line.next(Role::Leading, slow.lane, 2), None);
        assert!(line.is_over());
    }

    #[test]
    fn a_batch_is_bounded_in_bytes_and_a_larger_wish_goes_alone() {
        let mut line = Line::default();
        let half = CALL_BYTES_MAX / 2;
        for (wish, bytes) in [
            (0, half),
            (1, half),
            (2, 1),
            (3, 2 * CALL_BYTES_MAX),
            (4, 0),
        ] {
            push_sized(&mut line, wish, Size { jobs: 1, bytes });
        }
        assert_eq!(line.start(1), Some(Role::Leading));
        assert_eq!(line.first(Role::Leading, 1).unwrap().wishes, [0, 1]);
        assert_eq!(line.next(Role::Leading, 0, 1).unwrap().wishes, [2]);
        assert_eq!(line.next(Role::Leading, 0, 1).unwrap().wishes, [3]);
        assert_eq!(line.next(Role::Leading, 0, 1).unwrap().wishes, [4]);
    }

    #[test]
    fn bytes_for_a_full_batch_start_a_call_in_another_lane() {
        let mut line = line(1);
        assert!(line.start(2).is_some());
        let _first = line.first(Role::Leading, 2).unwrap();
        let bytes = CALL_BYTES_MAX - 1;
        push_sized(&mut line, 1, Size { jobs: 1, bytes });
        assert_eq!(line.start(2), None);
        push(&mut line, 2);
        assert_eq!(line.start(2), Some(Role::Extra));
        assert_eq!(line.first(Role::Extra, 2).unwrap().wishes, [1, 2]);
    }

    #[test]
    fn a_wish_that_left_is_in_no_batch_and_no_sum() {
        let mut line = Line::default();
        let tickets = [0, 1, 2].map(|wish| push(&mut line, wish));
        assert!(line.start(1).is_some());
        assert_eq!(line.leave(tickets[1]), Some(1));
        assert_eq!(line.leave(tickets[1]), None);
        assert_eq!(line.size, Size { jobs: 2, bytes: 2 });
        assert_eq!(line.first(Role::Leading, 1).unwrap().wishes, [0, 2]);
        assert_eq!(line.leave(tickets[2]), None, "a batch has taken it");
        assert_eq!(line.size, Size::default());
        assert_eq!(line.next(Role::Leading, 0, 1), None);
        assert!(line.is_over());
    }

    #[test]
    fn a_line_that_all_have_left_is_over_once_its_serve_loop_has_looked() {
        let mut line = Line::default();
        let ticket = push(&mut line, 0);
        assert_eq!(line.start(1), Some(Role::Leading));
        line.leave(ticket);
        assert!(!line.is_over(), "a serve loop is starting");
        assert_eq!(line.first(Role::Leading, 1), None);
        assert!(line.is_over());
        push(&mut line, 1);
        assert_eq!(line.start(1), Some(Role::Leading));
    }
}
