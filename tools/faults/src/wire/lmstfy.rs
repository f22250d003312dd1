//! The lmstfy wire. It counts in seconds.

use std::time::Duration;

use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{JobId, JobState};
use tidegate_testkit::{Answer, ReceivedJob};

use super::http_request::HttpRequest;
use super::payload::{attributes, body, number_of};
use super::queue_name::{queue_name, queue_number};
use crate::history::{
    CancelEffect, ClientRequest, Delivery, JobAddress, RequestOutcome, VersionResult, VersionSpec,
};

const MS: u64 = 1000;
const S: u64 = 1_000_000;
/// Length of an id without the leading digit of its versioned form.
const ID_LENGTH: usize = 26;

/// Returns the HTTP form of a request.
///
/// # Panics
/// If the wire has no such request.
pub(super) fn http_request(request: &ClientRequest, wait: Duration) -> HttpRequest {
    let plain = |method, path| HttpRequest::without_body(method, path);
    match request {
        ClientRequest::Publish {
            queue,
            versions,
            replaced,
            ..
        } => publish(*queue, versions, replaced.as_deref()),
        ClientRequest::Reserve {
            queues,
            lease,
            max_jobs,
        } => {
            let names: Vec<String> = queues.iter().map(|queue| queue_name(*queue)).collect();
            let (ttr, timeout) = (lease.unwrap_or_default() / S, wait.as_secs());
            let names = names.join(",");
            let path = format!("/{names}?ttr={ttr}&timeout={timeout}&count={max_jobs}");
            plain("GET", path)
        }
        ClientRequest::Settle { jobs, .. } => {
            let path = format!("/{}/job/{}", queue_name(jobs[0].queue), jobs[0].lease);
            plain("DELETE", path)
        }
        ClientRequest::Cancel { queue, job, .. } => plain("DELETE", job_path(*queue, job)),
        ClientRequest::Show { queue, job } => plain("GET", job_path(*queue, job)),
        ClientRequest::PeekReady { queue } => plain("GET", format!("/{}/peek", queue_name(*queue))),
        ClientRequest::PeekDead { queue } => {
            plain("GET", format!("/{}/deadletter", queue_name(*queue)))
        }
        ClientRequest::PurgeReady { queue } => plain("DELETE", format!("/{}", queue_name(*queue))),
        ClientRequest::PurgeDead { queue, limit } => {
            let path = format!("/{}/deadletter?limit={limit}", queue_name(*queue));
            plain("DELETE", path)
        }
        ClientRequest::Respawn { queue, limit } => {
            let path = format!("/{}/deadletter?limit={limit}&ttl=0", queue_name(*queue));
            plain("PUT", path)
        }
        ClientRequest::Change { .. }
        | ClientRequest::Promote { .. }
        | ClientRequest::Result { .. }
        | ClientRequest::Revoke { .. } => panic!("the lmstfy wire has no {}", request.verb()),
    }
}

fn job_path(queue: u16, job: &JobAddress) -> String {
    match job {
        JobAddress::Id(id) => format!("/{}/job/{id}", queue_name(queue)),
        JobAddress::Key(_) => panic!("the lmstfy wire has no keys"),
    }
}

/// Versions of a bulk have the same delay, time to live and tries, text bodies, and no attributes.
fn publish(queue: u16, versions: &[VersionSpec], replaced: Option<&str>) -> HttpRequest {
    let first = &versions[0];
    let (rest, body) = match (versions, replaced) {
        ([one], None) => (String::new(), body(one)),
        ([one], Some(id)) => (format!("/job/{id}"), body(one)),
        (many, _) => {
            let bodies: Vec<Vec<u8>> = many.iter().map(body).collect();
            (
                "/bulk".to_owned(),
                [b"[", &bodies.join(&b","[..])[..], b"]"].concat(),
            )
        }
    };
    let attributes = attributes(first).into_iter();
    let mut headers: Vec<(String, String)> = attributes
        .map(|(name, value)| (format!("Job-Attr-{name}"), value))
        .collect();
    if !headers.is_empty() {
        headers.push(("Enable-Job-Version".to_owned(), "yes".to_owned()));
    }
    let (name, delay, ttl) = (queue_name(queue), first.delay / S, first.ttl / S);
    let tries = first.tries;
    HttpRequest {
        method: "PUT",
        path: format!("/{name}{rest}?delay={delay}&ttl={ttl}&tries={tries}"),
        headers,
        body,
    }
}

