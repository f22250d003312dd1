//! The job that a command publishes.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use tidegate::{BatchJob, Client, DurationMs, Publish};

use crate::arguments::publish::{ContentArguments, PublishArguments};
use crate::failure::CommandFailure;

/// The largest payload that a server may be set to take.
const PAYLOAD_BYTES_MAX: u64 = 8 << 20;

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
        (None, Some(path)) => {
            let bytes = File::open(&path).and_then(read_payload);
            bytes.map_err(|error| {
                CommandFailure::Usage(format!("failed to read {}: {error}", path.display()))
            })?
        }
        (None, None) => read_payload(io::stdin()).map_err(|error| {
            CommandFailure::Usage(format!("failed to read the standard input: {error}"))
        })?,
    };
    let mut job = BatchJob::raw(queue, payload, &content.content_type);
    if let Some(retain) = content.retain {
        job = job.retain(duration(retain));
    }
    if let Some(priority) = content.priority {
        job = job.priority(priority.get());
    }
    if let Some(group) = content.group {
        job = job.group(group);
    }
    if let Some(attempts) = content.max_attempts {
        job = job.max_attempts(attempts);
    }
    let mut names = HashSet::new();
    for (name, value) in content.attributes {
        if !names.insert(name.clone()) {
            let text = format!("--attr {name} is given twice; an attribute has one value");
            return Err(CommandFailure::Usage(text));
        }
        job = job.attribute(name, value);
    }
    Ok(job)
}

fn read_payload(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(PAYLOAD_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > PAYLOAD_BYTES_MAX {
        true => Err(io::Error::other(
            "the payload has more than 8 MiB, which no server takes",
        )),
        false => Ok(bytes),
    }
}

pub(super) const fn duration(value: DurationMs) -> Duration {
    Duration::from_millis(value.as_ms())
}
