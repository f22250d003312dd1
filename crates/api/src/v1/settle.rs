//! `POST /v1/NAMESPACE/ack`, `fail`, `touch`, `release`: what workers say about the jobs that they hold.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::QueueKey;
use tidegate_core::v1::consume::{
    AckAnswer, AckBody, AckItemOutcome, FailAnswer, FailBody, FailItemOutcome, ReleaseAnswer,
    ReleaseBody, ReleaseItemOutcome, TouchAnswer, TouchBody, TouchItemOutcome,
};
use tidegate_core::v1::problem::ProblemCode;
use tidegate_core::v1::values::{JobAttributes, JobPayload, LeaseText, Timestamp};
use tidegate_engine::{EngineError, Pool};
use tidegate_store::{
    AckOutcome, AfterFailure, FailOutcome, FailRequest, LeasedJob, NewResult, ReleaseOutcome,
    TouchOutcome,
};

use super::answer::json_answer;
use super::error::NativeError;
use super::lease_text::{ParsedLease, parse_lease};
use super::native_request::NativeRequest;
use crate::shapes::stored_attributes;
use crate::spans::SettleSpans;

const NO_LEASE: &str = "this is no lease; send `lease` of the reserve answer";

pub(super) async fn ack(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    // Results may be large.
    let body: AckBody = request.read_json_up_to(usize::MAX).await?;
    let mut leases = Vec::with_capacity(body.leases.len());
    for item in body.leases {
        let (lease, result) = item.into_parts()?;
        leases.push((lease, result.map(new_result)));
    }
    let leases = LeasesByQueue::of(&request, leases.into_iter(), |result| {
        // An item with a result is an object.
        result.as_ref().map_or("", |_| ".lease")
    })?;
    let verb = LeaseEnd {
        operation: "ack",
        gone: (AckOutcome::AlreadyGone, false),
        name: |(outcome, _)| ack_name(outcome),
    };
    let outcomes = leases.end(&request, verb, |pool, queue, jobs| async move {
        if jobs.iter().any(|(_, result)| result.is_some()) {
            return pool.ack_with_results(&queue, &jobs).await;
        }
        let acked = pool.ack_leased(&queue, &leased(jobs)).await?;
        Ok(acked.into_iter().map(|outcome| (outcome, false)).collect())
    });
    let results = outcomes
        .await?
        .into_iter()
        .map(|(outcome, result_dropped)| match outcome {
            AckOutcome::Done { .. } => AckItemOutcome::Done { result_dropped },
            AckOutcome::Rerun { .. } => AckItemOutcome::Rerun,
            AckOutcome::Lost => AckItemOutcome::Lost,
            AckOutcome::AlreadyGone => AckItemOutcome::Gone,
        });
    let results = results.collect();
    Ok(json_answer(StatusCode::OK, &AckAnswer { results }))
}

pub(super) async fn fail(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let body: FailBody = open(&mut request).await?;
    let items = body.leases.into_iter().map(|item| {
        let then = match (item.dead, item.retry_in) {
            (true, _) => AfterFailure::Bury,
            (false, Some(delay)) => AfterFailure::RetryInMs(delay.as_ms()),
            (false, None) => AfterFailure::RetryAsConfigured,
        };
        (item.lease, (then, item.error.to_string()))
    });
    let leases = LeasesByQueue::of(&request, items, |_| ".lease")?;
    let verb = LeaseEnd {
        operation: "fail",
        gone: FailOutcome::AlreadyGone,
        name: fail_name,
    };
    let outcomes = leases.end(&request, verb, |pool, queue, jobs| async move {
        let jobs = jobs.into_iter();
        let requests = jobs.map(|(job, (then, error))| FailRequest { job, then, error });
        let requests: Vec<FailRequest> = requests.collect();
        pool.fail(&queue, &requests).await
    });
    let results = outcomes.await?.into_iter().map(|outcome| match outcome {
        FailOutcome::Retry { due_at_ms } => FailItemOutcome::Retry {
            run_at: Timestamp::saturating(due_at_ms),
        },
        FailOutcome::Dead => FailItemOutcome::Dead,
        FailOutcome::Cancelled => FailItemOutcome::Cancelled,
        FailOutcome::Rerun => FailItemOutcome::Rerun,
        FailOutcome::Lost => FailItemOutcome::Lost,
        FailOutcome::AlreadyGone => FailItemOutcome::Gone,
    });
    let results = results.collect();
    Ok(json_answer(StatusCode::OK, &FailAnswer { results }))
}

