//! `get`: shows a job.

use tidegate_core::{Job, JobState, QueueKey};

use super::answer::{CommandResult, ShownJob};
use super::cancel::topics_of;
use super::error::YouzanError;
use super::job_id::{references, value_of};
use super::request::NamedJob;
use super::service::YouzanService;
use super::topic::topic_of;

pub(super) async fn peek(
    service: &YouzanService,
    named: NamedJob,
) -> Result<CommandResult, YouzanError> {
    let topics = topics_of(service, &named).await?;
    for topic in &topics {
        let queue = service.queue(topic);
        for reference in references(&queue, &named.id) {
            let found = service.pool.peek_job(&queue, reference).await?;
            // The body of a job that is done is not kept.
            let found = found.filter(|found| found.job.state != JobState::Done);
            if let Some(found) = found {
                let shown = show(service, &queue, &named.id, &found.job);
                return Ok(CommandResult::Shown(Box::new(shown)));
            }
        }
    }
    Ok(CommandResult::Nothing)
}

fn show(service: &YouzanService, queue: &QueueKey, id: &str, job: &Job) -> ShownJob {
    let own_ms = job.extension.as_ref().and_then(|options| options.lease_ms);
    let lease_ms = own_ms.map_or_else(|| service.pool.policy(queue).lease_ms, u64::from);
    ShownJob {
        topic: topic_of(&queue.queue).into_owned(),
        id: id.to_owned(),
        delay: job.due_at_ms.div_ceil(1000),
        ttr: lease_ms.div_ceil(1000),
        body: value_of(job),
    }
}
