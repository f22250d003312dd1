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
    /// It is this bucket's turn.
    pub(crate) fn push(&mut self, bucket: u16, turn: Turn) {
        self.of(turn).push_back(bucket);
    }

    /// Whether no bucket is up.
    pub(crate) fn is_empty(&self) -> bool {
        self.timely.is_empty() && self.backlog.is_empty()
    }

    /// All that are up; none is then.
    pub(crate) fn take(&mut self) -> Vec<(u16, Turn)> {
        let timely = self.timely.drain(..).map(|bucket| (bucket, Turn::Timely));
        let backlog = self.backlog.drain(..).map(|bucket| (bucket, Turn::Backlog));
        timely.chain(backlog).collect()
    }

    fn of(&mut self, turn: Turn) -> &mut VecDeque<u16> {
        match turn {
            Turn::Timely => &mut self.timely,
            Turn::Backlog => &mut self.backlog,
        }
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
            let bucket = self.of(turn).pop_front()?;
            Some((bucket, turn))
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
            queue.push(bucket, Turn::Backlog);
        }
        for bucket in 10..14 {
            queue.push(bucket, Turn::Timely);
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
        queue.push(0, Turn::Backlog);
        for bucket in 10..20 {
            queue.push(bucket, Turn::Timely);
        }
        let order: Vec<(u16, Turn)> = std::iter::from_fn(|| queue.pop(false)).collect();
        assert_eq!(order.len(), 10);
        assert!(order.iter().all(|(_, turn)| *turn == Turn::Timely));
        assert_eq!(queue.pop(true), Some((0, Turn::Backlog)));
    }
}