pub(super) async fn touch(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let body: TouchBody = open(&mut request).await?;
    let pool = Arc::clone(request.pool());
    let lease_ms = body.lease.map(|lease| lease.as_ms());
    let leases = body.leases.into_iter().map(|lease| (lease, ()));
    let leases = LeasesByQueue::of(&request, leases, |()| "")?;
    let mut outcomes = leases.outcomes(TouchOutcome::AlreadyGone);
    for (queue, LeasesOfQueue { indexes, jobs, .. }) in leases.queues {
        let jobs = leased(jobs);
        let touched = pool.touch(&queue, &jobs, lease_ms).await?;
        let extended = jobs.iter().zip(&touched).filter_map(|(job, outcome)| {
            let TouchOutcome::Extended { until_ms, .. } = outcome else {
                return None;
            };
            Some((*job, *until_ms))
        });
        request.app.engine.workers.extended(extended);
        fill(&mut outcomes, indexes, touched);
    }
    let results = outcomes.into_iter().map(|outcome| match outcome {
        TouchOutcome::Extended {
            until_ms,
            cancel_requested,
        } => TouchItemOutcome::Extended {
            lease_until: Timestamp::saturating(until_ms),
            cancel_requested,
        },
        TouchOutcome::Lost => TouchItemOutcome::Lost,
        TouchOutcome::AlreadyGone => TouchItemOutcome::Gone,
    });
    let results = results.collect();
    Ok(json_answer(StatusCode::OK, &TouchAnswer { results }))
}

pub(super) async fn release(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let body: ReleaseBody = open(&mut request).await?;
    let delay_ms = body.delay.map_or(0, |delay| delay.as_ms());
    let leases = body.leases.into_iter().map(|lease| (lease, ()));
    let leases = LeasesByQueue::of(&request, leases, |()| "")?;
    let verb = LeaseEnd {
        operation: "release",
        gone: ReleaseOutcome::AlreadyGone,
        name: release_name,
    };
    let outcomes = leases.end(&request, verb, |pool, queue, jobs| async move {
        pool.release(&queue, &leased(jobs), delay_ms).await
    });
    let results = outcomes.await?.into_iter().map(|outcome| match outcome {
        ReleaseOutcome::Done => ReleaseItemOutcome::Released,
        ReleaseOutcome::Cancelled => ReleaseItemOutcome::Cancelled,
        ReleaseOutcome::Rerun => ReleaseItemOutcome::Rerun,
        ReleaseOutcome::Lost => ReleaseItemOutcome::Lost,
        ReleaseOutcome::AlreadyGone => ReleaseItemOutcome::Gone,
    });
    let results = results.collect();
    Ok(json_answer(StatusCode::OK, &ReleaseAnswer { results }))
}

async fn open<T: tidegate_core::v1::input::CheckedRequest + Send + 'static>(
    request: &mut NativeRequest,
) -> Result<T, NativeError> {
    request.without_query()?;
    request.read_json().await
}

const fn ack_name(outcome: &AckOutcome) -> &'static str {
    match outcome {
        AckOutcome::Done { .. } => "done",
        AckOutcome::Rerun { .. } => "rerun",
        AckOutcome::Lost => "lost",
        AckOutcome::AlreadyGone => "gone",
    }
}

const fn fail_name(outcome: &FailOutcome) -> &'static str {
    match outcome {
        FailOutcome::Retry { .. } => "retry",
        FailOutcome::Dead => "dead",
        FailOutcome::Cancelled => "cancelled",
        FailOutcome::Rerun => "rerun",
        FailOutcome::Lost => "lost",
        FailOutcome::AlreadyGone => "gone",
    }
}

const fn release_name(outcome: &ReleaseOutcome) -> &'static str {
    match outcome {
        ReleaseOutcome::Done => "released",
        ReleaseOutcome::Cancelled => "cancelled",
        ReleaseOutcome::Rerun => "rerun",
        ReleaseOutcome::Lost => "lost",
        ReleaseOutcome::AlreadyGone => "gone",
    }
}

