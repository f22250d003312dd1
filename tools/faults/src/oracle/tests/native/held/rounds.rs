//! The longest time for which a priority waits, among all states of the counters of `lua/taking.lua`.

use std::collections::BTreeSet;

const ROUND: usize = 8;
const LEVELS: usize = 5;

/// The counters of a queue. A higher level is a lower priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Counters {
    /// The place in the round of the next job.
    place: usize,
    /// The level from which the last job of a round was taken.
    lower: usize,
    /// The level of the job before.
    before: usize,
}

impl Counters {
    fn all() -> BTreeSet<Self> {
        let numbers = 0..ROUND * LEVELS * LEVELS;
        let counters = numbers.map(|number| Self {
            place: number % ROUND,
            lower: number / ROUND % LEVELS,
            before: number / ROUND / LEVELS,
        });
        counters.collect()
    }

    /// Takes a job of a queue with jobs of these levels, sorted. Returns the counters after it, which have its level.
    fn take(self, levels: &[usize]) -> Self {
        let Self {
            place,
            mut lower,
            before,
        } = self;
        let (mut level, last) = (levels[0], levels[levels.len() - 1]);
        if (last > level || level > before) && place == ROUND - 1 {
            let behind = match before.max(lower) {
                highest if highest < last => Some(highest + 1),
                _ => (before < last).then_some(before + 1),
            };
            if let Some(behind) = behind {
                let next = levels.iter().find(|it| **it >= behind);
                level = level.max(*next.expect("the last one is behind"));
                lower = level;
            }
        }
        Self {
            place: (place + 1) % ROUND,
            lower,
            before: level,
        }
    }
}

/// Returns all sets of levels with jobs that contain this one.
fn sets_with(level: usize) -> Vec<Vec<usize>> {
    let masks = (0..1_usize << LEVELS).filter(|mask| mask & (1 << level) != 0);
    let set = |mask: usize| (0..LEVELS).filter(|it| mask & (1 << it) != 0).collect();
    masks.map(set).collect()
}

/// Returns how many jobs of others come one after the other at most while a level has jobs, whatever others have any.
fn passed_at_most(level: usize) -> usize {
    let sets = sets_with(level);
    let mut states = Counters::all();
    for passed in 0.. {
        let nexts = states
            .iter()
            .flat_map(|state| sets.iter().map(|set| state.take(set)));
        states = nexts.filter(|next| next.before != level).collect();
        if states.is_empty() {
            return passed;
        }
        assert!(passed < 1000, "level {level} starves");
    }
    unreachable!("the numbers do not end")
}

#[test]
fn a_priority_is_passed_over_by_four_rounds_at_most() {
    assert_eq!(passed_at_most(0), 1);
    for level in 1..LEVELS {
        assert_eq!(passed_at_most(level), 4 * ROUND);
    }
}
