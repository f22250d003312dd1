//! `POST /v1/NAMESPACE/queues/QUEUE/jobs/batch`: publishes several jobs.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::v1::publish::{
    BatchAnswer, BatchBody, BatchItemResult, JobOptions, PublishedJob,
};
use tidegate_core::{Durability, QueueKey};
use tidegate_engine::{DurabilityTarget, JobsToPublish, LimitedAction, Published};
use tidegate_store::{PUBLISH_JOBS_MAX, PublishJob};
use tokio::task::yield_now;

use super::answer::json_answer;
use super::error::NativeError;
use super::native_request::NativeRequest;
use super::new_job::publish_job;
use super::publish::{durability_target, published_job};
use crate::http::off_runtime::INLINE_BYTES;
use crate::spans::PublishSpan;

/// A job of a batch, with its options.
type BatchJob = (PublishJob, JobOptions);

pub(super) async fn publish_batch(
    mut request: NativeRequest,
) -> Result<Response<Body>, NativeError> {
    let permit = request.permit(LimitedAction::Produce).await?;
    let queue = request.queue()?;
    request.without_query()?;
    let bytes_max = request.app.bulk_body.bytes_max;
    let body: BatchBody = request.read_json_up_to(bytes_max).await?;
    let atomic = body.atomic;
    let (mut jobs, mut checked_bytes) = (Vec::with_capacity(body.jobs.len()), 0);
    for item in body.jobs {
        let (payload, attributes) = item.content.into_parts()?;
        let options = item.options;
        let job = publish_job(&queue, payload, attributes, &options);
        checked_bytes += job.job.payload_bytes();
        jobs.push((job, options));
        if checked_bytes > INLINE_BYTES {
            checked_bytes = 0;
            // Other requests of the thread have a turn.
            yield_now().await;
        }
    }
    let span = PublishSpan::begin(&request.app, &request.headers, &request.context);
    let count = jobs.len();
    if let Some(span) = &span {
        jobs.iter_mut()
            .for_each(|(job, _)| span.add_to(&mut job.job));
    }
    let published = match atomic {
        true => publish_atomically(&request, &queue, jobs).await,
        false => Ok(publish_all(&request, &queue, jobs).await),
    };
    if let Some(span) = span {
        let error = published.as_ref().err().or_else(|| {
            let mut results = published.iter().flatten();
            results.find_map(|result| result.as_ref().err())
        });
        let error = error.map_or(Ok(None), |error| Err(error.detail().to_owned()));
        span.end(&queue, count, error);
    }
    let results = published?;
    let results = results.into_iter().map(|result| match result {
        Ok(published) => BatchItemResult::Published(published),
        Err(error) => BatchItemResult::Failed {
            problem: Box::new(error.problem(request.context.id)),
        },
    });
    permit.keep();
    let answer = BatchAnswer {
        results: results.collect(),
    };
    let status = if atomic {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(json_answer(status, &answer))
}

type JobResult = Result<PublishedJob, NativeError>;

/// Publishes all jobs or none.
async fn publish_atomically(
    request: &NativeRequest,
    queue: &QueueKey,
    jobs: Vec<BatchJob>,
) -> Result<Vec<JobResult>, NativeError> {
    let published = publish_run(request, queue, jobs, true).await?;
    let published = published.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(published.into_iter().map(Ok).collect())
}

/// Publishes jobs in their order, as many in a call as can share one.
async fn publish_all(
    request: &NativeRequest,
    queue: &QueueKey,
    jobs: Vec<BatchJob>,
) -> Vec<JobResult> {
    let mut results = Vec::with_capacity(jobs.len());
    let mut jobs = jobs.into_iter().peekable();
    while let Some(first) = jobs.next() {
        // Each run waits for its durability, so jobs with keys and without share runs.
        let (durability, mut run) = (first.1.durability, vec![first]);
        while run.len() < PUBLISH_JOBS_MAX
            && let Some(next) = jobs.next_if(|(_, options)| options.durability == durability)
        {
            run.push(next);
        }
        let count = run.len();
        match publish_run(request, queue, run, false).await {
            Ok(published) => results.extend(published),
            Err(error) => results.extend((0..count).map(|_| Err(error.clone()))),
        }
    }
    results
}

/// Publishes up to [`PUBLISH_JOBS_MAX`] jobs in one call.
async fn publish_run(
    request: &NativeRequest,
    queue: &QueueKey,
    run: Vec<BatchJob>,
    atomic: bool,
) -> Result<Vec<JobResult>, NativeError> {
    let (jobs, options): (Vec<PublishJob>, Vec<JobOptions>) = run.into_iter().unzip();
    let publish = JobsToPublish {
        jobs,
        replaces: None,
        atomic,
        durability: target_of(request, &options)?,
    };
    let Published { jobs, durability } = request.pool().publish(queue, publish).await?;
    let published = jobs
        .into_iter()
        .zip(&options)
        .map(|(stored, options)| published_job(queue, stored?, options, &durability));
    Ok(published.collect())
}

/// The durability that satisfies all jobs of a call.
fn target_of(
    request: &NativeRequest,
    options: &[JobOptions],
) -> Result<DurabilityTarget, NativeError> {
    let target = durability_target(request, &JobOptions::default())?;
    let wanted = options.iter().map(|options| options.durability);
    let wanted = wanted.map(|durability| durability.unwrap_or(target.durability));
    Ok(DurabilityTarget {
        durability: wanted.reduce(Durability::and).unwrap_or(target.durability),
        ..target
    })
}
