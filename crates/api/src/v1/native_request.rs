//! A request with the common parts of all handlers: names, credential, query, body.

use std::str::FromStr;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, header};
use serde::de::IgnoredAny;
use tidegate_core::limits::ConfigurableLimits;
use tidegate_core::v1::input::{CheckedRequest, QueryPair, read_body, read_query};
use tidegate_core::v1::problem::{InvalidRequest, InvalidValue, ProblemCode};
use tidegate_core::v1::queue::ListQuery;
use tidegate_core::v1::values::{JobKey, JobPath, LimitNameText, RelayNameText, ScheduleNameText};
use tidegate_core::{KeyHash, Namespace, NamespaceGrant, QueueKey, Scope};
use tidegate_daemon::ByteBudget;
use tidegate_engine::{EngineError, LimitedAction, Permit, Pool, Principal};
use tidegate_store::{JobReference, NamespacedName};

use super::error::NativeError;
use super::request_head::{check_encodings, credential, decoded, is_job_header, query_pairs};
use crate::app::App;
use crate::http::body::{BodyReader, LentBody, ReceivedBody};
use crate::http::context::{Port, RequestContext};
use crate::http::off_runtime::off_runtime;
use crate::http::request::ApiRequest;

/// Maximum length of a body without payloads: 1,000 leases with an error text of 1 KiB each have half of that.
const JSON_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The parts of a path that are not fixed, not decoded.
#[derive(Debug, Default)]
pub(super) struct PathParts {
    pub(super) namespace: String,
    pub(super) queue: Option<String>,
    pub(super) job: Option<String>,
    pub(super) key: Option<String>,
    pub(super) limit: Option<String>,
    pub(super) relay: Option<String>,
    pub(super) schedule: Option<String>,
}

/// The parameter by which an operator names a pool.
const POOL: &str = "pool";

/// A request of an authenticated client, or of an operator at the admin port.
pub(super) struct NativeRequest {
    pub(super) app: Arc<App>,
    /// The namespace in the path, or all of them as `*`, which only lists of keys, lanes and policies take.
    pub(super) namespaces: NamespaceGrant,
    pub(super) principal: Principal,
    pub(super) headers: HeaderMap,
    pub(super) context: Arc<RequestContext>,
    query: Vec<QueryPair<'static>>,
    body: LentBody,
    parts: PathParts,
}

/// The parts of a request that a waiting consumer keeps.
pub(super) struct WaitingClient {
    pub(super) principal: Principal,
    pub(super) context: Arc<RequestContext>,
}

impl NativeRequest {
    /// Keeps what a wait of minutes needs, and drops the rest.
    pub(super) fn into_waiting_client(self) -> WaitingClient {
        WaitingClient {
            principal: self.principal,
            context: self.context,
        }
    }

    /// Reads the names in the path and authenticates the client. Fails if a header has an option or an attribute of a
    /// job: this route would ignore it.
    pub(super) async fn open(
        app: Arc<App>,
        api_request: ApiRequest,
        parts: PathParts,
    ) -> Result<Self, NativeError> {
        let request = Self::open_with_options(app, api_request, parts).await?;
        let headers = request.headers.keys().map(HeaderName::as_str);
        let mut options = headers.filter(|name| is_job_header(name));
        match options.next() {
            None => Ok(request),
            Some(name) => Err(InvalidRequest::of_field(
                name,
                "only a publish of one job has options and attributes in headers; send a field of the body instead",
            )
            .into()),
        }
    }

    /// The same for the route that has options of a job in headers.
    pub(super) async fn open_with_options(
        app: Arc<App>,
        api_request: ApiRequest,
        parts: PathParts,
    ) -> Result<Self, NativeError> {
        let ApiRequest {
            head,
            body,
            context,
        } = api_request;
        let namespaces = NamespaceGrant::try_from(decoded(&parts.namespace)?)?;
        let principal = match context.port {
            Port::Public => {
                let credential = credential(&head.headers)?;
                Some(app.engine.authenticate(&credential, &namespaces).await?)
            }
            Port::Admin => None,
        };
        let mut query = query_pairs(head.uri.query().unwrap_or_default())?;
        let principal = match principal {
            Some(principal) => principal,
            None => operator(&app, &mut query)?,
        };
        check_encodings(&head.headers)?;
        let _ = context.pool.set(Arc::clone(&principal.pool));
        if let NamespaceGrant::One(namespace) = &namespaces
            && principal.grant.namespaces.contains(namespace)
        {
            let _ = context.namespace.set(namespace.clone());
        }
        Ok(Self {
            app,
            namespaces,
            principal,
            query,
            headers: head.headers,
            context,
            body,
            parts,
        })
    }

