//! The queues of all servers. A server that does not reply does not delay the buckets of others.
//!
//! Each server has its own queue and its own limits of concurrent runs. After a failed run one run at a time retries,
//! after an increasing pause; the rest of the queue waits until one succeeds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::run_queue::{RunKind, RunQueue};

/// Maximum number of concurrent runs of a server, as a multiple of the number of long runs, which are runs of a
/// backlog.
const RUNS_PER_LONG_RUN: usize = 8;
/// The pause doubles with each consecutive failure, up to this. When the server is available again, its jobs are late
/// by up to this.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The address of a server; `None` for buckets without a reachable server.
pub(crate) type ServerAddress = Option<Arc<str>>;

/// A run of a bucket on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketRun {
    pub(crate) bucket: u16,
    pub(crate) kind: RunKind,
    pub(crate) server: ServerAddress,
}

#[derive(Debug)]
pub(crate) struct ServerQueues {
    all: BTreeMap<ServerAddress, ServerQueue>,
    long_runs_max: usize,
    /// The pause after the first failure.
    pause: Duration,
}

#[derive(Debug, Default)]
struct ServerQueue {
    queue: RunQueue,
    running: usize,
    long_runs: usize,
    failed: Option<FailedServer>,
}

/// The state of a server whose last run failed.
#[derive(Debug, Clone, Copy)]
struct FailedServer {
    in_a_row: u32,
    /// When the next run may start.
    retry_at: Instant,
}

impl ServerQueues {
    pub(crate) const fn new(long_runs_max: usize, pause: Duration) -> Self {
        Self {
            all: BTreeMap::new(),
            long_runs_max,
            pause,
        }
    }

    /// Appends a bucket to the queue of its server.
    pub(crate) fn push(&mut self, server: ServerAddress, bucket: u16, kind: RunKind) {
        let server = self.all.entry(server).or_default();
        server.queue.push(bucket, kind);
    }

    /// The next run that may start now. Entries that `is_wanted` refuses are dropped.
    pub(crate) fn pop(
        &mut self,
        now: Instant,
        mut is_wanted: impl FnMut(u16, RunKind) -> bool,
    ) -> Option<BucketRun> {
        let long_runs_max = self.long_runs_max;
        self.all.iter_mut().find_map(|(address, server)| {
            let (bucket, kind) = server.pop(now, long_runs_max, &mut is_wanted)?;
            let server = address.clone();
            Some(BucketRun {
                bucket,
                kind,
                server,
            })
        })
    }

    /// Records the end of a run.
    pub(crate) fn ended(&mut self, run: &BucketRun, has_failed: bool) {
        let (now, pause) = (Instant::now(), self.pause);
        if let Some(server) = self.all.get_mut(&run.server) {
            server.record_end(run.kind, has_failed.then_some(pause), now);
        }
    }

    /// When the next run that waits for a pause may start.
    pub(crate) fn next_retry_at(&self) -> Option<Instant> {
        let waiting = self
            .all
            .values()
            .filter(|it| it.running == 0 && !it.queue.is_empty());
        waiting.filter_map(|it| Some(it.failed?.retry_at)).min()
    }

    /// Removes and returns all queued buckets, since they may be on other servers now. Servers without runs are
    /// removed.
    pub(crate) fn take_queued(&mut self) -> Vec<(u16, RunKind)> {
        let queued = self.all.values_mut().flat_map(|it| it.queue.take());
        let queued = queued.collect();
        self.all.retain(|_, server| server.running > 0);
        queued
    }
}

impl ServerQueue {
    fn pop(
        &mut self,
        now: Instant,
        long_runs_max: usize,
        is_wanted: impl FnMut(u16, RunKind) -> bool,
    ) -> Option<(u16, RunKind)> {
        let may_begin = match self.failed {
            Some(failed) => self.running == 0 && failed.retry_at <= now,
            None => self.running < long_runs_max * RUNS_PER_LONG_RUN,
        };
        if !may_begin {
            return None;
        }
        let backlog_may_run = self.long_runs < long_runs_max;
        let (bucket, kind) = self.queue.pop(backlog_may_run, is_wanted)?;
        self.running += 1;
        self.long_runs += usize::from(kind == RunKind::Backlog);
        Some((bucket, kind))
    }

