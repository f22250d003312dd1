use std::time::Duration;

use redis::Cmd;
use tidegate_core::keys;

use super::page::SizesPage;
use super::{SharedSizes, SizesClaim, field, kept_ms};
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::verbs::AllQueues;

static FINISH_SIZES: LazyScript = script!("finish_sizes");

impl SharedSizes {
    /// Stores the sizes that were collected. Returns whether they are stored: not if this took so long that another process
    /// has claimed the collection. `refresh` is the same as in [`Self::claim`].
    ///
    /// # Errors
    /// Redis is unavailable, or does not take writes.
    pub async fn finish(
        &self,
        claim: &SizesClaim,
        collected: &AllQueues,
        refresh: Duration,
    ) -> Result<bool, StoreError> {
        let mut pages = 0;
        for page in SizesPage::pages_of(collected, &claim.id) {
            let set = Cmd::hset(keys::SIZES, field(&claim.side, pages), page.encode());
            let _: u64 = self.store.command(&set).await?;
            pages += 1;
        }
        let queues = collected.queues.len();
        // Sizes stay recent for longer the more queues were read. Sizes that lack some queues do not: the next reader
        // looks again.
        let read_at_a_cost = match collected.missing_buckets {
            0 => queues,
            _ => 0,
        };
        let call = self.store.call(&FINISH_SIZES, keys::SIZES.to_owned());
        let call = call.arg(&claim.id).arg(&claim.side).arg(pages);
        let call = call.arg(read_at_a_cost);
        let call = call.arg(kept_ms(refresh, queues));
        call.send().await?.ok()?.flag()
    }
}
