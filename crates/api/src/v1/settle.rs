//! `POST /v1/NAMESPACE/ack`, `fail`, `touch`, `release`, and `settle` in the body of a reserve: reports of workers about
//! the jobs that they hold.

use std::collections::HashMap;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::QueueKey;
use tidegate_core::v1::consume::{
    AckBody, AckItem, FailBody, FailItem, Outcome, ReleaseBody, SettleAnswer, SettleBody,
    SettleCall, SettledJobs, TouchBody,
};
use tidegate_core::v1::input::CheckedRequest;
use tidegate_core::v1::job::stored_attributes;
use tidegate_core::v1::problem::ProblemCode;
use tidegate_core::v1::values::{JobAttributes, JobPayload, LeaseText};
use tidegate_engine::Settlement;
use tidegate_store::{AckRequest, AfterFailure, FailRequest, LeasedJob, NewResult};

use super::answer::json_answer;
use super::error::NativeError;
use super::lease_text::{ParsedLease, parse_lease};
use super::native_request::NativeRequest;
use crate::spans::SettleSpans;

const NO_LEASE: &str = "this is no lease; send `lease` of the reserve answer";

pub(super) async fn ack(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    // Results may be large.
    let body: AckBody = request.read_json_up_to(usize::MAX).await?;
    let leases = leases_to_ack(&request, body.leases, "leases")?;
    Ok(answer_of(acknowledge(&request, leases).await?))
}

fn leases_to_ack(
    request: &NativeRequest,
    items: Vec<AckItem>,
    field: &'static str,
) -> Result<LeasesByQueue<Option<NewResult>>, NativeError> {
    let mut leases = LeasesByQueue::in_field(field);
    for item in items {
        let (lease, result) = item.into_parts()?;
        // An item with a result is an object.
        let field = result.as_ref().map_or("", |_| ".lease");
        leases.add(request, &lease, field, result.map(new_result))?;
    }
    Ok(leases)
}

async fn acknowledge(
    request: &NativeRequest,
    leases: LeasesByQueue<Option<NewResult>>,
) -> Result<Vec<Outcome>, NativeError> {
    let ack = |jobs: Vec<(LeasedJob, Option<NewResult>)>| {
        let requests = jobs.into_iter().map(|(job, result)| AckRequest {
            result,
            ..job.into()
        });
        Settlement::Ack(requests.collect())
    };
    settle(request, SettleCall::Ack, leases, ack).await
}

pub(super) async fn fail(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let body: FailBody = open(&mut request).await?;
    let leases = failed_leases(&request, body.leases, "leases")?;
    Ok(answer_of(report_failures(&request, leases).await?))
}

fn failed_leases(
    request: &NativeRequest,
    items: Vec<FailItem>,
    field: &'static str,
) -> Result<LeasesByQueue<(AfterFailure, String)>, NativeError> {
    let mut leases = LeasesByQueue::in_field(field);
    for item in items {
        let then = match (item.dead, item.retry_in) {
            (true, _) => AfterFailure::Bury,
            (false, Some(delay)) => AfterFailure::RetryInMs(delay.as_ms()),
            (false, None) => AfterFailure::RetryAsConfigured,
        };
        let failure = (then, item.error.to_string());
        leases.add(request, &item.lease, ".lease", failure)?;
    }
    Ok(leases)
}

async fn report_failures(
    request: &NativeRequest,
    leases: LeasesByQueue<(AfterFailure, String)>,
) -> Result<Vec<Outcome>, NativeError> {
    let fail = |jobs: Vec<(LeasedJob, (AfterFailure, String))>| {
        let jobs = jobs.into_iter();
        let failed = jobs.map(|(job, (then, error))| FailRequest { job, then, error });
        Settlement::Fail(failed.collect())
    };
    settle(request, SettleCall::Fail, leases, fail).await
}

/// Settles the jobs of a reserve call.
pub(super) async fn settle_before_reserve(
    request: &NativeRequest,
    body: SettleBody,
) -> Result<SettledJobs, NativeError> {
    // Both are read before anything is changed.
    let done = leases_to_ack(request, body.ack, "settle.ack")?;
    let failed = failed_leases(request, body.fail, "settle.fail")?;
    let ack = acknowledge(request, done).await?;
    let fail = report_failures(request, failed).await;
    let fail = fail.map_err(|error| error.after_part(!ack.is_empty()))?;
    Ok(SettledJobs { ack, fail })
}

pub(super) async fn touch(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let body: TouchBody = open(&mut request).await?;
    let lease_ms = body.lease.map(|lease| lease.as_ms());
    let leases = LeasesByQueue::of(&request, &body.leases)?;
    let touch = |jobs| Settlement::Touch {
        jobs: leased(jobs),
        lease_ms,
    };
    Ok(answer_of(
        settle(&request, SettleCall::Touch, leases, touch).await?,
    ))
}

