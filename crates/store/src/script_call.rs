//! Building and sending calls of scripts.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, RedisResult, ToRedisArgs, Value};
use tidegate_core::keys::BucketKeys;
use tidegate_core::{JobId, QueueKey};
use tokio::time::{Instant, sleep};

use crate::calls::{SLOT_PATIENCE, SLOT_PATIENCE_OF_PUMPS, SentCall};
use crate::error::StoreError;
use crate::link::Destination;
use crate::reply::Reply;
use crate::script::{LazyScript, VerbScript};
use crate::store::Store;

/// The longest pause behind a call that changes many jobs. On a link on which calls take longer the server mostly
/// waits.
const BULK_PAUSE_MAX: Duration = Duration::from_millis(5);

/// Builder of a script call. It writes arguments directly into a command: the type of the `redis` crate would allocate
/// each argument separately, and a batch has hundreds.
pub(crate) struct Call<'a> {
    store: &'a Store,
    script: Arc<VerbScript>,
    key: String,
    patience: Duration,
    command: Cmd,
}

impl Store {
    /// Begins a call on the part of a queue in a bucket, as all verbs of producers and consumers need it.
    pub(crate) fn call_on_queue<'a>(
        &'a self,
        script: &LazyScript,
        queue: &QueueKey,
        bucket: u16,
    ) -> Call<'a> {
        let keys = self.keys(bucket);
        let call = self.call_on_bucket(script, keys.queues(), keys);
        call.arg(queue.to_string())
    }

    /// Begins a call on the lock of a bucket, as all verbs of pumps need it.
    pub(crate) fn call_on_lock<'a>(
        &'a self,
        script: &LazyScript,
        bucket: u16,
        token: &str,
    ) -> Call<'a> {
        let keys = self.keys(bucket);
        let call = self.call_on_bucket(script, keys.lock(), keys);
        call.of_pump().arg(token)
    }

    /// Begins a call that accesses several keys of a bucket, one of which is `key`.
    pub(crate) fn call_on_bucket<'a>(
        &'a self,
        script: &LazyScript,
        key: String,
        keys: &BucketKeys,
    ) -> Call<'a> {
        let guard = self.inner.link.is_cluster().then(|| keys.guard());
        self.begin_call(script, key, guard.as_deref(), keys.prefix())
    }

    /// Begins a call that accesses this key only.
    pub(crate) fn call<'a>(&'a self, script: &LazyScript, key: String) -> Call<'a> {
        self.begin_call(script, key, None, "")
    }

    /// Begins a call that accesses these two keys, which share a hash slot. While it moves the call waits until both
    /// are on one server.
    pub(crate) fn call_on_both<'a>(
        &'a self,
        script: &LazyScript,
        key: String,
        second: &str,
    ) -> Call<'a> {
        self.begin_call(script, key, Some(second), "")
    }

    /// Sends a call that changes nothing if Redis executes it after it has timed out: the call contains its deadline.
    /// If the clock of Redis was set forward, the call is sent again with a new deadline. Returns also the time on
    /// that clock, in ms.
    pub(crate) async fn call_before_deadline<'a>(
        &self,
        key: &str,
        call: impl Fn(String) -> Call<'a>,
    ) -> Result<(Reply, u64), StoreError> {
        loop {
            let (mut reply, written) = call(self.call_deadline(key)).send_tracked().await?;
            let now_ms = reply.count()?;
            written.note_clock(now_ms);
            if reply.token() != "late" {
                return Ok((reply, now_ms));
            }
        }
    }

    /// Sets the keys, and the arguments prefix and now.
    fn begin_call<'a>(
        &'a self,
        script: &LazyScript,
        key: String,
        second: Option<&str>,
        prefix: &str,
    ) -> Call<'a> {
        let script = script.of(self.inner.slot_width);
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.hash());
        command.arg(1 + usize::from(second.is_some())).arg(&key);
        command.arg(second).arg(prefix);
        let now_ms = self.now_ms.map(|now_ms| now_ms.to_string());
        command.arg(now_ms.unwrap_or_default());
        Call {
            store: self,
            script,
            key,
            patience: SLOT_PATIENCE,
            command,
        }
    }
}