    /// Checks that the client has this scope.
    pub(super) fn need(&self, scope: Scope) -> Result<(), NativeError> {
        Ok(self.principal.grant.check(&self.namespaces, scope)?)
    }

    /// The namespace in the path.
    pub(super) fn namespace(&self) -> Result<&Namespace, NativeError> {
        match &self.namespaces {
            NamespaceGrant::One(namespace) => Ok(namespace),
            NamespaceGrant::All => {
                let detail = "`*` stands for all namespaces in lists of keys, lanes and policies only; name one";
                Err(NativeError::new(ProblemCode::InvalidName, detail).at("namespace"))
            }
        }
    }

    /// Whether the client is an operator at the admin port.
    pub(super) fn is_of_operator(&self) -> bool {
        self.context.port == Port::Admin
    }

    /// The memory for answers that clients of this port have not read yet.
    pub(super) fn unread(&self) -> &ByteBudget {
        self.app.exchange.unread_at(self.context.port)
    }

    /// Takes a unit of the rate limit of the client: call [`Permit::keep`] when the request has succeeded.
    pub(super) async fn permit(&self, action: LimitedAction) -> Result<Permit, NativeError> {
        let permit = self.app.engine.permit(&self.principal.credential, action);
        let permit = permit.await;
        if matches!(permit, Err(EngineError::RateLimited)) {
            let metrics = &self.app.exchange.metrics;
            metrics.limited(&self.pool().name, self.namespace()?, action);
        }
        Ok(permit?)
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.principal.pool
    }

    /// The queue in the path.
    pub(super) fn queue(&self) -> Result<QueueKey, NativeError> {
        let name = decoded(self.parts.queue.as_deref().unwrap_or_default())?;
        self.queue_named(&name)
    }

    /// A queue of the namespace.
    pub(super) fn queue_named(&self, name: &str) -> Result<QueueKey, NativeError> {
        Ok(QueueKey {
            namespace: self.namespace()?.clone(),
            queue: name.parse()?,
        })
    }

    /// The job in the path; `key` is the parameter of the query.
    pub(super) fn job(
        &self,
        queue: &QueueKey,
        key: Option<&str>,
    ) -> Result<JobReference, NativeError> {
        Ok(match self.job_path(key)? {
            JobPath::Key(key) => KeyHash::of_job(queue, key.as_str()).into(),
            JobPath::Id(id) => id.into(),
        })
    }

    /// The key of the job in the path, if the path names the job by its key; `key` is the parameter of the query.
    pub(super) fn job_key(&self, key: Option<&str>) -> Option<JobKey> {
        match self.job_path(key) {
            Ok(JobPath::Key(key)) => Some(key),
            _ => None,
        }
    }

    fn job_path(&self, key: Option<&str>) -> Result<JobPath, NativeError> {
        let segment = decoded(self.parts.job.as_deref().unwrap_or_default())?;
        let job = JobPath::parse(&segment, key);
        job.map_err(|invalid| NativeError::from(invalid).at("job"))
    }

    /// The id of the API key in the path.
    pub(super) fn key_id(&self) -> Result<String, NativeError> {
        decoded(self.parts.key.as_deref().unwrap_or_default())
    }

    /// The limit in the path.
    pub(super) fn limit(&self) -> Result<NamespacedName, NativeError> {
        self.named::<LimitNameText>(self.parts.limit.as_deref(), "limit")
    }

    /// The relay in the path.
    pub(super) fn relay(&self) -> Result<NamespacedName, NativeError> {
        self.named::<RelayNameText>(self.parts.relay.as_deref(), "relay")
    }

    /// The schedule in the path.
    pub(super) fn schedule(&self) -> Result<NamespacedName, NativeError> {
        self.named::<ScheduleNameText>(self.parts.schedule.as_deref(), "schedule")
    }

    /// The name in a part of the path.
    fn named<T: FromStr<Err = InvalidValue> + Into<String>>(
        &self,
        part: Option<&str>,
        field: &str,
    ) -> Result<NamespacedName, NativeError> {
        let name = decoded(part.unwrap_or_default())?.parse();
        let name: T = name.map_err(|invalid| NativeError::from(invalid).at(field))?;
        Ok(NamespacedName {
            namespace: self.namespace()?.clone(),
            name: name.into(),
        })
    }

