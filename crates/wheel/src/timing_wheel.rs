//! The timers: a hierarchical timing wheel without a clock of its own.

use crate::slots::{LEVELS, NONE, Slots};

/// Names a timer of one [`TimingWheel`]. A key is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerKey {
    index: u32,
    generation: u32,
}

/// Timers with a resolution of one tick. Inserting and cancelling take constant time, however many timers there are.
///
/// The wheel has eleven levels of 64 slots, so that it spans all 2^64 ticks. A slot of level 0 is one tick wide, one of
/// each further level 64 times the width of the level below. A timer is in the lowest level in which its slot is not
/// the slot of the current tick. When the wheel reaches a slot of a higher level, its timers move to lower ones: scheme
/// 7 of Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987).
///
/// It has neither a clock nor a lock: the caller says what tick it is.
///
/// ```
/// use tidegate_wheel::TimingWheel;
///
/// let mut wheel = TimingWheel::new();
/// let close = wheel.insert(1800, "close the order");
/// wheel.insert(60, "remind");
/// assert_eq!(wheel.cancel(close), Some("close the order"));
///
/// let mut expired = Vec::new();
/// wheel.advance(60, usize::MAX, &mut expired);
/// assert_eq!(expired, [(60, "remind")]);
/// ```
#[derive(Debug)]
pub struct TimingWheel<T> {
    /// The tick that was reached. No timer of an earlier tick is left.
    now: u64,
    slots: Slots,
    timers: Vec<Timer<T>>,
    /// The first unused place in `timers`; the others follow as its `next`.
    unused: u32,
    len: usize,
}

#[derive(Debug)]
struct Timer<T> {
    due: u64,
    /// In its slot; `NONE` = it is the first.
    previous: u32,
    /// In its slot, or among the unused places.
    next: u32,
    generation: u32,
    /// Where it is. Not computed from `due`, as `now` may have come to its slot before it was moved to a lower level.
    slot: u16,
    value: Option<T>,
}

impl<T> Default for TimingWheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> TimingWheel<T> {
    /// Makes a wheel at tick 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            now: 0,
            slots: Slots::default(),
            timers: Vec::new(),
            unused: NONE,
            len: 0,
        }
    }

    /// Returns the number of timers.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no timer.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values of all timers, in no order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.timers.iter().filter_map(|timer| timer.value.as_ref())
    }

    /// Adds a timer that expires at this tick. One whose tick has passed expires with the next
    /// [`advance`](Self::advance).
    ///
    /// # Panics
    ///
    /// If there are 2^32 - 1 timers.
    pub fn insert(&mut self, due: u64, value: T) -> TimerKey {
        let index = self.take_unused();
        let timer = &mut self.timers[index as usize];
        timer.due = due.max(self.now);
        timer.value = Some(value);
        let key = TimerKey {
            index,
            generation: timer.generation,
        };
        self.len += 1;
        self.link(index);
        key
    }

    /// Removes a timer; `None` if it has expired or was cancelled.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let timer = self.timers.get(key.index as usize)?;
        if timer.generation != key.generation {
            return None;
        }
        self.unlink(key.index);
        Some(self.release(key.index).1)
    }

    /// Returns the tick at which [`advance`](Self::advance) has something to do next: not later than the first timer
    /// expires, and earlier if timers must move to a lower level first. `None` = there is no timer.
    #[must_use]
    pub fn next_tick(&self) -> Option<u64> {
        self.slots.first(self.now).map(|slot| slot.begin)
    }

    /// Moves on to this tick and appends the timers that have expired, with their ticks, in the order of these. It ends
    /// early after `steps` timers have expired or moved to a lower level, so that a caller can release a lock; returns
    /// whether it is done.
    pub fn advance(&mut self, to: u64, steps: usize, expired: &mut Vec<(u64, T)>) -> bool {
        let mut steps_left = steps;
        while let Some(slot) = self.slots.first(self.now).filter(|it| it.begin <= to) {
            if steps_left == 0 {
                return false;
            }
            steps_left -= 1;
            self.now = slot.begin;
            let index = self.slots.head(slot.index);
            self.unlink(index);
            if slot.is_of_lowest_level() {
                expired.push(self.release(index));
            } else {
                self.link(index);
            }
        }
        self.now = self.now.max(to);
        true
    }

    fn take_unused(&mut self) -> u32 {
        let index = self.unused;
        if index != NONE {
            self.unused = self.timers[index as usize].next;
            return index;
        }
        let index = u32::try_from(self.timers.len()).ok();
        let index = index.filter(|index| *index != NONE);
        let index = index.expect("a wheel has at most 2^32 - 1 timers");
        self.timers.push(Timer {
            due: 0,
            previous: NONE,
            next: NONE,
            generation: 0,
            slot: 0,
            value: None,
        });
        index
    }

    /// Makes a place unused; returns the tick and the value of its timer, which is in no slot.
    fn release(&mut self, index: u32) -> (u64, T) {
        let timer = &mut self.timers[index as usize];
        timer.generation = timer.generation.wrapping_add(1);
        timer.next = self.unused;
        self.unused = index;
        self.len -= 1;
        let value = timer.value.take().expect("a timer in a slot has a value");
        (timer.due, value)
    }

    fn link(&mut self, index: u32) {
        let slot = Slots::index_of(self.timers[index as usize].due, self.now);
        let head = self.slots.replace_head(slot, index);
        let timer = &mut self.timers[index as usize];
        (timer.slot, timer.previous, timer.next) = (slot, NONE, head);
        if head != NONE {
            self.timers[head as usize].previous = index;
        }
    }

    fn unlink(&mut self, index: u32) {
        let timer = &self.timers[index as usize];
        let (slot, previous, next) = (timer.slot, timer.previous, timer.next);
        if next != NONE {
            self.timers[next as usize].previous = previous;
        }
        if previous == NONE {
            self.slots.replace_head(slot, next);
        } else {
            self.timers[previous as usize].next = next;
        }
    }
}

const _: () = assert!(LEVELS * 6 >= 64, "the levels span all ticks");