    fn end_run(&mut self, kind: RunKind) {
        self.running -= 1;
        self.long_runs -= usize::from(kind == RunKind::Backlog);
    }

    /// `pause` = the run has failed; this is the pause after the first failure.
    fn record_end(&mut self, kind: RunKind, pause: Option<Duration>, now: Instant) {
        self.end_run(kind);
        self.failed = match (pause, self.failed) {
            (None, _) => None,
            // A run that started before the first failure does not increase the pause.
            (Some(_), Some(failed)) if failed.retry_at > now => Some(failed),
            (Some(pause), failed) => {
                let in_a_row = failed.map_or(0, |failed| failed.in_a_row);
                let pause = pause.saturating_mul(1 << in_a_row.min(10)).min(PAUSE_MAX);
                Some(FailedServer {
                    in_a_row: in_a_row + 1,
                    retry_at: now + pause,
                })
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(200);

    fn address(name: &str) -> ServerAddress {
        Some(name.into())
    }

    fn servers() -> ServerQueues {
        let mut servers = ServerQueues::new(2, PAUSE);
        for bucket in 0..100 {
            let name = if bucket % 2 == 0 { "even" } else { "odd" };
            servers.push(address(name), bucket, RunKind::Timely);
        }
        servers
    }

    fn begun(servers: &mut ServerQueues, now: Instant) -> Vec<BucketRun> {
        std::iter::from_fn(|| servers.pop(now, |_, _| true)).collect()
    }

    #[test]
    fn each_server_has_its_own_limit_of_runs() {
        let mut servers = servers();
        let runs = begun(&mut servers, Instant::now());
        assert_eq!(runs.len(), 2 * 2 * RUNS_PER_LONG_RUN);
        // The runs of one server end: only runs of this server start.
        for run in runs.iter().filter(|run| run.server == address("odd")) {
            servers.ended(run, false);
        }
        let more = begun(&mut servers, Instant::now());
        assert_eq!(more.len(), 2 * RUNS_PER_LONG_RUN);
        assert!(more.iter().all(|run| run.server == address("odd")));
    }

    #[test]
    fn one_run_at_a_time_tries_a_server_that_failed() {
        let mut servers = servers();
        let runs = begun(&mut servers, Instant::now());
        for run in &runs {
            servers.ended(run, run.server == address("even"));
        }
        let now = Instant::now();
        let more = begun(&mut servers, now);
        assert!(more.iter().all(|run| run.server == address("odd")));
        let retry_at = servers.next_retry_at().expect("a server has failed");
        assert!(retry_at <= now + PAUSE);
        // One run, which fails: the pause doubles.
        let tries = begun(&mut servers, retry_at);
        assert_eq!(tries.len(), 1);
        assert_eq!(servers.next_retry_at(), None);
        let again_at = {
            let server = servers.all.get_mut(&address("even")).unwrap();
            server.record_end(RunKind::Timely, Some(PAUSE), retry_at);
            servers.next_retry_at().unwrap()
        };
        assert_eq!(again_at, retry_at + 2 * PAUSE);
        // One run, which succeeds: all continue.
        let tries = begun(&mut servers, again_at);
        assert_eq!(tries.len(), 1);
        servers.ended(&tries[0], false);
        assert_eq!(begun(&mut servers, again_at).len(), 2 * RUNS_PER_LONG_RUN);
    }

    #[test]
    fn a_pause_has_an_upper_bound() {
        let mut server = ServerQueue::default();
        let mut now = Instant::now();
        for _ in 0..50 {
            server.running = 1;
            server.record_end(RunKind::Timely, Some(PAUSE), now);
            let retry_at = server.failed.unwrap().retry_at;
            assert!(retry_at <= now + PAUSE_MAX);
            now = retry_at;
        }
    }

    #[test]
    fn queued_buckets_can_move_to_another_server() {
        let mut servers = servers();
        let runs = begun(&mut servers, Instant::now());
        let queued = servers.take_queued();
        assert_eq!(queued.len() + runs.len(), 100);
        for (bucket, kind) in queued {
            servers.push(address("odd"), bucket, kind);
        }
        for run in &runs {
            servers.ended(run, false);
        }
        let more = begun(&mut servers, Instant::now());
        assert!(more.iter().all(|run| run.server == address("odd")));
    }
}
