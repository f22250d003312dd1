//! The HTTP form of native requests.

use std::time::Duration;

use serde_json::json;
use tidegate_core::v1::consume::ReserveBody;
use tidegate_core::v1::values::DurationMs;
use tidegate_core::{IfRunning, QueueName};

use super::http_request::{HttpRequest, add_parameter, escaped};
use super::key_text::key_text;
use super::native_publish::publish;
use super::queue_name::queue_name;
use crate::history::{ClientRequest, HeldJob, JobAddress, RunResult, SettleAction, UnixMicros};

const MS: u64 = 1000;

/// Returns the HTTP form of a request.
///
/// # Panics
/// If the wire has no such request.
pub(super) fn http_request(request: &ClientRequest, wait: Duration) -> HttpRequest {
    match request {
        ClientRequest::Publish {
            queue,
            mode,
            versions,
            ..
        } => publish(*queue, *mode, versions),
        ClientRequest::Reserve {
            queues,
            lease,
            max_jobs,
        } => reserve(queues, *lease, *max_jobs, wait),
        ClientRequest::Settle { action, jobs } => settle(*action, jobs),
        ClientRequest::Cancel {
            queue,
            job,
            running,
        } => cancel(*queue, job, *running),
        ClientRequest::Change {
            queue,
            job,
            delay,
            run_at,
        } => change(*queue, job, *delay, *run_at),
        ClientRequest::Promote { queue, job } => {
            HttpRequest::without_body("POST", job_path(*queue, job, "/promote"))
        }
        ClientRequest::Show { queue, job } => {
            HttpRequest::without_body("GET", job_path(*queue, job, ""))
        }
        ClientRequest::Result { queue, job, .. } => {
            HttpRequest::without_body("GET", job_path(*queue, job, "/result"))
        }
        other => panic!("the native API has no {}", other.verb()),
    }
}

fn reserve(queues: &[u16], lease: Option<u64>, max_jobs: u64, wait: Duration) -> HttpRequest {
    let queue = |queue: &u16| {
        let name: QueueName = queue_name(*queue).parse().expect("the name of a queue");
        name.into()
    };
    let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let body = ReserveBody {
        max_jobs: max_jobs.try_into().expect("a number of jobs"),
        wait: DurationMs::saturating(wait),
        lease: lease.map(|lease| DurationMs::saturating(lease / MS)),
        ..ReserveBody::new(queues.iter().map(queue).collect())
    };
    HttpRequest::json("POST", "/reserve".to_owned(), &body)
}

fn settle(action: SettleAction, jobs: &[HeldJob]) -> HttpRequest {
    let leases: Vec<&str> = jobs.iter().map(|job| job.lease.as_str()).collect();
    let body = match action {
        SettleAction::Ack => {
            let items = jobs.iter().map(|job| {
                let result = RunResult {
                    id: job.id.clone(),
                    attempt: job.attempt.unwrap_or_default(),
                    number: job.number,
                };
                json!({"lease": job.lease, "result": result})
            });
            json!({"leases": items.collect::<Vec<_>>()})
        }
        SettleAction::Touch(lease) => json!({"leases": leases, "lease": in_ms(lease)}),
        SettleAction::Release(delay) => json!({"leases": leases, "delay": in_ms(delay)}),
        SettleAction::Fail | SettleAction::FailRetryIn(_) | SettleAction::FailDead => {
            let items = leases.iter().map(|lease| {
                let mut item = json!({"lease": lease, "error": "the worker of a fault run"});
                match action {
                    SettleAction::FailRetryIn(delay) => item["retry_in"] = json!(in_ms(delay)),
                    SettleAction::FailDead => item["dead"] = true.into(),
                    _ => {}
                }
                item
            });
            json!({"leases": items.collect::<Vec<_>>()})
        }
    };
    HttpRequest::json("POST", format!("/{}", action.call().name()), &body)
}

const fn in_ms(micros: u64) -> DurationMs {
    DurationMs::saturating(micros / MS)
}

fn cancel(queue: u16, job: &JobAddress, running: IfRunning) -> HttpRequest {
    let mut path = job_path(queue, job, "");
    add_parameter(&mut path, "running", running.as_str());
    HttpRequest::without_body("DELETE", path)
}

fn change(queue: u16, job: &JobAddress, delay: u64, run_at: Option<UnixMicros>) -> HttpRequest {
    let body = match run_at {
        Some(at) => json!({"run_at": at / MS}),
        None => json!({"delay": in_ms(delay)}),
    };
    HttpRequest::json("PATCH", job_path(queue, job, ""), &body)
}

/// Returns the path of a job. A key with a slash is in the query. `rest` follows the job.
fn job_path(queue: u16, job: &JobAddress, rest: &str) -> String {
    let queue = queue_name(queue);
    match job {
        JobAddress::Id(id) => format!("/queues/{queue}/jobs/{id}{rest}"),
        JobAddress::Key(key) => {
            let key = key_text(*key);
            if !key.contains('/') {
                return format!("/queues/{queue}/jobs/key:{}{rest}", escaped(&key));
            }
            let mut path = format!("/queues/{queue}/jobs/-{rest}");
            add_parameter(&mut path, "key", &key);
            path
        }
    }
}
