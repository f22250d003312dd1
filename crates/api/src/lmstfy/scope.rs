//! The checks before a handler: names, then pool, then token, then the rate limit of the token. The first failure
//! decides the answer.
//!
//! Names are decoded from the raw path, segment by segment, so that all routes reject the same names.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use axum::http::request::Parts;
use tidegate_core::{
    IfRunning, InvalidName, JobId, KeyHash, Namespace, NewJob, QueueKey, QueueName,
};
use tidegate_store::LimitHolder;
use tokio::time::{Instant, timeout_at};

use super::error::ApiError;
use super::job_id::WireJobId;
use super::request_token::RequestToken;
use crate::app::App;
use crate::config::RequestLimits;
use crate::http::query::{Plus, pieces, unescape};
use crate::http::request::ApiRequest;
use crate::spans::PublishSpan;
use tidegate_engine::{
    EngineError, JobsToPublish, LimitedAction, Permit, Pool, Published, TokenKey,
};

#[derive(Debug)]
pub(crate) struct QueueScope {
    /// The pool of the queue.
    pub(crate) pool: Arc<Pool>,
    pub(crate) queue: QueueKey,
    /// The job id in the path; `None` if the route has none, or the text is not a valid id.
    pub(crate) job: Option<JobId>,
    /// The same text as a key: a job that was drained from another server has its id there as its key. `None` if the
    /// route has none.
    pub(crate) key: Option<KeyHash>,
}

/// One queue to publish to, with a permit of the rate limit.
#[derive(Debug)]
pub(crate) struct PublishScope {
    pub(crate) queue: QueueScope,
    /// Call [`Permit::keep`] when the publish has succeeded.
    pub(crate) permit: Permit,
}

/// Queues to consume from, with a permit of the rate limit.
#[derive(Debug)]
pub(crate) struct ConsumeScope {
    /// The pool of the queues.
    pub(crate) pool: Arc<Pool>,
    /// The queues in order of priority, each once. Names that no queue can have are left out, as such a queue is always
    /// empty.
    pub(crate) queues: Vec<QueueKey>,
    /// Whether the list has a name, valid or not.
    pub(crate) has_name: bool,
    namespace: Namespace,
    /// Call [`Permit::keep`] when the consume has succeeded.
    pub(crate) permit: Permit,
    /// The deadline of the request, without the time of its wait for a job.
    pub(crate) ends_at: Instant,
}

impl QueueScope {
    /// The queue in the path, to which the token gives access.
    pub(super) async fn open(app: &App, api_request: &ApiRequest) -> Result<Self, ApiError> {
        let presented = RequestToken::in_request(api_request);
        let scope = Self::from_path(&presented, app, api_request)?;
        let namespace = &scope.queue.namespace;
        presented.check(app, &scope.pool, Some(namespace)).await?;
        // The token may publish or consume later, while Redis is unavailable: then its limit must be known.
        let stored = app.engine.tokens.stored_form(presented.split().1);
        app.engine
            .limits
            .prefetch(TokenKey::new(&scope.pool.name, namespace, &stored));
        Ok(scope)
    }

    /// The queue in the path, for any token or none.
    pub(super) fn open_to_all(app: &App, api_request: &ApiRequest) -> Result<Self, ApiError> {
        Self::from_path(&RequestToken::in_request(api_request), app, api_request)
    }

    /// The queue in the path. The token is not checked.
    fn from_path(
        presented: &RequestToken<'_>,
        app: &App,
        api_request: &ApiRequest,
    ) -> Result<Self, ApiError> {
        let queue = queue_key(api_request.path(), &app.request_limits)?;
        let pool = presented.pool(app)?;
        let id = segment(api_request.path(), JOB_ID);
        let key = (!id.is_empty()).then(|| KeyHash::of_job(&queue, &id));
        let job = id.parse().ok().map(|job: WireJobId| job.id);
        Ok(Self {
            pool,
            queue,
            job,
            key,
        })
    }

