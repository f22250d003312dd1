//! A queue of a server of the lmstfy wire: lmstfy itself, or a Tidegate.

use std::collections::BTreeMap;
use std::future::ready;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper::{Method, Request, Response, StatusCode, Uri};
use serde::Deserialize;
use serde_json::Value;
use tidegate::api::relay::LmstfySourceConfig;
use tidegate_http_pool::{Connections, Resend};
use tokio::time::{Instant, sleep};

use super::{FailedDelivery, RelaySource, SourceError, SourceJobs};
use crate::job::{RelayJob, SourceReceipt};

/// The most jobs of one call.
const COUNT_MAX: usize = 100;
/// How long a call waits for jobs. A stop waits for it, since a call that is dropped may lose a delivery.
const WAIT_SECONDS: u64 = 3;
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// 100 jobs of 1 MiB as base64.
const BODY_MAX: usize = 160 << 20;
/// Acks, or looks at jobs, that are sent at the same time: each is a request.
const CALLS_AT_ONCE: usize = 32;
const ACK_TRIES: u32 = 6;
const ACK_PAUSE: Duration = Duration::from_millis(200);
/// Ids are parts of paths, headers and keys.
const ID_BYTES_MAX: usize = 128;
/// Jobs of lmstfy have no content type.
const CONTENT_TYPE: &str = "application/octet-stream";

/// A queue of a server of the lmstfy wire.
pub(crate) struct LmstfySource {
    connections: Connections,
    base: String,
    token: HeaderValue,
    lease: Duration,
}

/// A job as the wire shows it.
#[derive(Debug, Deserialize)]
struct LmstfyJob {
    job_id: String,
    data: String,
    attributes: Option<BTreeMap<String, String>>,
    /// How many seconds it has left; 0 = it does not expire.
    #[serde(default)]
    ttl: u64,
    /// How many deliveries it has left behind this one. Old servers do not say.
    remain_tries: Option<u16>,
}

impl LmstfySource {
    /// The queue, whose jobs are held for this time.
    ///
    /// # Errors
    /// A setting is missing or not valid; the error begins with its name.
    pub(crate) fn new(config: &LmstfySourceConfig, lease: Duration) -> Result<Self, String> {
        let base = format!(
            "{}/api/{}/{}",
            config.url.trim_end_matches('/'),
            config.namespace,
            config.queue
        );
        let uri: Option<Uri> = base.parse().ok();
        if !uri.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()
        }) {
            return Err("url is not like http://host:7777".to_owned());
        }
        let token = HeaderValue::from_str(config.token.as_str());
        let mut token = token.map_err(|_| "token has characters that no token has")?;
        token.set_sensitive(true);
        Ok(Self {
            connections: Connections::new(&config.url)?,
            base,
            token,
            lease,
        })
    }

    async fn send(
        &self,
        method: Method,
        rest: &str,
        limit: Duration,
    ) -> Result<Response<Bytes>, SourceError> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{rest}", self.base))
            .header("x-token", self.token.clone())
            .body(Full::default());
        let request = request.map_err(|error| SourceError(error.to_string()))?;
        // Each of the requests may be repeated.
        let answer = self
            .connections
            .exchange(request, Resend::Allowed, limit, BODY_MAX);
        answer.await.map_err(|error| SourceError(error.to_string()))
    }

    async fn consume(&self, max_jobs: usize) -> Result<SourceJobs, SourceError> {
        let (ttr, count) = (self.lease.as_secs(), max_jobs.min(COUNT_MAX));
        let query = format!("?ttr={ttr}&timeout={WAIT_SECONDS}&count={count}");
        let limit = TIME_LIMIT + Duration::from_secs(WAIT_SECONDS);
        let answer = self.send(Method::GET, &query, limit).await?;
        let received_at = Instant::now();
        match answer.status() {
            StatusCode::OK => read_jobs(answer.body(), received_at, self.lease),
            StatusCode::NOT_FOUND if is_no_job(answer.body()) => Ok(SourceJobs::default()),
            status => Err(unexpected(status, answer.body())),
        }
    }

    /// Whether a job was deleted. An answer that does not say so leaves it.
    async fn is_deleted(&self, job: &RelayJob) -> bool {
        let path = format!("/job/{}", job.id);
        let answer = self.send(Method::GET, &path, TIME_LIMIT).await;
        answer.is_ok_and(|answer| {
            answer.status() == StatusCode::NOT_FOUND && has_error(answer.body(), "job not found")
        })
    }

    /// Deletes a job. Repeated for about 6 s, since a job that is not deleted is delivered again.
    async fn delete(&self, receipt: SourceReceipt) -> Result<(), SourceError> {
        let path = format!("/job/{}", receipt.0);
        let mut tries = 0;
        loop {
            let error = match self.send(Method::DELETE, &path, TIME_LIMIT).await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => unexpected(answer.status(), answer.body()),
                Err(error) => error,
            };
            tries += 1;
            if tries == ACK_TRIES {
                return Err(error);
            }
            sleep(ACK_PAUSE * 2_u32.pow(tries - 1)).await;
        }
    }
}

/// A queue without jobs, as opposed to a path or pool that does not exist.
fn is_no_job(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct NoJob {
        msg: String,
    }
    serde_json::from_slice(body).is_ok_and(|answer: NoJob| answer.msg == "no job available")
}

