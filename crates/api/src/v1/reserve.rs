//! `POST /v1/NAMESPACE/reserve` and `reserve/raw`: leases jobs of several queues, and waits for them. The former may settle
//! jobs before.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use tidegate_core::v1::consume::{
    LeasedJobView, QueueChoice, ReserveAnswer, ReserveBody, SettledJobs,
};
use tidegate_core::v1::problem::{InvalidRequest, ProblemCode};
use tidegate_core::v1::values::{JobAttributes, MaxJobs, QueueOrder, Timestamp, header_text};
use tidegate_core::{Job, QueueKey};
use tidegate_daemon::traces::TraceParent;
use tidegate_engine::{ActiveWorker, Delivery, LimitedAction, Permit, Source};
use tidegate_store::{Claim, LeaseLength, LeasedJob};
use tokio::time::{Instant, timeout_at};

use super::answer::JSON;
use super::error::NativeError;
use super::lease_text::lease_text;
use super::native_request::{NativeRequest, WaitingClient};
use super::routes::handler::Incoming;
use super::settle::settle_before_reserve;
use crate::app::App;
use crate::http::context::RequestContext;
use crate::http::delivery_body::delivery_body;
use crate::http::off_runtime::off_runtime;
use crate::http::unread;
use crate::spans::{TRACE_PARENT, record_delivery};

/// How an answer has the payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PayloadFormat {
    /// In its JSON.
    Json,
    /// As its body, and the rest as headers. Only for one job.
    Raw,
}

/// A reserve whose request was read. A wait may take minutes, so it keeps only the parts that it needs.
pub(super) struct PendingReserve {
    app: Arc<App>,
    client: WaitingClient,
    permit: Permit,
    sources: Vec<Source>,
    claim: Claim,
    patience: Duration,
    /// The deadline of the request, without the time of its wait for a job.
    ends_at: Instant,
    format: PayloadFormat,
    /// Present if the worker has a name.
    worker: Option<ActiveWorker>,
    /// The outcomes of the jobs that the request has settled, if it named any.
    settled: Option<SettledJobs>,
}

/// Authenticates the client and reads its request.
pub(super) async fn open(
    incoming: Incoming,
    format: PayloadFormat,
) -> Result<Box<PendingReserve>, NativeError> {
    let mut request = incoming.open().await?;
    let ends_at = Instant::now() + request.app.request_limits.timeout;
    let permit = request.permit(LimitedAction::Consume).await?;
    request.without_query()?;
    // Results may be large.
    let mut body: ReserveBody = request.read_json_up_to(usize::MAX).await?;
    if format == PayloadFormat::Raw {
        check_raw(&body)?;
    }
    let queues = queues_in_order(&request, &body)?;
    let settled = match body.settle.take() {
        Some(settle) => {
            let settling = timeout_at(ends_at, settle_before_reserve(&request, settle));
            let too_late = |_| NativeError::of(ProblemCode::TimeLimitReached).after_part(true);
            Some(settling.await.map_err(too_late)??)
        }
        None => None,
    };
    let app = Arc::clone(&request.app);
    let namespace = request.namespace()?;
    let worker = body.worker.as_ref().map(|name| {
        let (pool, known) = (&request.pool().name, &app.engine.workers);
        known.enter(pool, namespace, name.as_str(), &queues)
    });
    let client = request.into_waiting_client();
    Ok(Box::new(PendingReserve {
        sources: client.principal.pool.sources(&queues),
        patience: Duration::from_millis(body.wait.as_ms()).min(app.wait_max),
        claim: Claim {
            count: body.max_jobs.get(),
            lease: match body.lease {
                Some(lease) => LeaseLength::Ms(lease.as_ms()),
                None => LeaseLength::AsConfigured,
            },
        },
        format,
        worker,
        settled,
        app,
        client,
        permit,
        ends_at,
    }))
}

/// A raw answer has one job and nothing else.
fn check_raw(body: &ReserveBody) -> Result<(), InvalidRequest> {
    if body.max_jobs != MaxJobs::MIN {
        let detail = "a raw answer has one job; set max_jobs to 1 or leave it out";
        return Err(InvalidRequest::of_field("max_jobs", detail));
    }
    if body.settle.is_some() {
        let detail =
            "a raw answer has no outcomes; settle jobs with ack and fail, or reserve without raw";
        return Err(InvalidRequest::of_field("settle", detail));
    }
    Ok(())
}

