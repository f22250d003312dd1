//! The processes that this `dev` has started.

use std::fs::File;
use std::time::{Duration, Instant};

use tidegate_local_broker::LocalBroker;
use tidegate_local_redis::{RedisCluster, RedisServer};

use super::ending::CommandError;
use super::process::DevProcess;
use super::signals::StopRequests;

const STOP_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub(crate) struct DevSession {
    pub(crate) daemons: Vec<DevProcess>,
    pub(crate) redis: Option<RedisServer>,
    pub(crate) cluster: Option<RedisCluster>,
    /// What jobs are relayed to, and the admin port of the relay.
    pub(crate) broker: Option<(LocalBroker, u16)>,
    /// Locked until everything has ended.
    pub(crate) lock: Option<File>,
}

impl DevSession {
    /// Fails if a daemon or Redis has ended.
    pub(crate) fn check(&mut self) -> Result<(), CommandError> {
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
    pub(crate) fn watch(&mut self, signals: &StopRequests) -> CommandError {
        loop {
            if let Err(ending) = signals.check_not_requested().and_then(|()| self.check()) {
                return ending;
            }
            signals.pause();
        }
    }

    /// Stops everything: first the daemons, which need Redis to finish, then Redis. Kills the remaining daemons after a
    /// second request, or after 20 s.
    pub(crate) fn stop(&mut self, signals: &StopRequests) {
        if self.daemons.is_empty() && self.redis.is_none() && self.cluster.is_none() {
            return;
        }
        signals.clear();
        println!("\nstopping");
        self.stop_daemons(signals);
        if let Some((mut broker, _)) = self.broker.take() {
            broker.stop();
            println!("  the broker is stopped; its data are deleted");
        }
        if self.cluster.take().is_some() {
            println!("  the cluster is stopped; its data are deleted");
        }
        if let Some(mut redis) = self.redis.take() {
            if !redis.stop() {
                println!("  Redis did not stop in time and was killed");
            }
            println!(
                "  Redis is stopped; its data are in {}",
                redis.data_folder().display()
            );
        }
    }

    fn stop_daemons(&mut self, signals: &StopRequests) {
        self.daemons.iter_mut().for_each(DevProcess::terminate);
        let deadline = Instant::now() + STOP_LIMIT;
        loop {
            self.daemons
                .retain_mut(|daemon| match daemon.exit_status() {
                    Some(status) => {
                        println!("  {} has ended ({status})", daemon.name());
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
            println!("  {} was killed", daemon.name());
        }
    }
}
