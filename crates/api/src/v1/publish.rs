//! `POST /v1/NAMESPACE/queues/QUEUE/jobs` and `jobs/call`: publishes one job. The body is its payload. A call waits for the
//! result of the job.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use tidegate_core::v1::input::{QueryPair, merge_option_headers, read_query};
use tidegate_core::v1::job::ResultQuery;
use tidegate_core::v1::problem::InvalidRequest;
use tidegate_core::v1::publish::{JobOptions, PublishedJob};
use tidegate_core::v1::values::{
    ContentType, DurationMs, JobAttributes, JobPayload, Timestamp, check_json_payload,
};
use tidegate_core::{Durability, JobId, JobState, QueueKey, Scope};
use tidegate_engine::{DurabilityTarget, JobsToPublish, LimitedAction, Pool};
use tidegate_store::{DurabilityError, PublishJob, StoredJob};

use super::answer::json_answer;
use super::error::NativeError;
use super::native_request::NativeRequest;
use super::new_job::publish_job;
use super::result::EndWait;
use super::routes::parameters::WAIT;
use crate::app::App;
use crate::http::body::ReceivedBody;
use crate::http::off_runtime::off_runtime;
use crate::spans::PublishSpan;

/// The header of an answer to a repeated request.
const REPLAYED: &str = "tidegate-replayed";

pub(super) struct StoredPublish {
    job: PublishedJob,
    id: JobId,
    /// Present for a call.
    wait: Option<EndWait>,
}

impl StoredPublish {
    /// The answer; of a call, once the job has ended.
    pub(super) async fn answer(self) -> Result<Response<Body>, NativeError> {
        match self.wait {
            None => Ok(answer_for(&self.job)),
            Some(wait) => Box::pin(wait.answer(self.id, move || answer_for(&self.job))).await,
        }
    }
}

/// The content type of a payload, with the payload. One that is valid JSON is JSON if the client did not choose a
/// content type.
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
    let pairs = option_pairs(&mut request)?;
    if pairs.iter().any(|(name, _)| name == WAIT) {
        let detail = "a publish does not wait for the result of its job; send it to jobs/call";
        return Err(InvalidRequest::of_field(WAIT, detail).into());
    }
    store(request, pairs, None).await
}

pub(super) async fn call(mut request: NativeRequest) -> Result<StoredPublish, NativeError> {
    // The answer is a result.
    request.need(Scope::Read)?;
    let mut pairs = option_pairs(&mut request)?;
    let of_wait: Vec<QueryPair<'static>> = pairs.extract_if(.., |(name, _)| name == WAIT).collect();
    let query: ResultQuery = read_query(&of_wait, &request.limits())?;
    let Some(wait) = query.wait else {
        let detail = "say how long the answer waits for the result of the job, such as wait=20s";
        return Err(InvalidRequest::of_field(WAIT, detail).into());
    };
    store(request, pairs, Some(wait)).await
}

/// Stores a job with these options. With `wait` its end is waited for.
async fn store(
    mut request: NativeRequest,
    pairs: Vec<QueryPair<'static>>,
    wait: Option<DurationMs>,
) -> Result<StoredPublish, NativeError> {
    let permit = request.permit(LimitedAction::Produce).await?;
    let queue = request.queue()?;
    let options = match pairs.is_empty() {
        true => JobOptions::default(),
        false => read_query(&pairs, &request.limits())?,
    };
    let attributes = attributes_in(&request)?;
    let declared = content_type_in(&request)?;
    let app = Arc::clone(&request.app);
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
    let mut job = publish_job(&queue, payload, attributes, &options);
    let target = durability_target(&request, &options)?;
    if let Some(native) = &mut job.job.native {
        native.is_awaited = wait.is_some_and(|wait| wait.as_ms() > 0);
    }
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
    pool: &Arc<Pool>,
    queue: &QueueKey,
    job: PublishJob,
    options: &JobOptions,
    target: DurabilityTarget,
) -> Result<(JobId, PublishedJob), NativeError> {
    let published = pool.publish(queue, JobsToPublish::one(job, target)).await?;
    let stored = published.first()?;
    let answer = published_job(queue, stored, options, &published.durability)?;
    Ok((stored.id, answer))
}

/// The answer for a job that is stored.
///
/// # Errors
/// It is less durable than requested.
pub(super) fn published_job(
    queue: &QueueKey,
    stored: StoredJob,
    options: &JobOptions,
    durability: &Result<Durability, DurabilityError>,
) -> Result<PublishedJob, NativeError> {
    let durability = durability.as_ref().copied();
    let durability =
        durability.map_err(|error| NativeError::not_durable(error, Some(stored.id)))?;
    let run_at_ms = stored.run_at_ms.map(|at| at.max(stored.id.created_at_ms()));
    Ok(PublishedJob {
        id: stored.id,
        queue: queue.queue.clone(),
        key: options.key.clone(),
        outcome: stored.outcome,
        state: stored.state.unwrap_or(JobState::Done),
        run_at: run_at_ms.map(Timestamp::saturating),
        durability,
        replayed: stored.replayed,
    })
}

/// The durability that a publish waits for: its own, or the durability of its namespace.
pub(super) fn durability_target(
    request: &NativeRequest,
    options: &JobOptions,
) -> Result<DurabilityTarget, NativeError> {
    let target = request
        .app
        .durability_target(request.pool(), request.namespace()?);
    Ok(match options.durability {
        None => target,
        Some(durability) => DurabilityTarget {
            durability,
            ..target
        },
    })
}

/// The options in the query and in headers.
fn option_pairs(request: &mut NativeRequest) -> Result<Vec<QueryPair<'static>>, NativeError> {
    let query = request.take_query();
    let headers = request.headers.iter();
    let headers = headers.map(|(name, value)| (name.as_str(), value.as_bytes()));
    let pairs = merge_option_headers(query, headers)?.into_iter();
    let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
    Ok(pairs
        .map(|(name, value)| (owned(name), owned(value)))
        .collect())
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
