//! The only crate that speaks to Redis.
//!
//! One verb is one script is one atomic change: each file in `verbs/` has a Lua file of the same name
//! in `lua/`, whose header is the contract. What may happen in normal flow is a value
//! ([`Acked::AlreadyGone`]); [`StoreError`] is for what should not happen.
//!
//! A call is sent once. Where the connection breaks after it was sent, its outcome is unknown: the
//! call fails and is never repeated silently.

mod bodies;
mod config;
mod connect;
mod error;
mod limits;
mod link;
mod measures;
mod permissions;
mod pools;
mod prelude;
mod reply;
mod script;
mod server_check;
mod server_figures;
mod subscription;
mod tokens;
mod verbs;

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::{QueueKey, placement};

use link::{Link, Moves, Server};

pub use config::{DEFAULT_URL, StoreConfig, UnsafeServer};
pub use connect::ConnectError;
pub use error::{StoreError, Unavailable};
pub use limits::{LimitCreated, LimitHolder, LimitSide, Limits, RateLimit, Unit, UnitTaken};
pub use measures::{HISTOGRAMS, describe_metrics};
pub use pools::PoolError;
pub use server_check::Refusal;
pub use server_figures::ServerFigures;
pub use subscription::{Alarm, Alarms, Doorbell, Doorbells, PumpVerb};
pub use tokens::{TokenCreated, Tokens};
pub use verbs::{
    Acked, Cancelled, Claim, Done, Leased, ListedQueue, LoadedSlot, MovedDue, PUBLISH_JOBS_MAX,
    Peeked, QueuePage, Released, Reserved, Roster, Stats, Swept,
};

/// One Redis deployment that holds jobs. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
    now_ms: Option<u64>,
}

#[derive(Debug)]
struct Inner {
    config: StoreConfig,
    link: Link,
}

impl Store {
    /// The same store with its clock stopped at `now_ms`, for tests of the scripts: what a call does
    /// at a given moment. Leases of buckets still run on the clock of Redis.
    #[must_use]
    pub fn at(&self, now_ms: u64) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            now_ms: Some(now_ms),
        }
    }

    /// How many buckets the deployment has.
    #[must_use]
    pub fn buckets(&self) -> u32 {
        self.inner.config.buckets
    }

    fn all_buckets(&self) -> impl Iterator<Item = u16> + use<> {
        (0..self.buckets()).filter_map(|bucket| u16::try_from(bucket).ok())
    }

    /// The bucket that new jobs of a queue go to.
    #[must_use]
    pub fn bucket_of(&self, queue: &QueueKey) -> u16 {
        placement::bucket_of(queue, 0, self.buckets())
    }

    /// Asks Redis for a sign of life.
    ///
    /// # Errors
    /// Redis does not answer in time.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.command::<String>(&redis::cmd("PING")).await.map(drop)
    }

    /// The access tokens kept in this deployment.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        Tokens::new(self.clone())
    }

    /// The rate limits kept in this deployment.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits::new(self.clone())
    }

    /// Runs one plain command, bounded by the command timeout.
    async fn command<T: redis::FromRedisValue>(
        &self,
        command: &redis::Cmd,
    ) -> Result<T, StoreError> {
        let name = match command.args_iter().next() {
            Some(redis::Arg::Simple(name)) => std::str::from_utf8(name).unwrap_or_default(),
            _ => "",
        };
        let (server, mut moves) = self.inner.link.server();
        let mut connection = server.line.connection();
        let call = server.line.listen(command.query_async(&mut connection));
        self.answer(name, &server, call, &mut moves).await
    }

    /// Waits for the answer of a call: as long as the command timeout allows, and only while its server
    /// is the one that counts. Whatever goes wrong, the link is told. `name` is the call's label in
    /// metrics.
    async fn answer<T>(
        &self,
        name: &str,
        server: &Server,
        call: impl Future<Output = redis::RedisResult<T>>,
        moves: &mut Moves,
    ) -> Result<T, StoreError> {
        let wait = self.inner.config.command_timeout;
        let began_at = Instant::now();
        let answer = tokio::select! {
            biased;
            answer = link::bounded(wait, call) => answer,
            () = moves.left() => {
                Err(StoreError::away("the master changed before it had answered".to_owned()))
            }
        };
        server.measures.called(name, began_at, answer.is_ok());
        answer.inspect_err(|error| self.inner.link.failed(error))
    }
}
