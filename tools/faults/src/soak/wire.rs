//! Requests on both wires, and their answers.

use std::fmt::Write;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_core::JobId;

use super::connection::SoakAnswer;
use crate::history::UnixMicros;

/// Namespace of all jobs.
pub(super) const NAMESPACE: &str = "soak";
/// Attempts on the wire of lmstfy. More than one, so that a lost answer loses no job.
const TRIES: u32 = 10;
const TTL_S: u64 = 7 * 86_400;
const PAD_BYTES: usize = 64;

/// The wire of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SoakWire {
    Lmstfy,
    Native,
}

/// Credentials of both wires, and the mark of this run in all jobs.
#[derive(Debug, Clone)]
pub(super) struct SoakCredentials {
    pub(super) token: String,
    pub(super) api_key: String,
    pub(super) run: u32,
}

/// What a publish says besides queue and body.
#[derive(Debug, Clone, Default)]
pub(super) struct PublishTerms {
    pub(super) delay: Duration,
    pub(super) key: Option<String>,
    pub(super) retain: Duration,
}

/// A job that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SoakDelivery {
    /// Its number, if this run has published it.
    pub(super) number: Option<u64>,
    pub(super) id: String,
    /// What an ack needs: the id, or the lease.
    pub(super) handle: String,
    /// When it was created, in µs; the truth is up to 1 ms later.
    pub(super) created: UnixMicros,
}

impl SoakCredentials {
    fn write(&self, wire: SoakWire, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let mut head = String::with_capacity(256);
        // Writing to a string cannot fail.
        let _ = match wire {
            SoakWire::Lmstfy => write!(
                head,
                "{method} /api/{NAMESPACE}/{path} HTTP/1.1\r\nHost: soak\r\nX-Token: {}\r\n",
                self.token
            ),
            SoakWire::Native => write!(
                head,
                "{method} /v1/{NAMESPACE}/{path} HTTP/1.1\r\nHost: soak\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n",
                self.api_key
            ),
        };
        let _ = write!(head, "Content-Length: {}\r\n\r\n", body.len());
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        request
    }

    /// A publish of the job with this number. The wire of lmstfy takes whole seconds, and neither key nor retention.
    pub(super) fn publish(
        &self,
        wire: SoakWire,
        queue: &str,
        number: u64,
        terms: &PublishTerms,
    ) -> Vec<u8> {
        let body = json!({"run": self.run, "job": number, "pad": "-".repeat(PAD_BYTES)});
        let body = body.to_string();
        match wire {
            SoakWire::Lmstfy => {
                let delay_s = terms.delay.as_secs();
                let path = format!("{queue}?delay={delay_s}&ttl={TTL_S}&tries={TRIES}");
                self.write(wire, "PUT", &path, body.as_bytes())
            }
            SoakWire::Native => {
                let mut path = format!("queues/{queue}/jobs?delay={}ms", terms.delay.as_millis());
                if let Some(key) = &terms.key {
                    let _ = write!(path, "&key={key}");
                }
                if !terms.retain.is_zero() {
                    let _ = write!(path, "&retain={}ms", terms.retain.as_millis());
                }
                self.write(wire, "POST", &path, body.as_bytes())
            }
        }
    }

    /// Reserves up to `count` jobs of a queue, and waits for them.
    pub(super) fn reserve(
        &self,
        wire: SoakWire,
        queue: &str,
        count: usize,
        wait: Duration,
        lease: Duration,
    ) -> Vec<u8> {
        let (wait_s, lease_s) = (wait.as_secs(), lease.as_secs());
        match wire {
            SoakWire::Lmstfy => {
                let path = format!("{queue}?ttr={lease_s}&timeout={wait_s}&count={count}");
                self.write(wire, "GET", &path, b"")
            }
            SoakWire::Native => {
                let body = json!({"queues": [queue], "max_jobs": count,
                    "wait": format!("{wait_s}s"), "lease": format!("{lease_s}s")});
                self.write(wire, "POST", "reserve", body.to_string().as_bytes())
            }
        }
    }

    /// Deletes a job by its id: a cancel, and on the wire of lmstfy also an ack.
    pub(super) fn delete(&self, wire: SoakWire, queue: &str, id: &str) -> Vec<u8> {
        let path = match wire {
            SoakWire::Lmstfy => format!("{queue}/job/{id}"),
            SoakWire::Native => format!("queues/{queue}/jobs/{id}"),
        };
        self.write(wire, "DELETE", &path, b"")
    }

