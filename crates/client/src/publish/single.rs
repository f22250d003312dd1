//! Publishing one job.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tidegate_core::v1::problem::InvalidRequest;
use tidegate_core::v1::publish::JobOptions;
use tidegate_core::v1::values::JobAttributes;

use super::batch_job::{BatchJob, JobToSend};
use crate::client::Client;
use crate::error::{Error, RepeatSafety};
use crate::job_handle::PublishedHandle;
use crate::task::Task;
use crate::transport::HttpCall;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A publish that is sent when it is awaited.
///
/// After a broken connection or an answer that does not say whether the job was stored, the client repeats a publish
/// with a key, or with `.idempotent()`. Any publish is repeated if it was surely not stored. How often:
/// [`RepeatLimits`](crate::RepeatLimits). The answer to a repetition of a publish with a key may be `Exists` or
/// `Replaced` for a job that the first request created.
#[must_use = "nothing is published until this is awaited"]
#[derive(Debug)]
pub struct Publish<T> {
    pub(crate) client: Client,
    job: BatchJob,
    task: PhantomData<fn() -> T>,
}

impl Client {
    /// Publishes a task to its queue. Nothing happens until this is awaited.
    pub fn publish<T: Task>(&self, task: T) -> Publish<T> {
        Publish::new(self.clone(), BatchJob::of(&task))
    }

    /// Publishes bytes to a queue. Nothing happens until this is awaited.
    ///
    /// The content type is like `text/plain; charset=utf-8`. If it is JSON, the payload must be valid JSON.
    pub fn publish_raw(
        &self,
        queue: &str,
        payload: impl Into<Vec<u8>>,
        content_type: &str,
    ) -> Publish<()> {
        self.publish_job(BatchJob::raw(queue, payload, content_type))
    }

    /// Publishes a job that may have options already. Nothing happens until this is awaited.
    pub fn publish_job(&self, job: impl Into<BatchJob>) -> Publish<()> {
        Publish::new(self.clone(), job.into())
    }
}

impl<T> Publish<T> {
    pub(crate) const fn new(client: Client, job: BatchJob) -> Self {
        Self {
            client,
            job,
            task: PhantomData,
        }
    }

    pub(crate) fn with_job(mut self, change: impl FnOnce(BatchJob) -> BatchJob) -> Self {
        self.job = change(self.job);
        self
    }

    /// The request, which waits so long for the job to be done.
    pub(crate) fn into_call(
        self,
        wait: Option<Duration>,
    ) -> Result<(Client, PublishHttpCall), Error> {
        let mut job = self.job.into_job()?;
        let trace_parent = self.client.trace_parent.as_ref().and_then(|hook| hook());
        job.complete(trace_parent.clone())?;
        let mut call = PublishHttpCall {
            safety: job.repeat_safety(),
            http: http_call(job, wait)?,
        };
        call.http.set_trace_parent(trace_parent.as_deref());
        Ok((self.client, call))
    }

    async fn send(self) -> Result<PublishedHandle, Error> {
        let (client, call) = self.into_call(None)?;
        let reply = client
            .transport
            .send_repeated(&call.http, call.safety)
            .await?;
        Ok(PublishedHandle::new(client, reply.json()?))
    }
}

impl<T> IntoFuture for Publish<T> {
    type Output = Result<PublishedHandle, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let untyped = Publish::<()>::new(self.client, self.job);
        Box::pin(untyped.send())
    }
}

/// The request of a publish.
#[derive(Debug)]
pub(crate) struct PublishHttpCall {
    pub(crate) http: HttpCall,
    pub(crate) safety: RepeatSafety,
}

fn http_call(job: JobToSend, wait: Option<Duration>) -> Result<HttpCall, Error> {
    let call = if wait.is_some() { "/call" } else { "" };
    let mut path = format!("/queues/{}/jobs{call}", job.queue);
    let mut options = job.options;
    let idempotency_key = options.idempotency_key.take();
    append_query(&mut path, &options, wait)?;
    let mut call = HttpCall::new(Method::POST, path);
    let invalid =
        |what: &str| InvalidRequest::of_field(what, "has characters that no HTTP header may have");
    let content_type = HeaderValue::from_str(job.payload.content_type.as_str());
    let content_type = content_type.map_err(|_| invalid("content_type"))?;
    call.headers.insert(CONTENT_TYPE, content_type);
    if let Some(key) = idempotency_key {
        let key = HeaderValue::from_str(key.as_str()).map_err(|_| invalid("idempotency_key"))?;
        call.headers.insert(IDEMPOTENCY_KEY, key);
    }
    for (name, value) in &job.attributes.0 {
        let name = HeaderName::try_from(format!("{}{name}", JobAttributes::HEADER_PREFIX));
        let name = name.map_err(|_| invalid("attributes"))?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid("attributes"))?;
        call.headers.insert(name, value);
    }
    call.body = job.payload.bytes.into();
    Ok(call.waiting(wait.unwrap_or_default()))
}

