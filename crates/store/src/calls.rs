//! Calls: how long each may take, and what is noted about it.

use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue, Pipeline};

use crate::link::{Destination, Moves, bounded};
use crate::{Store, StoreError};

/// How long calls of producers, consumers and operators wait while the slot of their key moves, or has no
/// primary. Requests have a limit of their own, which is longer.
pub(crate) const SLOT_PATIENCE: Duration = Duration::from_secs(20);
/// How long calls do that are repeated anyway. A pump has other buckets to look after.
pub(crate) const SLOT_PATIENCE_OF_PUMPS: Duration = Duration::from_millis(100);

/// A call under way.
pub(crate) struct Began<'a> {
    name: &'a str,
    at: Instant,
    wait: Duration,
    moves: Moves,
}

impl Began<'_> {
    /// When the call began.
    pub(crate) const fn at(&self) -> Instant {
        self.at
    }

    /// Waits for the answer: as long as the timeouts allow, and only while its server is the one that
    /// counts.
    pub(crate) async fn until<T>(
        &self,
        call: impl Future<Output = redis::RedisResult<T>>,
    ) -> Result<T, StoreError> {
        let mut moves = self.moves.clone();
        tokio::select! {
            biased;
            answer = bounded(self.wait, call) => answer,
            () = moves.left() => {
                Err(StoreError::away("the master changed before it had answered".to_owned()))
            }
        }
    }
}

impl Store {
    /// Runs one plain command about the key that is its first argument, bounded by the command timeout.
    pub(crate) async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        self.run(command, |destination| destination).await
    }

    /// The same for a command whose answer may be large.
    pub(crate) async fn large_command<T: FromRedisValue>(
        &self,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        self.run(command, Destination::for_large_transfers).await
    }

    /// Runs commands about keys that share their slot with `key`, none of which changes anything: on a
    /// cluster they may be sent several times. Their answers may be large.
    pub(crate) async fn look_up<T: FromRedisValue>(
        &self,
        key: &str,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        let destination = self.inner.link.to(key, SLOT_PATIENCE);
        let destination = destination.for_large_transfers();
        self.run_all("audit", commands, destination).await
    }

    /// The same for commands whose answers are small, and that are repeated anyway. `name` is their label in
    /// metrics.
    pub(crate) async fn small_look_up<T: FromRedisValue>(
        &self,
        name: &str,
        key: &str,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        let destination = self.inner.link.to(key, SLOT_PATIENCE_OF_PUMPS);
        self.run_all(name, commands, destination).await
    }

    async fn run_all<T: FromRedisValue>(
        &self,
        name: &str,
        commands: &Pipeline,
        mut destination: Destination,
    ) -> Result<T, StoreError> {
        let began = self.begin(name, &destination);
        let answer = began.until(commands.query_async(&mut destination)).await;
        self.end(&began, &destination, answer)
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
        let key = key.unwrap_or_default();
        let mut destination = by(self.inner.link.to(key, SLOT_PATIENCE));
        let began = self.begin(name.unwrap_or_default(), &destination);
        let call = command.query_async(&mut destination);
        let answer = began.until(call).await;
        self.end(&began, &destination, answer)
    }

    /// Notes when and how a call begins. `name` is its label in metrics.
    pub(crate) fn begin<'a>(&self, name: &'a str, destination: &Destination) -> Began<'a> {
        Began {
            name,
            at: Instant::now(),
            wait: self.inner.config.command_timeout + destination.patience(),
            moves: destination.moves(),
        }
    }

    /// Measures a call that has ended. Whatever went wrong, the link is told.
    pub(crate) fn end<T>(
        &self,
        began: &Began<'_>,
        destination: &Destination,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(server) = destination.server() {
            let measures = &server.measures;
            measures.called(began.name, began.at, answer.is_ok());
        }
        answer.inspect_err(|error| {
            if let (Some(server), true) = (destination.server(), error.may_be_a_restart()) {
                server.barriers.forget_history();
            }
            self.inner.link.failed(error);
        })
    }
}