/// Whether an answer has this error, as opposed to an error of another server, such as a proxy.
fn has_error(body: &[u8], expected: &str) -> bool {
    #[derive(Deserialize)]
    struct ErrorBody {
        error: String,
    }
    serde_json::from_slice(body).is_ok_and(|answer: ErrorBody| answer.error == expected)
}

fn unexpected(status: StatusCode, body: &[u8]) -> SourceError {
    let body: String = String::from_utf8_lossy(body).chars().take(200).collect();
    SourceError(format!("status {status}: {body}"))
}

/// Reads one job, as for `count=1`, or a list. A job that is not valid does not stop the others.
fn read_jobs(
    body: &[u8],
    received_at: Instant,
    lease: Duration,
) -> Result<SourceJobs, SourceError> {
    let answer = serde_json::from_slice(body);
    let jobs = match answer.map_err(|error| SourceError(format!("unexpected answer: {error}")))? {
        Value::Array(jobs) => jobs,
        job => vec![job],
    };
    let jobs = jobs.into_iter();
    let jobs = jobs.map(|job| relay_job(job, received_at, lease));
    Ok(jobs.collect())
}

fn relay_job(job: Value, received_at: Instant, lease: Duration) -> Result<RelayJob, SourceError> {
    let job: LmstfyJob = serde_json::from_value(job)
        .map_err(|error| SourceError(format!("unexpected answer: a job: {error}")))?;
    if !is_id(&job.job_id) {
        let id: String = job.job_id.chars().take(ID_BYTES_MAX).collect();
        return Err(SourceError(format!(
            "job {id:?}: an id has up to {ID_BYTES_MAX} letters, digits, '-' and '_'"
        )));
    }
    let payload = STANDARD.decode(&job.data);
    let payload =
        payload.map_err(|error| SourceError(format!("job {}: data: {error}", job.job_id)))?;
    Ok(RelayJob {
        receipt: SourceReceipt(job.job_id.clone()),
        id: job.job_id,
        payload: payload.into(),
        content_type: CONTENT_TYPE.to_owned(),
        attributes: job.attributes.unwrap_or_default(),
        delivery: None,
        span: None,
        // A second for the answer.
        held_until: received_at + lease.saturating_sub(Duration::from_secs(1)),
        expires_at: (job.ttl > 0).then(|| received_at + Duration::from_secs(job.ttl)),
        // This delivery has used a try, and the sink makes it.
        deliveries_left: job.remain_tries.map(|tries| tries.saturating_add(1)),
    })
}

fn is_id(text: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

impl RelaySource for LmstfySource {
    fn can_release(&self) -> bool {
        false
    }

    fn reserve(&self, max_jobs: usize) -> BoxFuture<'_, Result<SourceJobs, SourceError>> {
        Box::pin(self.consume(max_jobs))
    }

    fn existing(&self, jobs: Vec<RelayJob>) -> BoxFuture<'_, Vec<RelayJob>> {
        let looking = stream::iter(jobs).map(|job| async {
            let is_deleted = self.is_deleted(&job).await;
            (!is_deleted).then_some(job)
        });
        let found = looking.buffered(CALLS_AT_ONCE);
        Box::pin(found.filter_map(ready).collect())
    }

    fn ack(&self, receipts: Vec<SourceReceipt>) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(async {
            let deleting = stream::iter(receipts).map(|receipt| self.delete(receipt));
            let results: Vec<_> = deleting.buffer_unordered(CALLS_AT_ONCE).collect().await;
            results.into_iter().collect()
        })
    }

    /// The wire has no call for this: the job is delivered again when its `ttr` ends, as long as it has tries.
    fn fail(&self, _: Vec<FailedDelivery>) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(async { Ok(()) })
    }

    /// As for [`RelaySource::fail`].
    fn release(
        &self,
        _: Vec<SourceReceipt>,
        _: Duration,
    ) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(async { Ok(()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_job_that_is_not_valid_does_not_stop_the_others() {
        let job = |id: &str, data: &str| serde_json::json!({"job_id": id, "data": data});
        let long = "i".repeat(ID_BYTES_MAX + 1);
        let bad = ["", "a\r\nb", "a b", "../../x", "a/b", ".", &long].map(|id| job(id, "eA=="));
        let mut jobs = vec![job("01ARZ3NDEKTSV4RRFFQ69G5FAV", "eA==")];
        jobs.extend(bad);
        jobs.extend([
            job("data", "***"),
            serde_json::json!(7),
            job("last_1-x", ""),
        ]);
        let body = serde_json::to_vec(&jobs).unwrap();
        let read = read_jobs(&body, Instant::now(), LEASE).unwrap();
        let ids: Vec<_> = read.jobs.iter().map(|job| job.id.as_str()).collect();
        assert_eq!(ids, ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "last_1-x"]);
        assert_eq!(read.unreadable.len(), 9);
        assert!(read.unreadable[1].0.starts_with("job \"a\\r\\nb\":"));

        let one = job("one", "eA==").to_string();
        let read = read_jobs(one.as_bytes(), Instant::now(), LEASE).unwrap();
        assert_eq!(&*read.jobs[0].payload, b"x");
        assert!(read_jobs(b"[{", Instant::now(), LEASE).is_err());
    }
}
