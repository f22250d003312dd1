//! Scripts: how they are put together, called, and answered.
//!
//! A script is the shebang line of its file, the prelude, and the rest of its file. It is called by
//! its hash; where the server has forgotten it (a restart, `SCRIPT FLUSH`, a new primary) it is
//! loaded and called again, which is safe because a call that finds no script has done nothing.

use std::sync::LazyLock;

use redis::{Script, ScriptInvocation, ToRedisArgs, Value};
use tidegate_core::JobId;
use tidegate_core::keys::BucketKeys;

use crate::reply::Reply;
use crate::{Store, StoreError};

pub(crate) type LazyScript = LazyLock<Script>;

/// The script in `lua/<verb>.lua`.
macro_rules! script {
    ($verb:literal) => {
        std::sync::LazyLock::new(|| {
            $crate::script::assemble(include_str!(concat!("../../../../lua/", $verb, ".lua")))
        })
    };
}
pub(crate) use script;

const PRELUDE: &str = include_str!("../../../lua/prelude.lua");

pub(crate) fn assemble(file: &str) -> Script {
    // The flags must stand on the very first line of what Redis is given.
    let (shebang, body) = file.split_once('\n').unwrap_or((file, ""));
    Script::new(&format!("{shebang}\n{PRELUDE}\n{body}"))
}

/// A call of a script that is being put together.
pub(crate) struct Call<'a> {
    store: &'a Store,
    invocation: ScriptInvocation<'a>,
}

impl Store {
    /// Begins a call on the key `key` of a bucket: the key, the prefix and the clock are set.
    pub(crate) fn call<'a>(&'a self, script: &'a Script, key: &str, keys: &BucketKeys) -> Call<'a> {
        self.call_with_prefix(script, key, keys.prefix())
    }

    pub(crate) fn call_with_prefix<'a>(
        &'a self,
        script: &'a Script,
        key: &str,
        prefix: &str,
    ) -> Call<'a> {
        let mut invocation = script.key(key);
        invocation.arg(prefix);
        match self.now_ms {
            Some(now_ms) => invocation.arg(now_ms),
            None => invocation.arg(""),
        };
        Call {
            store: self,
            invocation,
        }
    }
}

impl Call<'_> {
    pub(crate) fn arg(mut self, value: impl ToRedisArgs) -> Self {
        self.invocation.arg(value);
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
        let mut connection = self.store.inner.connection.clone();
        let call = self.invocation.invoke_async::<Value>(&mut connection);
        Reply::new(self.store.bounded(call).await?)
    }
}
