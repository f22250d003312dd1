//! A queue of a Tidegate. The id of a job becomes its key there, so a repetition finds the job that exists.

use std::ops::Range;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{self, StreamExt};
use tidegate::api::relay::TidegateSinkConfig;
use tidegate::api::values::JobAttributes;
use tidegate::limits::{ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX};
use tidegate::{BatchJob, Client, Error, IfExists, QueueName, RepeatLimits};
use tokio::time::{Instant, timeout};

use super::{RelaySink, TRACE_PARENT_HEADER};
use crate::job::{DeliveryOutcome, RelayJob};

/// Payloads of one request. Base64 makes them longer by a third, and a server takes 8 MiB.
const REQUEST_BYTES_MAX: usize = 4 << 20;
/// The bytes of the attribute with a span, as a header.
const TRACE_PARENT_BYTES: usize = 79;
/// Requests with parts of a batch that are sent at the same time.
const PARTS_AT_ONCE: usize = 2;
/// The least time to live that a publish can have.
const TTL_MIN: Duration = Duration::from_millis(1);

/// A queue of a Tidegate.
pub(crate) struct TidegateSink {
    client: Client,
    queue: QueueName,
    retain: Duration,
    time_limit: Duration,
}

impl TidegateSink {
    /// Makes the sink. No request is sent.
    ///
    /// # Errors
    /// A setting is missing or not valid; the error begins with its name.
    pub(crate) fn new(config: &TidegateSinkConfig) -> Result<Self, String> {
        let queue = config
            .queue
            .parse()
            .map_err(|error| format!("queue: {error}"))?;
        let builder = Client::builder(&config.url)
            .key(config.api_key.as_str())
            .namespace(&config.namespace);
        // The circuit breaker repeats.
        let none = RepeatLimits {
            repetitions: 0,
            ..RepeatLimits::default()
        };
        let client = builder
            .repeat_limits(none)
            .time_limit(config.time_limit.into())
            .build();
        Ok(Self {
            client: client.map_err(|error| format!("url, namespace, api_key: {error}"))?,
            queue,
            retain: config.retain.into(),
            time_limit: config.time_limit.into(),
        })
    }

    fn batch_job(&self, job: &RelayJob) -> BatchJob {
        let batch_job = BatchJob::raw(self.queue.as_str(), job.payload.to_vec(), &job.content_type)
            .key(job.id.as_str())
            .if_exists(IfExists::Keep)
            .retain(self.retain);
        let attributes = job.attributes.iter().filter(|(name, _)| !name.is_empty());
        // A trace is not worth a job: the sink takes no more attributes.
        let has_room = attributes.clone().count() < ATTRIBUTES_MAX
            && JobAttributes::header_bytes(attributes.clone()) + TRACE_PARENT_BYTES
                <= ATTRIBUTES_BYTES_MAX
            && !job.attributes.contains_key(TRACE_PARENT_HEADER);
        // A request has one header for all its jobs; the worker at the other end links to this attribute.
        let batch_job = match job.trace_parent().filter(|_| has_room) {
            Some(span) => batch_job.attribute(TRACE_PARENT_HEADER, &span),
            None => batch_job,
        };
        let batch_job = attributes.fold(batch_job, |batch_job, (name, value)| {
            batch_job.attribute(name, value.trim_ascii())
        });
        let Some(deliveries) = job.deliveries_left else {
            return batch_job;
        };
        let batch_job = batch_job.max_deliveries(deliveries);
        match job.expires_at {
            Some(at) => batch_job.ttl(at.saturating_duration_since(Instant::now()).max(TTL_MIN)),
            None => batch_job,
        }
    }

    /// Publishes jobs in one request. Jobs that are not stored when time ends count as unavailable.
    async fn publish(&self, jobs: &[RelayJob]) -> Vec<DeliveryOutcome> {
        let late = DeliveryOutcome::Unavailable(format!("no answer within {:?}", self.time_limit));
        let mut outcomes = vec![late; jobs.len()];
        // The outcomes that have been reached stay.
        let _ = timeout(self.time_limit, self.publish_parts(jobs, &mut outcomes)).await;
        outcomes
    }

