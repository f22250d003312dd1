//! Who asks for what: names, then pool, then token, then the rate limit of the token. The first that is
//! wrong decides the answer.
//!
//! The names are read from the path as it was sent, segment by segment, so that every route agrees on
//! what a broken name is.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue};
use tidegate_core::{InvalidName, Namespace, QueueKey, QueueName};
use tidegate_store::LimitHolder;
use tokio::time::{Instant, timeout_at};

use super::error::Refusal;
use super::job_id::WireJobId;
use super::query::{Plus, unescape};
use super::request::Asked;
use crate::app::App;
use crate::config::RequestLimits;
use crate::context::RequestContext;
use crate::limits::{Action, NoPermit, Permit};
use crate::pool::Pool;
use crate::token_memory::TokenName;

const TOKEN: HeaderName = HeaderName::from_static("x-token");

/// One queue, opened by a token.
#[derive(Debug)]
pub(crate) struct QueueScope {
    /// Where the queue is.
    pub(crate) pool: Arc<Pool>,
    /// The queue.
    pub(crate) queue: QueueKey,
    /// The job that the path names, where the route has one and it may be one of ours.
    pub(crate) job: Option<WireJobId>,
}

/// One queue to publish to, opened by a token that has not done so too often.
#[derive(Debug)]
pub(crate) struct PublishScope {
    /// The queue.
    pub(crate) queue: QueueScope,
    /// To be kept when the publish succeeds.
    pub(crate) permit: Permit,
}

/// One queue, open to everyone.
#[derive(Debug)]
pub(crate) struct OpenScope {
    /// Where the queue is.
    pub(crate) pool: Arc<Pool>,
    /// The queue.
    pub(crate) queue: QueueKey,
}

/// Queues to consume from, opened by a token that has not done so too often.
#[derive(Debug)]
pub(crate) struct ConsumeScope {
    /// Where the queues are.
    pub(crate) pool: Arc<Pool>,
    /// The queues, best first, each once. A name that no queue can have is left out: such a queue is
    /// empty for ever.
    pub(crate) queues: Vec<QueueKey>,
    /// Whether the list had any name in it.
    pub(crate) named: bool,
    /// The token, which consumers wait with.
    pub(crate) token: LimitHolder,
    /// To be kept when the consume succeeds.
    pub(crate) permit: Permit,
    /// When the request must have been answered, apart from its wait for a job.
    pub(crate) ends_at: Instant,
}

impl QueueScope {
    pub(super) async fn open(app: &App, asked: &Asked) -> Result<Self, Refusal> {
        let presented = Presented::in_request(asked);
        let scope = Self::named(&presented, app, asked)?;
        let namespace = &scope.queue.namespace;
        presented.check(app, &scope.pool, Some(namespace)).await?;
        // Its limit is needed if it publishes or consumes while Redis is unavailable.
        let stored = app.tokens.stored(presented.split().1);
        app.limits
            .learn(TokenName::new(&scope.pool.name, namespace, &stored));
        Ok(scope)
    }

    /// The queue that the path names, before its token is checked.
    fn named(presented: &Presented<'_>, app: &App, asked: &Asked) -> Result<Self, Refusal> {
        let queue = queue_key(asked.path(), &app.requests)?;
        let pool = presented.pool(app)?;
        let job = segment(asked.path(), JOB_ID).parse().ok();
        Ok(Self { pool, queue, job })
    }
}

impl PublishScope {
    pub(super) async fn open(app: &App, asked: &Asked) -> Result<Self, Refusal> {
        let presented = Presented::in_request(asked);
        let queue = QueueScope::named(&presented, app, asked)?;
        let namespace = Some(&queue.queue.namespace);
        let permit = presented.permit(app, &queue.pool, namespace, Action::Produce);
        let (_, permit) = permit.await?;
        Ok(Self { queue, permit })
    }
}

impl OpenScope {
    pub(super) fn open(app: &App, asked: &Asked) -> Result<Self, Refusal> {
        let queue = queue_key(asked.path(), &app.requests)?;
        let pool = Presented::in_request(asked).pool(app)?;
        Ok(Self { pool, queue })
    }
}

impl ConsumeScope {
    pub(super) async fn open(app: &App, asked: &Asked) -> Result<Self, Refusal> {
        let ends_at = Instant::now() + app.requests.timeout;
        let opening = Self::until(ends_at, app, asked);
        let opened = timeout_at(ends_at, opening).await;
        opened.unwrap_or(Err(Refusal::Internal))
    }

