//! Scripts: how they are put together, called, and answered.
//!
//! A script is the shebang line of its file, what it uses of the prelude, and the rest of its file. It is called by
//! its hash; where the server has forgotten it (a restart, `SCRIPT FLUSH`, a new primary) it is
//! loaded and called again, which is safe because a call that finds no script has done nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, RedisError, RedisResult, Script, ServerErrorKind, ToRedisArgs, Value};
use tidegate_core::keys::BucketKeys;
use tidegate_core::{JobId, QueueKey, SlotWidth};

use crate::calls::{Began, SLOT_PATIENCE, SLOT_PATIENCE_OF_PUMPS};
use crate::link::{Destination, Server};
use crate::prelude;
use crate::reply::Reply;
use crate::{Store, StoreError};

/// The text of a verb's script, from which it is put together for each width of slots that this process uses.
pub(crate) struct LazyScript {
    verb: &'static str,
    file: &'static str,
    /// Nearly always there is one width.
    first: OnceLock<(SlotWidth, Arc<VerbScript>)>,
    others: Mutex<BTreeMap<SlotWidth, Arc<VerbScript>>>,
}

/// A script and the verb that it is.
pub(crate) struct VerbScript {
    verb: &'static str,
    script: Script,
}

/// The script in `lua/<verb>.lua`.
macro_rules! script {
    ($verb:literal) => {
        $crate::script::LazyScript::new(
            $verb,
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../lua/",
                $verb,
                ".lua"
            )),
        )
    };
}
pub(crate) use script;

impl LazyScript {
    pub(crate) const fn new(verb: &'static str, file: &'static str) -> Self {
        Self {
            verb,
            file,
            first: OnceLock::new(),
            others: Mutex::new(BTreeMap::new()),
        }
    }

    /// The script for a deployment with slots of this width.
    pub(crate) fn of(&self, slots: SlotWidth) -> Arc<VerbScript> {
        let assembled = || Arc::new(VerbScript::assemble(self.verb, self.file, slots));
        let (width, first) = self.first.get_or_init(|| (slots, assembled()));
        if *width == slots {
            return Arc::clone(first);
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(others.entry(slots).or_insert_with(assembled))
    }
}

impl VerbScript {
    fn assemble(verb: &'static str, file: &str, slots: SlotWidth) -> Self {
        // The flags must stand on the very first line of what Redis is given.
        let (shebang, body) = file.split_once('\n').unwrap_or((file, ""));
        let used = prelude::used_by(body, slots);
        let script = Script::new(&format!("{shebang}\n{used}\n{body}"));
        Self { verb, script }
    }

    /// Runs a script that touches no key, and so can run on any server.
    pub(crate) async fn run(
        &self,
        arguments: &[&str],
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<Value> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.script.get_hash()).arg(0).arg(arguments);
        self.query(&command, connection).await
    }

