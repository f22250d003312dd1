//! What this `dev` has started, and nothing else.

use std::fs::File;
use std::time::{Duration, Instant};

use tidegate_local_redis::{RedisCluster, RedisServer};

use super::Ending;
use super::process::Daemon;
use super::signals::Signals;

const STOP_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) redis: Option<RedisServer>,
    pub(crate) cluster: Option<RedisCluster>,
    /// Held until everything has ended.
    pub(crate) lock: Option<File>,
}

impl Session {
    /// Fails if a process has ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), Ending> {
        if let Some(words) = self.daemons.iter_mut().find_map(Daemon::last_words) {
            return Err(Ending::Failed(words));
        }
        // A node of a cluster may end: trying that out is what the cluster is for.
        if let Some(redis) = &mut self.redis
            && !redis.is_running()
        {
            let log = redis.log_path();
            let tail = redis.log_tail();
            let words = format!("Redis ended; last lines of {}:\n{tail}", log.display());
            return Err(Ending::Failed(words));
        }
        Ok(())
    }

    /// Waits until somebody asks to end, or a process ends by itself.
    pub(crate) fn watch(&mut self, signals: &Signals) -> Ending {
        loop {
            if let Err(ending) = signals.check().and_then(|()| self.check()) {
                return ending;
            }
            signals.pause();
        }
    }

    /// Ends everything: first the daemons, which still need Redis to finish, then Redis. A second request to end, or the
    /// limit, ends the waiting.
    pub(crate) fn stop(&mut self, signals: &Signals) {
        if self.daemons.is_empty() && self.redis.is_none() && self.cluster.is_none() {
            return;
        }
        signals.forget();
        println!("\nstopping");
        self.stop_daemons(signals);
        if self.cluster.take().is_some() {
            println!("  the cluster has ended, its data with it");
        }
        if let Some(mut redis) = self.redis.take() {
            if !redis.stop() {
                println!("  Redis had to be killed");
            }
            println!(
                "  Redis has ended; its data stay in {}",
                redis.data_folder().display()
            );
        }
    }

    fn stop_daemons(&mut self, signals: &Signals) {
        self.daemons.iter_mut().for_each(Daemon::ask_to_end);
        let deadline = Instant::now() + STOP_LIMIT;
        loop {
            self.daemons.retain_mut(|daemon| match daemon.ended() {
                Some(status) => {
                    println!("  {} has ended ({status})", daemon.name());
                    false
                }
                None => true,
            });
            if self.daemons.is_empty() {
                return;
            }
            if signals.asked() || Instant::now() >= deadline {
                break;
            }
            signals.pause();
        }
        for daemon in self.daemons.drain(..) {
            println!("  {} is killed", daemon.name());
        }
    }
}