pub(super) async fn release(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let body: ReleaseBody = open(&mut request).await?;
    let delay_ms = body.delay.map_or(0, |delay| delay.as_ms());
    let leases = LeasesByQueue::of(&request, &body.leases)?;
    let release = |jobs| Settlement::Release {
        jobs: leased(jobs),
        delay_ms,
    };
    Ok(answer_of(
        settle(&request, SettleCall::Release, leases, release).await?,
    ))
}

async fn open<T: CheckedRequest + Send + 'static>(
    request: &mut NativeRequest,
) -> Result<T, NativeError> {
    request.without_query()?;
    request.read_json().await
}

fn answer_of(results: Vec<Outcome>) -> Response<Body> {
    json_answer(StatusCode::OK, &SettleAnswer { results })
}

/// Settles the leases of each queue.
async fn settle<T: Send>(
    request: &NativeRequest,
    call: SettleCall,
    leases: LeasesByQueue<T>,
    settlement: impl Fn(Vec<(LeasedJob, T)>) -> Settlement + Send,
) -> Result<Vec<Outcome>, NativeError> {
    let mut results = vec![Outcome::Gone; leases.count];
    if results.is_empty() {
        return Ok(results);
    }
    let spans = match call {
        SettleCall::Touch => None,
        _ => SettleSpans::begin(
            &request.app,
            &request.headers,
            &request.context,
            call.name(),
        ),
    };
    let workers = &request.app.engine.workers;
    for (queue, leases) in leases.queues {
        let jobs: Vec<LeasedJob> = leases.jobs.iter().map(|(job, _)| *job).collect();
        let settlement = settlement(leases.jobs);
        let outcomes = request.pool().settle(&queue, &settlement).await?;
        for (at, job) in &leases.traced {
            if let Some(spans) = &spans {
                spans.record(&request.context, &queue, *job, outcomes[*at].name());
            }
        }
        match call {
            SettleCall::Touch => workers.extended(extended(&jobs, &outcomes)),
            _ => workers.ended(jobs),
        }
        for (index, outcome) in leases.indexes.into_iter().zip(outcomes) {
            results[index] = outcome;
        }
    }
    Ok(results)
}

/// The leases that were extended, and until when in ms since 1970.
fn extended(jobs: &[LeasedJob], outcomes: &[Outcome]) -> impl Iterator<Item = (LeasedJob, u64)> {
    jobs.iter()
        .zip(outcomes)
        .filter_map(|(job, outcome)| match outcome {
            Outcome::Extended { lease_until, .. } => Some((*job, lease_until.as_ms())),
            _ => None,
        })
}

fn leased(jobs: Vec<(LeasedJob, ())>) -> Vec<LeasedJob> {
    jobs.into_iter().map(|(job, ())| job).collect()
}

fn new_result(result: JobPayload) -> NewResult {
    NewResult {
        attributes: stored_attributes(JobAttributes::default(), &result.content_type, None, None),
        body: result.bytes.into(),
    }
}

/// The leases of a request by queue, each with the wish of the client. A lease of another namespace belongs to no job.
struct LeasesByQueue<T> {
    /// The field of the request that has them.
    field: &'static str,
    queues: HashMap<QueueKey, LeasesOfQueue<T>>,
    count: usize,
}

struct LeasesOfQueue<T> {
    /// Their indexes in the request.
    indexes: Vec<usize>,
    /// Those whose delivery has a span, and their positions in `jobs`.
    traced: Vec<(usize, LeasedJob)>,
    jobs: Vec<(LeasedJob, T)>,
}

impl LeasesByQueue<()> {
    /// # Errors
    /// A text is no lease. The problem names the item.
    fn of(request: &NativeRequest, leases: &[LeaseText]) -> Result<Self, NativeError> {
        let mut by_queue = Self::in_field("leases");
        for lease in leases {
            by_queue.add(request, lease, "", ())?;
        }
        Ok(by_queue)
    }
}

impl<T> LeasesByQueue<T> {
    fn in_field(field: &'static str) -> Self {
        Self {
            field,
            queues: HashMap::new(),
            count: 0,
        }
    }

    /// Adds the next lease. `field` is its field in the item of the request, if that is an object.
    ///
    /// # Errors
    /// The text is no lease. The problem names the item.
    fn add(
        &mut self,
        request: &NativeRequest,
        lease: &LeaseText,
        field: &str,
        with: T,
    ) -> Result<(), NativeError> {
        let index = self.count;
        self.count += 1;
        let ParsedLease {
            queue,
            job,
            is_traced,
        } = parse_lease(request.namespace()?, lease).ok_or_else(|| {
            NativeError::new(ProblemCode::InvalidParameter, NO_LEASE)
                .at(format!("{}[{index}]{field}", self.field))
        })?;
        let of_queue = self.queues.entry(queue).or_default();
        of_queue.indexes.push(index);
        if is_traced {
            of_queue.traced.push((of_queue.jobs.len(), job));
        }
        of_queue.jobs.push((job, with));
        Ok(())
    }
}

impl<T> Default for LeasesOfQueue<T> {
    fn default() -> Self {
        Self {
            indexes: Vec::new(),
            traced: Vec::new(),
            jobs: Vec::new(),
        }
    }
}