impl Call<'_> {
    pub(crate) fn arg(mut self, value: impl ToRedisArgs) -> Self {
        self.command.arg(value);
        self
    }

    /// Marks the call of a pump, which does not wait long for slots that move.
    pub(crate) const fn of_pump(mut self) -> Self {
        self.patience = SLOT_PATIENCE_OF_PUMPS;
        self
    }

    /// Adds the three arguments that identify a job; all are empty for none.
    pub(crate) fn job(self, id: Option<JobId>) -> Self {
        match id {
            Some(id) => self
                .arg(id.number())
                .arg(id.nonce())
                .arg(id.created_at_ms()),
            None => self.arg("").arg("").arg(""),
        }
    }

    /// Sends the call and waits for its reply, within the command timeout.
    pub(crate) async fn send(self) -> Result<Reply, StoreError> {
        Ok(self.send_tracked().await?.0)
    }

    /// Sends one of many calls that change many jobs each, such as the calls of a purge. One at a time is sent to a
    /// server, with a pause behind it that is as long as the call: purges, however many and of how many lanes, leave
    /// half of the server to other calls.
    ///
    /// # Errors
    /// As [`Call::send`]; there was no turn within the command timeout.
    pub(crate) async fn send_in_turn(self) -> Result<Reply, StoreError> {
        let server = self.store.inner.link.server_of(&self.key);
        let turn = match &server {
            Some(server) => Some(
                server
                    .bulk_turn(self.store.inner.config.command_timeout)
                    .await?,
            ),
            None => None,
        };
        let sent_at = Instant::now();
        let reply = self.send().await;
        sleep(sent_at.elapsed().min(BULK_PAUSE_MAX)).await;
        drop(turn);
        reply
    }

    /// The same as [`Call::send`]; also returns the server and the time of sending.
    pub(crate) async fn send_tracked(self) -> Result<(Reply, SentCall), StoreError> {
        let destination = self.store.inner.link.destination(&self.key, self.patience);
        let query = async |to: &mut Destination| self.script.query(&self.command, to).await;
        self.exchange(destination, query).await
    }

    /// Sends `commands` and this call in one pipeline on the connection for large transfers, otherwise as
    /// [`Call::send_tracked`]. The script runs even if a command fails, so it must check for that; the result is then
    /// the error of the command. The time limit begins when the call has its turn among the uploads to the server.
    pub(crate) async fn send_with_commands(
        self,
        commands: Vec<Cmd>,
    ) -> Result<(Reply, SentCall), StoreError> {
        let bytes = commands
            .iter()
            .chain([&self.command])
            .map(size_of_arguments)
            .sum();
        let _turn = match self.store.inner.link.server_of(&self.key) {
            Some(server) => Some(server.upload_turn(bytes).await?),
            None => None,
        };
        // The key may have moved to another server meanwhile.
        let destination = self.store.inner.link.destination(&self.key, self.patience);
        let (script, command) = (&self.script, &self.command);
        let query = async |to: &mut Destination| script.query_behind(commands, command, to).await;
        self.exchange(destination.for_large_transfers(), query)
            .await
    }

    async fn exchange(
        &self,
        destination: Destination,
        query: impl AsyncFnOnce(&mut Destination) -> RedisResult<Value>,
    ) -> Result<(Reply, SentCall), StoreError> {
        let verb = self.script.verb;
        let (answer, written) = self.store.exchange(verb, destination, query).await?;
        if let (Some(server), true) = (&written.server, self.script.writes) {
            server.record_write();
        }
        Ok((Reply::new(answer)?, written))
    }
}

/// The size of the arguments of a command, in bytes.
fn size_of_arguments(command: &Cmd) -> usize {
    let sizes = command.args_iter().map(|argument| match argument {
        redis::Arg::Simple(bytes) => bytes.len(),
        _ => 0,
    });
    sizes.sum()
}