    /// Acknowledges a lease. The number is the result, if there is one.
    pub(super) fn ack(&self, lease: &str, result: Option<u64>) -> Vec<u8> {
        let item = match result {
            Some(number) => json!({"lease": lease, "result": {"job": number}}),
            None => json!(lease),
        };
        let body = json!({"leases": [item]}).to_string();
        self.write(SoakWire::Native, "POST", "ack", body.as_bytes())
    }

    /// Reports that an attempt has failed.
    pub(super) fn fail(&self, lease: &str, retry_in: Duration) -> Vec<u8> {
        let item = json!({"lease": lease, "error": "soak", "retry_in": format!("{}ms", retry_in.as_millis())});
        let body = json!({"leases": [item]}).to_string();
        self.write(SoakWire::Native, "POST", "fail", body.as_bytes())
    }

    /// Reads the result of a job.
    pub(super) fn result(&self, queue: &str, id: &str) -> Vec<u8> {
        let path = format!("queues/{queue}/jobs/{id}/result");
        self.write(SoakWire::Native, "GET", &path, b"")
    }

    /// Returns the jobs in the answer to a reserve; `None` if it is no such answer.
    pub(super) fn deliveries(
        &self,
        wire: SoakWire,
        answer: &SoakAnswer,
    ) -> Option<Vec<SoakDelivery>> {
        match (wire, answer.status) {
            (SoakWire::Lmstfy, 404) => Some(Vec::new()),
            (SoakWire::Lmstfy, 200) => {
                let jobs: Vec<SoakLmstfyJob> = match answer.body.first() {
                    Some(b'[') => serde_json::from_slice(&answer.body).ok()?,
                    _ => vec![serde_json::from_slice(&answer.body).ok()?],
                };
                jobs.into_iter().map(|job| self.lmstfy_job(job)).collect()
            }
            (SoakWire::Native, 200) => {
                let answer: SoakReserveAnswer = serde_json::from_slice(&answer.body).ok()?;
                let jobs = answer.jobs.into_iter();
                jobs.map(|job| self.native_job(job)).collect()
            }
            _ => None,
        }
    }

    fn lmstfy_job(&self, job: SoakLmstfyJob) -> Option<SoakDelivery> {
        let body = base64_decoded(&job.data)?;
        Some(SoakDelivery {
            number: self.number(&serde_json::from_slice(&body).unwrap_or_default()),
            created: created(&job.job_id)?,
            handle: job.job_id.clone(),
            id: job.job_id,
        })
    }

    fn native_job(&self, job: SoakNativeJob) -> Option<SoakDelivery> {
        let payload = match (job.payload, job.payload_base64) {
            (Some(payload), _) => payload,
            (None, Some(text)) => serde_json::from_slice(&base64_decoded(&text)?).ok()?,
            (None, None) => Value::Null,
        };
        Some(SoakDelivery {
            number: self.number(&payload),
            created: created(&job.id)?,
            handle: job.lease,
            id: job.id,
        })
    }

    /// The number in a payload of this run.
    fn number(&self, payload: &Value) -> Option<u64> {
        (payload["run"] == self.run)
            .then(|| payload["job"].as_u64())
            .flatten()
    }
}

#[derive(Deserialize)]
struct SoakLmstfyJob {
    job_id: String,
    data: String,
}

#[derive(Deserialize)]
struct SoakReserveAnswer {
    jobs: Vec<SoakNativeJob>,
}

#[derive(Deserialize)]
struct SoakNativeJob {
    id: String,
    lease: String,
    payload: Option<Value>,
    payload_base64: Option<String>,
}

#[derive(Deserialize)]
struct SoakPublished {
    #[serde(alias = "job_id")]
    id: String,
    outcome: Option<String>,
}

#[derive(Deserialize)]
struct Outcomes {
    results: Vec<JobOutcome>,
}

#[derive(Deserialize)]
struct JobOutcome {
    outcome: String,
}

/// Returns the id in the answer to a publish, and on the native wire the outcome.
pub(super) fn published(answer: &SoakAnswer) -> Option<(String, Option<String>)> {
    let job: SoakPublished = match answer.status {
        200 | 201 => serde_json::from_slice(&answer.body).ok()?,
        _ => return None,
    };
    Some((job.id, job.outcome))
}

/// Returns the outcome in the answer to an ack or fail of one lease.
pub(super) fn outcome(answer: &SoakAnswer) -> Option<String> {
    let outcomes: Outcomes = match answer.status {
        200 => serde_json::from_slice(&answer.body).ok()?,
        _ => return None,
    };
    Some(outcomes.results.into_iter().next()?.outcome)
}

fn created(id: &str) -> Option<UnixMicros> {
    const ULID: usize = 26;
    let id: JobId = id.get(id.len().checked_sub(ULID)?..)?.parse().ok()?;
    Some(id.created_at_ms() * 1000)
}

fn base64_decoded(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}