    /// The names and values of the query, which is empty afterwards.
    pub(super) fn take_query(&mut self) -> Vec<QueryPair<'static>> {
        std::mem::take(&mut self.query)
    }

    /// The parameters of the query.
    pub(super) fn read_query<T: CheckedRequest>(&self) -> Result<T, NativeError> {
        Ok(read_query(&self.query, &self.limits())?)
    }

    /// The parameters of a list, and of its filter.
    pub(super) fn read_filtered_list<T: CheckedRequest>(
        &self,
    ) -> Result<(ListQuery, T), NativeError> {
        let pairs = self.query.iter().cloned();
        let (list, filter): (Vec<_>, Vec<_>) =
            pairs.partition(|(name, _)| ListQuery::has_parameter(name));
        let limits = self.limits();
        Ok((read_query(&list, &limits)?, read_query(&filter, &limits)?))
    }

    /// Fails if there is a query: the route has no parameters.
    pub(super) fn without_query(&self) -> Result<(), NativeError> {
        match self.query.first() {
            None => Ok(()),
            Some((name, _)) => {
                let detail = format!("unknown parameter `{name}`: this route has none");
                Err(NativeError::new(ProblemCode::InvalidParameter, detail).at(name.to_string()))
            }
        }
    }

    pub(super) fn limits(&self) -> ConfigurableLimits {
        ConfigurableLimits {
            payload_bytes: self.app.job_body.bytes_max,
            batch_bytes: self.app.bulk_body.bytes_max,
            wait_ms: u64::try_from(self.app.wait_max.as_millis()).unwrap_or(u64::MAX),
            result_bytes: self.app.request_limits.result_bytes_max,
            ..ConfigurableLimits::default()
        }
    }

    /// The bytes of the body.
    pub(super) async fn take_body(
        &mut self,
        reader: &BodyReader,
    ) -> Result<ReceivedBody, NativeError> {
        let body = std::mem::replace(&mut self.body, LentBody::empty());
        Ok(reader.read(body).await?)
    }

    /// A body of JSON, whatever its content type: without a header `curl -d` declares JSON to be a form.
    pub(super) async fn read_json<T: CheckedRequest + Send + 'static>(
        &mut self,
    ) -> Result<T, NativeError> {
        self.read_json_up_to(JSON_BYTES_MAX).await
    }

    /// The same with another limit for the length of the body.
    pub(super) async fn read_json_up_to<T: CheckedRequest + Send + 'static>(
        &mut self,
        bytes_max: usize,
    ) -> Result<T, NativeError> {
        let kind = self.headers.get(header::CONTENT_TYPE);
        let is_json = kind.is_none_or(|kind| {
            let essence = kind.as_bytes().split(|byte| *byte == b';').next();
            essence.is_some_and(|it| it.trim_ascii().eq_ignore_ascii_case(b"application/json"))
        });
        let app = Arc::clone(&self.app);
        let reader = app.bulk_body.up_to(bytes_max.min(app.bulk_body.bytes_max));
        let body = self.take_body(&reader).await?;
        let (length, limits) = (body.bytes.len(), self.limits());
        let reading = move || {
            // All of it: its share of the budget is held as long as the bytes.
            let body = body;
            let read = read_body(&body.bytes, &limits);
            read.map_err(|invalid| {
                let is_other =
                    !is_json && serde_json::from_slice::<IgnoredAny>(&body.bytes).is_err();
                match is_other {
                    true => NativeError::of(ProblemCode::UnsupportedContentType),
                    false => invalid.into(),
                }
            })
        };
        off_runtime(&app.large_bodies, length, reading).await?
    }
}

/// The error for a job that does not exist.
pub(super) fn not_found() -> NativeError {
    NativeError::of(ProblemCode::JobNotFound)
}

/// The operator, for the pool that the query names: its parameter is taken out of the query.
fn operator(app: &App, query: &mut Vec<QueryPair<'static>>) -> Result<Principal, NativeError> {
    let at = query.iter().position(|(name, _)| name == POOL);
    let pool = at.map(|at| query.remove(at).1).unwrap_or_default();
    app.engine.operator(&pool).ok_or_else(|| {
        let detail = "there is no such pool; GET /pools lists them";
        NativeError::new(ProblemCode::InvalidParameter, detail).at(POOL)
    })
}
