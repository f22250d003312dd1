//! The job that a command publishes.

use std::io::Read;
use std::time::Duration;

use tidegate::{BatchJob, Client, DurationMs, Publish};

use crate::arguments::publish::{ContentArguments, PublishArguments};
use crate::failure::CommandFailure;

pub(super) fn new_job(
    client: &Client,
    job: PublishArguments,
) -> Result<Publish<()>, CommandFailure> {
    let mut publish = client.publish_job(with_content(&job.queue, job.content)?);
    if let Some(delay) = job.delay {
        publish = publish.delay(duration(delay));
    }
    if let Some(at) = job.run_at {
        publish = publish.run_at(at);
    }
    if let Some(key) = job.key {
        publish = publish.key(key);
    }
    if let Some(if_exists) = job.if_exists {
        publish = publish.if_exists(if_exists);
    }
    Ok(publish)
}

/// A job with this content. Reads the payload from its file or the standard input, if it is not an argument.
pub(super) fn with_content(
    queue: &str,
    content: ContentArguments,
) -> Result<BatchJob, CommandFailure> {
    let payload = match (content.payload, content.file) {
        (Some(text), _) => text.into_bytes(),
        (None, Some(path)) => std::fs::read(&path).map_err(|error| {
            CommandFailure::Usage(format!("failed to read {}: {error}", path.display()))
        })?,
        (None, None) => {
            let mut bytes = Vec::new();
            let reading = std::io::stdin().read_to_end(&mut bytes);
            reading.map_err(|error| {
                CommandFailure::Usage(format!("failed to read the standard input: {error}"))
            })?;
            bytes
        }
    };
    let mut job = BatchJob::raw(queue, payload, &content.content_type);
    if let Some(retain) = content.retain {
        job = job.retain(duration(retain));
    }
    if let Some(attempts) = content.max_attempts {
        job = job.max_attempts(attempts);
    }
    for (name, value) in content.attributes {
        job = job.attribute(name, value);
    }
    Ok(job)
}

pub(super) const fn duration(value: DurationMs) -> Duration {
    Duration::from_millis(value.as_ms())
}
