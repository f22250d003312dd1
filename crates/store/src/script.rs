//! Scripts: how they are put together, called, and answered.
//!
//! A script is the shebang line of its file, what it uses of the prelude, and the rest of its file. It is called by
//! its hash; where the server has forgotten it (a restart, `SCRIPT FLUSH`, a new primary) it is
//! loaded and called again, which is safe because a call that finds no script has done nothing.

use std::sync::LazyLock;

use redis::aio::ConnectionManager;
use redis::{Cmd, ErrorKind, RedisResult, Script, ServerErrorKind, ToRedisArgs, Value};
use tidegate_core::keys::BucketKeys;
use tidegate_core::{JobId, QueueKey};

use crate::prelude;
use crate::reply::Reply;
use crate::{Store, StoreError};

pub(crate) type LazyScript = LazyLock<VerbScript>;

/// A script and the verb that it is.
pub(crate) struct VerbScript {
    verb: &'static str,
    script: Script,
}

/// The script in `lua/<verb>.lua`.
macro_rules! script {
    ($verb:literal) => {
        std::sync::LazyLock::new(|| {
            $crate::script::assemble(
                $verb,
                include_str!(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/../../lua/",
                    $verb,
                    ".lua"
                )),
            )
        })
    };
}
pub(crate) use script;

pub(crate) fn assemble(verb: &'static str, file: &str) -> VerbScript {
    // The flags must stand on the very first line of what Redis is given.
    let (shebang, body) = file.split_once('\n').unwrap_or((file, ""));
    let used = prelude::used_by(body);
    let script = Script::new(&format!("{shebang}\n{used}\n{body}"));
    VerbScript { verb, script }
}

/// A call of a script that is being put together. It is written as a command from the beginning: the client's
/// own form of a call keeps each argument in memory of its own, and a batch has hundreds.
pub(crate) struct Call<'a> {
    store: &'a Store,
    script: &'a VerbScript,
    command: Cmd,
}

impl Store {
    /// Begins a call about a queue: what all verbs of producers and consumers begin with.
    pub(crate) fn call_on_queue<'a>(
        &'a self,
        script: &'a VerbScript,
        queue: &QueueKey,
    ) -> Call<'a> {
        let keys = BucketKeys::new(self.bucket_of(queue));
        let call = self.call(script, &keys.queues(), keys.prefix());
        call.arg(queue.to_string())
    }

    /// Begins a call on the lock of a bucket: what all verbs of pumps begin with.
    pub(crate) fn call_on_lock<'a>(
        &'a self,
        script: &'a VerbScript,
        bucket: u16,
        token: &str,
    ) -> Call<'a> {
        let keys = BucketKeys::new(bucket);
        self.call(script, &keys.lock(), keys.prefix()).arg(token)
    }

    /// Begins a call: key, prefix and clock are set.
    pub(crate) fn call<'a>(&'a self, script: &'a VerbScript, key: &str, prefix: &str) -> Call<'a> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.script.get_hash()).arg(1).arg(key);
        command.arg(prefix);
        match self.now_ms {
            Some(now_ms) => command.arg(now_ms),
            None => command.arg(""),
        };
        Call {
            store: self,
            script,
            command,
        }
    }
}

impl Call<'_> {
    pub(crate) fn arg(mut self, value: impl ToRedisArgs) -> Self {
        self.command.arg(value);
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
        let (server, mut moves) = self.store.inner.link.server();
        let mut connection = server.line.connection();
        let call = server.line.listen(self.query(&mut connection));
        let verb = self.script.verb;
        let answer = self.store.answer(verb, &server, call, &mut moves);
        Reply::new(answer.await?)
    }

    /// Sends the call as [`Call::send`] does, over the connection for large transfers and right behind
    /// `commands`. The script runs even if one of them failed and has to see to that itself; the answer is
    /// then the error of the command.
    pub(crate) async fn send_behind(self, commands: Vec<Cmd>) -> Result<Reply, StoreError> {
        let (server, mut moves) = self.store.inner.link.server();
        let line = &server.large_transfers;
        let mut connection = line.connection();
        let call = line.listen(self.query_behind(commands, &mut connection));
        let verb = self.script.verb;
        let answer = self.store.answer(verb, &server, call, &mut moves);
        Reply::new(answer.await?)
    }

    async fn query(&self, connection: &mut ConnectionManager) -> RedisResult<Value> {
        let answer = self.command.query_async(connection).await;
        self.or_load(answer, connection).await
    }

    async fn query_behind(
        &self,
        commands: Vec<Cmd>,
        connection: &mut ConnectionManager,
    ) -> RedisResult<Value> {
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors();
        for command in commands {
            pipeline.add_command(command);
        }
        pipeline.add_command(self.command.clone());
        let mut answers: Vec<Value> = pipeline.query_async(connection).await?;
        let answer = answers.pop().unwrap_or(Value::Nil).extract_error();
        answers
            .into_iter()
            .try_for_each(|done| done.extract_error().map(drop))?;
        self.or_load(answer, connection).await
    }

    /// The answer of a call; where the server did not know the script it has done nothing, so it is loaded
    /// and called again, as often as it is flushed between the two. Whoever waits sets the limit.
    async fn or_load(
        &self,
        mut answer: RedisResult<Value>,
        connection: &mut ConnectionManager,
    ) -> RedisResult<Value> {
        loop {
            match answer {
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    let script = self.script.script.prepare_invoke();
                    script.load_async(connection).await?;
                    answer = self.command.query_async(connection).await;
                }
                answer => return answer,
            }
        }
    }
}
