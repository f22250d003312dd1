//! The processes of a deployment.

use std::fs::File;
use std::time::{Duration, Instant};

use tidegate_local_redis::{RedisCluster, RedisServer};

use crate::ending::CommandError;
use crate::process::DevProcess;
use crate::signals::StopRequests;

const STOP_LIMIT: Duration = Duration::from_secs(20);

/// The running processes. Dropping it kills all of them; [`Self::stop_daemons`] and [`Self::stop_redis`] stop them in
/// order.
#[derive(Debug)]
pub struct DevSession {
    /// The daemons, in the order of their starts.
    pub daemons: Vec<DevProcess>,
    /// The Redis, unless the user gave a URL.
    pub redis: Option<RedisServer>,
    /// The cluster that is used instead of one Redis.
    pub cluster: Option<RedisCluster>,
    /// Locked until everything has ended.
    pub lock: Option<File>,
    /// Prints a line of progress.
    pub print: fn(&str),
}

impl Default for DevSession {
    fn default() -> Self {
        Self {
            daemons: Vec::new(),
            redis: None,
            cluster: None,
            lock: None,
            print: |line| println!("{line}"),
        }
    }
}

impl DevSession {
    /// Fails if a daemon or Redis has ended.
    ///
    /// # Errors
    /// A message with the last lines of its log.
    pub fn check(&mut self) -> Result<(), CommandError> {
        if let Some(words) = self.daemons.iter_mut().find_map(DevProcess::exit_report) {
            return Err(CommandError::Failed(words));
        }
        // A node of a cluster may end: users try failovers with it.
        if let Some(redis) = &mut self.redis
            && !redis.is_running()
        {
            let log = redis.log_path();
            let tail = redis.log_tail();
            let words = format!("Redis ended; last lines of {}:\n{tail}", log.display());
            return Err(CommandError::Failed(words));
        }
        Ok(())
    }

    /// Waits for a stop request, or until a process ends.
    pub fn watch(&mut self, signals: &StopRequests) -> CommandError {
        loop {
            if let Err(ending) = signals.check_not_requested().and_then(|()| self.check()) {
                return ending;
            }
            signals.pause();
        }
    }

    /// Whether nothing has been started, or everything has been stopped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.daemons.is_empty() && self.redis.is_none() && self.cluster.is_none()
    }

    /// Stops Redis, which the daemons need to finish: call [`Self::stop_daemons`] before.
    pub fn stop_redis(&mut self) {
        if self.cluster.take().is_some() {
            (self.print)("  the cluster is stopped; its data are deleted");
        }
        if let Some(mut redis) = self.redis.take() {
            if !redis.stop() {
                (self.print)("  Redis did not stop in time and was killed");
            }
            let folder = redis.data_folder().display().to_string();
            (self.print)(&format!("  Redis is stopped; its data are in {folder}"));
        }
    }

    /// Stops the daemons. Kills the remaining daemons after another stop request, or after 20 s.
    pub fn stop_daemons(&mut self, signals: &StopRequests) {
        signals.clear();
        let print = self.print;
        print("\nstopping");
        self.daemons.iter().for_each(DevProcess::terminate);
        let deadline = Instant::now() + STOP_LIMIT;
        loop {
            self.daemons
                .retain_mut(|daemon| match daemon.exit_status() {
                    Some(status) => {
                        print(&format!("  {} has ended ({status})", daemon.name()));
                        false
                    }
                    None => true,
                });
            if self.daemons.is_empty() {
                return;
            }
            if signals.is_requested() || Instant::now() >= deadline {
                break;
            }
            signals.pause();
        }
        for daemon in self.daemons.drain(..) {
            print(&format!("  {} was killed", daemon.name()));
        }
    }
}
