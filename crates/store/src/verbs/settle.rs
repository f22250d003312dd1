//! The common parts of the verbs that end or extend leases: they take jobs of one queue, and make one call for each
//! bucket.

use std::collections::BTreeMap;

use tidegate_core::v1::consume::{Outcome, SettleCall};
use tidegate_core::{JobId, QueueKey};

use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::LazyScript;
use crate::script_call::Call;
use crate::store::Store;

/// A job that a consumer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeasedJob {
    pub id: JobId,
    /// The delivery that holds it.
    pub attempt: u32,
}

/// The outcome that scripts give this number, and return for this call; `applied` is its outcome if the call has done
/// its work.
pub(super) fn outcome_of(
    call: SettleCall,
    number: u64,
    applied: Outcome,
) -> Result<Outcome, StoreError> {
    let outcome = match number {
        0 => Some(Outcome::Gone),
        1 => Some(applied),
        2 => Some(Outcome::Lost),
        3 => Some(Outcome::Rerun),
        4 => Some(Outcome::Cancelled),
        5 => Some(Outcome::Dead),
        _ => None,
    };
    outcome
        .filter(|it| call.can_end_in(it))
        .ok_or_else(|| StoreError::corrupt(format!("script returned the unknown outcome {number}")))
}

/// A verb that ends or extends leases.
pub(super) trait SettleVerb: Sized {
    /// The request for a job.
    type Item;
    type Outcome: Clone;

    /// The outcome of a job whose bucket does not exist.
    const GONE: Self::Outcome;

    fn id(item: &Self::Item) -> JobId;

    /// Adds the arguments before the arguments of the jobs.
    fn add_options<'c>(&self, call: Call<'c>) -> Call<'c>;

    /// The script and the verb for a server that has reached `maxmemory` and refuses the first script; `None` if it
    /// never refuses that.
    fn when_full(&self) -> Option<(&'static LazyScript, Self)> {
        None
    }

    /// Adds the arguments of a job behind its id.
    fn add_item<'c>(&self, call: Call<'c>, item: &Self::Item) -> Call<'c>;

    /// Reads the outcome of a job. `now_ms` is the time on the clock of Redis.
    fn read(item: &Self::Item, reply: &mut Reply, now_ms: u64)
    -> Result<Self::Outcome, StoreError>;
}

impl Store {
    /// The indexes of jobs by their buckets. Jobs whose bucket does not exist are left out.
    pub(super) fn by_bucket(&self, ids: impl Iterator<Item = JobId>) -> BTreeMap<u16, Vec<usize>> {
        let mut by_bucket: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (index, id) in ids.enumerate() {
            if self.has_bucket_of(id) {
                by_bucket.entry(id.bucket()).or_default().push(index);
            }
        }
        by_bucket
    }

    /// Calls the script of a verb for jobs of a queue, once for each bucket, and returns the outcome of each job, in
    /// order.
    pub(super) async fn settle<V: SettleVerb>(
        &self,
        script: &LazyScript,
        queue: &QueueKey,
        verb: &V,
        items: &[V::Item],
    ) -> Result<Vec<V::Outcome>, StoreError> {
        let mut outcomes = vec![V::GONE; items.len()];
        let call = |script, verb: &V, bucket, indexes: &[usize]| {
            let call = verb.add_options(self.call_on_queue(script, queue, bucket));
            let call = indexes.iter().fold(call, |call, index| {
                let item = &items[*index];
                verb.add_item(call.job(Some(V::id(item))), item)
            });
            call.send()
        };
        for (bucket, indexes) in self.by_bucket(items.iter().map(V::id)) {
            let sent = call(script, verb, bucket, &indexes).await;
            let reply = match (sent, verb.when_full()) {
                (Err(error), Some((script, verb))) if error.is_out_of_memory() => {
                    call(script, &verb, bucket, &indexes).await
                }
                (sent, _) => sent,
            };
            let mut reply = reply?.ok()?;
            let now_ms = reply.count()?;
            for index in indexes {
                outcomes[index] = V::read(&items[index], &mut reply, now_ms)?;
            }
        }
        Ok(outcomes)
    }
}
