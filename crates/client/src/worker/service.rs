//! The handlers of a worker as a service of tower.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

use super::fail::Fail;
use super::handler::QueueHandler;
use super::job::Job;
use super::reply::JobReply;
use crate::error::BoxError;

/// The handlers of all queues of a worker. Layers wrap it.
#[derive(Clone)]
pub struct JobService(ServiceKind);

#[derive(Clone)]
enum ServiceKind {
    Handlers(Arc<HashMap<String, QueueHandler>>),
    Layered(BoxCloneSyncService<Job, JobReply, BoxError>),
}

impl fmt::Debug for JobService {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("JobService").finish_non_exhaustive()
    }
}

impl JobService {
    pub(super) fn new(handlers: HashMap<String, QueueHandler>) -> Self {
        Self(ServiceKind::Handlers(Arc::new(handlers)))
    }

    pub(super) fn layered<S>(service: S) -> Self
    where
        S: Service<Job, Response = JobReply> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        Self(ServiceKind::Layered(BoxCloneSyncService::new(
            service.map_err(Into::into),
        )))
    }

    /// Runs the handler of the job.
    pub(super) async fn run(&self, job: Job) -> Result<JobReply, Fail> {
        let done = match &self.0 {
            ServiceKind::Handlers(handlers) => handle(handlers, job).await,
            ServiceKind::Layered(service) => service.clone().oneshot(job).await,
        };
        done.map_err(Fail::of)
    }
}

fn handle(
    handlers: &HashMap<String, QueueHandler>,
    job: Job,
) -> BoxFuture<'static, Result<JobReply, BoxError>> {
    match handlers.get(job.queue()) {
        Some(handler) => handler(job),
        None => {
            let text = format!("the worker has no handler for the queue {}", job.queue());
            ready(Err(text.into())).boxed()
        }
    }
}

impl Service<Job> for JobService {
    type Response = JobReply;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<JobReply, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match &mut self.0 {
            ServiceKind::Handlers(_) => Poll::Ready(Ok(())),
            ServiceKind::Layered(service) => service.poll_ready(context),
        }
    }

    fn call(&mut self, job: Job) -> Self::Future {
        match &mut self.0 {
            ServiceKind::Handlers(handlers) => handle(handlers, job),
            ServiceKind::Layered(service) => service.call(job),
        }
    }
}