    async fn until(ends_at: Instant, app: &App, asked: &Asked) -> Result<Self, Refusal> {
        let path = asked.path();
        let namespace = match Namespace::try_from(&*segment(path, NAMESPACE)) {
            Ok(namespace) => Some(namespace),
            // Consuming asks nothing of the length of names: no token opens this one.
            Err(InvalidName::TooLong) => None,
            Err(InvalidName::ForbiddenCharacters) => return Err(Refusal::NamespaceForbidden),
        };
        let list = segment(path, QUEUE);
        check_list(&list)?;
        let presented = Presented::in_request(asked);
        let pool = presented.pool(app)?;
        let permit = presented.permit(app, &pool, namespace.as_ref(), Action::Consume);
        let (namespace, permit) = permit.await?;
        Ok(Self {
            permit,
            token: app
                .tokens
                .holder(&pool.name, namespace, presented.split().1),
            pool,
            queues: queues_of(namespace, &list),
            named: list.bytes().any(|byte| byte != b','),
            ends_at,
        })
    }
}

// Positions in a path: "" / api / NAMESPACE / QUEUE / job / JOB_ID.
pub(super) const NAMESPACE: usize = 2;
pub(super) const QUEUE: usize = 3;
pub(super) const JOB_ID: usize = 5;

/// A part of the path, decoded; empty if it is not there. What is no UTF-8 is replaced by what no name
/// may have in it.
pub(super) fn segment(path: &str, position: usize) -> Cow<'_, str> {
    let raw = path.split('/').nth(position).unwrap_or_default();
    if !raw.contains('%') {
        return Cow::Borrowed(raw);
    }
    let plain = unescape(raw, Plus::IsPlus).unwrap_or_default();
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

pub(super) fn queue_key(path: &str, limits: &RequestLimits) -> Result<QueueKey, Refusal> {
    let (namespace, queue) = (segment(path, NAMESPACE), segment(path, QUEUE));
    if namespace.len().max(queue.len()) > limits.name_bytes_max {
        return Err(Refusal::NameTooLong);
    }
    let namespace = Namespace::try_from(&*namespace).map_err(|_| Refusal::NamespaceForbidden)?;
    if queue.starts_with('_') {
        return Err(Refusal::QueueForbidden);
    }
    let queue = QueueName::try_from(&*queue).map_err(|_| Refusal::QueueForbidden)?;
    Ok(QueueKey { namespace, queue })
}

pub(super) fn check_list(list: &str) -> Result<(), Refusal> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_,".contains(&byte);
    if list.is_empty() || !list.bytes().all(allowed) {
        return Err(Refusal::QueueForbidden);
    }
    Ok(())
}

pub(super) fn queues_of(namespace: &Namespace, list: &str) -> Vec<QueueKey> {
    let key = |queue: QueueName| QueueKey {
        namespace: namespace.clone(),
        queue,
    };
    let mut seen = HashSet::new();
    list.split(',')
        .filter_map(|name| QueueName::try_from(name).ok())
        // Nearly every list is of one queue.
        .filter(|queue| list.len() == queue.as_str().len() || seen.insert(queue.clone()))
        .map(key)
        .collect()
}

/// The token that came with a request, and the pool that it names. What it turns out to open is noted
/// in the context of the request.
struct Presented<'a> {
    token: Cow<'a, str>,
    context: &'a RequestContext,
}

impl<'a> Presented<'a> {
    /// The header counts; the query only where there is no header, or an empty one.
    fn in_request(asked: &'a Asked) -> Self {
        let header = asked.head.headers.get(TOKEN).map(HeaderValue::as_bytes);
        let token = match header {
            Some(value) if !value.is_empty() => String::from_utf8_lossy(value),
            _ => {
                let in_query = asked.query().get("token").map(Cow::into_owned);
                in_query.unwrap_or_default().into()
            }
        };
        Self {
            token,
            context: &asked.context,
        }
    }

    /// Pool and bare token of `[pool:]token`.
    fn split(&self) -> (&str, &str) {
        match self.token.split_once(':') {
            Some((pool, token)) => (pool, token),
            None => ("", &self.token),
        }
    }

    fn pool(&self, app: &App) -> Result<Arc<Pool>, Refusal> {
        let pool = app.pool(self.split().0).ok_or(Refusal::PoolNotFound)?;
        self.context.is_for(pool);
        Ok(Arc::clone(pool))
    }