    /// Deletes the job whose key is the id in the path, here and on the server from which queues drain. That server
    /// comes first: a job that is passed on meanwhile is found here afterwards.
    ///
    /// # Errors
    /// Redis or the other server gave no answer. The job may have been deleted.
    pub(super) async fn delete_by_key(&self, app: &App, head: &Parts) -> Result<(), ApiError> {
        let Some(key) = self.key else {
            return Ok(());
        };
        if let Some(drained) = &app.drained_server
            && !Box::pin(drained.delete(head)).await
        {
            return Err(ApiError::DrainedServerFailed);
        }
        let cancelling = self.pool.cancel(&self.queue, key.into(), IfRunning::Revoke);
        let _ = Box::pin(cancelling).await?;
        Ok(())
    }
}

impl PublishScope {
    pub(super) async fn open(app: &App, api_request: &ApiRequest) -> Result<Self, ApiError> {
        let presented = RequestToken::in_request(api_request);
        let queue = QueueScope::from_path(&presented, app, api_request)?;
        let namespace = Some(&queue.queue.namespace);
        let permit = presented.permit(app, &queue.pool, namespace, LimitedAction::Produce);
        let (_, permit) = permit.await?;
        Ok(Self { queue, permit })
    }

    /// Stores jobs and waits for the durability of the namespace. The job `replaces` is deleted, if there is one.
    pub(super) async fn publish(
        &self,
        app: &App,
        jobs: Vec<NewJob>,
        replaces: Option<JobId>,
    ) -> Result<Published, EngineError> {
        let QueueScope { pool, queue, .. } = &self.queue;
        let target = app.durability_target(pool, &queue.namespace);
        let publish = JobsToPublish {
            replaces,
            ..JobsToPublish::all(jobs, target)
        };
        pool.publish(queue, publish).await
    }

    /// Ends the span of a publish of `count` jobs.
    pub(super) fn end_span(
        &self,
        span: PublishSpan,
        count: usize,
        published: &Result<Published, EngineError>,
    ) {
        let id = published
            .as_ref()
            .map(|published| match &published.jobs[..] {
                [Ok(job)] => Some(job.id),
                _ => None,
            });
        span.end(&self.queue.queue, count, id.map_err(EngineError::to_string));
    }
}

impl ConsumeScope {
    pub(super) async fn open(app: &App, api_request: &ApiRequest) -> Result<Self, ApiError> {
        let ends_at = Instant::now() + app.request_limits.timeout;
        let opening = Self::open_before(ends_at, app, api_request);
        let opened = timeout_at(ends_at, opening).await;
        opened.unwrap_or(Err(ApiError::Internal))
    }

    async fn open_before(
        ends_at: Instant,
        app: &App,
        api_request: &ApiRequest,
    ) -> Result<Self, ApiError> {
        let (namespace, list) = namespace_and_queue(api_request.path());
        let namespace = match Namespace::try_from(&*namespace) {
            Ok(namespace) => Some(namespace),
            // A consume has no error for long names. No token gives access to this one.
            Err(InvalidName::TooLong) => None,
            Err(InvalidName::ForbiddenCharacters) => return Err(ApiError::NamespaceForbidden),
        };
        check_queue_list(&list)?;
        let presented = RequestToken::in_request(api_request);
        let pool = presented.pool(app)?;
        let permit = presented.permit(app, &pool, namespace.as_ref(), LimitedAction::Consume);
        let (namespace, permit) = permit.await?;
        Ok(Self {
            permit,
            pool,
            queues: parse_queues(namespace, &list),
            namespace: namespace.clone(),
            has_name: list.bytes().any(|byte| byte != b','),
            ends_at,
        })
    }

    /// The token of the request, for the limit on waiting consumers and for revocation.
    pub(super) fn token(&self, app: &App, api_request: &ApiRequest) -> LimitHolder {
        let presented = RequestToken::in_request(api_request);
        let tokens = &app.engine.tokens;
        tokens.holder(&self.pool.name, &self.namespace, presented.split().1)
    }
}

// Positions in a path: "" / api / NAMESPACE / QUEUE / job / JOB_ID.
pub(super) const NAMESPACE: usize = 2;
pub(super) const QUEUE: usize = 3;
pub(super) const JOB_ID: usize = 5;

/// A segment of the path, decoded; empty if there is none. Invalid UTF-8 is replaced by a character that names cannot
/// have.
pub(super) fn segment(path: &str, position: usize) -> Cow<'_, str> {
    decoded(pieces(path, b'/').nth(position))
}

