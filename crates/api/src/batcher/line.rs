//! The line of one subject: what waits, and which calls are under way. Pure: it knows no storage.

use std::collections::VecDeque;

use tidegate_store::PUBLISH_JOBS_MAX;

use crate::lanes::LaneSet;

/// What waits for a call.
#[derive(Debug)]
pub(super) struct Line<T> {
    waiting: VecDeque<Waiting<T>>,
    /// How many jobs that is.
    jobs: usize,
    /// Lanes that have a call under way.
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
    jobs: usize,
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
            waiting: VecDeque::new(),
            jobs: 0,
            busy: LaneSet::default(),
            starting: 0,
            led: false,
            turn: rand::random(),
        }
    }
}

impl<T> Line<T> {
    /// Puts a wish about so many jobs at the end.
    pub(super) fn push(&mut self, wish: T, jobs: usize) {
        self.waiting.push_back(Waiting { jobs, wish });
        self.jobs += jobs;
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
        let is_full = self.jobs >= PUBLISH_JOBS_MAX * (self.starting + 1);
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
        let mut jobs = 0;
        let fits = |waiting: &&Waiting<T>| {
            jobs += waiting.jobs;
            jobs <= PUBLISH_JOBS_MAX
        };
        let count = self.waiting.iter().take_while(fits).count().max(1);
        let taken = self.waiting.drain(..count);
        let wishes = taken.map(|waiting| {
            self.jobs -= waiting.jobs;
            waiting.wish
        });
        Some(Batch {
            role,
            lane,
            wishes: wishes.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(jobs: usize) -> Line<usize> {
        let mut line = Line::default();
        (0..jobs).for_each(|job| line.push(job, 1));
        line
    }

    #[test]
    fn one_call_at_a_time_takes_what_has_gathered_during_the_one_before() {
        let mut line = line(1);
        assert_eq!(line.start(1), Some(Role::Leading));
        line.push(1, 1);
        assert_eq!(line.start(1), None);
        let batch = line.first(Role::Leading, 1).unwrap();
        assert_eq!((batch.lane, batch.wishes), (0, vec![0, 1]));
        (2..200).for_each(|job| line.push(job, 1));
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
        [40, 30, 64, 1]
            .into_iter()
            .for_each(|jobs| line.push(jobs, jobs));
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
            line.push(job, 1);
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
        (0..63).for_each(|job| line.push(job, 1));
        assert_eq!(line.start(2), None);
        line.push(63, 1);
        assert_eq!(line.start(2), Some(Role::Extra));
        assert_eq!(line.start(2), None, "it is for that loop already");
        let second = line.first(Role::Extra, 2).unwrap();
        assert_ne!(first.lane, second.lane);
        assert_eq!(second.wishes.len(), 64);
        (0..64).for_each(|job| line.push(job, 1));
        assert_eq!(line.start(2), None, "no lane is free");
        let third = line.next(Role::Leading, first.lane, 2).unwrap();
        assert_eq!((third.lane, third.role), (first.lane, Role::Leading));
        line.push(0, 1);
        assert_eq!(line.next(Role::Extra, second.lane, 2), None);
        assert_eq!(line.next(Role::Leading, third.lane, 2).unwrap().wishes, [0]);
    }

    #[test]
    fn the_others_go_on_without_a_lane_whose_call_takes_long() {
        let mut line = line(1);
        assert!(line.start(2).is_some());
        let slow = line.first(Role::Leading, 2).unwrap();
        line.push(1, 1);
        line.give_up_lead();
        assert_eq!(line.start(2), Some(Role::Leading));
        let other = line.first(Role::Leading, 2).unwrap();
        assert_ne!(other.lane, slow.lane);
        line.give_up_lead();
        line.push(2, 1);
        assert_eq!(line.start(2), None, "no lane is free");
        // Whichever ends first goes on.
        let next = line.next(Role::Extra, slow.lane, 2).unwrap();
        assert_eq!((next.lane, next.role), (slow.lane, Role::Leading));
        assert_eq!(line.next(Role::Extra, other.lane, 2), None);
        assert_eq!(line.next(Role::Leading, slow.lane, 2), None);
        assert!(line.is_over());
    }
}
