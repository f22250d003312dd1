//! `POST /v1/NAMESPACE/queues/QUEUE/jobs`: publishes one job. The body is its payload.

use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use tidegate_core::v1::input::{merge_option_headers, read_query};
use tidegate_core::v1::problem::InvalidRequest;
use tidegate_core::v1::publish::{DueTime, JobOptions, PublishResult, PublishedJob};
use tidegate_core::v1::values::{
    ContentType, JobAttributes, JobPayload, Timestamp, check_json_payload,
};
use tidegate_core::{Durability, JobId, JobState, QueueKey, Scope};
use tidegate_engine::{DurabilityTarget, LimitedAction, Pool, StoredKeyed};
use tidegate_store::{KeyedJob, KeyedOutcome, KeyedResult};

use super::answer::json_answer;
use super::error::NativeError;
use super::native_request::NativeRequest;
use super::new_job::{is_keyed, keyed_job};
use super::result::EndWait;
use crate::app::App;
use crate::http::body::ReceivedBody;
use crate::http::off_runtime::off_runtime;
use crate::shapes::{id_text, queue_text};
use crate::spans::PublishSpan;

/// The header of an answer to a repeated request.
const REPLAYED: &str = "tidegate-replayed";

/// A publish that is stored.
pub(super) struct StoredPublish {
    job: PublishedJob,
    id: JobId,
    /// `None` if the client does not wait for the end of the job.
    wait: Option<EndWait>,
}

impl StoredPublish {
    /// The answer, once the job has ended if the client waits for that.
    pub(super) async fn answer(self) -> Result<Response<Body>, NativeError> {
        match self.wait {
            None => Ok(answer_for(&self.job)),
            Some(wait) => Box::pin(wait.answer(self.id, move || answer_for(&self.job))).await,
        }
    }
}

/// The content type of a payload, with the payload. One that is valid JSON is JSON if the client did not choose a content
/// type.
///
/// # Errors
/// The client says JSON, and it is not valid JSON.
async fn with_content_type(
    app: &App,
    declared: Option<ContentType>,
    body: ReceivedBody,
) -> Result<(ContentType, ReceivedBody), NativeError> {
    let declared = match declared {
        Some(chosen) if !chosen.is_form() && !chosen.is_json() => return Ok((chosen, body)),
        declared => declared,
    };
    let length = body.bytes.len();
    let checking = move || match declared {
        Some(json) if json.is_json() => {
            check_json_payload(&json, &body.bytes).map(|()| (json, body))
        }
        default => {
            let is_json = check_json_payload(&ContentType::JSON, &body.bytes).is_ok();
            let content_type = match is_json {
                true => ContentType::JSON,
                false => default.unwrap_or_default(),
            };
            Ok((content_type, body))
        }
    };
    Ok(off_runtime(&app.large_bodies, length, checking).await??)
}

pub(super) async fn publish(mut request: NativeRequest) -> Result<StoredPublish, NativeError> {
    request.need(Scope::Publish)?;
    let permit = request.permit(LimitedAction::Produce).await?;
    let queue = request.queue()?;
    let options = read_options(&request)?;
    if options.wait.is_some() {
        // The answer is a result.
        request.need(Scope::Read)?;
    }
    let attributes = attributes_in(&request)?;
    let declared = content_type_in(&request)?;
    let app = std::sync::Arc::clone(&request.app);
    let body = request
        .take_body(&app.job_body)
        .await
        .map_err(|error| error.of_payload())?;
    let (content_type, body) = with_content_type(&app, declared, body).await?;
    let payload = JobPayload {
        // Without a copy: a large body has its buffer for itself.
        bytes: body.bytes.into(),
        content_type,
    };
    let mut job = keyed_job(&queue, payload, attributes, &options);
    let target = durability_target(&request, &options);
    let wait = options.wait.filter(|wait| wait.as_ms() > 0);
    let wait = wait.map(|wait| EndWait::take_room(&request, queue.clone(), wait));
    let wait = wait.transpose()?;
    let span = PublishSpan::begin(&app, &request.headers, &request.context);
    if let Some(span) = &span {
        span.add_to(&mut job.job);
    }
    let published = publish_one(request.pool(), &queue, job, &options, target).await;
    if let Some(span) = span {
        let id = published.as_ref().map(|(id, _)| Some(*id));
        span.end(&queue, 1, id.map_err(|error| error.detail().to_owned()));
    }
    let (id, job) = published?;
    permit.keep();
    Ok(StoredPublish { job, id, wait })
}

fn answer_for(published: &PublishedJob) -> Response<Body> {
    let status = match published.replayed {
        true => StatusCode::OK,
        false => StatusCode::from_u16(published.outcome.status()).unwrap_or(StatusCode::OK),
    };
    let mut response = json_answer(status, published);
    if published.replayed {
        let replayed = header::HeaderValue::from_static("true");
        response.headers_mut().insert(REPLAYED, replayed);
    }
    response
}