/// The segments of the namespace and of the queue, decoded.
fn namespace_and_queue(path: &str) -> (Cow<'_, str>, Cow<'_, str>) {
    const { assert!(QUEUE == NAMESPACE + 1) };
    let mut segments = pieces(path, b'/').skip(NAMESPACE);
    (decoded(segments.next()), decoded(segments.next()))
}

fn decoded(segment: Option<&str>) -> Cow<'_, str> {
    let raw = segment.unwrap_or_default();
    if !raw.as_bytes().contains(&b'%') {
        return Cow::Borrowed(raw);
    }
    let plain = unescape(raw, Plus::IsPlus).unwrap_or_default();
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

pub(super) fn queue_key(path: &str, limits: &RequestLimits) -> Result<QueueKey, ApiError> {
    let (namespace, queue) = namespace_and_queue(path);
    if namespace.len().max(queue.len()) > limits.name_bytes_max {
        return Err(ApiError::NameTooLong);
    }
    let namespace = Namespace::try_from(&*namespace).map_err(|_| ApiError::NamespaceForbidden)?;
    if queue.starts_with('_') {
        return Err(ApiError::QueueForbidden);
    }
    let queue = QueueName::try_from(&*queue).map_err(|_| ApiError::QueueForbidden)?;
    Ok(QueueKey { namespace, queue })
}

pub(super) fn check_queue_list(list: &str) -> Result<(), ApiError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_,".contains(&byte);
    if list.is_empty() || !list.bytes().all(allowed) {
        return Err(ApiError::QueueForbidden);
    }
    Ok(())
}

pub(super) fn parse_queues(namespace: &Namespace, list: &str) -> Vec<QueueKey> {
    let key = |queue: QueueName| QueueKey {
        namespace: namespace.clone(),
        queue,
    };
    let mut seen = HashSet::new();
    list.split(',')
        .filter_map(|name| QueueName::try_from(name).ok())
        // Most lists have one queue and need no check for duplicates.
        .filter(|queue| list.len() == queue.as_str().len() || seen.insert(queue.clone()))
        .map(key)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SHIPPED;

    #[track_caller]
    fn expect(path: &str, outcome: Result<&str, ApiError>) {
        let key = queue_key(path, &SHIPPED.requests).map(|key| key.to_string());
        assert_eq!(key, outcome.map(ToOwned::to_owned), "{path}");
    }

    #[test]
    fn names_are_checked_length_first_then_namespace_then_queue() {
        let long = "x".repeat(256);
        expect("/api/ns/q", Ok("ns/q"));
        expect("/api/_ns/-q/job/1", Ok("_ns/-q"));
        expect("/api/n%73/%71", Ok("ns/q"));
        expect(&format!("/api/n.s/{long}"), Err(ApiError::NameTooLong));
        expect(&format!("/api/{long}/q"), Err(ApiError::NameTooLong));
        expect("/api/n.s/_q", Err(ApiError::NamespaceForbidden));
        expect("/api//q", Err(ApiError::NamespaceForbidden));
        expect("/api/ns/_q", Err(ApiError::QueueForbidden));
        expect("/api/ns/a,b", Err(ApiError::QueueForbidden));
        expect("/api/ns/%C3%BC", Err(ApiError::QueueForbidden));
        expect("/api/ns/%FF", Err(ApiError::QueueForbidden));
        expect("/api/ns/a+b", Err(ApiError::QueueForbidden));
    }

    #[test]
    fn a_list_keeps_its_order_and_names_each_queue_once() {
        let namespace = Namespace::try_from("ns").unwrap();
        let long = "x".repeat(256);
        let queues = parse_queues(&namespace, &format!(",b,a,,{long},b,_c"));
        let names: Vec<&str> = queues.iter().map(|key| key.queue.as_str()).collect();
        assert_eq!(names, ["b", "a", "_c"]);
        assert_eq!(check_queue_list("a,b-_,"), Ok(()));
        assert_eq!(check_queue_list(","), Ok(()));
        assert_eq!(check_queue_list(""), Err(ApiError::QueueForbidden));
        assert_eq!(check_queue_list("a b"), Err(ApiError::QueueForbidden));
    }
}
