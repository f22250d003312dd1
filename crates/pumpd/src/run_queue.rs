//! Buckets that are up, in the order in which they are run.

use std::collections::VecDeque;

/// One in so many runs is for the backlog, even if others wait.
const BACKLOG_SHARE: u32 = 4;

/// Why it is a bucket's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Its moment has come.
    Timely,
    /// It was run just now and has more to do.
    Backlog,
}

/// Those whose moment has come, and those that were run just now and have more to do.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    timely: VecDeque<u16>,
    backlog: VecDeque<u16>,
    runs: u32,
}

impl RunQueue {
    /// The moment of this bucket has come.
    pub(crate) fn push_timely(&mut self, bucket: u16) {
        self.timely.push_back(bucket);
    }

    /// This bucket was run just now and has more to do.
    pub(crate) fn push_backlog(&mut self, bucket: u16) {
        self.backlog.push_back(bucket);
    }

    /// The next to run; not one of the backlog unless that may be.
    pub(crate) fn pop(&mut self, backlog_may_run: bool) -> Option<(u16, Turn)> {
        self.runs = self.runs.wrapping_add(1);
        let turns = match (backlog_may_run, self.runs.is_multiple_of(BACKLOG_SHARE)) {
            (false, _) => &[Turn::Timely][..],
            (true, true) => &[Turn::Backlog, Turn::Timely],
            (true, false) => &[Turn::Timely, Turn::Backlog],
        };
        turns.iter().find_map(|&turn| {
            let queue = match turn {
                Turn::Timely => &mut self.timely,
                Turn::Backlog => &mut self.backlog,
            };
            queue.pop_front().map(|bucket| (bucket, turn))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_due_goes_before_a_backlog_which_goes_on_all_the_same() {
        let mut queue = RunQueue::default();
        for bucket in 0..4 {
            queue.push_backlog(bucket);
        }
        for bucket in 10..14 {
            queue.push_timely(bucket);
        }
        let order: Vec<(u16, Turn)> = std::iter::from_fn(|| queue.pop(true)).collect();
        let buckets: Vec<u16> = order.iter().map(|(bucket, _)| *bucket).collect();
        assert_eq!(buckets, [10, 11, 12, 0, 13, 1, 2, 3]);
        for (bucket, turn) in order {
            assert_eq!(turn == Turn::Timely, bucket >= 10, "{bucket}");
        }
    }

    #[test]
    fn while_no_more_of_the_backlog_may_run_those_that_are_due_do() {
        let mut queue = RunQueue::default();
        queue.push_backlog(0);
        for bucket in 10..20 {
            queue.push_timely(bucket);
        }
        let order: Vec<(u16, Turn)> = std::iter::from_fn(|| queue.pop(false)).collect();
        assert_eq!(order.len(), 10);
        assert!(order.iter().all(|(_, turn)| *turn == Turn::Timely));
        assert_eq!(queue.pop(true), Some((0, Turn::Backlog)));
    }
}