    /// Publishes jobs in one request. If the server rejects the request as invalid, one job may be the cause: halves
    /// the request until that job is alone.
    async fn publish_parts(&self, jobs: &[RelayJob], outcomes: &mut [DeliveryOutcome]) {
        let mut parts: Vec<Range<usize>> = std::iter::once(0..jobs.len()).collect();
        while !parts.is_empty() {
            let published = parts
                .drain(..)
                .map(|part| async { (part.clone(), self.publish_part(&jobs[part]).await) });
            let published: Vec<_> = published.collect();
            let mut published = stream::iter(published).buffer_unordered(PARTS_AT_ONCE);
            while let Some((part, result)) = published.next().await {
                match result {
                    Ok(reached) => {
                        for (outcome, reached) in outcomes[part].iter_mut().zip(reached) {
                            *outcome = reached;
                        }
                    }
                    Err(error) if part.len() > 1 && is_invalid(&error) => {
                        let middle = part.start.midpoint(part.end);
                        parts.extend([part.start..middle, middle..part.end]);
                    }
                    Err(error) => outcomes[part].fill(outcome(Err(error))),
                }
            }
        }
    }

    async fn publish_part(&self, jobs: &[RelayJob]) -> Result<Vec<DeliveryOutcome>, Error> {
        let batch = jobs.iter().map(|job| self.batch_job(job));
        let results = self.client.publish_batch(batch).await?;
        let outcomes = results.into_iter().map(|result| outcome(result.map(drop)));
        Ok(outcomes.collect())
    }
}

/// Whether the request is at fault, and would be each time. Only a problem document says so: other answers come from
/// a proxy, or from a server that is no Tidegate.
fn is_invalid(error: &Error) -> bool {
    match error {
        Error::Invalid(_) | Error::Encode(_) => true,
        Error::Rejected(rejection) => matches!(rejection.problem.status, 400 | 413 | 415 | 422),
        _ => false,
    }
}

fn outcome(result: Result<(), Error>) -> DeliveryOutcome {
    match result {
        Ok(()) => DeliveryOutcome::Confirmed,
        Err(error) if is_invalid(&error) => DeliveryOutcome::permanent(error.to_string()),
        // Among others: the server is unavailable, the queue is full or closed, or the key was revoked.
        Err(error) => DeliveryOutcome::Unavailable(error.to_string()),
    }
}

/// Splits jobs into requests.
fn requests(jobs: &[RelayJob]) -> Vec<&[RelayJob]> {
    let (mut requests, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (index, job) in jobs.iter().enumerate() {
        if index > begin && bytes + job.payload.len() > REQUEST_BYTES_MAX {
            requests.push(&jobs[begin..index]);
            (begin, bytes) = (index, 0);
        }
        bytes += job.payload.len();
    }
    requests.push(&jobs[begin..]);
    requests
}

impl RelaySink for TidegateSink {
    fn deliver<'a>(&'a self, jobs: &'a [RelayJob]) -> BoxFuture<'a, Vec<DeliveryOutcome>> {
        Box::pin(async {
            let publishing = requests(jobs).into_iter().map(|jobs| self.publish(jobs));
            join_all(publishing).await.concat()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sink() -> TidegateSink {
        let config =
            json!({"url": "http://127.0.0.1", "namespace": "n", "queue": "q", "api_key": "k"});
        TidegateSink::new(&serde_json::from_value(config).unwrap()).unwrap()
    }

    /// The job that the sink would publish, as text.
    fn published(job: &RelayJob) -> String {
        format!("{:?}", sink().batch_job(job))
    }

    fn attribute(value: &str) -> String {
        format!("{TRACE_PARENT_HEADER:?}: {value:?}")
    }

    #[tokio::test]
    async fn the_span_is_an_attribute() {
        for (job, header) in RelayJob::of_test_with_traces() {
            let published = published(&job);
            let is_there = header.is_some_and(|header| published.contains(&attribute(&header)));
            assert_eq!(is_there, job.delivery.is_some(), "{published}");
            assert_eq!(
                published.contains(TRACE_PARENT_HEADER),
                is_there,
                "{published}"
            );
        }
    }

    #[tokio::test]
    async fn the_attributes_of_a_job_go_before_its_span() {
        let [(mut job, header), ..] = RelayJob::of_test_with_traces();
        let header = attribute(&header.unwrap());
        let names = (1..ATTRIBUTES_MAX).map(|number| format!("n{number}"));
        job.attributes
            .extend(names.map(|name| (name, String::new())));
        assert!(published(&job).contains(&header));
        job.attributes.insert("last".to_owned(), String::new());
        assert!(!published(&job).contains(TRACE_PARENT_HEADER));
        job.attributes.clear();
        job.attributes
            .insert(TRACE_PARENT_HEADER.to_owned(), "own".to_owned());
        assert!(published(&job).contains(&attribute("own")));
    }
}
