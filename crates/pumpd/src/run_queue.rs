//! The queue of due buckets of one server.

use std::collections::VecDeque;

/// One of this number of runs is for a backlog, even if due buckets are waiting.
const BACKLOG_SHARE: u32 = 4;

/// Why a bucket is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunKind {
    /// It has become due.
    Timely,
    /// It has just run, and has more due work.
    Backlog,
}

/// Buckets that have become due, and buckets with a backlog.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    timely: VecDeque<u16>,
    backlog: VecDeque<u16>,
    runs: u32,
}

impl RunQueue {
    /// Appends a bucket.
    pub(crate) fn push(&mut self, bucket: u16, kind: RunKind) {
        self.of(kind).push_back(bucket);
    }

    /// Whether no bucket is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.timely.is_empty() && self.backlog.is_empty()
    }

    /// Removes and returns all buckets.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (u16, RunKind)> {
        let timely = self.timely.drain(..);
        let timely = timely.map(|bucket| (bucket, RunKind::Timely));
        let backlog = self.backlog.drain(..);
        timely.chain(backlog.map(|bucket| (bucket, RunKind::Backlog)))
    }

    fn of(&mut self, kind: RunKind) -> &mut VecDeque<u16> {
        match kind {
            RunKind::Timely => &mut self.timely,
            RunKind::Backlog => &mut self.backlog,
        }
    }

    /// The next bucket to run; a bucket with a backlog only if `backlog_may_run`. Entries that are removed and that
    /// `is_wanted` refuses do not count.
    pub(crate) fn pop(
        &mut self,
        backlog_may_run: bool,
        mut is_wanted: impl FnMut(u16, RunKind) -> bool,
    ) -> Option<(u16, RunKind)> {
        let turns = match (
            backlog_may_run,
            (self.runs + 1).is_multiple_of(BACKLOG_SHARE),
        ) {
            (false, _) => &[RunKind::Timely][..],
            (true, true) => &[RunKind::Backlog, RunKind::Timely],
            (true, false) => &[RunKind::Timely, RunKind::Backlog],
        };
        for &kind in turns {
            while let Some(bucket) = self.of(kind).pop_front() {
                if is_wanted(bucket, kind) {
                    self.runs = (self.runs + 1) % BACKLOG_SHARE;
                    return Some((bucket, kind));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn popped(queue: &mut RunQueue, backlog_may_run: bool) -> Vec<(u16, RunKind)> {
        std::iter::from_fn(|| queue.pop(backlog_may_run, |_, _| true)).collect()
    }

    #[test]
    fn due_buckets_run_before_backlogs_which_still_get_every_fourth_run() {
        let mut queue = RunQueue::default();
        for bucket in 0..4 {
            queue.push(bucket, RunKind::Backlog);
        }
        for bucket in 10..14 {
            queue.push(bucket, RunKind::Timely);
        }
        let order = popped(&mut queue, true);
        let buckets: Vec<u16> = order.iter().map(|(bucket, _)| *bucket).collect();
        assert_eq!(buckets, [10, 11, 12, 0, 13, 1, 2, 3]);
        for (bucket, kind) in order {
            assert_eq!(kind == RunKind::Timely, bucket >= 10, "{bucket}");
        }
    }

    #[test]
    fn entries_that_are_not_wanted_do_not_use_the_turn_of_the_backlogs() {
        let mut queue = RunQueue::default();
        for bucket in 0..20 {
            queue.push(bucket, RunKind::Backlog);
            queue.push(100 + bucket, RunKind::Timely);
        }
        let wanted = |bucket, kind| kind == RunKind::Timely || bucket == 19;
        let order = std::iter::from_fn(|| queue.pop(true, wanted));
        let buckets: Vec<u16> = order.map(|(bucket, _)| bucket).take(5).collect();
        assert_eq!(buckets, [100, 101, 102, 19, 103]);
    }

    #[test]
    fn due_buckets_run_while_no_further_backlog_may_run() {
        let mut queue = RunQueue::default();
        queue.push(0, RunKind::Backlog);
        for bucket in 10..20 {
            queue.push(bucket, RunKind::Timely);
        }
        let order = popped(&mut queue, false);
        assert_eq!(order.len(), 10);
        assert!(order.iter().all(|(_, kind)| *kind == RunKind::Timely));
        assert_eq!(popped(&mut queue, true), [(0, RunKind::Backlog)]);
    }
}
