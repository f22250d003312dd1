//! What is to be run, by server: one that does not answer holds up nobody else's buckets.
//!
//! Each server has a queue and places for runs of its own. After a run on a server failed, one run at a time tries it,
//! after a pause that grows; the rest of its queue waits until one succeeds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::run_queue::{RunQueue, Turn};

/// How many runs may be under way on a server for each long one that may.
const RUNS_PER_LONG_RUN: usize = 8;
/// The pause doubles with each failure in a row, up to this. A job of a server that is back is late by up to this.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The address of a server; none where nobody has the bucket.
pub(crate) type Address = Option<Arc<str>>;

/// A run that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) bucket: u16,
    pub(crate) turn: Turn,
    pub(crate) server: Address,
}

/// The queues of all servers.
#[derive(Debug)]
pub(crate) struct Servers {
    all: BTreeMap<Address, Server>,
    long_runs_max: usize,
    /// The pause after the first failure.
    pause: Duration,
}

#[derive(Debug, Default)]
struct Server {
    queue: RunQueue,
    running: usize,
    long_runs: usize,
    failed: Option<Failed>,
}

/// The last run failed.
#[derive(Debug, Clone, Copy)]
struct Failed {
    in_a_row: u32,
    /// When the next run may try.
    retry_at: Instant,
}

impl Servers {
    pub(crate) const fn new(long_runs_max: usize, pause: Duration) -> Self {
        Self {
            all: BTreeMap::new(),
            long_runs_max,
            pause,
        }
    }

    /// It is this bucket's turn on its server.
    pub(crate) fn push(&mut self, server: Address, bucket: u16, turn: Turn) {
        let server = self.all.entry(server).or_default();
        server.queue.push(bucket, turn);
    }

    /// The next run that may begin now.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Begun> {
        let long_runs_max = self.long_runs_max;
        self.all.iter_mut().find_map(|(address, server)| {
            let (bucket, turn) = server.pop(now, long_runs_max)?;
            let server = address.clone();
            Some(Begun {
                bucket,
                turn,
                server,
            })
        })
    }

    /// A run is over.
    pub(crate) fn ended(&mut self, server: &Address, turn: Turn, has_failed: bool) {
        let (now, pause) = (Instant::now(), self.pause);
        if let Some(server) = self.all.get_mut(server) {
            server.ended(turn, has_failed.then_some(pause), now);
        }
    }

    /// A run that was begun is not needed.
    pub(crate) fn dropped(&mut self, server: &Address, turn: Turn) {
        if let Some(server) = self.all.get_mut(server) {
            server.over(turn);
        }
    }

    /// When the next run that has to wait may begin.
    pub(crate) fn next_retry_at(&self) -> Option<Instant> {
        let waiting = self
            .all
            .values()
            .filter(|it| it.running == 0 && !it.queue.is_empty());
        waiting.filter_map(|it| Some(it.failed?.retry_at)).min()
    }

    /// Empties all queues: buckets may be on other servers now. Servers without runs are forgotten.
    pub(crate) fn take_queued(&mut self) -> Vec<(u16, Turn)> {
        let queued = self.all.values_mut().flat_map(|it| it.queue.take());
        let queued = queued.collect();
        self.all.retain(|_, server| server.running > 0);
        queued
    }
}

impl Server {
    fn pop(&mut self, now: Instant, long_runs_max: usize) -> Option<(u16, Turn)> {
        let may_begin = match self.failed {
            Some(failed) => self.running == 0 && failed.retry_at <= now,
            None => self.running < long_runs_max * RUNS_PER_LONG_RUN,
        };
        if !may_begin {
            return None;
        }
        let (bucket, turn) = self.queue.pop(self.long_runs < long_runs_max)?;
        self.running += 1;
        self.long_runs += usize::from(turn == Turn::Backlog);
        Some((bucket, turn))
    }

    fn over(&mut self, turn: Turn) {
        self.running -= 1;
        self.long_runs -= usize::from(turn == Turn::Backlog);
    }

    /// `pause` is given where it has failed.
    fn ended(&mut self, turn: Turn, pause: Option<Duration>, now: Instant) {
        self.over(turn);
        self.failed = match (pause, self.failed) {
            (None, _) => None,
            // It began before the first failure was known.
            (Some(_), Some(failed)) if failed.retry_at > now => Some(failed),
            (Some(pause), failed) => {
                let in_a_row = failed.map_or(0, |failed| failed.in_a_row);
                let pause = pause.saturating_mul(1 << in_a_row.min(10)).min(PAUSE_MAX);
                Some(Failed {
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

    fn address(name: &str) -> Address {
        Some(name.into())
    }

    fn servers() -> Servers {
        let mut servers = Servers::new(2, PAUSE);
        for bucket in 0..100 {
            let name = if bucket % 2 == 0 { "even" } else { "odd" };
            servers.push(address(name), bucket, Turn::Timely);
        }
        servers
    }

    fn begun(servers: &mut Servers, now: Instant) -> Vec<Begun> {
        std::iter::from_fn(|| servers.pop(now)).collect()
    }

    #[test]
    fn each_server_has_places_of_its_own() {
        let mut servers = servers();
        let runs = begun(&mut servers, Instant::now());
        assert_eq!(runs.len(), 2 * 2 * RUNS_PER_LONG_RUN);
        // Those of one server end, and only its own go on.
        for run in runs.iter().filter(|run| run.server == address("odd")) {
            servers.ended(&run.server, run.turn, false);
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
            servers.ended(&run.server, run.turn, run.server == address("even"));
        }
        let now = Instant::now();
        let more = begun(&mut servers, now);
        assert!(more.iter().all(|run| run.server == address("odd")));
        let retry_at = servers.next_retry_at().expect("a server has failed");
        assert!(retry_at <= now + PAUSE);
        // One, which fails: the pause is longer then.
        let tries = begun(&mut servers, retry_at);
        assert_eq!(tries.len(), 1);
        assert_eq!(servers.next_retry_at(), None);
        let again_at = {
            let server = servers.all.get_mut(&address("even")).unwrap();
            server.ended(Turn::Timely, Some(PAUSE), retry_at);
            servers.next_retry_at().unwrap()
        };
        assert_eq!(again_at, retry_at + 2 * PAUSE);
        // One that succeeds: everything goes on.
        assert_eq!(begun(&mut servers, again_at).len(), 1);
        servers.ended(&address("even"), Turn::Timely, false);
        assert_eq!(begun(&mut servers, again_at).len(), 2 * RUNS_PER_LONG_RUN);
    }

    #[test]
    fn a_pause_has_an_upper_bound() {
        let mut server = Server::default();
        let mut now = Instant::now();
        for _ in 0..50 {
            server.running = 1;
            server.ended(Turn::Timely, Some(PAUSE), now);
            let retry_at = server.failed.unwrap().retry_at;
            assert!(retry_at <= now + PAUSE_MAX);
            now = retry_at;
        }
    }

    #[test]
    fn what_is_queued_can_be_sorted_anew() {
        let mut servers = servers();
        let runs = begun(&mut servers, Instant::now());
        let queued = servers.take_queued();
        assert_eq!(queued.len() + runs.len(), 100);
        for (bucket, turn) in queued {
            servers.push(address("odd"), bucket, turn);
        }
        for run in &runs {
            servers.ended(&run.server, run.turn, false);
        }
        let more = begun(&mut servers, Instant::now());
        assert!(more.iter().all(|run| run.server == address("odd")));
    }
}
