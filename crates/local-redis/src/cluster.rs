//! A private Redis Cluster: several servers that share the keys, and replicas of them.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::conversation::Conversation;
use crate::error::Error;
use crate::options::Options;
use crate::server::RedisServer;

const SLOTS: usize = 16384;
const READY_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Servers that became a cluster. Dropping it ends them.
#[derive(Debug)]
pub struct RedisCluster {
    /// The servers: first those that began as primaries, each with an equal part of the slots, in the
    /// order of the slots; then the replicas, in the order of their primaries.
    pub servers: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts `primaries` servers and `replicas` of each, all with these options and without a data
    /// folder of their own, and waits until the cluster takes calls and the replicas follow.
    ///
    /// # Errors
    /// A server does not start, or they do not agree within a minute.
    pub fn start(options: &Options, primaries: usize, replicas: usize) -> Result<Self, Error> {
        let options = options.clone().setting("cluster-enabled", "yes");
        let servers: Result<Vec<RedisServer>, Error> = (0..primaries * (1 + replicas))
            .map(|_| RedisServer::start(options.clone()))
            .collect();
        let cluster = Self { servers: servers? };
        let password = options.password();
        cluster
            .introduce(primaries, password)
            .map_err(Error::io("making a Redis Cluster"))?;
        Ok(cluster)
    }

    fn introduce(&self, primaries: usize, password: Option<&str>) -> io::Result<()> {
        let talks: io::Result<Vec<Conversation>> = self
            .servers
            .iter()
            .map(|server| Conversation::begin(server.address(), password))
            .collect();
        let mut talks = talks?;
        let mut ids = Vec::new();
        for (number, talk) in talks.iter_mut().enumerate() {
            // Different from the beginning: nobody has to yield.
            talk.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
            ids.push(talk.ask(&["CLUSTER", "MYID"])?);
            if number < primaries {
                let first = (number * SLOTS / primaries).to_string();
                let last = ((number + 1) * SLOTS / primaries - 1).to_string();
                talk.ask(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
            }
        }
        let (Some(first), Some(place)) = (talks.first_mut(), self.servers.first()) else {
            return Ok(());
        };
        let host = place.address().ip().to_string();
        for server in self.servers.iter().skip(1) {
            first.ask(&["CLUSTER", "MEET", &host, &server.port().to_string()])?;
        }
        let deadline = Instant::now() + READY_LIMIT;
        let known = format!("cluster_known_nodes:{}", self.servers.len());
        for talk in &mut talks {
            until(talk, deadline, &["CLUSTER", "INFO"], &known)?;
        }
        let of_replicas = ids.iter().take(primaries).cycle();
        for (talk, primary) in talks.iter_mut().skip(primaries).zip(of_replicas) {
            // A node that has just been met may not be known to be a primary yet.
            while let Err(error) = talk.ask(&["CLUSTER", "REPLICATE", primary]) {
                wait(deadline, &error.to_string())?;
            }
        }
        for talk in &mut talks {
            until(talk, deadline, &["CLUSTER", "INFO"], "cluster_state:ok")?;
        }
        let followed = if self.servers.len() > primaries {
            primaries
        } else {
            0
        };
        for talk in talks.iter_mut().take(followed) {
            until(talk, deadline, &["INFO", "replication"], "state=online")?;
        }
        Ok(())
    }
}

/// Asks again and again until the answer holds `words`.
fn until(
    talk: &mut Conversation,
    deadline: Instant,
    command: &[&str],
    words: &str,
) -> io::Result<()> {
    loop {
        let answer = talk.ask(command)?;
        if answer.contains(words) {
            return Ok(());
        }
        wait(deadline, &answer)?;
    }
}

fn wait(deadline: Instant, seen: &str) -> io::Result<()> {
    if Instant::now() >= deadline {
        return Err(io::Error::other(format!(
            "the servers do not agree; last seen: {seen}"
        )));
    }
    sleep(POLL_INTERVAL);
    Ok(())
}
