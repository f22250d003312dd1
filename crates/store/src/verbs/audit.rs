//! Looking again at what seems amiss, one thing a call. What to look at is found by `audit/`.

use tidegate_core::keys::BucketKey;

use super::sweep::PAUSE_MS;
use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static AUDIT_JOB: LazyScript = script!("audit_job");
static AUDIT_INDEX: LazyScript = script!("audit_index");
static AUDIT_COUNTS: LazyScript = script!("audit_counts");

/// What a look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is amiss, or not any more.
    Sound,
    /// It is as it seemed.
    Amiss,
    /// It was as it seemed, and is as it should be now.
    Mended,
}

/// What a job seems to lack, by the words of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobDoubt {
    Timer,
    List,
    Expiry,
    Body,
    Queue,
    Record,
}

impl JobDoubt {
    const fn word(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::List => "list",
            Self::Expiry => "expiry",
            Self::Body => "body",
            Self::Queue => "queue",
            Self::Record => "record",
        }
    }
}

/// What seems amiss with what leads to jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IndexDoubt {
    /// The near timers of this queue are not looked at in time.
    Due(u32),
    /// This far slot is not loaded in time, or is not there.
    Slot(u64),
    /// The queue with this name and number does not know its name.
    Name(String, u32),
    /// No name leads to this queue.
    Unnamed(u32),
    /// This queue number is above the last one.
    Number(u32),
    /// This job number is above the last one.
    Sequence(u64),
    /// The body of this job belongs to no job.
    Body(u64),
    /// This key should not live longer than so many ms; 0 = should live for ever.
    Ttl(BucketKey, u64),
}

impl Store {
    /// Looks again at a job whose record begins with `header`.
    pub(crate) async fn audit_job(
        &self,
        bucket: u16,
        mend: bool,
        doubt: JobDoubt,
        number: u64,
        header: &[u8],
    ) -> Result<Verdict, StoreError> {
        let keys = self.keys(bucket);
        let call = self
            .call_on_bucket(&AUDIT_JOB, keys.key(&BucketKey::Corrupt), keys)
            .arg(u8::from(mend))
            .arg(doubt.word())
            .arg(number)
            .arg(header)
            .arg(PAUSE_MS);
        verdict(call.send().await?.token())
    }

    /// Looks again at what leads to jobs.
    pub(crate) async fn audit_index(
        &self,
        bucket: u16,
        mend: bool,
        doubt: &IndexDoubt,
    ) -> Result<Verdict, StoreError> {
        let (what, item, detail) = match doubt {
            IndexDoubt::Due(queue) => ("due", queue.to_string(), String::new()),
            IndexDoubt::Slot(slot) => ("slot", slot.to_string(), String::new()),
            IndexDoubt::Name(name, queue) => ("name", name.clone(), queue.to_string()),
            IndexDoubt::Unnamed(queue) => ("unnamed", queue.to_string(), String::new()),
            IndexDoubt::Number(queue) => ("number", queue.to_string(), String::new()),
            IndexDoubt::Sequence(number) => ("sequence", number.to_string(), String::new()),
            IndexDoubt::Body(number) => ("body", number.to_string(), String::new()),
            IndexDoubt::Ttl(key, longest_ms) => ("ttl", key.to_string(), longest_ms.to_string()),
        };
        let keys = self.keys(bucket);
        let call = self
            .call_on_bucket(&AUDIT_INDEX, keys.queues(), keys)
            .arg(u8::from(mend))
            .arg(what)
            .arg(item)
            .arg(detail);
        verdict(call.send().await?.token())
    }

    /// Adds `missing` to the counts of a queue, by state, unless they have been corrected since.
    pub(crate) async fn audit_counts(
        &self,
        bucket: u16,
        queue: u32,
        corrected: u64,
        missing: [i64; 4],
    ) -> Result<Verdict, StoreError> {
        let keys = self.keys(bucket);
        let call = self
            .call_on_bucket(&AUDIT_COUNTS, keys.key(&BucketKey::Queue(queue)), keys)
            .arg(queue)
            .arg(corrected);
        let call = missing.into_iter().fold(call, |call, jobs| call.arg(jobs));
        verdict(call.send().await?.token())
    }
}

fn verdict(token: &str) -> Result<Verdict, StoreError> {
    match token {
        "sound" => Ok(Verdict::Sound),
        "amiss" => Ok(Verdict::Amiss),
        "mended" => Ok(Verdict::Mended),
        _ => Err(StoreError::corrupt(format!("script answered {token:?}"))),
    }
}