/// Returns the outcome of a request with this answer; `None` if it could not be read.
pub(super) fn outcome(request: &ClientRequest, answer: &Answer) -> Option<RequestOutcome> {
    let is_publish = matches!(request, ClientRequest::Publish { .. });
    match answer.status {
        404 if is_publish => Some(RequestOutcome::Refused(404)),
        200..=299 | 404 => success(request, answer),
        status @ (400..=499 | 503) => Some(RequestOutcome::Refused(status)),
        status => Some(RequestOutcome::Failed(status)),
    }
}

fn success(request: &ClientRequest, answer: &Answer) -> Option<RequestOutcome> {
    Some(match request {
        ClientRequest::Publish { .. } => published(answer),
        ClientRequest::Reserve { lease, .. } => {
            RequestOutcome::Delivered(jobs_in(answer, lease.unwrap_or_default()).collect())
        }
        ClientRequest::Show { .. } | ClientRequest::PeekReady { .. } => {
            match jobs_in(answer, 0).next() {
                Some(job) => RequestOutcome::Peeked(Box::new(job)),
                None => RequestOutcome::NotFound,
            }
        }
        ClientRequest::Settle { .. } => RequestOutcome::Settled(vec![Outcome::DONE]),
        ClientRequest::Cancel {
            job: JobAddress::Id(id),
            ..
        } => RequestOutcome::Cancelled {
            id: bare_id(id).to_owned(),
            effect: CancelEffect::Gone,
        },
        ClientRequest::PeekDead { .. } => {
            let json = answer.json();
            let head = json["deadletter_head"].as_str().unwrap_or_default();
            RequestOutcome::DeadLetter((!head.is_empty()).then(|| bare_id(head).to_owned()))
        }
        ClientRequest::Respawn { .. } => {
            RequestOutcome::Respawned(answer.json()["count"].as_u64().unwrap_or_default())
        }
        ClientRequest::PurgeReady { .. } | ClientRequest::PurgeDead { .. } => {
            RequestOutcome::Deleted
        }
        _ => return None,
    })
}

fn published(answer: &Answer) -> RequestOutcome {
    let json = answer.json();
    let result = |id: &serde_json::Value| VersionResult::Job {
        id: bare_id(id.as_str().unwrap_or_default()).to_owned(),
        outcome: PublishResult::Created,
        state: JobState::Ready,
        run_at: None,
        is_replayed: false,
    };
    RequestOutcome::Published(match json["job_ids"].as_array() {
        Some(ids) => ids.iter().map(result).collect(),
        None => vec![result(&json["job_id"])],
    })
}

fn jobs_in(answer: &Answer, lease: u64) -> impl Iterator<Item = Delivery> + use<> {
    let jobs = ReceivedJob::parse_all(answer).into_iter();
    jobs.map(move |job| {
        let created = created_ms(&job.id) * MS;
        let reserved = created + job.elapsed_ms * MS;
        Delivery {
            number: number_of(&job),
            id: bare_id(&job.id).to_owned(),
            key: None,
            queue: queue_number(&job.queue),
            attempt: None,
            failures: None,
            tries_left: Some(job.remain_tries),
            created: Some(created),
            run_at: None,
            reserved,
            lease_until: reserved + lease,
            lease: job.id,
        }
    })
}

/// Returns an id as the native API shows it.
fn bare_id(id: &str) -> &str {
    id.get(id.len().saturating_sub(ID_LENGTH)..).unwrap_or(id)
}

fn created_ms(id: &str) -> u64 {
    let id: Option<JobId> = bare_id(id).parse().ok();
    id.map_or(0, JobId::created_at_ms)
}
