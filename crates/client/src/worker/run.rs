//! A run of a worker, from its start to its stop.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tidegate_core::limits::RESERVE_QUEUES_MAX;
use tidegate_core::v1::consume::ReserveBody;
use tidegate_core::v1::values::{DurationMs, WorkerNameText};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Worker;
use super::execution::RunContext;
use super::heartbeats::extend_leases;
use super::leases::LeaseTable;
use super::reserve_loop::ReserveLoop;
use super::service::JobService;
use super::settle::{WAITING_MAX, settle_jobs};
use crate::error::Error;

const GRACE: Duration = Duration::from_secs(25);
/// How long a stop waits until the server has the last reports.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);

/// A worker that runs when it is awaited.
///
/// The stop: no more jobs are reserved; handlers finish within the grace period; the others are dropped, and
/// their jobs given back; all reports are sent, for up to 10 s.
#[must_use = "a worker does nothing until it is awaited"]
pub struct WorkerRun {
    worker: Worker,
    stop: BoxFuture<'static, ()>,
    grace: Duration,
}

impl fmt::Debug for WorkerRun {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("WorkerRun")
            .field("worker", &self.worker)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}

impl WorkerRun {
    pub(super) fn new(worker: Worker, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            worker,
            stop: Box::pin(stop),
            grace: GRACE,
        }
    }

    /// Sets how long handlers may run after the stop. Default: 25 s.
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    async fn run(self) -> Result<(), Error> {
        let mut worker = self.worker;
        check(&mut worker)?;
        let request = ReserveBody {
            order: Some(worker.order),
            wait: DurationMs::try_from(worker.wait)?,
            lease: worker.lease,
            worker: match worker.name.take() {
                Some(name) => Some(name.try_into()?),
                None => default_name(),
            },
            ..ReserveBody::new(worker.queue_choices())
        };
        let layers = worker.layers.into_iter().rev();
        let service = layers.fold(JobService::new(worker.handlers), |inner, layer| {
            layer(inner)
        });
        let (ends, received) = mpsc::channel(WAITING_MAX);
        let context = Arc::new(RunContext {
            service,
            data: Arc::new(worker.data),
            leases: Arc::new(LeaseTable::new()),
            ends,
            max_run: worker.max_run,
        });
        let (client, leases) = (worker.client, Arc::clone(&context.leases));
        let finish = CancellationToken::new();
        let settling = settle_jobs(client.clone(), received, finish.clone());
        let settling = AbortOnDropHandle::new(tokio::spawn(settling));
        // A task of its own: a handler that never yields delays it only if it has the last thread.
        let heartbeats = extend_leases(client.clone(), leases);
        let heartbeats = AbortOnDropHandle::new(tokio::spawn(heartbeats));
        let mut reserving = ReserveLoop::new(
            client,
            context,
            request,
            (worker.concurrency, worker.prefetch),
        );
        let ended = reserving.run(self.stop).await;
        reserving.stop(self.grace).await;
        drop(heartbeats);
        finish.cancel();
        if tokio::time::timeout(FLUSH_LIMIT, settling).await.is_err() {
            tracing::warn!(
                "failed to report the last jobs within {FLUSH_LIMIT:?}; they run again when their leases expire"
            );
        }
        ended
    }
}

/// The name of a worker that was not given one. It is unique among processes, and says where to look for it.
fn default_name() -> Option<WorkerNameText> {
    let host = gethostname::gethostname();
    let name = format!("{}:{}", host.to_string_lossy(), std::process::id());
    name.parse().ok()
}

fn check(worker: &mut Worker) -> Result<(), Error> {
    if let Some(error) = worker.invalid.take() {
        return Err(error);
    }
    let queues = worker.queues.len();
    if !(1..=RESERVE_QUEUES_MAX).contains(&queues) {
        return Err(Error::Setup(format!(
            "a worker has handlers for 1 to {RESERVE_QUEUES_MAX} queues, not {queues}: add .handle(…), or run several workers"
        )));
    }
    let checked = worker.data.check(&worker.required);
    checked.map_err(|missing| Error::Setup(missing.to_string()))
}

impl IntoFuture for WorkerRun {
    type Output = Result<(), Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
