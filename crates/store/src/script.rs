//! Scripts, and running them on a connection.
//!
//! A script is called by its hash. If the server does not have it (after a restart, `SCRIPT FLUSH`, on a new primary),
//! it is loaded and called again. This is safe, since Redis executes nothing if it returns NOSCRIPT.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, RedisError, RedisResult, Script, ServerErrorKind, Value};
use tidegate_core::SlotWidth;

/// The script of a verb, loaded for each slot width that this process uses.
pub(crate) struct LazyScript {
    verb: &'static str,
    text: &'static str,
    needs_memory: bool,
    /// The first width: nearly always the only one.
    first: OnceLock<(SlotWidth, Arc<VerbScript>)>,
    others: Mutex<BTreeMap<SlotWidth, Arc<VerbScript>>>,
}

/// A script for one slot width, and its verb.
pub(crate) struct VerbScript {
    pub(crate) verb: &'static str,
    /// Whether a server that takes no writes refuses it.
    pub(crate) writes: bool,
    script: Script,
}

/// The script in `lua/<verb>.lua`, with the files that it includes (`build/main.rs`).
macro_rules! script {
    ($verb:literal) => {
        $crate::script::LazyScript::new(
            $verb,
            include_str!(concat!(env!("OUT_DIR"), "/", $verb, ".lua")),
        )
    };
}
pub(crate) use script;

/// The flag in the first line of scripts that a server executes although it has reached `maxmemory`.
const ALLOW_OOM: &str = " flags=allow-oom";

impl LazyScript {
    pub(crate) const fn new(verb: &'static str, text: &'static str) -> Self {
        Self {
            verb,
            text,
            needs_memory: false,
            first: OnceLock::new(),
            others: Mutex::new(BTreeMap::new()),
        }
    }

    /// Makes a server that has reached `maxmemory` refuse the script, whatever its file says.
    pub(crate) const fn refused_without_memory(mut self) -> Self {
        self.needs_memory = true;
        self
    }

    /// The script for a deployment with this slot width.
    pub(crate) fn of(&self, slots: SlotWidth) -> Arc<VerbScript> {
        let for_slots = || {
            let text = self.text.replace("SLOT_MS", &slots.ms().to_string());
            let text = match self.needs_memory {
                true => text.replacen(ALLOW_OOM, "", 1),
                false => text,
            };
            let flags = text.lines().next().unwrap_or_default();
            Arc::new(VerbScript {
                verb: self.verb,
                writes: !flags.contains("no-writes"),
                script: Script::new(&text),
            })
        };
        let (width, first) = self.first.get_or_init(|| (slots, for_slots()));
        if *width == slots {
            return Arc::clone(first);
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(others.entry(slots).or_insert_with(for_slots))
    }
}

impl VerbScript {
    /// The hash with which the script is called.
    pub(crate) fn hash(&self) -> &str {
        self.script.get_hash()
    }

    /// Runs a script without keys, which can run on any server.
    pub(crate) async fn run(
        &self,
        arguments: &[&str],
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<Value> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.script.get_hash()).arg(0).arg(arguments);
        self.query(&command, connection).await
    }

    /// Runs a script on this key only, and these commands behind it in one pipeline. Returns the replies of the
    /// commands, or the error of the script.
    pub(crate) async fn run_with_commands(
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

    pub(crate) async fn query(
        &self,
        command: &Cmd,
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<Value> {
        let answer = command.query_async(connection).await;
        self.or_load(answer, command, connection).await
    }

    pub(crate) async fn query_behind(
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

    /// The reply of a call. If the server does not have the script, it is loaded and called again. This repeats if the
    /// script is flushed in between, or if a cluster sends the call to another server, which does not have it either.
    /// The caller sets the time limit.
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

#[cfg(test)]
mod tests;
