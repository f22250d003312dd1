//! A request for a page, with the parts that all pages need.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use tidegate_core::{JobId, Namespace, QueueKey, QueueName};
use tidegate_daemon::Peer;
use tidegate_engine::Pool;
use tokio::sync::Semaphore;
use tracing::field::display;

use super::action::{ActionTarget, done_text};
use super::error::PageError;
use super::form::{FormToken, SubmittedForm, filled_in};
use super::history::ChartHistory;
use super::layout::Frame;
use super::page::Page;
use super::{layout, stream};
use crate::accounts::{AdminUser, AdmittedRequest};
use crate::app::App;
use crate::config::AccountRole;

/// Maximum number of pages that are kept up to date at a time. Each has a connection of the admin port, which has 256.
const STREAMS_MAX: usize = 64;

/// The state that all pages share.
pub(super) struct Dashboard {
    pub(super) app: Arc<App>,
    pub(super) history: ChartHistory,
    pub(super) streams: Arc<Semaphore>,
}

impl Dashboard {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self {
            app,
            history: ChartHistory::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        }
    }
}

/// A request.
pub(super) struct Visit {
    pub(super) dashboard: Arc<Dashboard>,
    pub(super) user: AdminUser,
    admitted: Option<AdmittedRequest>,
    pub(super) token: FormToken,
    /// The parameters of the query that have a value.
    pub(super) query: Vec<(String, String)>,
    /// The address of the client, for the log.
    pub(super) peer: String,
    /// Whether it is for the stream of a page.
    pub(super) wants_stream: bool,
}

impl FromRequestParts<Arc<Dashboard>> for Visit {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        dashboard: &Arc<Dashboard>,
    ) -> Result<Self, Infallible> {
        let user = parts.extensions.get::<AdminUser>().cloned();
        let peer = parts.extensions.get::<Peer>();
        let accepts = parts.headers.get(header::ACCEPT);
        Ok(Self {
            dashboard: Arc::clone(dashboard),
            // The middleware has set it.
            user: user.unwrap_or(AdminUser {
                account: None,
                role: AccountRole::View,
            }),
            admitted: parts.extensions.get().cloned(),
            token: FormToken::of(&parts.headers),
            query: filled_in(parts.uri.query().unwrap_or_default().as_bytes()),
            peer: peer
                .map(|peer| peer.address.to_string())
                .unwrap_or_default(),
            wants_stream: accepts.is_some_and(|it| it == "text/event-stream"),
        })
    }
}

impl Visit {
    /// Answers with the page, or with a stream of its blocks if the client asks for that.
    pub(super) async fn show<R>(self, render: impl Fn(Arc<Self>) -> R + Send + 'static) -> Response
    where
        R: Future<Output = Result<Page, PageError>> + Send + 'static,
    {
        let visit = Arc::new(self);
        if visit.wants_stream {
            let streams = Arc::clone(&visit.dashboard.streams);
            let admitted = visit.admitted.clone();
            return stream::answer(&streams, admitted, move || render(Arc::clone(&visit)));
        }
        match render(Arc::clone(&visit)).await {
            Ok(page) => visit.write(&page),
            Err(error) => error.into_response(),
        }
    }

    /// The same for a page about a pool.
    pub(super) async fn show_pool<R>(
        self,
        name: &str,
        page: impl Fn(Arc<Self>, Arc<Pool>) -> R + Send + 'static,
    ) -> Response
    where
        R: Future<Output = Result<Page, PageError>> + Send + 'static,
    {
        match self.pool(name) {
            Ok(pool) => self.show(move |visit| page(visit, Arc::clone(&pool))).await,
            Err(error) => error.into_response(),
        }
    }

    /// The answer with a page.
    pub(super) fn write(&self, page: &Page) -> Response {
        let frame = Frame {
            account: &self.account_text(),
            notice: self.parameter("done").and_then(done_text),
        };
        let mut response = layout::whole(&frame, page).into_response();
        if let Some(cookie) = self.token.cookie() {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        response
    }

    /// Reads a form that was sent from a page of this dashboard.
    pub(super) async fn read_form(&self, body: Body) -> Result<SubmittedForm, PageError> {
        SubmittedForm::read(&self.dashboard.app.job_body, &self.token, body).await
    }

    fn account_text(&self) -> String {
        match &self.user.account {
            Some(account) => format!("{account} ({})", self.user.role.name()),
            None => "no accounts are set".to_owned(),
        }
    }

    /// A parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn pool(&self, name: &str) -> Result<Arc<Pool>, PageError> {
        let pool = self.dashboard.app.engine.pool(name);
        pool.cloned()
            .ok_or(PageError::NotFound("There is no pool with this name."))
    }

    /// Whether the account has this role, or a higher one.
    pub(super) fn may(&self, role: AccountRole) -> bool {
        self.user.role >= role
    }

    /// Checks the role of the account.
    pub(super) fn need(&self, role: AccountRole) -> Result<(), PageError> {
        match self.may(role) {
            true => Ok(()),
            false => Err(PageError::Forbidden(role.name())),
        }
    }

    /// Writes a line to the log: who did what. `detail` names the job, or the filter.
    pub(super) fn log(&self, action: &str, target: ActionTarget<'_>, detail: &str) {
        let account = self.user.account.as_deref().unwrap_or("-");
        let peer = self.peer.as_str();
        let (mut pool, mut queue, mut schedule, mut relay, mut api_key) = Default::default();
        match target {
            ActionTarget::Queue(of, key) => (pool, queue) = (Some(of), Some(display(key))),
            ActionTarget::Schedule(of, key) => (pool, schedule) = (Some(of), Some(display(key))),
            ActionTarget::Relay(key) => relay = Some(display(key)),
            ActionTarget::ApiKey(id) => api_key = Some(id),
        }
        tracing::info!(target: "audit", account, peer, action, pool, queue, schedule, relay, api_key, detail, "an operator acted");
    }

    /// Writes a line for an action whose call gave no answer: it may have been done.
    pub(super) fn log_unknown(&self, action: &str, target: ActionTarget<'_>, detail: &str) {
        let detail = format!("result=unknown {detail}");
        self.log(action, target, detail.trim_end());
    }
}

/// The namespace that an address names.
pub(super) fn namespace(text: &str) -> Result<Namespace, PageError> {
    let namespace = Namespace::try_from(text);
    namespace.map_err(|_| PageError::NotFound("This is no name of a namespace."))
}

/// The queue that an address names.
pub(super) fn queue_key(namespace: &str, queue: &str) -> Result<QueueKey, PageError> {
    match (Namespace::try_from(namespace), QueueName::try_from(queue)) {
        (Ok(namespace), Ok(queue)) => Ok(QueueKey { namespace, queue }),
        _ => Err(PageError::NotFound("This is no name of a queue.")),
    }
}

/// The job that an address names.
pub(super) fn job_id(text: &str) -> Result<JobId, PageError> {
    let id = text.parse();
    id.map_err(|_| PageError::NotFound("This is no id of a job."))
}