/// Waits for jobs, and answers. `pending` is in a box, since a future keeps room for its arguments twice.
pub(super) async fn reserve(pending: Box<PendingReserve>) -> Result<Response<Body>, NativeError> {
    let has_settled = pending.settled.is_some();
    let reserved = wait_and_answer(pending).await;
    reserved.map_err(|error| error.after_part(has_settled))
}

async fn wait_and_answer(pending: Box<PendingReserve>) -> Result<Response<Body>, NativeError> {
    let engine = &pending.app.engine;
    let principal = &pending.client.principal;
    let waits = !pending.patience.is_zero();
    let take = || {
        let credential = principal.credential.clone();
        let seats = pending.sources.len();
        let namespace = &pending.sources[0].queue.namespace;
        engine.take_wait_room(namespace, credential, principal.ends_at, seats)
    };
    let room = waits.then(take).transpose()?;
    let (claim, patience) = (pending.claim, pending.patience);
    let waiting = engine.waiters.wait(&pending.sources, claim, patience);
    let waiting = timeout_at(pending.ends_at + patience, waiting);
    let revoked = async {
        match &room {
            Some(room) => room.revoked().await,
            None => std::future::pending().await,
        }
    };
    let waited = tokio::select! {
        biased;
        // Dropping the wait releases the jobs that are reserved for it.
        () = revoked => return Err(NativeError::of(ProblemCode::KeyInvalid)),
        waited = waiting => waited,
    };
    let waited = waited.map_err(|_| NativeError::of(ProblemCode::TimeLimitReached))?;
    let delivery = waited?;
    if delivery.is_some() || pending.settled.is_some() {
        pending.permit.keep();
    }
    let Some(delivery) = delivery else {
        return Ok(nothing(pending.format, pending.settled));
    };
    if let Some(worker) = &pending.worker {
        worker.holds(&delivery);
    }
    let shown = (pending.format, pending.settled);
    answer(&pending.app, &pending.client.context, delivery, shown).await
}

/// The answer that shows the jobs.
async fn answer(
    app: &App,
    request: &RequestContext,
    mut delivery: Delivery,
    (format, settled): (PayloadFormat, Option<SettledJobs>),
) -> Result<Response<Body>, NativeError> {
    let share = unread::fit_to_budget(&mut delivery, app.exchange.unread_at(request.port));
    let spans = delivery_spans(app, request, &delivery);
    if format == PayloadFormat::Raw {
        let response = raw(delivery, spans.first().copied().flatten())?;
        return Ok(unread::with_share(response, share));
    }
    let bytes = delivery.body_bytes();
    // If the client hangs up meanwhile, the delivery is dropped, which releases the jobs.
    let showing = move || (show(&delivery, &spans, settled), delivery);
    let (shown, delivery) = off_runtime(&app.large_bodies, bytes, showing).await?;
    let response = json_of(delivery_body(shown.into(), delivery.shown()));
    Ok(unread::with_share(response, share))
}

/// The queues in the order in which they are checked: as they are named, or at random by their weights.
fn queues_in_order(
    request: &NativeRequest,
    body: &ReserveBody,
) -> Result<Vec<QueueKey>, NativeError> {
    let mut choices: Vec<&QueueChoice> = body.queues.iter().collect();
    if body.queue_order() == QueueOrder::Weighted {
        // A queue of weight w comes first with a probability of w out of all weights: Efraimidis and Spirakis, Weighted
        // random sampling with a reservoir, 2006.
        let mut keyed: Vec<(f64, &QueueChoice)> = choices
            .into_iter()
            .map(|choice| {
                let weight = choice.weight.unwrap_or_default().get();
                (rand::random::<f64>().powf(1.0 / f64::from(weight)), choice)
            })
            .collect();
        keyed.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        choices = keyed.into_iter().map(|(_, choice)| choice).collect();
    }
    let names = choices.into_iter();
    names
        .map(|choice| request.queue_named(choice.name.as_str()))
        .collect()
}

