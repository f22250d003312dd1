//! Checks whether the servers take writes.

use std::time::Instant;

use futures_util::future::try_join_all;
use tidegate_core::SlotWidth;

use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::store::Store;

static WRITE_PROBE: LazyScript = script!("write_probe");

impl Store {
    /// Checks that every server that has keys replies and takes writes. A server that has reached `maxmemory` counts:
    /// it still delivers and deletes jobs.
    ///
    /// # Errors
    /// A server does not reply within the command timeout or takes no writes, or some slots of the cluster have no
    /// primary.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        let (link, script) = (&self.inner.link, WRITE_PROBE.of(SlotWidth::default()));
        let checks = link.servers().into_iter().map(|server| {
            let script = &script;
            async move {
                let session = server.session(self.inner.config.command_timeout);
                let began_at = Instant::now();
                let answer = session.script(script, &["", ""]).await;
                let is_ok = answer.is_ok();
                server.measures.record_call(script.verb, began_at, is_ok);
                let answer =
                    answer.inspect_err(|error| link.report_failure(Some(&server), error))?;
                Reply::new(answer)?.ok().map(drop)
            }
        });
        try_join_all(checks).await?;
        match link.is_complete() {
            true => Ok(()),
            false => Err(StoreError::not_ready(
                "some slots of the cluster have no primary",
            )),
        }
    }
}
