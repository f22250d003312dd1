//! What a publish waits for before it counts as done. `docs/durability.md` says what survives what.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::link::Server;
use crate::server_check::Refusal;
use crate::{ConnectError, Store, StoreError};

/// How safe a job is when its publish is answered. Its text, in settings and on the wire, is `memory`, `replica:N`,
/// `fsync` or `fsync+replica:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct Durability {
    /// So many replicas have it in their memory.
    pub(crate) replicas: u8,
    /// It is on the disk of its server.
    pub(crate) fsync: bool,
}

/// Jobs that were stored and are not known to be as safe as they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} was asked for and {reached} reached: {reason}")]
pub struct NotDurable {
    /// What was asked for.
    pub wanted: Durability,
    /// What is certain.
    pub reached: Durability,
    /// Why it is no more.
    pub reason: String,
}

/// Proof of when and where jobs were written, for [`Store::until_durable`].
#[derive(Debug, Clone)]
pub struct Receipt {
    pub(crate) server: Arc<Server>,
    pub(crate) bucket: u16,
    pub(crate) sent_at: Instant,
}

impl Durability {
    /// The job is in the memory of its server, and on its way to file and replicas.
    pub const MEMORY: Self = Self {
        replicas: 0,
        fsync: false,
    };

    /// Whether there is nothing to wait for.
    #[must_use]
    pub fn is_memory(self) -> bool {
        self == Self::MEMORY
    }

    /// What both have in common.
    pub(crate) fn at_most(self, other: Self) -> Self {
        Self {
            replicas: self.replicas.min(other.replicas),
            fsync: self.fsync && other.fsync,
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.fsync, self.replicas) {
            (false, 0) => out.write_str("memory"),
            (false, replicas) => write!(out, "replica:{replicas}"),
            (true, 0) => out.write_str("fsync"),
            (true, replicas) => write!(out, "fsync+replica:{replicas}"),
        }
    }
}

impl TryFrom<String> for Durability {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let replicas = |text: &str| -> Option<u8> {
            let number = text.strip_prefix("replica:")?.parse().ok()?;
            (number > 0).then_some(number)
        };
        let durability = match text.as_str() {
            "memory" => Some(Self::MEMORY),
            "fsync" => Some(Self {
                replicas: 0,
                fsync: true,
            }),
            text => {
                let of_replicas = text.strip_prefix("fsync+");
                let fsync = of_replicas.is_some();
                replicas(of_replicas.unwrap_or(text)).map(|replicas| Self { replicas, fsync })
            }
        };
        durability.ok_or_else(|| {
            format!(
                "durability must be \"memory\", \"replica:N\" with N from 1 to 255, \"fsync\" or \
                 \"fsync+replica:N\", not {text:?}"
            )
        })
    }
}

impl Store {
    /// To be called before jobs are published that [`Store::until_durable`] is going to be asked about. Publishes from now on
    /// wait until it is known which history of writes their own server is in.
    ///
    /// The other servers are asked in tasks, since buckets may move to them.
    pub fn expect_durable(&self) {
        self.inner.expects_durable.store(true, Ordering::Relaxed);
        let timeout = self.inner.config.command_timeout;
        for server in self.inner.link.servers() {
            if let Some(question) = server.barriers.begin_question() {
                tokio::spawn(async move {
                    // The next publish asks again.
                    let _ = server.get_barriers_ready(timeout).await;
                    drop(question);
                });
            }
        }
    }

    /// Has it known, before jobs are published, which history of writes the server is in that has this key.
    ///
    /// # Errors
    /// The server did not answer: a publish would not be answered either.
    pub(crate) async fn until_history_is_known(&self, key: &str) -> Result<(), StoreError> {
        if !self.inner.expects_durable.load(Ordering::Relaxed) {
            return Ok(());
        }
        let server = self.inner.link.server_of(key);
        let Some(server) = server.filter(|server| !server.barriers.is_ready()) else {
            return Ok(());
        };
        let asked = server.get_barriers_ready(self.inner.config.command_timeout);
        match asked.await {
            Err(error) if error.is_away() => {
                self.inner.link.failed(&error);
                Err(error)
            }
            // Without an answer nothing is confirmed; the jobs can be stored all the same.
            _ => Ok(()),
        }
    }

    /// Waits until jobs are as safe as `wanted`. Calls that wait for the same server wait together.
    ///
    /// # Errors
    /// They are not, or nobody can tell, within `timeout` and some tenths of a second. They are stored all
    /// the same, unless their server has lost them.
    pub async fn until_durable(
        &self,
        receipt: Receipt,
        wanted: Durability,
        timeout: Duration,
    ) -> Result<(), NotDurable> {
        if wanted.is_memory() {
            return Ok(());
        }
        let server = Arc::clone(&receipt.server);
        let key = self.keys(receipt.bucket).barrier();
        server.barriers.pass(receipt, key, wanted, timeout).await
    }

    /// Refuses a deployment whose servers cannot tell when jobs are so safe. One that has too few replicas
    /// for now is warned of.
    ///
    /// # Errors
    /// [`ConnectError::Refused`], or a server does not answer.
    pub async fn check_durability(&self, wanted: Durability) -> Result<(), ConnectError> {
        for server in self.inner.link.servers() {
            let session = server.session(self.inner.config.command_timeout);
            if wanted.replicas > 0 {
                let mut wait = redis::cmd("WAIT");
                wait.arg(wanted.replicas).arg(1);
                let replicas: u64 = session.command(&wait).await?;
                if replicas < u64::from(wanted.replicas) {
                    tracing::warn!(%server, replicas, "publishes are to wait for {wanted}, and there are not enough replicas now");
                }
            }
            if wanted.fsync {
                let mut wait = redis::cmd("WAITAOF");
                wait.arg(1).arg(0).arg(1);
                let asked = session.command::<(u64, u64)>(&wait).await;
                asked.map_err(|error| match error {
                    StoreError::Corrupt(said) => Refusal::CannotTellFsync(said).into(),
                    error => ConnectError::from(error),
                })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        for text in [
            "memory",
            "replica:1",
            "replica:255",
            "fsync",
            "fsync+replica:2",
        ] {
            let read = Durability::try_from(text.to_owned()).unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!(read.is_memory(), text == "memory");
        }
    }

    #[test]
    fn other_texts_are_refused_with_what_may_be() {
        for text in [
            "",
            "Memory",
            "replica",
            "replica:0",
            "replica:256",
            "replica:-1",
            "fsync+",
            "fsync+memory",
            "fsyncreplica:1",
            "replica:1+fsync",
        ] {
            let said = Durability::try_from(text.to_owned()).unwrap_err();
            assert!(
                said.contains("replica:N") && said.contains(text),
                "{text}: {said}"
            );
        }
    }
}