/// The answer without jobs.
fn nothing(format: PayloadFormat, settled: Option<SettledJobs>) -> Response<Body> {
    match format {
        PayloadFormat::Raw => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        PayloadFormat::Json => {
            let answer = ReserveAnswer {
                now: None,
                jobs: Vec::new(),
                settled,
            };
            json_of(Body::from(serde_json::to_vec(&answer).unwrap_or_default()))
        }
    }
}

fn json_of(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// Records the deliveries that are traced, and returns their spans in the order of the jobs; none without a collector.
fn delivery_spans(
    app: &App,
    request: &RequestContext,
    delivery: &Delivery,
) -> Vec<Option<TraceParent>> {
    if app.traces.is_none() {
        return Vec::new();
    }
    let now_ms = delivery.now_ms();
    let spans = delivery.jobs().map(|it| {
        let span = record_delivery(app.traces.as_ref(), it.queue, it.job, now_ms)?;
        request.set_trace(span);
        Some(span)
    });
    spans.collect()
}

/// The JSON of the jobs.
fn show(
    delivery: &Delivery,
    spans: &[Option<TraceParent>],
    settled: Option<SettledJobs>,
) -> Vec<u8> {
    let span = |index: usize| spans.get(index).copied().flatten();
    let answer = ReserveAnswer {
        now: Some(Timestamp::saturating(delivery.now_ms())),
        jobs: delivery
            .jobs()
            .enumerate()
            .map(|(index, it)| view(it.queue, it.job, span(index)))
            .collect(),
        settled,
    };
    serde_json::to_vec(&answer).unwrap_or_default()
}

fn view(queue: &QueueKey, job: &Job, span: Option<TraceParent>) -> LeasedJobView {
    let content_type = job.content_type();
    let (payload, payload_base64) = job.payload().into_fields();
    LeasedJobView {
        id: job.id,
        queue: queue.queue.clone(),
        lease: lease_of(queue, job, span)
            .parse()
            .expect("leases are within their limit"),
        lease_until: Timestamp::saturating(job.due_at_ms),
        attempt: job.attempt,
        failures: job.failures.map_or(0, |it| it.failures.into()),
        losses: job.failures.map_or(0, |it| it.losses.into()),
        run_at: Timestamp::saturating(job.run_at_ms),
        created_at: Timestamp::saturating(job.created_at_ms),
        key: job.key(),
        group: job.group(),
        attributes: job.client_attributes(),
        traceparent: span.map(|span| span.to_string()),
        content_type,
        payload,
        payload_base64,
    }
}

fn lease_of(queue: &QueueKey, job: &Job, span: Option<TraceParent>) -> String {
    let leased = LeasedJob {
        id: job.id,
        attempt: job.attempt,
    };
    lease_text(queue, leased, span.is_some())
}

/// One job: its payload as the body, the rest in headers.
fn raw(delivery: Delivery, span: Option<TraceParent>) -> Result<Response<Body>, NativeError> {
    let reserved = delivery.jobs().next().ok_or_else(NativeError::internal)?;
    let (queue, job) = (reserved.queue, reserved.job);
    let mut headers = vec![
        ("tidegate-job-id".to_owned(), job.id.to_string()),
        ("tidegate-queue".to_owned(), queue.queue.to_string()),
        ("tidegate-lease".to_owned(), lease_of(queue, job, span)),
        (
            "tidegate-lease-until".to_owned(),
            Timestamp::saturating(job.due_at_ms).to_string(),
        ),
        ("tidegate-attempt".to_owned(), job.attempt.to_string()),
        ("content-type".to_owned(), job.content_type().to_string()),
        ("x-content-type-options".to_owned(), "nosniff".to_owned()),
        ("content-security-policy".to_owned(), "sandbox".to_owned()),
    ];
    headers.extend(span.map(|span| (TRACE_PARENT.to_owned(), span.to_string())));
    headers.extend(
        job.key()
            .map(|key| ("tidegate-key".to_owned(), header_text(key.as_str()).into())),
    );
    headers.extend(job.client_attributes().0.iter().map(|(name, value)| {
        let name = format!("{}{name}", JobAttributes::HEADER_PREFIX);
        (name, header_text(value).into())
    }));
    let payload: Bytes = job.body.clone();
    let mut response = Response::new(delivery_body(payload, delivery.shown()));
    for (name, value) in headers {
        // An attribute that cannot be a header is left out: the job could never be consumed otherwise.
        let name = HeaderName::try_from(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}