fn append_query(
    path: &mut String,
    options: &JobOptions,
    wait: Option<Duration>,
) -> Result<(), Error> {
    let options = serde_json::to_value(options).map_err(Error::Encode)?;
    let Value::Object(mut options) = options else {
        return Ok(());
    };
    if let Some(wait) = wait {
        let wait = format!("{}ms", wait.as_millis());
        options.insert("wait".to_owned(), wait.into());
    }
    for (name, value) in options {
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str(&name);
        path.push('=');
        let value = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        path.extend(utf8_percent_encode(&value, NON_ALPHANUMERIC));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tidegate_core::v1::retry::RetryChange;
    use tidegate_core::v1::values::DurationMs;
    use tidegate_core::{Durability, IfExists};

    use super::*;

    fn client() -> Client {
        let builder = Client::builder("http://localhost").key("k").namespace("n");
        builder
            .trace_parent(|| Some("00-1-2-01".to_owned()))
            .build()
            .unwrap()
    }

    #[test]
    fn options_are_in_the_query_and_attributes_in_headers() {
        let retry = RetryChange {
            every: "5s".parse::<DurationMs>().unwrap().into(),
            ..RetryChange::default()
        };
        let publish = client()
            .publish_raw("q", "x", "text/plain")
            .delay(Duration::from_micros(1_500))
            .key("a/b &c")
            .if_exists(IfExists::Reject)
            .retry(retry)
            .durability(Durability::MEMORY)
            .attribute("tenant", "blue");
        let (_, call) = publish.into_call(None).unwrap();
        assert_eq!(call.safety, RepeatSafety::Repeatable);
        // Their order depends on a feature of serde_json that other packages may switch on.
        let (path, query) = call.http.path.split_once('?').unwrap();
        let mut options: Vec<&str> = query.split('&').collect();
        options.sort_unstable();
        assert_eq!(path, "/queues/q/jobs");
        assert_eq!(
            options,
            [
                "delay=2ms",
                "durability=memory",
                "if_exists=reject",
                "key=a%2Fb%20%26c",
                "retry=%7B%22every%22%3A%225s%22%7D"
            ]
        );
        assert_eq!(call.http.headers["job-attr-tenant"], "blue");
        assert_eq!(call.http.headers["job-attr-traceparent"], "00-1-2-01");
        assert_eq!(call.http.headers["traceparent"], "00-1-2-01");
        assert_eq!(call.http.headers["content-type"], "text/plain");
        // A repetition that finds the job of the first request must not be rejected.
        assert_eq!(call.http.headers[IDEMPOTENCY_KEY].len(), 26);
    }

    #[test]
    fn only_what_has_a_key_is_safe_to_repeat() {
        let safety = |publish: Publish<()>| publish.into_call(None).unwrap().1.safety;
        let publish = || client().publish_raw("q", "x", "text/plain");
        assert_eq!(safety(publish()), RepeatSafety::OnlyIfNotApplied);
        assert_eq!(safety(publish().key("a")), RepeatSafety::Repeatable);
        assert_eq!(safety(publish().idempotent()), RepeatSafety::Repeatable);
    }

    #[test]
    fn what_is_invalid_is_not_sent() {
        let error = |publish: Publish<()>| publish.into_call(None).unwrap_err().to_string();
        let publish = |queue: &str| client().publish_raw(queue, "x", "text/plain");
        assert!(error(publish("a b")).contains("name of a queue"));
        assert!(error(publish("q").key("")).contains("key of a job"));
        assert!(error(publish("q").delay(Duration::MAX).key("k")).contains("delay"));
        assert!(error(publish("q").attribute("A", "b")).contains("lower-case"));
        assert!(error(publish("q").attribute("a", " b")).contains("spaces"));
        assert!(error(publish("q").max_attempts(0)).contains("attempts"));
        assert!(error(client().publish_raw("q", "x", "text")).contains("content type"));
    }
}
