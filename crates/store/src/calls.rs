//! Calls to Redis: their time limits, and their metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue, Pipeline, RedisResult, Value};

use crate::error::StoreError;
use crate::link::{Destination, StoreServer, bounded};
use crate::store::Store;

/// How long calls of producers, consumers and operators wait while the slot of their key moves or has no primary. The
/// limit of a request is longer.
pub(crate) const SLOT_PATIENCE: Duration = Duration::from_secs(20);
/// The same for calls that are repeated anyway, such as the calls of pumps: other buckets must not wait.
pub(crate) const SLOT_PATIENCE_OF_PUMPS: Duration = Duration::from_millis(100);

/// The server that replied to a call, and when the call was sent.
pub(crate) struct SentCall {
    pub(crate) server: Option<Arc<StoreServer>>,
    pub(crate) sent_at: Instant,
}

/// Reads the value of a reply. A value with another form than the stored form is damaged.
fn read_value<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    redis::from_redis_value(value).map_err(|error| StoreError::corrupt(error.to_string()))
}

impl SentCall {
    /// Records the server's time in the reply.
    pub(crate) fn note_clock(&self, now_ms: u64) {
        if let Some(server) = &self.server {
            server.clock.record(self.sent_at, now_ms);
        }
    }
}

impl Store {
    /// Runs a command on the key that is its first argument, within the command timeout.
    pub(crate) async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        self.run(command, |destination| destination).await
    }

    /// The same for a command whose reply may be large.
    pub(crate) async fn large_command<T: FromRedisValue>(
        &self,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        self.run(command, Destination::for_large_transfers).await
    }

    /// The time on the clock of the server that has a key, in ms since 1970, at some moment of this call.
    pub(crate) async fn server_now_ms(&self, key: &str) -> Result<u64, StoreError> {
        let link = &self.inner.link;
        let server = link.server_of(key);
        let server = server.ok_or_else(|| StoreError::not_ready("no server has the key"))?;
        let session = server.session(self.inner.config.command_timeout);
        let (time, sent_at) = (redis::cmd("TIME"), Instant::now());
        let answer = session.command::<(u64, u64)>(&time).await;
        server.measures.record_call("TIME", sent_at, answer.is_ok());
        let (seconds, micros) =
            answer.inspect_err(|error| link.report_failure(Some(&server), error))?;
        Ok(seconds * 1000 + micros / 1000)
    }

    /// Runs read-only commands on keys that share their slot with `key`. On a cluster they may be sent several times.
    /// Their replies may be large.
    pub(crate) async fn read<T: FromRedisValue>(
        &self,
        key: &str,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        let destination = self.inner.link.destination(key, SLOT_PATIENCE);
        self.run_all("audit", commands, destination.for_large_transfers())
            .await
    }

    /// The same for commands whose replies are small, and that are repeated anyway. `name` is their label in
    /// metrics.
    pub(crate) async fn read_small<T: FromRedisValue>(
        &self,
        name: &str,
        key: &str,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        let destination = self.inner.link.destination(key, SLOT_PATIENCE_OF_PUMPS);
        self.run_all(name, commands, destination).await
    }

    async fn run_all<T: FromRedisValue>(
        &self,
        name: &str,
        commands: &Pipeline,
        destination: Destination,
    ) -> Result<T, StoreError> {
        let query = async |to: &mut Destination| commands.query_async(to).await;
        read_value(self.exchange(name, destination, query).await?.0)
    }

    async fn run<T: FromRedisValue>(
        &self,
        command: &Cmd,
        by: impl FnOnce(Destination) -> Destination,
    ) -> Result<T, StoreError> {
        let mut words = command.args_iter().map(|word| match word {
            redis::Arg::Simple(word) => std::str::from_utf8(word).unwrap_or_default(),
            _ => "",
        });
        let (name, key) = (words.next(), words.next());
        let (name, key) = (name.unwrap_or_default(), key.unwrap_or_default());
        let destination = by(self.inner.link.destination(key, SLOT_PATIENCE));
        let query = async |to: &mut Destination| command.query_async(to).await;
        read_value(self.exchange(name, destination, query).await?.0)
    }

    /// Makes a call, and waits for the reply within the timeouts. Fails earlier if another server becomes the master.
    /// Records the call in the metrics as `name`, and reports an error to the link.
    pub(crate) async fn exchange<T>(
        &self,
        name: &str,
        mut destination: Destination,
        call: impl AsyncFnOnce(&mut Destination) -> RedisResult<T>,
    ) -> Result<(T, SentCall), StoreError> {
        let sent_at = Instant::now();
        let wait = self.inner.config.command_timeout + destination.patience();
        let sent_to = destination.server().cloned();
        let abandoned = async {
            match &sent_to {
                Some(server) => server.abandoned().await,
                None => std::future::pending().await,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = bounded(wait, call(&mut destination)) => answer,
            () = abandoned => Err(StoreError::unreachable("the master changed before it replied")),
        };
        let server = destination.server().cloned();
        if let Some(server) = &server {
            server.measures.record_call(name, sent_at, answer.is_ok());
        }
        let answer = answer.inspect_err(|error| {
            if let (Some(server), true) = (&server, error.may_be_a_restart()) {
                server.barriers.history.forget();
            }
            let link = &self.inner.link;
            link.report_failure(server.as_deref(), error);
        })?;
        Ok((answer, SentCall { server, sent_at }))
    }

    /// The time at which a call on this key that is sent now times out, in ms on the clock of the key's server, as an
    /// argument of scripts; empty = unknown.
    pub(crate) fn call_deadline(&self, key: &str) -> String {
        if self.now_ms.is_some() {
            return String::new();
        }
        let server = self.inner.link.server_of(key);
        let latest_ms = server.and_then(|it| it.clock.after(self.inner.config.command_timeout));
        latest_ms.map(|ms| ms.to_string()).unwrap_or_default()
    }
}
