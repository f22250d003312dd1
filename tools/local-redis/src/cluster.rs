//! A private Redis Cluster: several primaries with replicas.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::blocking_client::BlockingClient;
use crate::error::LocalRedisError;
use crate::options::LocalRedisOptions;
use crate::server::RedisServer;

const SLOTS: usize = 16384;
const READY_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The servers of a cluster. Dropping this kills them.
#[derive(Debug)]
pub struct RedisCluster {
    /// The servers: first the initial primaries, each with an equal share of the hash slots, in slot
    /// order; then the replicas: the first replica of each primary in order, then the second ones.
    pub servers: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts `primaries` primaries with `replicas` replicas each, all with these options, and waits
    /// until the cluster is available and the replicas are in sync. `options` must not name a data
    /// folder or a port.
    ///
    /// # Errors
    /// A server does not start, or the cluster is not available within a minute.
    pub fn start(
        options: &LocalRedisOptions,
        primaries: usize,
        replicas: usize,
    ) -> Result<Self, LocalRedisError> {
        let options = options.clone().setting("cluster-enabled", "yes");
        let servers: Result<Vec<RedisServer>, LocalRedisError> = (0..primaries * (1 + replicas))
            .map(|_| RedisServer::start(options.clone()))
            .collect();
        let cluster = Self { servers: servers? };
        cluster
            .form_cluster(primaries, &options.login())
            .map_err(LocalRedisError::io("creating a Redis Cluster"))?;
        Ok(cluster)
    }

    fn form_cluster(&self, primaries: usize, login: &[&str]) -> io::Result<()> {
        let talks: io::Result<Vec<BlockingClient>> = self
            .servers
            .iter()
            .map(|server| BlockingClient::connect(server.address(), login))
            .collect();
        let mut talks = talks?;
        let mut ids = Vec::new();
        for (number, talk) in talks.iter_mut().enumerate() {
            // Distinct epochs from the start, so that no node has to resolve a conflict.
            talk.query(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
            ids.push(talk.query(&["CLUSTER", "MYID"])?);
            if number < primaries {
                let first = (number * SLOTS / primaries).to_string();
                let last = ((number + 1) * SLOTS / primaries - 1).to_string();
                talk.query(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
            }
        }
        let (Some(first), Some(place)) = (talks.first_mut(), self.servers.first()) else {
            return Ok(());
        };
        let host = place.address().ip().to_string();
        for server in self.servers.iter().skip(1) {
            first.query(&["CLUSTER", "MEET", &host, &server.port().to_string()])?;
        }
        let deadline = Instant::now() + READY_LIMIT;
        let known = format!("cluster_known_nodes:{}", self.servers.len());
        for talk in &mut talks {
            wait_for_answer(talk, deadline, &["CLUSTER", "INFO"], &known)?;
        }
        let of_replicas = ids.iter().take(primaries).cycle();
        for (talk, primary) in talks.iter_mut().skip(primaries).zip(of_replicas) {
            // Gossip may not have reached this node yet: it rejects a primary that it does not know.
            while let Err(error) = talk.query(&["CLUSTER", "REPLICATE", primary]) {
                pause_until(deadline, &error.to_string())?;
            }
        }
        for talk in &mut talks {
            wait_for_answer(talk, deadline, &["CLUSTER", "INFO"], "cluster_state:ok")?;
        }
        let followed = if self.servers.len() > primaries {
            primaries
        } else {
            0
        };
        for talk in talks.iter_mut().take(followed) {
            wait_for_answer(talk, deadline, &["INFO", "replication"], "state=online")?;
        }
        Ok(())
    }
}

/// Repeats a command until the answer contains `words`.
fn wait_for_answer(
    talk: &mut BlockingClient,
    deadline: Instant,
    command: &[&str],
    words: &str,
) -> io::Result<()> {
    loop {
        let answer = talk.query(command)?;
        if answer.contains(words) {
            return Ok(());
        }
        pause_until(deadline, &answer)?;
    }
}

fn pause_until(deadline: Instant, seen: &str) -> io::Result<()> {
    if Instant::now() >= deadline {
        return Err(io::Error::other(format!(
            "the cluster was not ready in time; last answer: {seen}"
        )));
    }
    sleep(POLL_INTERVAL);
    Ok(())
}
