//! Checks of single items that seem inconsistent, each in one atomic call. `audit/` selects the items.

use std::collections::BTreeMap;

use tidegate_core::keys::{BucketKey, ReadyLine};
use tidegate_core::{FarSlot, GroupHash, KEY_HASH_BYTES, Namespace};

use super::sweep::PAUSE_MS;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static AUDIT_JOB: LazyScript = script!("audit_job");
static AUDIT_INDEX: LazyScript = script!("audit_index");
static AUDIT_COUNTS: LazyScript = script!("audit_counts");
static AUDIT_NAMESPACE: LazyScript = script!("audit_namespace");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckOutcome {
    /// The item is consistent.
    Sound,
    /// The item is inconsistent, and unchanged.
    Inconsistent,
    /// The item was inconsistent, and is repaired.
    Repaired,
}

/// The parts of a job that may be missing or damaged, by the names of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum JobCheck {
    Timer,
    List,
    Expiry,
    Body,
    Queue,
    Record,
    Key,
}

/// An index entry, name, body or key that may be inconsistent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IndexCheck {
    /// The index `due` does not have this queue, or too late.
    Due(u32),
    /// The index `slots` does not have this far slot, or too late, or the slot does not exist.
    Slot(FarSlot),
    /// This line has no turn, or its queue no mark that it has lines, or the line has a turn and does not exist.
    Line(ReadyLine),
    /// The hash of the queue with this number does not have this name.
    Name(String, u32),
    /// `queues` has no entry for this queue.
    Unnamed(u32),
    /// This queue number is above the last assigned one.
    Number(u32),
    /// This job number is above the last assigned one.
    Sequence(u64),
    /// No record refers to this key of a job.
    JobKey(BucketKey),
    /// No job has the key with this hash, which the index names.
    KeyEntry([u8; KEY_HASH_BYTES]),
    /// This key must have a time to live of at most this, in ms; 0 = must not have one.
    Ttl(BucketKey, u64),
}

/// Numbers to add to the counts of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MissingCounts {
    /// By state.
    pub(crate) jobs: [i64; 5],
    /// Leased jobs by group, without groups whose count is right.
    pub(crate) running: BTreeMap<GroupHash, i64>,
}

impl MissingCounts {
    /// The most groups that one call corrects.
    const GROUPS_PER_CALL: usize = 500;

    /// The same numbers in parts, the counts by state in the first one.
    pub(crate) fn in_parts(self) -> Vec<Self> {
        let groups: Vec<_> = self.running.into_iter().collect();
        let mut parts: Vec<Self> = groups
            .chunks(Self::GROUPS_PER_CALL)
            .map(|groups| Self {
                running: groups.iter().copied().collect(),
                ..Self::default()
            })
            .collect();
        if parts.is_empty() {
            parts.push(Self::default());
        }
        parts[0].jobs = self.jobs;
        parts
    }
}

/// How many names a namespace has in a hash, and how many the hash counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NamespaceCount {
    /// The count as it is stored; empty = there is none.
    pub(crate) counted: Vec<u8>,
    pub(crate) names: usize,
}

impl NamespaceCount {
    /// Whether the count is the number of names. A namespace without a name has no count.
    pub(crate) fn is_right(&self) -> bool {
        match self.names {
            0 => self.counted.is_empty(),
            names => self.counted == names.to_string().into_bytes(),
        }
    }
}

impl Store {
    /// Checks a job whose record begins with `header`, and repairs it if `repair`.
    pub(crate) async fn audit_job(
        &self,
        bucket: u16,
        repair: bool,
        doubt: JobCheck,
        number: u64,
        header: &[u8],
    ) -> Result<CheckOutcome, StoreError> {
        let keys = self.keys(bucket);
        let call = self
            .call_on_bucket(&AUDIT_JOB, keys.key(&BucketKey::Corrupt), keys)
            .arg(u8::from(repair))
            .arg(<&str>::from(doubt))
            .arg(number)
            .arg(header)
            .arg(PAUSE_MS);
        verdict(call.send().await?.token())
    }

    /// Checks an item, and repairs it if `repair`.
    pub(crate) async fn audit_index(
        &self,
        bucket: u16,
        repair: bool,
        doubt: &IndexCheck,
    ) -> Result<CheckOutcome, StoreError> {
        let key_text;
        let alone = |item: &dyn std::fmt::Display| (item.to_string().into_bytes(), String::new());
        let (what, (item, detail)) = match doubt {
            IndexCheck::Due(queue) => ("due", alone(queue)),
            IndexCheck::Slot(slot) => ("slot", alone(slot)),
            IndexCheck::Line(line) => ("line", alone(line)),
            IndexCheck::Name(name, queue) => {
                ("name", (name.clone().into_bytes(), queue.to_string()))
            }
            IndexCheck::Unnamed(queue) => ("unnamed", alone(queue)),
            IndexCheck::Number(queue) => ("number", alone(queue)),
            IndexCheck::Sequence(number) => ("sequence", alone(number)),
            IndexCheck::JobKey(key) => {
                key_text = key.to_string();
                let (family, number) = key_text.split_once(':').unwrap_or_default();
                (family, alone(&number))
            }
            IndexCheck::KeyEntry(hash) => ("key", (hash.to_vec(), String::new())),
            IndexCheck::Ttl(key, longest_ms) => (
                "ttl",
                (key.to_string().into_bytes(), longest_ms.to_string()),
            ),
        };
        let keys = self.keys(bucket);
        let call = self
            .call_on_bucket(&AUDIT_INDEX, keys.queues(), keys)
            .arg(u8::from(repair))
            .arg(what)
            .arg(item)
            .arg(detail);
        verdict(call.send().await?.token())
    }

    /// Adds `missing` to the counts of a queue, by state, unless its field `corrected` has changed.
    pub(crate) async fn audit_counts(
        &self,
        bucket: u16,
        queue: u32,
        corrected: u64,
        missing: &MissingCounts,
    ) -> Result<CheckOutcome, StoreError> {
        let keys = self.keys(bucket);
        let call = self
            .call_on_bucket(&AUDIT_COUNTS, keys.key(&BucketKey::Queue(queue)), keys)
            .arg(queue)
            .arg(corrected);
        let call = missing.jobs.iter().fold(call, |call, jobs| call.arg(jobs));
        let groups = missing.running.iter();
        let call = groups.fold(call, |call, (group, leased)| {
            call.arg(group.to_string()).arg(leased)
        });
        verdict(call.send().await?.token())
    }

    /// Corrects the count of a namespace in a hash, unless names were added or removed since count and field `#` were
    /// read.
    pub(crate) async fn audit_namespace(
        &self,
        table: &str,
        namespace: &Namespace,
        last: &[u8],
        count: &NamespaceCount,
    ) -> Result<CheckOutcome, StoreError> {
        let call = self
            .call(&AUDIT_NAMESPACE, table.to_owned())
            .arg(format!("{namespace}/"))
            .arg(last)
            .arg(&count.counted)
            .arg(count.names);
        verdict(call.send().await?.token())
    }
}

fn verdict(token: &str) -> Result<CheckOutcome, StoreError> {
    match token {
        "sound" => Ok(CheckOutcome::Sound),
        "inconsistent" => Ok(CheckOutcome::Inconsistent),
        "repaired" => Ok(CheckOutcome::Repaired),
        _ => Err(StoreError::corrupt(format!(
            "script returned the unknown outcome {token:?}"
        ))),
    }
}