/// Stores a job, and waits until it is as durable as requested.
async fn publish_one(
    pool: &Pool,
    queue: &QueueKey,
    job: KeyedJob,
    options: &JobOptions,
    target: DurabilityTarget,
) -> Result<(JobId, PublishedJob), NativeError> {
    if !is_keyed(options) {
        let stored = pool.publish(queue, vec![job.job], None, target).await?;
        let id = *stored.ids.first().ok_or_else(NativeError::internal)?;
        let durability = stored.durability;
        let reached = durability.map_err(|error| NativeError::not_durable(&error, Some(id)))?;
        return Ok((id, created(queue, id, options, reached)));
    }
    match pool.publish_keyed(queue, vec![job], false, target).await? {
        StoredKeyed::Refused { outcome, .. } => Err(NativeError::of_refusal(outcome)),
        StoredKeyed::Done {
            results,
            durability,
        } => {
            let result = results.first().copied().ok_or_else(NativeError::internal)?;
            let stored = result
                .job
                .ok_or_else(|| NativeError::of_refusal(result.outcome))?;
            let durability =
                durability.map_err(|error| NativeError::not_durable(&error, Some(stored.id)))?;
            Ok((stored.id, keyed(queue, result, options, durability)?))
        }
    }
}

/// The answer for a new job without a key. Its due time follows from its id, which has the clock of Redis.
pub(super) fn created(
    queue: &QueueKey,
    id: JobId,
    options: &JobOptions,
    durability: Durability,
) -> PublishedJob {
    let now_ms = id.created_at_ms();
    let due_ms = match options.due() {
        DueTime::At(instant) => instant.as_ms().max(now_ms),
        DueTime::After(delay) if delay.as_ms() == 0 => now_ms,
        // Delays count from the end of the millisecond in which the job is stored.
        DueTime::After(delay) => now_ms + 1 + delay.as_ms(),
    };
    let state = match due_ms > now_ms {
        true => JobState::Delayed,
        false => JobState::Ready,
    };
    answer(
        queue,
        id,
        options,
        PublishResult::Created,
        (state, Some(due_ms)),
        durability,
    )
}

/// The answer for a job with a key.
pub(super) fn keyed(
    queue: &QueueKey,
    result: KeyedResult,
    options: &JobOptions,
    durability: Durability,
) -> Result<PublishedJob, NativeError> {
    let outcome = match result.outcome {
        KeyedOutcome::Created | KeyedOutcome::Replayed => PublishResult::Created,
        KeyedOutcome::Exists => PublishResult::Exists,
        KeyedOutcome::Replaced => PublishResult::Replaced,
        KeyedOutcome::Rerun => PublishResult::Rerun,
        KeyedOutcome::Revived => PublishResult::Revived,
        refused => return Err(NativeError::of_refusal(refused)),
    };
    let job = result.job.ok_or_else(NativeError::internal)?;
    let state = job.state.unwrap_or(JobState::Done);
    let times = (
        state,
        job.run_at_ms.map(|at| at.max(job.id.created_at_ms())),
    );
    let mut answer = answer(queue, job.id, options, outcome, times, durability);
    answer.replayed = result.outcome == KeyedOutcome::Replayed;
    Ok(answer)
}

fn answer(
    queue: &QueueKey,
    id: JobId,
    options: &JobOptions,
    outcome: PublishResult,
    (state, due_ms): (JobState, Option<u64>),
    durability: Durability,
) -> PublishedJob {
    PublishedJob {
        id: id_text(id),
        queue: queue_text(queue),
        key: options.key.clone(),
        outcome,
        state,
        run_at: due_ms.map(Timestamp::saturating),
        durability,
        replayed: false,
    }
}

/// The durability that a publish waits for: its own, or that of its namespace.
pub(super) fn durability_target(request: &NativeRequest, options: &JobOptions) -> DurabilityTarget {
    let target = request
        .app
        .durability_target(request.pool(), &request.namespace);
    match options.durability {
        None => target,
        Some(durability) => DurabilityTarget {
            durability,
            ..target
        },
    }
}

/// The options in the query and in headers.
fn read_options(request: &NativeRequest) -> Result<JobOptions, NativeError> {
    let headers = request.headers.iter();
    let headers = headers.map(|(name, value)| (name.as_str(), value.as_bytes()));
    let pairs = merge_option_headers(request.query_pairs()?, headers)?;
    if pairs.is_empty() {
        return Ok(JobOptions::default());
    }
    Ok(read_query(&pairs, &request.limits())?)
}

/// The attributes in headers.
fn attributes_in(request: &NativeRequest) -> Result<JobAttributes, NativeError> {
    let mut attributes = JobAttributes::default();
    for (name, value) in &request.headers {
        if !name.as_str().starts_with(JobAttributes::HEADER_PREFIX) {
            continue;
        }
        let Ok(value) = std::str::from_utf8(value.as_bytes()) else {
            let detail = format!("the header {name} is not UTF-8");
            return Err(InvalidRequest::of_field(name.as_str(), detail).into());
        };
        let added = attributes.add_header(name.as_str(), value);
        added.map_err(|invalid| NativeError::from(invalid).at(name.as_str()))?;
    }
    attributes.check()?;
    Ok(attributes)
}

fn content_type_in(request: &NativeRequest) -> Result<Option<ContentType>, NativeError> {
    let Some(value) = request.headers.get(header::CONTENT_TYPE) else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(value.as_bytes());
    text.parse()
        .map(Some)
        .map_err(|invalid| NativeError::from(invalid).at("content-type"))
}
