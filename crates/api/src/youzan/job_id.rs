//! How the id of a job in this protocol names a stored job.

use tidegate_core::{Job, JobId, KEY_ATTRIBUTE, KeyHash, QueueKey};
use tidegate_store::JobReference;

/// The jobs of a queue that an id may name: the job with this key, or a job without a key that another API has
/// published.
pub(super) fn references(queue: &QueueKey, id: &str) -> impl Iterator<Item = JobReference> {
    let key = KeyHash::of_job(queue, id);
    let by_id = id.parse::<JobId>().ok();
    [Some(key.into()), by_id.map(JobReference::from)]
        .into_iter()
        .flatten()
}

/// The id of a job: its key, or its id if it has none.
pub(super) fn id_of(job: &Job) -> String {
    let mut attributes = job.attributes.iter();
    let key = attributes.find(|(name, _)| name == KEY_ATTRIBUTE);
    key.map_or_else(|| job.id.to_string(), |(_, key)| key.clone())
}

/// The body of a job as text. Only jobs that another API has published may have bytes that are no text.
pub(super) fn value_of(job: &Job) -> String {
    String::from_utf8_lossy(&job.body).into_owned()
}