    /// Runs a script about this key alone, and these commands behind it in one piece; answers what they
    /// answered. Where the script fails their answers mean nothing.
    pub(crate) async fn run_before(
        &self,
        key: &str,
        behind: Vec<Cmd>,
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<Vec<Value>> {
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors();
        let call = pipeline.cmd("EVALSHA");
        call.arg(self.script.get_hash()).arg(1).arg(key);
        for command in behind {
            pipeline.add_command(command);
        }
        loop {
            let answers: Vec<Value> = pipeline.query_async(connection).await?;
            let mut answers = answers.into_iter();
            match answers.next().unwrap_or(Value::Nil).extract_error() {
                Ok(_) => return Ok(answers.collect()),
                Err(error) if is_unknown_script(&error) => {
                    self.script.prepare_invoke().load_async(connection).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn query(
        &self,
        command: &Cmd,
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<Value> {
        let answer = command.query_async(connection).await;
        self.or_load(answer, command, connection).await
    }

    async fn query_behind(
        &self,
        commands: Vec<Cmd>,
        command: &Cmd,
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<Value> {
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors();
        for command in commands {
            pipeline.add_command(command);
        }
        pipeline.add_command(command.clone());
        let mut answers: Vec<Value> = pipeline.query_async(connection).await?;
        let answer = answers.pop().unwrap_or(Value::Nil).extract_error();
        answers
            .into_iter()
            .try_for_each(|done| done.extract_error().map(drop))?;
        self.or_load(answer, command, connection).await
    }

    /// The answer of a call; where the server did not know the script it has done nothing, so it is loaded
    /// and called again: as often as it is flushed between the two, or the call gets to another server of a
    /// cluster, which does not know it either. Whoever waits sets the limit.
    async fn or_load(
        &self,
        mut answer: RedisResult<Value>,
        command: &Cmd,
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<Value> {
        loop {
            match answer {
                Err(error) if is_unknown_script(&error) => {
                    let script = self.script.prepare_invoke();
                    script.load_async(connection).await?;
                    answer = command.query_async(connection).await;
                }
                answer => return answer,
            }
        }
    }
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// A call of a script that is being put together. It is written as a command from the beginning: the client's
/// own form of a call keeps each argument in memory of its own, and a batch has hundreds.
pub(crate) struct Call<'a> {
    store: &'a Store,
    script: Arc<VerbScript>,
    key: String,
    patience: Duration,
    command: Cmd,
}

impl Store {
    /// Begins a call about what a queue has in a bucket: what all verbs of producers and consumers begin
    /// with.
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

    /// Begins a call on the lock of a bucket: what all verbs of pumps begin with.
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

    /// Begins a call that touches several keys of a bucket, one of which is `key`.
    pub(crate) fn call_on_bucket<'a>(
        &'a self,
        script: &LazyScript,
        key: String,
        keys: &BucketKeys,
    ) -> Call<'a> {
        let guard = self.inner.link.is_cluster().then(|| keys.guard());
        self.begin_call(script, key, guard, keys.prefix())
    }

    /// Begins a call that touches this key and no other.
    pub(crate) fn call<'a>(&'a self, script: &LazyScript, key: String) -> Call<'a> {
        self.begin_call(script, key, None, "")
    }

    /// Keys, prefix and clock are set.
    fn begin_call<'a>(
        &'a self,
        script: &LazyScript,
        key: String,
        guard: Option<String>,
        prefix: &str,
    ) -> Call<'a> {
        let script = script.of(self.inner.slot_width);
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.script.get_hash());
        command.arg(1 + usize::from(guard.is_some())).arg(&key);
        command.arg(guard).arg(prefix);
        match self.now_ms {
            Some(now_ms) => command.arg(now_ms),
            None => command.arg(""),
        };
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

    /// The call of a pump, which does not wait for slots that move.
    pub(crate) const fn of_pump(mut self) -> Self {
        self.patience = SLOT_PATIENCE_OF_PUMPS;
        self
    }

    /// The three arguments that name a job; all empty for none.
    pub(crate) fn job(self, id: Option<JobId>) -> Self {
        match id {
            Some(id) => self
                .arg(id.number())
                .arg(id.nonce())
                .arg(id.created_at_ms()),
            None => self.arg("").arg("").arg(""),
        }
    }

    /// Sends the call and waits for its reply, bounded by the command timeout.
    pub(crate) async fn send(self) -> Result<Reply, StoreError> {
        Ok(self.write().await?.0)
    }

    /// The same, and tells where and when that was.
    pub(crate) async fn write(self) -> Result<(Reply, Written), StoreError> {
        let mut destination = self.store.inner.link.to(&self.key, self.patience);
        let began = self.store.begin(self.script.verb, &destination);
        let call = self.script.query(&self.command, &mut destination);
        let answer = began.until(call).await;
        let reply = Reply::new(self.store.end(&began, &destination, answer)?)?;
        Ok((reply, Written::new(&began, destination)))
    }

    /// Sends the call as [`Call::write`] does, over the connection for large transfers and right behind
    /// `commands`. The script runs even if one of them failed and has to see to that itself; the answer is
    /// then the error of the command.
    pub(crate) async fn write_behind(
        self,
        commands: Vec<Cmd>,
    ) -> Result<(Reply, Written), StoreError> {
        let destination = self.store.inner.link.to(&self.key, self.patience);
        let mut destination = destination.for_large_transfers();
        let began = self.store.begin(self.script.verb, &destination);
        let script = Arc::clone(&self.script);
        let call = script.query_behind(commands, &self.command, &mut destination);
        let answer = began.until(call).await;
        let reply = Reply::new(self.store.end(&began, &destination, answer)?)?;
        Ok((reply, Written::new(&began, destination)))
    }
}

/// Where a call went that was answered, and when it was sent.
pub(crate) struct Written {
    pub(crate) server: Option<Arc<Server>>,
    pub(crate) sent_at: Instant,
}

impl Written {
    fn new(began: &Began<'_>, destination: Destination) -> Self {
        Self {
            server: destination.into_server(),
            sent_at: began.at(),
        }
    }
}