    /// The namespace, if the token opens it. A namespace that cannot be is opened by none. Where tokens
    /// are not checked, any or none will do.
    async fn check<'n>(
        &self,
        app: &App,
        pool: &Pool,
        namespace: Option<&'n Namespace>,
    ) -> Result<&'n Namespace, Refusal> {
        if app.skip_token_checks {
            return namespace.ok_or(Refusal::NameTooLong);
        }
        let token = self.split().1;
        if token.is_empty() {
            return Err(Refusal::TokenMissing);
        }
        let namespace = namespace.ok_or(Refusal::TokenInvalid)?;
        let opens = app.tokens.opens(&pool.name, namespace, token).await;
        if opens.map_err(|error| Refusal::unchecked(&error))? {
            self.context.opened(namespace);
            Ok(namespace)
        } else {
            Err(Refusal::TokenInvalid)
        }
    }

    /// The namespace as [`Self::check`] answers it, and the right to this request. The limit is that of the pool the token
    /// leads to, however the token was written. Where tokens are not checked, requests without one are not limited.
    async fn permit<'n>(
        &self,
        app: &App,
        pool: &Pool,
        namespace: Option<&'n Namespace>,
        action: Action,
    ) -> Result<(&'n Namespace, Permit), Refusal> {
        let token = self.split().1;
        let stored = app.tokens.stored(token);
        if let Some(namespace) = namespace {
            // At the same time as the token.
            app.limits
                .refresh(TokenName::new(&pool.name, namespace, &stored));
        }
        let namespace = self.check(app, pool, namespace).await?;
        let holder = TokenName::new(&pool.name, namespace, &stored);
        let permit = app.limits.permit(holder, action);
        let permit = permit.await.map_err(|reason| match reason {
            NoPermit::Failed => Refusal::Internal,
            NoPermit::Unknown => Refusal::Unchecked,
            NoPermit::OverLimit => {
                pool.figures.limited(namespace, action);
                Refusal::OverLimit {
                    action,
                    token: token.into(),
                }
            }
        })?;
        Ok((namespace, permit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(path: &str, outcome: Result<&str, Refusal>) {
        let key = queue_key(path, &RequestLimits::SHIPPED).map(|key| key.to_string());
        assert_eq!(key, outcome.map(ToOwned::to_owned), "{path}");
    }

    #[test]
    fn names_are_checked_length_first_then_namespace_then_queue() {
        let long = "x".repeat(256);
        expect("/api/ns/q", Ok("ns/q"));
        expect("/api/_ns/-q/job/1", Ok("_ns/-q"));
        expect("/api/n%73/%71", Ok("ns/q"));
        expect(&format!("/api/n.s/{long}"), Err(Refusal::NameTooLong));
        expect(&format!("/api/{long}/q"), Err(Refusal::NameTooLong));
        expect("/api/n.s/_q", Err(Refusal::NamespaceForbidden));
        expect("/api//q", Err(Refusal::NamespaceForbidden));
        expect("/api/ns/_q", Err(Refusal::QueueForbidden));
        expect("/api/ns/a,b", Err(Refusal::QueueForbidden));
        expect("/api/ns/%C3%BC", Err(Refusal::QueueForbidden));
        expect("/api/ns/%FF", Err(Refusal::QueueForbidden));
        expect("/api/ns/a+b", Err(Refusal::QueueForbidden));
    }

    #[test]
    fn a_list_keeps_its_order_and_names_each_queue_once() {
        let namespace = Namespace::try_from("ns").unwrap();
        let long = "x".repeat(256);
        let queues = queues_of(&namespace, &format!(",b,a,,{long},b,_c"));
        let names: Vec<&str> = queues.iter().map(|key| key.queue.as_str()).collect();
        assert_eq!(names, ["b", "a", "_c"]);
        assert_eq!(check_list("a,b-_,"), Ok(()));
        assert_eq!(check_list(","), Ok(()));
        assert_eq!(check_list(""), Err(Refusal::QueueForbidden));
        assert_eq!(check_list("a b"), Err(Refusal::QueueForbidden));
    }

    #[test]
    fn a_token_is_split_at_its_first_colon() {
        let split = |text: &str| {
            let presented = Presented {
                token: text.into(),
                context: &RequestContext::default(),
            };
            let (pool, token) = presented.split();
            (pool.to_owned(), token.to_owned())
        };
        assert_eq!(split("tok"), (String::new(), "tok".to_owned()));
        assert_eq!(split("p:t:u"), ("p".to_owned(), "t:u".to_owned()));
        assert_eq!(split(":tok"), (String::new(), "tok".to_owned()));
    }
}
