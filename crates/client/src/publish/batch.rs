//! Publishing many jobs in one request.

use std::future::IntoFuture;

use futures_util::future::BoxFuture;
use hyper::Method;
use tidegate_core::v1::problem::InvalidRequest;
use tidegate_core::v1::publish::{BatchAnswer, BatchBody, BatchItem, BatchItemResult};

use super::batch_job::BatchJob;
use crate::client::Client;
use crate::error::{Error, Rejection, RepeatSafety};
use crate::job_handle::PublishedHandle;
use crate::transport::HttpCall;

/// A batch that is published when it is awaited. Returns one result per job, in order.
///
/// Is repeated like a single publish; that needs a key or `.idempotent()` for each job.
#[must_use = "nothing is published until this is awaited"]
#[derive(Debug)]
pub struct BatchPublish {
    client: Client,
    jobs: Vec<BatchJob>,
    is_atomic: bool,
    is_idempotent: bool,
}

impl Client {
    /// Publishes up to 1,000 jobs to one queue in one request, in this order. Nothing happens until this is awaited.
    ///
    /// A job is a task, or a [`BatchJob`] with options.
    pub fn publish_batch<J: Into<BatchJob>>(
        &self,
        jobs: impl IntoIterator<Item = J>,
    ) -> BatchPublish {
        BatchPublish::new(self.clone(), jobs.into_iter().map(Into::into).collect())
    }
}

impl BatchPublish {
    pub(crate) const fn new(client: Client, jobs: Vec<BatchJob>) -> Self {
        Self {
            client,
            jobs,
            is_atomic: false,
            is_idempotent: false,
        }
    }

    /// Stores all jobs or none. At most 64 jobs. Then all results are successes, or the batch fails.
    pub const fn atomic(mut self) -> Self {
        self.is_atomic = true;
        self
    }

    /// Makes each job safe to publish again, like `.idempotent()` of a job.
    pub const fn idempotent(mut self) -> Self {
        self.is_idempotent = true;
        self
    }

    fn into_call(self) -> Result<Option<(HttpCall, RepeatSafety)>, Error> {
        let trace_parent = self.client.trace_parent.as_ref().and_then(|hook| hook());
        let mut queue = None;
        let mut safety = RepeatSafety::Repeatable;
        let mut items = Vec::with_capacity(self.jobs.len());
        for (index, job) in self.jobs.into_iter().enumerate() {
            let job = if self.is_idempotent {
                job.idempotent()
            } else {
                job
            };
            let mut job = job.into_job()?;
            job.complete(trace_parent.clone())?;
            if job.repeat_safety() == RepeatSafety::OnlyIfNotApplied {
                safety = RepeatSafety::OnlyIfNotApplied;
            }
            let first = queue.get_or_insert_with(|| job.queue.clone());
            if *first != job.queue {
                let detail = format!(
                    "is for the queue {}, the first job for {first}: publish a batch for each queue",
                    job.queue
                );
                return Err(InvalidRequest::of_field(format!("jobs[{index}]"), detail).into());
            }
            items.push(BatchItem::new(job.payload, job.attributes, job.options));
        }
        let Some(queue) = queue else {
            return Ok(None);
        };
        let body = BatchBody {
            jobs: items,
            atomic: self.is_atomic,
        };
        let path = format!("/queues/{queue}/jobs/batch");
        let mut call = HttpCall::json(Method::POST, path, &body)?;
        call.set_trace_parent(trace_parent.as_deref());
        Ok(Some((call, safety)))
    }

    async fn send(self) -> Result<Vec<Result<PublishedHandle, Error>>, Error> {
        let client = self.client.clone();
        let Some((call, safety)) = self.into_call()? else {
            return Ok(Vec::new());
        };
        let reply = client.transport.send_repeated(&call, safety).await?;
        let answer: BatchAnswer = reply.json()?;
        let results = answer.results.into_iter().map(|result| match result {
            BatchItemResult::Published(published) => {
                Ok(PublishedHandle::new(client.clone(), published))
            }
            BatchItemResult::Failed { problem } => Err(Error::Rejected(Box::new(Rejection {
                problem: *problem,
                retry_after: None,
            }))),
        });
        Ok(results.collect())
    }
}

impl IntoFuture for BatchPublish {
    type Output = Result<Vec<Result<PublishedHandle, Error>>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
