//! Buckets that are up, in the order in which they are run.

use std::collections::VecDeque;

/// One in so many runs is for the backlog, even if others wait.
const BACKLOG_SHARE: u32 = 4;

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

    /// The next to run.
    pub(crate) fn pop(&mut self) -> Option<u16> {
        self.runs = self.runs.wrapping_add(1);
        let (first, second) = if self.runs.is_multiple_of(BACKLOG_SHARE) {
            (&mut self.backlog, &mut self.timely)
        } else {
            (&mut self.timely, &mut self.backlog)
        };
        first.pop_front().or_else(|| second.pop_front())
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
        let order: Vec<u16> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [10, 11, 12, 0, 13, 1, 2, 3]);
    }
}