fn leased<T>(jobs: Vec<(LeasedJob, T)>) -> Vec<LeasedJob> {
    jobs.into_iter().map(|(job, _)| job).collect()
}

fn new_result(result: JobPayload) -> NewResult {
    NewResult {
        attributes: stored_attributes(JobAttributes::default(), &result.content_type, None),
        body: result.bytes.into(),
    }
}

/// What ends leases.
struct LeaseEnd<O> {
    /// The name of its spans.
    operation: &'static str,
    /// The outcome for a lease of no job.
    gone: O,
    /// The name of an outcome.
    name: fn(&O) -> &'static str,
}

/// The leases of a request by queue, with what the client wants of each. A lease of another namespace is one of no job.
struct LeasesByQueue<T> {
    queues: HashMap<QueueKey, LeasesOfQueue<T>>,
    count: usize,
}

/// The leases of one queue.
struct LeasesOfQueue<T> {
    /// Their indexes in the request.
    indexes: Vec<usize>,
    /// Those whose delivery has a span, and their positions in `jobs`.
    traced: Vec<(usize, LeasedJob)>,
    jobs: Vec<(LeasedJob, T)>,
}

impl<T> LeasesByQueue<T> {
    /// # Errors
    /// A text is no lease. The problem names the item, with `suffix`.
    fn of(
        request: &NativeRequest,
        leases: impl Iterator<Item = (LeaseText, T)>,
        suffix: impl Fn(&T) -> &'static str,
    ) -> Result<Self, NativeError> {
        let mut queues: HashMap<QueueKey, LeasesOfQueue<T>> = HashMap::new();
        let mut count = 0;
        for (index, (lease, with)) in leases.enumerate() {
            count += 1;
            let ParsedLease {
                queue,
                job,
                is_traced,
            } = parse_lease(&request.namespace, &lease).ok_or_else(|| {
                NativeError::new(ProblemCode::InvalidParameter, NO_LEASE)
                    .at(format!("leases[{index}]{}", suffix(&with)))
            })?;
            let of_queue = queues.entry(queue).or_insert_with(LeasesOfQueue::empty);
            of_queue.indexes.push(index);
            if is_traced {
                of_queue.traced.push((of_queue.jobs.len(), job));
            }
            of_queue.jobs.push((job, with));
        }
        Ok(Self { queues, count })
    }

    /// Ends the leases of each queue with `end`. Returns the outcomes, in the order of the request.
    async fn end<O: Clone, F: Future<Output = Result<Vec<O>, EngineError>>>(
        self,
        request: &NativeRequest,
        verb: LeaseEnd<O>,
        end: impl Fn(Arc<Pool>, QueueKey, Vec<(LeasedJob, T)>) -> F,
    ) -> Result<Vec<O>, NativeError> {
        let mut outcomes = self.outcomes(verb.gone);
        let spans = SettleSpans::begin(
            &request.app,
            &request.headers,
            &request.context,
            verb.operation,
        );
        for (queue, leases) in self.queues {
            let ended: Vec<LeasedJob> = leases.jobs.iter().map(|(job, _)| *job).collect();
            let pool = Arc::clone(request.pool());
            let settled = end(pool, queue.clone(), leases.jobs).await?;
            for (at, job) in &leases.traced {
                if let Some(spans) = &spans {
                    let outcome = (verb.name)(&settled[*at]);
                    spans.record(&request.context, &queue, *job, outcome);
                }
            }
            fill(&mut outcomes, leases.indexes, settled);
            request.app.engine.workers.ended(ended);
        }
        Ok(outcomes)
    }

    /// An outcome for each lease, before any call.
    fn outcomes<O: Clone>(&self, gone: O) -> Vec<O> {
        vec![gone; self.count]
    }
}

impl<T> LeasesOfQueue<T> {
    const fn empty() -> Self {
        Self {
            indexes: Vec::new(),
            traced: Vec::new(),
            jobs: Vec::new(),
        }
    }
}

/// Sets the outcomes of the leases of one queue.
fn fill<O>(outcomes: &mut [O], indexes: Vec<usize>, settled: Vec<O>) {
    for (index, outcome) in indexes.into_iter().zip(settled) {
        outcomes[index] = outcome;
    }
}
